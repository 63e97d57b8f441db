"""Citus: which tables are distributed over the workers by job, the SQL that does it, and the present layout.

In: which part of the store, how many shards. Out: statements for the coordinator; the layout that the catalogue shows.
Promises: the distributed rows of a job are on one worker (one group of colocated shards); foreign keys between
distributed and other tables are dropped first, because no removal relies on them; existing rows move with their table.
Does not know whether a store can be distributed (store/admin/distributing.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ForeignKeyConstraint, Table, UniqueConstraint, text

from lineage_store.store.database.session import Session
from lineage_store.store.schema import tables
from lineage_store.store.schema.tables import SAMPLE_TABLES, metadata

SHARDS = 32


class Part(StrEnum):
    """The part of a store that is distributed."""

    SAMPLES = "samples"
    ALL = "all"
    """The samples, the jobs, and every other table whose rows belong to a job."""


# In the order of foreign keys: referenced tables first.
_JOBS = (
    *(tables.train_job, tables.log_file, tables.file_lineage, tables.lineage_event, tables.evaluation_metric),
    *(tables.lineage, tables.metric, tables.metric_summary, tables.user_info, tables.series),
    tables.scalar_bucket,
)
_COPIED = (tables.dataset_graph, tables.dataset_node, tables.annotation, tables.ingest_problem)
"""Small tables that are joined to jobs: each worker has a full copy."""
_IS_THERE = text("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL")
_DISTRIBUTED = text("""
SELECT CAST(relname AS text) AS name,
  (SELECT count(*) FROM pg_catalog.pg_dist_shard shard WHERE shard.logicalrelid = spread.logicalrelid) AS shards
FROM pg_catalog.pg_dist_partition spread JOIN pg_class ON pg_class.oid = logicalrelid
WHERE relnamespace = current_schema()::regnamespace AND (partmethod = 'h' OR repmodel = 't')
""")
"""Only tables distributed by hash or copied to all workers: Citus also lists tables that stay on the coordinator."""
WORKERS = text("SELECT count(*) FROM pg_catalog.pg_dist_node WHERE shouldhaveshards AND isactive")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a store is distributed, by the catalogue of Citus."""

    spread: Sequence[str]
    """The tables that are distributed by job."""
    copied: Sequence[str]
    """The tables that every worker has in full."""
    shards: int
    """Per distributed table."""
    workers: int
    """Active workers that may hold shards."""

    def __str__(self) -> str:
        by_job = f"{', '.join(self.spread)} are distributed by job, {self.shards} shards each"
        copies = f" {', '.join(self.copied)} are copied to each." if self.copied else ""
        return f"{by_job}, over {self.workers} {'worker' if self.workers == 1 else 'workers'}.{copies}"


def by_job(part: Part) -> tuple[Table, ...]:
    """Return the tables that are distributed by job."""
    return SAMPLE_TABLES if part is Part.SAMPLES else (*SAMPLE_TABLES, *_JOBS)


def copied(part: Part) -> tuple[Table, ...]:
    """Return the tables that every worker has in full."""
    return () if part is Part.SAMPLES else _COPIED


def job_column(table: Table) -> str:
    """Return the name of the column that holds the job id."""
    return "id" if table is tables.train_job else "job_id"


def statements(part: Part, shards: int = SHARDS, done: Collection[str] = ()) -> list[str]:
    """Return the statements that distribute a store, to be run in one transaction; tables in `done` are left alone."""
    wanted = [table for table in (*copied(part), *by_job(part)) if table.name not in done]
    return [
        *_dropped(part, wanted),
        *(f"SELECT create_reference_table('{table.name}')" for table in wanted if table in copied(part)),
        *_spread([table for table in wanted if table in by_job(part)], shards),
    ]


def clearing(part: Part) -> list[str]:
    """Return the statements that free the room of the moved rows: to be run afterwards, any number of times."""
    moved = (*reversed(by_job(part)), *reversed(copied(part)))
    return [f"SELECT truncate_local_data_after_distributing_table('{table.name}')" for table in moved]


def distributed(session: Session) -> set[str]:
    """Return the tables that are distributed or copied to every worker; none if the database has no Citus."""
    return set(_shards(session))


def layout(session: Session) -> Layout | None:
    """Return how the store is distributed; None if it is not."""
    shards = _shards(session)
    spread, kept = ([each.name for each in of(Part.ALL) if each.name in shards] for of in (by_job, copied))
    if not spread:
        return None
    return Layout(spread, kept, shards[spread[0]], session.value(WORKERS))


def _shards(session: Session) -> dict[str, int]:
    """Return the number of shards of each distributed or copied table."""
    if session.kind == "sqlite" or not session.value(_IS_THERE):
        return {}
    rows = session.rows(_DISTRIBUTED)
    return {row.name: row.shards for row in rows if row.name in metadata.tables}


def dropped_references(part: Part) -> Iterator[tuple[Table, ForeignKeyConstraint]]:
    """Yield the foreign keys between tables of different kinds: local, copied and distributed.

    Citus would allow those from distributed to copied tables; but with them, a transaction that has changed distributed
    tables on several workers may not change copied ones, as every transaction that stores new pipelines does.
    """
    kind = dict.fromkeys(by_job(part), "distributed") | dict.fromkeys(copied(part), "copied")
    for table in metadata.sorted_tables:
        for constraint in sorted(table.foreign_key_constraints, key=lambda each: str(each.name)):
            if kind.get(table) != kind.get(constraint.referred_table):
                yield table, constraint


def dropped_keys(part: Part) -> Iterator[tuple[Table, UniqueConstraint]]:
    """Yield the unique constraints of distributed tables that do not contain the job: no worker could enforce them."""
    for table in by_job(part):
        for constraint in table.constraints:
            if isinstance(constraint, UniqueConstraint) and job_column(table) not in constraint.columns:
                yield table, constraint


def _dropped(part: Part, wanted: Collection[Table]) -> Iterator[str]:
    if not wanted:
        return
    for table, reference in dropped_references(part):
        yield f"ALTER TABLE {table.name} DROP CONSTRAINT IF EXISTS {reference.name}"
    for table, unique in dropped_keys(part):
        columns = ", ".join(column.name for column in unique.columns)
        yield f"ALTER TABLE {table.name} DROP CONSTRAINT IF EXISTS {unique.name}"
        yield f"CREATE INDEX IF NOT EXISTS {str(unique.name).replace('uq_', 'ix_', 1)} ON {table.name} ({columns})"


def _spread(wanted: Collection[Table], shards: int) -> Iterator[str]:
    first = SAMPLE_TABLES[0]
    for table in wanted:
        where = f"'none', shard_count => {shards}" if table is first else f"'{first.name}'"
        yield f"SELECT create_distributed_table('{table.name}', '{job_column(table)}', colocate_with => {where})"
