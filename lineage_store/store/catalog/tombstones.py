"""Tombstones of jobs that were removed on purpose: ingest leaves their log files alone.

In: a base dir, and log files in it that the store does not know. Out: those of them that are to be ingested.
Promises: a tombstone covers the log files that were there when the job was removed; when a log file with a newer
timestamp in its name appears, somebody trains there again, and the whole job comes back. Does not know how jobs are
removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, select

from lineage_store.store.database.dialects import among
from lineage_store.store.database.paging import ALL, Page
from lineage_store.store.records import NewFile
from lineage_store.store.schema.tables import base_dir, removal, tombstone

BY_POLICY = "policy "
"""A tombstone's reason begins with this if a policy named the job; the policy's setting follows."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A removed job; texts are in their stored form."""

    base_dir: str
    train_id: str
    removed_at: datetime
    reason: str
    removal_id: int | None


class Covering(NamedTuple):
    """What a tombstone says of the time before it."""

    last_file_time: int
    first_seen_at: datetime


def covering(connection: Connection, base_dir_id: int, train_ids: Iterable[str]) -> dict[str, Covering]:
    """Return what the tombstones of jobs, lifted ones too, say of the time before them, by stored train id."""
    mine = select(tombstone.c.train_id, *(tombstone.c[name] for name in Covering._fields))
    here = mine.where(tombstone.c.base_dir_id == base_dir_id, tombstone.c.first_seen_at.is_not(None))
    rows = connection.execute(here.where(among(connection, tombstone.c.train_id, train_ids)))
    return {row.train_id: Covering(row.last_file_time, row.first_seen_at) for row in rows}


def without_removed(connection: Connection, base_dir_id: int, files: Sequence[NewFile]) -> list[NewFile]:
    """Return the files whose job has no tombstone, or has a newer file among `files` than its tombstone covers."""
    newest: dict[str, int] = {}
    for file in files:
        newest[file.train_id] = max(file.file_time, newest.get(file.train_id, file.file_time))
    mine = select(tombstone.c.train_id, tombstone.c.last_file_time).where(
        tombstone.c.base_dir_id == base_dir_id, ~tombstone.c.lifted
    )
    covered = {
        row.train_id
        for row in connection.execute(mine.where(among(connection, tombstone.c.train_id, newest)))
        if newest[row.train_id] <= row.last_file_time
    }
    return [file for file in files if file.train_id not in covered] if covered else list(files)


def take_away(connection: Connection, base_dir_id: int, train_ids: Iterable[str]) -> None:
    """Delete the tombstones of jobs that are in the store again."""
    mine = delete(tombstone).where(tombstone.c.base_dir_id == base_dir_id)
    connection.execute(mine.where(among(connection, tombstone.c.train_id, train_ids)))


def of_job(connection: Connection, base_dir_id: int, train_id: str) -> Tombstone | None:
    """Return the tombstone of a job; None if it has none."""
    mine = (tombstone.c.base_dir_id == base_dir_id) & (tombstone.c.train_id == train_id)
    row = connection.execute(_ALL.where(mine)).first()
    return None if row is None else Tombstone(*row)


def latest(connection: Connection, base_dir_id: int | None = None, *, page: Page = ALL) -> list[Tombstone]:
    """Return a page of the tombstones of a base dir, or of all base dirs, latest first."""
    here = tombstone.c.base_dir_id == base_dir_id
    query = _ALL.where(_THERE if base_dir_id is None else here)
    ordered = query.order_by(tombstone.c.removed_at.desc(), tombstone.c.train_id, tombstone.c.base_dir_id)
    return [Tombstone(*row) for row in connection.execute(page.of(ordered))]


class Removal(NamedTuple):
    """What one call, or policies at one time, removed of a base dir; texts are in their stored form."""

    id: int
    base_dir: str
    removed_at: datetime
    reason: str
    by_policy: bool
    holder: str
    jobs: int
    restorable: int
    """How many of the jobs have not come back, nor were allowed to."""


def removals(connection: Connection, base_dir_id: int | None = None, *, page: Page = ALL) -> list[Removal]:
    """Return a page of the removals of a base dir, or of all base dirs, latest first."""
    here = removal.c.base_dir_id == base_dir_id
    query = _REMOVALS if base_dir_id is None else _REMOVALS.where(here)
    rows = connection.execute(page.of(query.order_by(removal.c.removed_at.desc(), removal.c.id.desc())))
    return [Removal(*row) for row in rows]


def of_removal(connection: Connection, number: int) -> tuple[int, str, list[str]] | None:
    """Return the base dir of a removal, as id and stored path, and those of its jobs that have not come back, nor were
    allowed to; None if there is no such removal."""
    known = select(base_dir.c.id, base_dir.c.path).join(removal, removal.c.base_dir_id == base_dir.c.id)
    place = connection.execute(known.where(removal.c.id == number, ~base_dir.c.leaving)).first()
    if place is None:
        return None
    jobs = select(tombstone.c.train_id).where(tombstone.c.removal_id == number, ~tombstone.c.lifted)
    return place.id, place.path, list(connection.execute(jobs.order_by(tombstone.c.train_id)).scalars())


def removed_among(connection: Connection, base_dir_id: int, train_ids: Iterable[str]) -> set[str]:
    """Return which of the jobs have a tombstone."""
    mine = select(tombstone.c.train_id).where(tombstone.c.base_dir_id == base_dir_id, ~tombstone.c.lifted)
    return set(connection.execute(mine.where(among(connection, tombstone.c.train_id, train_ids))).scalars())


def by_policy(connection: Connection, path: str | None = None) -> list[dict[str, Any]]:
    """Return, per base dir (or of one stored path) and policy, how many removed jobs there are and the last removal."""
    counted = func.count().label("jobs"), func.max(tombstone.c.removed_at).label("last_removed_at")
    named = func.substr(tombstone.c.reason, len(BY_POLICY) + 1).label("policy")
    wanted = (
        select(base_dir.c.path.label("base_dir"), named, *counted)
        .join_from(tombstone, base_dir, base_dir.c.id == tombstone.c.base_dir_id)
        .where(~tombstone.c.lifted, ~base_dir.c.leaving, tombstone.c.reason.startswith(BY_POLICY))
        .group_by(base_dir.c.path, tombstone.c.reason)
        .order_by(base_dir.c.path, tombstone.c.reason)
    )
    if path is not None:
        wanted = wanted.where(base_dir.c.path == path)
    return [dict(row) for row in connection.execute(wanted).mappings()]


# A subquery, because for a join SQLite would start from the base dirs and sort all their tombstones.
_PATH = select(base_dir.c.path).where(base_dir.c.id == tombstone.c.base_dir_id).scalar_subquery()
_THERE = tombstone.c.base_dir_id.not_in(select(base_dir.c.id).where(base_dir.c.leaving))
_TOLD = ("train_id", "removed_at", "reason", "removal_id")
_ALL = select(_PATH, *(tombstone.c[name] for name in _TOLD)).where(~tombstone.c.lifted)
_LEFT = select(func.count()).where(tombstone.c.removal_id == removal.c.id, ~tombstone.c.lifted)
_REMOVALS = (
    select(removal.c.id, base_dir.c.path)
    .add_columns(*(removal.c[name] for name in ("removed_at", "reason", "by_policy", "holder", "jobs")))
    .add_columns(_LEFT.scalar_subquery())
    .join_from(removal, base_dir, base_dir.c.id == removal.c.base_dir_id)
    .where(~base_dir.c.leaving)
)
