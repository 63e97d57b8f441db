"""A database whose catalogue looks like that of Citus; its tables stay where they are.

In: the URL of a database of its own, as a superuser; which part of the store. Out: for the length of a block, the
tables of Citus's catalogue that we read, filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from helpers.databases import plain
from lineage_store.store.schema import distribution
from lineage_store.store.schema.distribution import Part

_CATALOGUE = """
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char", repmodel "char");
CREATE TABLE pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint);
CREATE TABLE pg_catalog.pg_dist_node (nodename text, nodeport int, isactive boolean, shouldhaveshards boolean);
"""
_NO_CATALOGUE = """
SET allow_system_table_mods = on;
DROP TABLE pg_catalog.pg_dist_partition, pg_catalog.pg_dist_shard, pg_catalog.pg_dist_node;
"""


@contextmanager
def distributed(url: str, part: Part, *, shards: int = 4, workers: int = 2) -> Iterator[None]:
    """Let the store look distributed for the length of a block."""
    with psycopg.connect(plain(url)) as connection:
        connection.execute(_CATALOGUE)
        kinds = [(table, "h") for table in distribution.by_job(part)]
        for table, kind in [*kinds, *((table, "n") for table in distribution.copied(part))]:
            given = {"table": table.name, "kind": kind, "shards": shards if kind == "h" else 1}
            model = "'s'" if kind == "h" else "'t'"
            connection.execute(
                f"INSERT INTO pg_dist_partition VALUES (%(table)s::regclass, %(kind)s, {model})", given
            )
            connection.execute(
                "INSERT INTO pg_dist_shard SELECT %(table)s::regclass, n FROM generate_series(1, %(shards)s) n",
                given,
            )
        # A table that Citus manages, as with citus.use_citus_managed_tables, and that is not distributed.
        connection.execute("INSERT INTO pg_dist_partition VALUES ('base_dir'::regclass, 'n', 's')")
        for number in range(workers):
            connection.execute("INSERT INTO pg_dist_node VALUES (%s, 5432, true, true)", [f"worker{number}"])
    try:
        yield
    finally:
        with psycopg.connect(plain(url)) as connection:
            connection.execute(_NO_CATALOGUE)
