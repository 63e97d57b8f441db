"""Base dirs that may be registered, their leases held during a `with` block, and write transactions under a lease.

In: an engine and a base dir. Out: its id; a lease for the block; or an error that says what to do. Promises: the lease
is released also when the block fails, or expires when the database is not available; waiting for another leader's lease
ends when that should have expired; no base dir with jobs lies inside another, so that a job has only one id. Does not
know what the block does, nor whether a directory holds log files: callers check that before they register one.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import (
    DatabaseUnavailableError,
    LeaseHeldError,
    LeaseLostError,
    LineageParamSummaryPathError,
)
from lineage_store.ingest.scan.discovery import in_snapshots
from lineage_store.paths import stored_path
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.leases import Lease, holder_name, lives
from lineage_store.texts import from_stored

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.25
_SIGN_OF_LIFE_S = 1.0
"""A lease whose expiry moved by at least this much was renewed; its expiry as computed here is not exact."""


@contextmanager
def hold_lease(
    engine: Engine,
    base_dir_id: int,
    lasts_s: float,
    *,
    mode: str,
    base_dir: Path | None = None,
    before_daemons: bool = False,
    stop_waiting: Callable[[], bool] = lambda: True,
) -> Iterator[Lease]:
    """Hold the lease of a base dir during the block. Raises LeaseHeldError when another ingester holds it.

    Args:
        base_dir: the path from which log files are to be read; raises LeaseLostError if the base dir was moved.
        before_daemons: take the lease from a daemon too, which acquires it again afterwards.
        stop_waiting: while it returns False, wait for the lease of a leader on another host to expire, for that leader
            may have died; without it, do not wait.
    """

    def acquire() -> Lease:
        with writing(engine) as session:
            lease = leases.acquire(
                session, base_dir_id, holder_name(), lasts_s, mode, before_daemons=before_daemons
            )
            if base_dir is not None:
                confirm_path(session, base_dir_id, base_dir)
            return lease

    try:
        lease = acquire()
    except LeaseHeldError as held:
        _await_end(engine, base_dir_id, held, stop_waiting)
        lease = acquire()
    try:
        yield lease
    finally:
        release_lease(engine, lease)


@contextmanager
def writing_under(engine: Engine, lease: Lease, *, synced: bool = True) -> Iterator[tuple[Session, datetime]]:
    """Begin a write transaction, with the database's time in it. Raises LeaseLostError when the lease is lost."""
    with writing(engine, synced=synced) as session:
        yield session, leases.confirm(session, lease)


def divide(engine: Engine, base_dir_id: int, count: int, lasts_s: float) -> None:
    """Divide a base dir into `count` shards, taking the lease from daemons. Raises LeaseHeldError, LeaseLostError."""
    with reading(engine) as session:
        if leases.shard_count(session, base_dir_id) == count:
            return
    with (
        hold_lease(engine, base_dir_id, lasts_s, mode="once", before_daemons=True) as lease,
        writing(engine) as session,
    ):
        leases.set_shard_count(session, lease, count)


def _await_end(
    engine: Engine, base_dir_id: int, held: LeaseHeldError, stop_waiting: Callable[[], bool]
) -> None:
    """Wait until the leader's lease has ended. Raises LeaseHeldError when the leader renews it or is known to live."""
    if lives(held.holder) or stop_waiting():
        raise held
    log.warning("%s It may be gone: waiting for a sign of life, or for %.0f s.", held.message, held.ends_in_s)
    ends_at = time.monotonic() + held.ends_in_s
    while time.monotonic() + held.ends_in_s < ends_at + _SIGN_OF_LIFE_S and not stop_waiting():
        time.sleep(_LOOK_EVERY_S)
        try:
            with reading(engine) as session:
                leases.last(session, base_dir_id)
            return
        except LeaseHeldError as error:
            held = error
    raise held


def release_lease(engine: Engine, lease: Lease) -> None:
    """Release a lease. When the database fails, the lease expires by itself."""
    try:
        with writing(engine) as session:
            leases.release(session, lease)
    except (DatabaseUnavailableError, DBAPIError):
        return


# ---- The base dirs that the store knows, and those that may be registered


def is_known(engine: Engine, base_dir: Path) -> bool:
    """Whether the store knows the base dir."""
    with reading(engine) as session:
        return registry.base_dir_id(session, stored_path(base_dir)) is not None


def known_at(engine: Engine, base_dir_id: int) -> str | None:
    """Return the other base dir that has the most jobs in common with this one; None when there is none."""
    with reading(engine) as session:
        paths = dict(registry.stored_base_dirs(session))
        same = registry.same_jobs(session, base_dir_id) if len(paths) > 1 else {}
    return from_stored(paths[max(same, key=lambda other: same[other])]) if same else None


def overlapping(engine: Engine, base_dir: Path, *, besides: int | None = None) -> str | None:
    """Return a known base dir with jobs, other than `besides`, above or below a path; None if there is none."""
    with reading(engine) as session:
        found = _neighbours(session, base_dir, besides).items()
        return next((other for other, has_jobs in found if has_jobs), None)


def refuse_unfit(engine: Engine, base_dir: Path, *, besides: int | None = None) -> None:
    """Raise LineageParamSummaryPathError when a base dir cannot be registered, or `besides` cannot move to its path."""
    if besides is None:
        _refuse_moved(engine, base_dir)
    if not os.path.isdir(base_dir):
        raise LineageParamSummaryPathError(
            f"{base_dir} is no directory.", hint="Give the directory of the job directories."
        )
    if (other := overlapping(engine, base_dir, besides=besides)) is not None:
        raise LineageParamSummaryPathError(
            f"{base_dir} overlaps with the base dir {other}, which the store knows already.",
            hint=f"Ask for {other} instead, or `lineage-store forget {other}` first, or use another store: "
            "a job must have one id only.",
        )


def register(engine: Engine, base_dir: Path) -> int:
    """Return the id of a base dir, registering it if need be. Raises LineageParamSummaryPathError as `refuse_unfit`."""
    with reading(engine) as session:
        known = registry.base_dir_id(session, stored_path(base_dir))
    if known is not None:
        return known
    refuse_unfit(engine, base_dir)
    with writing(engine) as session:
        drop_empty_neighbours(session, base_dir)
        return registry.ensure_base_dir(session, stored_path(base_dir), session.now())


def confirm_path(session: Session, base_dir_id: int, base_dir: Path) -> None:
    """Raise LeaseLostError when a base dir, whose lease was just acquired, is no longer at its path."""
    if registry.base_dir_id(session, stored_path(base_dir)) != base_dir_id:
        raise LeaseLostError(f"The base dir {base_dir} was moved or forgotten just now.", hint="Try again.")


def drop_empty_neighbours(session: Session, base_dir: Path) -> None:
    """Forget base dirs without jobs that lie above or below a path."""
    for other, has_jobs in _neighbours(session, base_dir).items():
        if not has_jobs:
            registry.forget_base_dir(session, stored_path(Path(other)))


def _refuse_moved(engine: Engine, base_dir: Path) -> None:
    """Raise LineageParamSummaryPathError for a path from which a base dir was moved, unless it now has other jobs."""
    with reading(engine) as session:
        found = registry.moved_to(session, stored_path(base_dir))
        known = registry.next_known(session, found[0], "", None)[0] if found else []
    places = (base_dir / from_stored(file.train_id) / from_stored(file.name) for file in known)
    if found and (not os.path.isdir(base_dir) or any(map(os.path.exists, places))):
        raise LineageParamSummaryPathError(
            f"{base_dir} was moved to {from_stored(found[1])}, and is shown under that name.",
            hint=f"Ask for {from_stored(found[1])}.",
        )


def _neighbours(session: Session, base_dir: Path, besides: int | None = None) -> dict[str, bool]:
    """Known base dirs above and below a path, and whether each has jobs."""
    path = str(base_dir)
    return {
        other: registry.has_jobs(session, other_id)
        for other_id, stored in registry.stored_base_dirs(session)
        if other_id != besides and _overlap(path, other := from_stored(stored))
    }


def _overlap(left: str, right: str) -> bool:
    """Whether one path lies in the other, but not in a directory of snapshots there, into which no search goes."""
    return _lies_in(left, right) or _lies_in(right, left)


def _lies_in(path: str, above: str) -> bool:
    start = above.rstrip("/") + "/"
    return path.startswith(start) and not in_snapshots(path[len(start) :].split("/"))
