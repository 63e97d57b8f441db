"""Partition the sample tables by job, or undo that, while readers and ingest continue.

In: an engine, and the number of jobs per partition (None: no partitions). Out: sample tables with that layout.
How: a table `…_next` with the wanted layout is filled beside each table in use, some jobs per transaction; triggers
note the keys of rows that are written meanwhile in `…_changed`, and these rows are copied in rounds; when few are left,
one short transaction locks both sample tables, copies the rest, and replaces the old tables by the new ones.
Promises: readers and ingest wait for that last transaction only (it is rolled back and retried if it has to wait longer
than LOCK_WAIT_MS for a table); `kill -9` at any moment leaves the store in the old or the new layout, and the next run
continues from what the catalogue shows. Needs room for a second copy of the samples.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, text
from sqlalchemy.schema import SetTableComment

from lineage_store.errors import Cause, DatabaseUnavailableError, LineageStoreError
from lineage_store.store.admin import distribution
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import attestation, descriptions, partitions, upgrade
from lineage_store.store.schema.partitions import NOTING_BODIES, SAMPLE_KEY, SAMPLE_TABLES
from lineage_store.store.schema.tables import metadata

log = logging.getLogger(__name__)

LOCK_WAIT_MS = 500
"""How long the last transaction waits for a table, and others wait behind it: less than the 1 s after which PostgreSQL
looks for deadlocks."""
JOBS_AT_A_TIME = 1_000
FEW_CHANGES = 10_000
"""At most this many noted rows may be left when the tables are locked."""
MOST_JOBS = 1 << 30
_DROP_TRIES = 10

_EVENTS: tuple[tuple[str, str], ...] = (("INSERT", "NEW"), ("DELETE", "OLD"), ("UPDATE", "OLD"))
_NEXT_JOBS = text(
    "SELECT max(job_id), (SELECT max(job_id) FROM series) FROM"
    " (SELECT DISTINCT job_id FROM series WHERE job_id > :after ORDER BY job_id LIMIT :most) those"
)
_STARTS = "SELECT DISTINCT job_id / {jobs} * {jobs} FROM ({source}) those ORDER BY 1"


def lay_out(engine: Engine, by_jobs: int | None, progress: Callable[[str], None] = lambda _: None) -> bool:
    """Partition the sample tables, `by_jobs` jobs per partition, or (None) undo that; return whether they were changed.

    Raises LineageStoreError if it is impossible: on SQLite, in a distributed store, or with partitions of another size.

    Args:
        progress: called with a line of text about the progress.
    """
    if engine.dialect.name != "postgresql":
        raise LineageStoreError(
            "Only PostgreSQL has partitions.", hint="A SQLite store needs none: it is one user's on one host."
        )
    if by_jobs is not None and not 1 <= by_jobs <= MOST_JOBS:
        raise LineageStoreError(f"A partition cannot have {by_jobs} jobs: give 1 to {MOST_JOBS:,}.")
    with _step(engine) as session:
        if not descriptions.up_to_date(session, upgrade.VERSION_TABLE):
            raise LineageStoreError(
                "The views are another release's.", hint="`lineage-store db upgrade` first."
            )
        if by_jobs and distribution.layout(session):
            raise LineageStoreError(
                "The samples are distributed over the workers of Citus: partitions are for one machine.",
                hint="docs/citus.md says how they come back to one.",
            )
        if not _is_to_be_done(session, by_jobs):
            _clear(session)
            return False
        if _under_way(session) != (by_jobs,):
            _clear(session)
            _begin(session, by_jobs)
    for table in SAMPLE_TABLES:
        _fill(engine, table, by_jobs, progress)
    pause_s = LOCK_WAIT_MS / 1000
    while not _is_finished(engine, by_jobs):
        progress("A session has the samples in use for long: the new tables take their place when it ends.")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 10.0)
    with _step(engine) as session:
        session.change("SET LOCAL default_statistics_target = 10")
        for table in SAMPLE_TABLES:
            session.change(f"ANALYZE {table}")
    return True


def drop_vacated_partitions(engine: Engine) -> None:
    """Drop the partitions whose jobs are all removed.

    If long queries keep a sample table locked, log a warning instead: the next removal of jobs tries again.
    """
    with reading(engine) as session:
        if not partitions.is_partitioned(session):
            return
    for table in SAMPLE_TABLES:
        if not any(_is_dropped(engine, table) for _ in range(_DROP_TRIES)):
            log.warning(
                "%s is in use for long: the next removal drops the partitions that have no jobs.", table
            )


def _is_dropped(engine: Engine, table: str) -> bool:
    try:
        with writing(engine) as session:
            session.change(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
            partitions.drop_vacated(session, table)
    except DatabaseUnavailableError as error:
        if error.cause != Cause.LOCKED:
            raise
        time.sleep(LOCK_WAIT_MS / 1000)  # let those go first who waited behind us
        return False
    return True


@contextmanager
def _step(engine: Engine) -> Iterator[Session]:
    """Open a transaction of a change of the layout, with the rights of the tables' owner."""
    with writing(engine) as session:
        upgrade.wait_for_turn(session)
        owner = session.value(
            f"SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = '{SAMPLE_TABLES[0]}'::regclass"
        )
        session.change(f"SET LOCAL ROLE {owner}")
        yield session


def _is_to_be_done(session: Session, by_jobs: int | None) -> bool:
    jobs, _ = partitions.layouts(session).get(SAMPLE_TABLES[0], (None, 0))
    if jobs is not None and by_jobs not in (None, jobs):
        raise LineageStoreError(
            f"The samples are partitioned by {jobs:,} jobs already.",
            hint="`lineage-store db partition --undo` first, then partition them anew.",
        )
    return jobs != by_jobs


def _under_way(session: Session) -> tuple[int | None, ...]:
    """Return the goal of an unfinished change: (jobs per partition,), or (None,) for no partitions; () without one."""
    if not partitions.is_changing(session):
        return ()
    following = f"{SAMPLE_TABLES[-1]}_next"
    jobs, _ = partitions.layouts(session, following).get(following, (None, 0))
    return (jobs,)


def _clear(session: Session) -> None:
    """Remove what an unfinished change has left. CASCADE drops the triggers with their function."""
    for table in SAMPLE_TABLES:
        session.change(f"DROP FUNCTION IF EXISTS note_{table}() CASCADE")
        session.change(f"DROP TABLE IF EXISTS {table}_next, {table}_changed")


def _begin(session: Session, by_jobs: int | None) -> None:
    """Make the new tables, and note from now on which rows are written. Waits for running write transactions."""
    schema = session.value("SELECT quote_ident(current_schema())")
    cut = "PARTITION BY RANGE (job_id)" if by_jobs else ""
    for table in SAMPLE_TABLES:
        for statement in (
            f"CREATE TABLE {table}_next (LIKE {table} INCLUDING ALL) {cut}",
            f"CREATE TABLE {table}_changed ({SAMPLE_KEY.replace(',', ' bigint,')} bigint, taken boolean DEFAULT false)",
            f"CREATE FUNCTION note_{table}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER"
            f" SET search_path = {schema}, pg_temp AS $${NOTING_BODIES[f'note_{table}()']}$$",
            *(
                f"CREATE TRIGGER note_{event.lower()} AFTER {event} ON {table} REFERENCING {rows} TABLE AS changed"
                f" FOR EACH STATEMENT EXECUTE FUNCTION note_{table}()"
                for event, rows in _EVENTS
            ),
        ):
            session.change(statement)
        _make_partitions(session, table, by_jobs, "SELECT 0 AS job_id")


def _fill(engine: Engine, table: str, by_jobs: int | None, progress: Callable[[str], None]) -> None:
    """Copy the samples in the order of job ids, starting behind the last job that an earlier run has copied."""
    with reading(engine) as session:
        done = session.value(f"SELECT coalesce(max(job_id), 0) FROM {table}_next")
    while True:
        with _step(engine) as session:
            last, greatest = session.one(_NEXT_JOBS, {"after": done, "most": JOBS_AT_A_TIME})
            if last is None:
                return
            some = f"FROM {table} WHERE job_id > {done} AND job_id <= {last}"
            _make_partitions(session, table, by_jobs, f"SELECT job_id {some}")
            # A removed job may have samples left in a partition that is not dropped yet.
            there = "EXISTS (SELECT FROM train_job WHERE id = job_id)"
            session.change(f"INSERT INTO {table}_next SELECT * {some} AND {there} ORDER BY {SAMPLE_KEY}")
        done = last
        progress(f"{table}: copied up to job {last:,} of {greatest:,}, about {last / greatest:.0%}.")


def _bring_over(session: Session, table: str, by_jobs: int | None) -> int:
    """Copy the rows that were noted since the last call into the new table; return how many notes there were."""
    noted = session.change(f"UPDATE {table}_changed SET taken = true")
    if noted:
        taken = f"(SELECT {SAMPLE_KEY} FROM {table}_changed WHERE taken)"
        session.change(f"ANALYZE {table}_changed")
        _make_partitions(session, table, by_jobs, taken)
        session.change(f"DELETE FROM {table}_next WHERE ({SAMPLE_KEY}) IN {taken}")
        session.change(
            f"INSERT INTO {table}_next SELECT * FROM {table} WHERE ({SAMPLE_KEY}) IN {taken} ORDER BY {SAMPLE_KEY}"
        )
        session.change(f"DELETE FROM {table}_changed WHERE taken")
    return noted


def _is_finished(engine: Engine, by_jobs: int | None) -> bool:
    """Replace the old tables by the new ones; return False if they cannot be locked because somebody uses them."""
    many = True
    while many:
        with _step(engine) as session:
            many = sum(_bring_over(session, table, by_jobs) for table in SAMPLE_TABLES) > FEW_CHANGES
    try:
        with _step(engine) as session:
            session.change(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
            _put_in_place(session, by_jobs)
    except DatabaseUnavailableError as error:
        if error.cause != Cause.LOCKED:
            raise
        return False
    return True


def _put_in_place(session: Session, by_jobs: int | None) -> None:
    """Replace the old tables by the new ones.

    Locks are taken in the order in which everybody takes them (views, samples, jobs): else deadlocks with frequent
    readers of views would make this fail again and again.
    """
    grants = descriptions.grants(session, SAMPLE_TABLES)
    writers = [grant.partition(" TO ")[2] for grant in grants if grant.startswith("GRANT INSERT")]
    descriptions.replace(session, SAMPLE_TABLES)  # changes nothing, but locks the views
    session.change(f"LOCK TABLE {', '.join(SAMPLE_TABLES)} IN ACCESS EXCLUSIVE MODE")
    session.change("LOCK TABLE train_job IN SHARE MODE")  # a new job would miss its partitions
    for table in SAMPLE_TABLES:
        _bring_over(session, table, by_jobs)
        _make_partitions(session, table, by_jobs, "SELECT id AS job_id FROM train_job")
        session.change(f"DROP FUNCTION note_{table}() CASCADE")
        session.change(f"ALTER TABLE {table} RENAME TO {table}_before")
        session.change(f"ALTER TABLE {table}_next RENAME TO {table}")
    descriptions.replace(session, SAMPLE_TABLES)
    for table in SAMPLE_TABLES:
        session.change(f"DROP TABLE {table}_before, {table}_changed")
        key = metadata.tables[table].primary_key.name
        session.change(f"ALTER INDEX {table}_next_pkey RENAME TO {key}")
        session.change(SetTableComment(metadata.tables[table]))
    partitions.drop_functions(session)
    if by_jobs:
        partitions.create_functions(session)
        newest = session.value("SELECT coalesce(max(id), 0) FROM train_job")
        partitions.ensure(session, [newest])
        for role in writers:
            grants += [f"GRANT EXECUTE ON FUNCTION {name} TO {role}" for name in partitions.FUNCTIONS]
    for grant in grants:
        session.change(grant)
    attestation.mark(session, upgrade.VERSION_TABLE)


def _make_partitions(session: Session, table: str, by_jobs: int | None, jobs: str) -> None:
    """Make the partitions of a new table for the jobs that the query `jobs` returns; none if `by_jobs` is None."""
    if by_jobs is None:
        return
    for first in session.column(_STARTS.format(jobs=by_jobs, source=jobs)):
        session.change(
            f"CREATE TABLE IF NOT EXISTS {table}_{first} PARTITION OF {table}_next"
            f" FOR VALUES FROM ({first}) TO ({first + by_jobs})"
        )
