"""A database that says of itself what the catalogue of Citus would say; its tables stay where they are.

In: the URL of a database of its own, of a superuser; which part of the store. Out: the tables of the catalogue that we
read, filled.
"""

from __future__ import annotations

import psycopg
from sqlalchemy.engine import make_url

from lineage_store.store.schema import distribution
from lineage_store.store.schema.distribution import Part

_CATALOGUE = """
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char");
CREATE TABLE pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint);
CREATE TABLE pg_catalog.pg_dist_node (nodename text, nodeport int, isactive boolean, shouldhaveshards boolean);
"""


def pretend(url: str, part: Part, *, shards: int = 4, workers: int = 2) -> None:
    """Let the store look distributed."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        connection.execute(_CATALOGUE)
        kinds = [(table, "h") for table in distribution.by_job(part)]
        for table, kind in [*kinds, *((table, "n") for table in distribution.copied(part))]:
            given = {"table": table.name, "kind": kind, "shards": shards if kind == "h" else 1}
            connection.execute("INSERT INTO pg_dist_partition VALUES (%(table)s::regclass, %(kind)s)", given)
            connection.execute(
                "INSERT INTO pg_dist_shard SELECT %(table)s::regclass, n FROM generate_series(1, %(shards)s) n",
                given,
            )
        for number in range(workers):
            connection.execute("INSERT INTO pg_dist_node VALUES (%s, 5432, true, true)", [f"worker{number}"])
