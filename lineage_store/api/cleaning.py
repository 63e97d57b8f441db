"""Cleaning up: jobs leave the store by rule, and come back on demand.

In: an open LineageStore and rules. Out: the jobs that the rules name; afterwards none of them. Log files, labels and
remarks stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lineage_store.api import LineageStore, PathLike
from lineage_store.api.base_dirs import base_dirs
from lineage_store.errors import LineageParamValueError, TrainJobNotFoundError
from lineage_store.ingest.lease import leading
from lineage_store.operations import remove
from lineage_store.query.search.compiler import compile_all
from lineage_store.query.search.condition import parse
from lineage_store.store import leases
from lineage_store.store.catalog import tombstones
from lineage_store.store.catalog.removable import Removable, Rules
from lineage_store.store.database import engine as engines
from lineage_store.store.writes import removal
from lineage_store.texts import from_stored, to_stored

LONGEST_S = 1_000 * 365 * 86_400.0
"""A thousand years: longer than any job is old, and still within the calendar."""


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Which jobs may go: those for which everything that is given holds. Live jobs never go.

    Raises LineageParamValueError for an age that is none.
    """

    older_than_s: float | None = None
    """No event, no growth and no log file begun for so long."""
    condition: Mapping[str, Any] | None = None
    """A search_condition; jobs without lineage match none. Its order and page do not count."""
    missing: bool = False
    """No log file of the job is left on disk."""

    def __post_init__(self) -> None:
        if self.older_than_s is not None and not 0 <= self.older_than_s <= LONGEST_S:
            raise LineageParamValueError(
                f"Jobs cannot be older than {self.older_than_s} s: give 0 to {LONGEST_S:.0f} s, a thousand years."
            )

    def __str__(self) -> str:
        rules = []
        if self.older_than_s is not None:
            rules.append(f"older than {timedelta(seconds=self.older_than_s)}")
        if self.condition:
            rules.append(f"condition {json.dumps(self.condition)}")
        if self.missing:
            rules.append("no log file left on disk")
        return ", ".join(rules)


@dataclass(frozen=True, slots=True)
class RemovableJob:
    """A job that a clean-up names."""

    base_dir: str
    train_id: str
    state: str
    last_wall_time: float | None
    """Greatest wall time of its events, unix s."""
    log_bytes: int


@dataclass(frozen=True, slots=True)
class RemovedJob:
    """A job that was removed, and that ingest leaves alone."""

    base_dir: str
    train_id: str
    removed_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Total:
    """How many jobs, and the bytes of their log files."""

    jobs: int = 0
    log_bytes: int = 0


def total(jobs: Iterable[RemovableJob | Removable]) -> Total:
    """Count jobs as they come."""
    count = log_bytes = 0
    for job in jobs:
        count, log_bytes = count + 1, log_bytes + job.log_bytes
    return Total(count, log_bytes)


def removable_jobs(
    store: LineageStore, clean_up: CleanUp, base_dir: PathLike | None = None
) -> Iterator[RemovableJob]:
    """The jobs that `remove_jobs` would remove, of one base dir or of all.

    Raises:
        LineageParamValueError: nothing is given that could name a job.
        LineageSearchConditionParamError: the condition is refused.
        LineageParamSummaryPathError: the store does not know the base dir; or `missing` is asked for, and all its jobs
            are, as when a share is not mounted.
    """
    for base_dir_id, path, rules in _rules(store, clean_up, base_dir):
        for job in remove.named_by(store.engine, base_dir_id, rules):
            yield RemovableJob(path, from_stored(job.train_id), job.state, job.last_wall_time, job.log_bytes)


def remove_jobs(store: LineageStore, clean_up: CleanUp, base_dir: PathLike | None = None) -> Total:
    """Remove jobs from the store, and leave tombstones, so that ingest does not bring them back.

    It may be killed at any moment: a job is there, or out of everybody's sight, or gone. What is left of those that are
    out of sight goes with the next removal. Raises as `removable_jobs` does, and LeaseHeldError while an ingester that
    is no daemon, or another removal, is at work.
    """
    done = Total()
    for base_dir_id, _, rules in _rules(store, clean_up, base_dir):
        for page in remove.remove(store.engine, base_dir_id, rules, store.settings):
            more = total(page)
            done = Total(done.jobs + more.jobs, done.log_bytes + more.log_bytes)
    return done


def removed_jobs(store: LineageStore, base_dir: PathLike | None = None) -> list[RemovedJob]:
    """The jobs that have a tombstone, of one base dir or of all, latest first within each."""
    with engines.reading(store.engine) as connection:
        return [
            RemovedJob(path, from_stored(stone.train_id), stone.removed_at, stone.reason)
            for base_dir_id, path in base_dirs(store, base_dir)
            for stone in tombstones.of_base_dir(connection, base_dir_id)
        ]


def restore_job(store: LineageStore, base_dir: PathLike, train_id: str) -> None:
    """Take a job's tombstone away: the next ingest reads its log files. Raises TrainJobNotFoundError without one.

    Under a lease, so that no daemon goes by what it remembers. Raises LeaseHeldError while another ingest is at work.
    """
    ((base_dir_id, path),) = base_dirs(store, base_dir)
    with (
        leading(store.engine, base_dir_id, store.settings.lease_s, mode="once", before_daemons=True) as lease,
        engines.writing(store.engine) as connection,
    ):
        leases.confirm(connection, lease)
        taken = removal.lift(connection, base_dir_id, to_stored(train_id))
    if not taken:
        raise TrainJobNotFoundError(
            f"No job {train_id} below {path} was removed.", hint="`lineage-store gc --removed` lists those."
        )


def _rules(
    store: LineageStore, clean_up: CleanUp, base_dir: PathLike | None
) -> Iterator[tuple[int, str, Rules]]:
    """Each base dir (id and path) with its rules."""
    if not (clean_up.older_than_s is not None or clean_up.condition or clean_up.missing):
        raise LineageParamValueError("A clean-up without any rule would remove every job.")
    for base_dir_id, path in base_dirs(store, base_dir):
        if clean_up.missing:
            remove.refuse_unmounted(store.engine, Path(path), base_dir_id)
        among = None
        if clean_up.condition:
            condition = parse(clean_up.condition, base_dir=path)
            among = compile_all(condition.where, (), (base_dir_id,)).params(condition.values)
        yield base_dir_id, path, Rules(str(clean_up), clean_up.older_than_s, clean_up.missing, among)
