"""Citus: distribute the samples of a PostgreSQL store over workers by job; the present layout.

In: an engine for the coordinator, how many shards. Out: a distributed store, the statements that make it, or an error
that says what is missing; the layout that Citus's catalogue shows. Promises: the samples of a job are on one worker
(the sample tables have no foreign keys, and their keys begin with the job); everything else stays on the coordinator;
the distribution is one transaction, so that a killed run leaves the store as it was; existing rows move, and writers
wait for that; running it again does what is left, such as freeing the space of moved rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, text

from lineage_store.errors import LineageStoreError
from lineage_store.findings import THE_STORE, Finding, finding
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import attestation, partitions, upgrade
from lineage_store.store.schema.tables import SAMPLE_TABLES

SHARDS = 32
LEAST_CITUS = 11
TABLES = tuple(table.name for table in SAMPLE_TABLES)
_IS_THERE = text("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL")
_SHARDS = text("""
SELECT CAST(relname AS text) AS name,
  (SELECT count(*) FROM pg_catalog.pg_dist_shard shard WHERE shard.logicalrelid = spread.logicalrelid) AS shards
FROM pg_catalog.pg_dist_partition spread JOIN pg_class ON pg_class.oid = logicalrelid
WHERE relnamespace = current_schema()::regnamespace AND partmethod = 'h' AND relname = ANY(:names)
""")
"""Only tables distributed by hash: Citus also lists tables that stay on the coordinator."""
_WORKERS = text("SELECT count(*) FROM pg_catalog.pg_dist_node WHERE shouldhaveshards AND isactive")
_VERSION = text("SELECT extversion FROM pg_extension WHERE extname = 'citus'")
_SETTINGS = text("""
SELECT current_setting('citus.local_table_join_policy', true) AS policy,
  CAST(current_setting('max_prepared_transactions') AS integer) AS prepared,
  CAST(current_setting('max_connections') AS integer) AS connections
""")
_PAGE = "docs/citus.md says what to install."
# A transaction that makes several tables must not use several connections to a worker.
_SEQUENTIALLY = "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a store is distributed, by the catalogue of Citus."""

    tables: Sequence[str]
    shards: int
    """Per table."""
    workers: int
    """Active workers that may hold shards."""

    def __str__(self) -> str:
        by_job = f"{', '.join(self.tables)} are distributed by job, {self.shards} shards each"
        return f"{by_job}, over {self.workers} {'worker' if self.workers == 1 else 'workers'}."


def has_citus(session: Session) -> bool:
    """Return whether the database has the catalogue of Citus."""
    return session.kind == "postgresql" and bool(session.value(_IS_THERE))


def layout(session: Session) -> Layout | None:
    """Return how the store is distributed; None if it is not, or if the database has no Citus."""
    if not has_citus(session):
        return None
    shards = {row.name: row.shards for row in session.rows(_SHARDS, {"names": list(TABLES)})}
    names = [name for name in TABLES if name in shards]
    return Layout(names, shards[names[0]], session.value(_WORKERS)) if names else None


def distribution_statements(shards: int = SHARDS, done: Collection[str] = ()) -> list[str]:
    """Return the statements that distribute a store, to be run in one transaction; tables in `done` are left alone."""
    first, *others = TABLES
    where = {first: f"'none', shard_count => {shards}"} | dict.fromkeys(others, f"'{first}'")
    return [
        f"SELECT create_distributed_table('{name}', 'job_id', colocate_with => {where[name]})"
        for name in TABLES
        if name not in done
    ]


def clearing() -> list[str]:
    """Return the statements that free the space of the moved rows: to be run afterwards, any number of times."""
    return [f"SELECT truncate_local_data_after_distributing_table('{name}')" for name in reversed(TABLES)]


def distribute_samples(engine: Engine, shards: int = SHARDS) -> list[str]:
    """Distribute the store; return the statements that were run, none if it was distributed already.

    Raises LineageStoreError if the store cannot be distributed: no PostgreSQL, no Citus, no worker, or partitions.
    """
    found = planned(engine, shards)
    if found:
        with writing(engine) as session:
            upgrade.wait_for_turn(session)
            for statement in (_SEQUENTIALLY, *found):
                session.change(statement)
            attestation.mark(session, upgrade.VERSION_TABLE)
    for statement in clearing():
        with writing(engine) as session:
            upgrade.wait_for_turn(session)
            session.change(statement)
    return found


def planned(engine: Engine, shards: int = SHARDS) -> list[str]:
    """Return the statements that `distribute` would run. Raises LineageStoreError as `distribute` does."""
    if engine.dialect.name != "postgresql":
        raise LineageStoreError("Only PostgreSQL with Citus distributes a store.", hint=_PAGE)
    with reading(engine) as session:
        version = session.value(_VERSION)
        if version is None:
            raise LineageStoreError("The database has no extension citus.", hint=_PAGE)
        if int(version.partition(".")[0]) < LEAST_CITUS:
            raise LineageStoreError(f"Citus is {version}; {LEAST_CITUS} or newer is needed.", hint=_PAGE)
        if not session.value(_WORKERS):
            raise LineageStoreError(
                "Citus has no node that may hold shards.", hint=f"Add one: SELECT citus_add_node(…). {_PAGE}"
            )
        if partitions.is_partitioned(session):
            raise LineageStoreError(
                "The samples are partitioned by job on this server.",
                hint="`lineage-store db partition --undo` first: workers hold them in shards.",
            )
        present = layout(session)
        return distribution_statements(shards, present.tables if present else ())


def ill_settings(session: Session) -> Iterator[Finding]:
    """Yield a finding for each setting of the coordinator that does not suit a distributed store."""
    policy, prepared, connections = session.one(_SETTINGS)
    if policy in ("never", "prefer-distributed"):
        yield finding("citus_setting", THE_STORE, name="citus.local_table_join_policy", found=policy)
    if prepared < connections:
        name, least = "max_prepared_transactions", f"max_connections ({connections})"
        yield finding("citus_setting", THE_STORE, case=name, name=name, found=prepared, least=least)
