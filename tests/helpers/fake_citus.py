"""A database whose catalogue looks like that of Citus; its tables stay where they are.

In: the URL of a database of its own, as a superuser. Out: for the length of a block, the tables and functions of Citus
that we ask, which answer as for distributed samples; or workers that lack a role.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.sql import SQL, Literal

from helpers.databases import plain
from lineage_store.store.admin.distribution import TABLES

_CATALOGUE = """
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char", repmodel "char");
CREATE TABLE pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint);
CREATE TABLE pg_catalog.pg_dist_node (nodename text, nodeport int, isactive boolean, shouldhaveshards boolean);
CREATE FUNCTION pg_catalog.run_command_on_shards(of regclass, command text)
  RETURNS TABLE (shardid bigint, success boolean, result text) LANGUAGE plpgsql AS $$
DECLARE shard record;
BEGIN
  FOR shard IN SELECT s.shardid AS id, format('%s_%s', of, s.shardid) AS name FROM pg_dist_shard s
    WHERE s.logicalrelid = of AND to_regclass(format('%s_%s', of, s.shardid)) IS NOT NULL
  LOOP
    shardid := shard.id;
    success := true;
    EXECUTE format(command, shard.name) INTO result;
    RETURN NEXT;
  END LOOP;
END $$;
CREATE FUNCTION pg_catalog.citus_relation_size(of regclass) RETURNS bigint LANGUAGE sql AS $$
  SELECT coalesce(sum(CAST(result AS bigint)), 0)
  FROM run_command_on_shards(of, 'SELECT pg_relation_size(''%s'')') $$;
"""
_NO_CATALOGUE = """
SET allow_system_table_mods = on;
DROP FUNCTION pg_catalog.citus_relation_size, pg_catalog.run_command_on_shards;
DROP TABLE pg_catalog.pg_dist_partition, pg_catalog.pg_dist_shard, pg_catalog.pg_dist_node;
"""
# The context of the error says what Citus's own would.
_NO_ROLE = """
CREATE FUNCTION "while executing command on worker1:5432"() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
  IF position({role} in current_query()) > 0 THEN
    RAISE undefined_object USING MESSAGE = format('role "%s" does not exist', {role});
  END IF;
END $$;
CREATE EVENT TRIGGER workers ON ddl_command_start
  EXECUTE FUNCTION "while executing command on worker1:5432"();
"""
_ROLE_AGAIN = """
DROP EVENT TRIGGER workers;
DROP FUNCTION "while executing command on worker1:5432";
"""


@contextmanager
def distributed(url: str, *, shards: int = 4, workers: int = 2) -> Iterator[None]:
    """Let the samples look distributed for the length of a block."""
    with psycopg.connect(plain(url)) as connection:
        connection.execute(_CATALOGUE)
        for name in TABLES:
            connection.execute("INSERT INTO pg_dist_partition VALUES (%s::regclass, 'h', 's')", [name])
            connection.execute(
                "INSERT INTO pg_dist_shard SELECT %s::regclass, n FROM generate_series(1, %s) n",
                [name, shards],
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


@contextmanager
def without_role_on_worker(url: str, role: str) -> Iterator[None]:
    """Let statements about a role fail for the length of a block, as they do if a worker does not have it."""
    with psycopg.connect(plain(url)) as connection:
        connection.execute(SQL(_NO_ROLE).format(role=Literal(role)))
    try:
        yield
    finally:
        with psycopg.connect(plain(url)) as connection:
            connection.execute(_ROLE_AGAIN)
