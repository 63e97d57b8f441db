"""How the store stands, why something is (not) in it, SQL, a snapshot, forgetting.

In: an open LineageStore. Out: frozen reports; nothing is changed but by `publish` (a file) and `forget` (the store).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lineage_store.api import LineageStore, PathLike, real_path
from lineage_store.api.paths import absolute_path
from lineage_store.errors import LineageParamSummaryPathError, TrainJobNotFoundError
from lineage_store.operations import forget as forgetting
from lineage_store.operations import why as ingest_why
from lineage_store.operations.why import Verdict
from lineage_store.query.status import JobReport, StoreStatus, read_job, read_status
from lineage_store.store.admin import publish as publishing
from lineage_store.store.admin import read_only_sql, wal
from lineage_store.store.admin.wal import WriteAheadLog
from lineage_store.store.database import engine as engines
from lineage_store.store.writes.forgetting import Holdings
from lineage_store.texts import from_stored, to_stored


def status(store: LineageStore, base_dir: PathLike | None = None, *, problems: int = 10) -> StoreStatus:
    """Lag, jobs by state, leader, last pass and open problems of one base dir, or of all.

    Raises LineageParamSummaryPathError when the store does not know the base dir.
    """
    path = None if base_dir is None else str(real_path(base_dir))
    with engines.reading(store.engine) as connection:
        found = read_status(connection, None if path is None else to_stored(path), problems=problems)
    if path is not None and not found.base_dirs:
        known = ", ".join(store.base_dirs()) or "none"
        raise LineageParamSummaryPathError(
            f"The store does not know the base dir {path}.", hint=f"Known base dirs: {known}."
        )
    return found


def write_ahead_log(store: LineageStore) -> WriteAheadLog | None:
    """How large the write-ahead log of a SQLite store is, and whether that is a worry; None on PostgreSQL."""
    return wal.look(store.engine)


def job_report(store: LineageStore, base_dir: PathLike, train_id: str) -> JobReport:
    """Everything the views say about one job. Raises TrainJobNotFoundError."""
    path = to_stored(str(real_path(base_dir)))
    with engines.reading(store.engine) as connection:
        found = read_job(connection, path, to_stored(train_id))
    if found is None:
        raise TrainJobNotFoundError(
            f"The store knows no train job {train_id!r} below {from_stored(path)}.",
            hint="`lineage-store jobs` lists them; `lineage-store why PATH` tells why one is missing.",
        )
    return found


@contextmanager
def sql(store: LineageStore, statement: str, *, timeout_s: float = 60.0) -> Iterator[read_only_sql.Answer]:
    """Run one SQL statement that can only read; `.columns` and `.rows` of the answer while the block lasts.

    It may take `timeout_s` to its first row; those that follow are read for as long as the block lasts.
    """
    with read_only_sql.run(store.engine, statement, timeout_s=timeout_s) as answer:
        yield answer


def why(store: LineageStore, path: PathLike) -> Verdict:
    """Why a file or job is, or is not, in the store. Raises LineageParamSummaryPathError for what is no path."""
    return ingest_why.why(store.engine, absolute_path(path), store.settings)


def holdings(store: LineageStore, base_dir: PathLike) -> Holdings:
    """What `forget` would take away. Raises LineageParamSummaryPathError when the store does not know the base dir."""
    return forgetting.holdings(store.engine, real_path(base_dir))


def forget(store: LineageStore, base_dir: PathLike) -> Holdings:
    """Remove a base dir and everything of its jobs from the store, remarks and labels included; log files stay.

    Raises LineageParamSummaryPathError when the store does not know it, LeaseHeldError when an ingester leads it.
    """
    return forgetting.forget(store.engine, real_path(base_dir), store.settings)


def publish(store: LineageStore, file: PathLike, mode: int = publishing.READ_BY_ALL) -> int:
    """Write a snapshot of a SQLite store for others to read; returns its size in bytes."""
    return publishing.publish(store.engine, Path(file), mode)
