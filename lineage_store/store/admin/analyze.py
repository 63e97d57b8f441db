"""Fresh statistics for the database's planner, after much was written.

In: an engine. Out: whether they are due; nothing: questions find their indexes. PostgreSQL gathers them by itself,
minutes later; SQLite never. Promises: what was written counts, by however many passes, processes and hosts; what it
takes goes by what was added, not by what is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Engine, Table

from lineage_store.store.database.engine import reading, writing
from lineage_store.store.schema import tables

LEAST_ROWS = 1_000
"""With fewer jobs and series, any plan does."""

_SAMPLED_ROWS = 1_000
"""SQLite looks at so many rows of each index; enough to tell a selective one."""
_ROUGHLY = 10
"""PostgreSQL's statistics target for samples, which are found by their key: it looks at 300 times as many rows. Fields
and metrics, which questions compare, have the database's own target, by default 100."""
_SAMPLES = (tables.scalar_sample, tables.payload_sample)
_OTHERS = tuple(table for table in tables.metadata.sorted_tables if table not in _SAMPLES)
"""The small ones too. Of a table without statistics, planners believe that it has hundreds of rows (PostgreSQL) or a
million (SQLite): with as many base dirs as that, a question about all jobs would go through all of them for each."""
_GROWN = """
SELECT c.oid::regclass::text FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE coalesce(i.inhparent, c.oid) = ANY (%(tables)s::regclass[]) AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
  AND pg_relation_size(c.oid) >= 2 * c.relpages::bigint * current_setting('block_size')::bigint
"""
"""Tables and partitions that hold something and have twice the pages they had when statistics were gathered last."""
_MADE = "SELECT coalesce((SELECT max(id) FROM train_job), 0) + coalesce((SELECT max(rowid) FROM series), 0)"
"""How many jobs and series there ever were, about. SQLite's own figures, from a sample, may be off by half."""
# A row of ours among SQLite's statistics, which pass over tables that there are not: _MADE when they were gathered.
_MADE_BEFORE = "SELECT coalesce(max(CAST(stat AS INTEGER)), 0) FROM sqlite_stat1 WHERE tbl = 'lineage_store'"
_FORGET = "DELETE FROM sqlite_stat1 WHERE tbl = 'lineage_store'"
_REMEMBER = "INSERT INTO sqlite_stat1 (tbl, stat) VALUES ('lineage_store', ?)"


def is_due(engine: Engine) -> bool:
    """Whether SQLite has no statistics, or those of half the jobs and series at most. Takes two looks at indexes."""
    if engine.dialect.name != "sqlite":
        return False
    with reading(engine) as connection:
        made = _number(connection, _MADE)
        return made >= LEAST_ROWS and made >= 2 * _made_before(connection)


def _made_before(connection: Connection) -> int:
    if not _number(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'"):
        return 0
    return _number(connection, _MADE_BEFORE)


def _number(connection: Connection, query: str) -> int:
    return int(connection.exec_driver_sql(query).scalar_one())


def analyse(engine: Engine) -> None:
    """Gather statistics: on PostgreSQL of the tables that have become twice as large, on SQLite of all."""
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            _analyse_grown(connection, _OTHERS)
            connection.exec_driver_sql(f"SET LOCAL default_statistics_target = {_ROUGHLY}")
            _analyse_grown(connection, _SAMPLES)
            return
        connection.exec_driver_sql(f"PRAGMA analysis_limit = {_SAMPLED_ROWS}")
        for table in (*_OTHERS, *_SAMPLES):
            connection.exec_driver_sql(f"ANALYZE {table.name}")
        connection.exec_driver_sql(_FORGET)
        connection.exec_driver_sql(_REMEMBER, (str(_number(connection, _MADE)),))


def _analyse_grown(connection: Connection, tables: Sequence[Table]) -> None:
    """Of large tables it takes half a minute, and a share of what they hold tells the planner nothing new."""
    named = {"tables": [table.name for table in tables]}
    for name in connection.exec_driver_sql(_GROWN, named).scalars().all():
        connection.exec_driver_sql(f"ANALYZE {name}")
