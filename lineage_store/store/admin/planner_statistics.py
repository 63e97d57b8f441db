"""Gather fresh statistics for the database's query planner, after many rows were written.

In: an engine. Out: whether statistics are due; with them, queries use their indexes. PostgreSQL also gathers them by
itself, minutes later; SQLite never does. Promises: rows written by all passes, processes and hosts count together; a
large store costs little more than a small one: PostgreSQL analyses only tables that have doubled in size (on Citus
their shards, together), SQLite reads only a sample of each index.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine, Table, text

from lineage_store.store.admin.distribution import has_citus
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema.tables import SAMPLE_TABLES, metadata

MANY_EVENTS = 50_000
"""A pass that read more gives the planner something new to know; so may many that read less."""
LEAST_ROWS = 1_000
"""With fewer jobs and series, any plan is fast enough."""

_SAMPLED_ROWS = 1_000
"""How many rows of each index SQLite reads: enough to recognise a selective index."""
_SAMPLES_TARGET = 10
"""PostgreSQL's statistics target for the sample tables, which are only queried by key: it reads 300 times as many rows.
The other tables have the database's own target, by default 100, because questions compare fields and metrics."""
_OTHERS = tuple(table for table in metadata.sorted_tables if table not in SAMPLE_TABLES)
"""Small tables too: for a table without statistics the planner assumes hundreds of rows (PostgreSQL) or a million
(SQLite). With so many base dirs, it would answer a question about all jobs by a scan of all jobs per base dir."""
_GROWN = """
SELECT c.oid::regclass::text FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE coalesce(i.inhparent, c.oid) = ANY (%(tables)s::regclass[]) AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
  AND pg_relation_size(c.oid) >= 2 * c.relpages::bigint * current_setting('block_size')::bigint
"""
"""Tables and partitions that are not empty and have twice the pages that they had at their last ANALYZE."""
_GROWN_ON_WORKERS = text("""
SELECT CAST(spread.logicalrelid AS text)
FROM pg_catalog.pg_dist_partition spread CROSS JOIN LATERAL (
    SELECT citus_relation_size(spread.logicalrelid) AS bytes,
      (SELECT coalesce(sum(CAST(result AS bigint)), 0)
       FROM run_command_on_shards(spread.logicalrelid, :pages_of_shard) WHERE success) AS pages
  ) shards
WHERE spread.logicalrelid = ANY (CAST(:tables AS regclass[])) AND bytes > 0
  AND bytes >= 2 * pages * CAST(current_setting('block_size') AS bigint)
""")
"""The same of the tables that Citus keeps in shards: on the coordinator their own file is empty, and so is relpages.
`citus_relation_size` is the part of `citus_table_size` that relpages counts: without TOAST and the free space map."""
_PAGES_OF_SHARD = "SELECT relpages FROM pg_class WHERE oid = '%s'::regclass"
_MADE = "SELECT coalesce((SELECT max(id) FROM train_job), 0) + coalesce((SELECT max(rowid) FROM series), 0)"
"""About how many jobs and series were ever inserted. SQLite's own figures, from a sample, may be off by half."""
# We keep the value of _MADE at the last ANALYZE as a row of our own in SQLite's statistics; SQLite ignores rows of
# tables that do not exist.
_MADE_BEFORE = "SELECT coalesce(max(CAST(stat AS INTEGER)), 0) FROM sqlite_stat1 WHERE tbl = 'lineage_store'"
_FORGET = "DELETE FROM sqlite_stat1 WHERE tbl = 'lineage_store'"
_REMEMBER = "INSERT INTO sqlite_stat1 (tbl, stat) VALUES ('lineage_store', ?)"


def are_due(engine: Engine) -> bool:
    """Return whether SQLite has no statistics, or has twice the jobs and series that it had when they were gathered.

    False on PostgreSQL and below LEAST_ROWS. Costs two small index lookups.
    """
    if engine.dialect.name != "sqlite":
        return False
    with reading(engine) as session:
        made = _number(session, _MADE)
        return made >= LEAST_ROWS and made >= 2 * _made_before(session)


def _made_before(session: Session) -> int:
    if not _number(session, "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'"):
        return 0
    return _number(session, _MADE_BEFORE)


def _number(session: Session, query: str) -> int:
    return int(session.value(query))


def gather(engine: Engine) -> None:
    """Gather statistics: on PostgreSQL of the tables that have doubled in size, on SQLite of all tables."""
    with writing(engine) as session:
        if engine.dialect.name == "postgresql":
            _analyse_grown(session, _OTHERS)
            session.change(f"SET LOCAL default_statistics_target = {_SAMPLES_TARGET}")
            _analyse_grown(session, SAMPLE_TABLES)
            return
        session.change(f"PRAGMA analysis_limit = {_SAMPLED_ROWS}")
        for table in (*_OTHERS, *SAMPLE_TABLES):
            session.change(f"ANALYZE {table.name}")
        session.change(_FORGET)
        session.change(_REMEMBER, (str(_number(session, _MADE)),))


def _analyse_grown(session: Session, tables: Sequence[Table]) -> None:
    """Analyse the tables that have doubled. A large one takes half a minute, and fewer new rows change no plan."""
    named = {"tables": [table.name for table in tables]}
    grown = session.column(_GROWN, named)
    # Citus's size functions refuse a transaction that has changed rows on several workers: this one has not.
    if has_citus(session):
        grown += session.column(_GROWN_ON_WORKERS, {**named, "pages_of_shard": _PAGES_OF_SHARD})
    for name in grown:
        session.change(f"ANALYZE {name}")
