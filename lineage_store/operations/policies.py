"""Apply the policies of the settings now, instead of waiting for a daemon; or list what that would remove.

In: an engine, a base dir, the settings with the policies. Out: the jobs and series that the policies select;
afterwards these jobs are removed, with a tombstone each, and these series are thinned. Promises: every transaction is
short; a daemon gives up its lease while jobs are hidden and while a group of series is thinned; the size of the store
is checked again for each base dir; without a person's confirmation no more jobs go than policies may remove in a day,
and none while the clock is wrong. Unlike `remove.py`, `carry_out` keeps all selected jobs of a base dir in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.leaving import JOBS_AT_A_TIME, NAMED_AT_A_TIME, cause_of, look, take_out_of_sight
from lineage_store.ingest.thinning import named_series, thin
from lineage_store.operations.remove import removing
from lineage_store.store.catalog.policies import Expired, expired, has_policies
from lineage_store.store.catalog.thinnable import Thinnable
from lineage_store.store.database.engine import database_time, reading
from lineage_store.store.writes import removal
from lineage_store.texts import from_stored

_SERIES_A_LEASE = 50
"""Series that are thinned before a daemon may have its lease back for a while."""


@dataclass(frozen=True, slots=True)
class ExpiredJob:
    """A job that a policy selects."""

    base_dir: str
    train_id: str
    policy: str
    """The setting that selects it, such as `keep_days = 90`."""
    state: str
    begun: int
    """When its newest log file was begun, as recorded there, but not after the store first saw the file; unix time in
    seconds. It decides which jobs are older."""
    last_wall_time: float | None
    """Latest wall time of its events, unix time in seconds."""
    on_disk: bool
    """Whether any of its log files is left."""
    log_bytes: int
    samples: int
    store_bytes: int
    """Approximate bytes that it takes in the database."""
    waits: bool
    """Whether it goes only when a person confirms it: policies have removed enough today, or the clock is wrong."""

    @staticmethod
    def of(base_dir: str, job: Expired, *, waits: bool) -> ExpiredJob:
        """Convert a row of the catalog, whose text is in its stored form."""
        return ExpiredJob(
            base_dir=base_dir,
            train_id=from_stored(job.train_id),
            policy=job.policy,
            state=job.state,
            begun=int(job.begun_at.timestamp()),
            last_wall_time=job.last_wall_time,
            on_disk=job.source_present,
            log_bytes=job.log_bytes,
            samples=job.samples,
            store_bytes=job.store_bytes,
            waits=waits,
        )


@dataclass(frozen=True, slots=True)
class LongSeries:
    """A scalar series of one log file that the policy `keep_every_step_days` would thin."""

    base_dir: str
    train_id: str
    tag: str
    log_file: str
    policy: str
    on_disk: bool
    """Whether any log file of the job is left, so that `reingest` can read every step again."""
    samples: int
    """Number of samples before thinning; at most seven per bucket stay."""

    @staticmethod
    def of(base_dir: str, series: Thinnable, settings: Settings) -> LongSeries:
        """Convert a row of the catalog, whose text is in its stored form."""
        return LongSeries(
            base_dir=base_dir,
            train_id=from_stored(series.train_id),
            tag=from_stored(series.tag),
            log_file=from_stored(series.log_file),
            policy=f"keep_every_step_days = {settings.keep_every_step_days}",
            on_disk=series.source_present,
            samples=series.sample_count,
        )


@dataclass(frozen=True, slots=True)
class ThinTotal:
    """Number of thinned series, and of their removed samples."""

    series: int = 0
    samples: int = 0


def require(settings: Settings) -> None:
    """Raise ConfigError if the settings have no policy."""
    if not has_policies(settings):
        raise ConfigError(
            "The settings have no policy: all jobs are kept.",
            hint="Set keep_days, keep_jobs, keep_store_bytes or keep_every_step_days; `lineage-store config show` "
            "tells what they are.",
        )


def named_by(engine: Engine, base_dir_id: int, settings: Settings) -> Iterator[Expired]:
    """Yield every job of a base dir that the policies select now, the oldest first."""
    last = None
    while True:
        with reading(engine) as connection:
            now = database_time(connection)
            page = expired(connection, base_dir_id, settings, now, limit=NAMED_AT_A_TIME, after=last)
        yield from page
        if len(page) < NAMED_AT_A_TIME:
            return
        last = page[-1]


def may_go(engine: Engine, base_dir_id: int) -> int:
    """Return how many jobs of a base dir the policies may remove now without a person's confirmation."""
    with reading(engine) as connection:
        return removal.may_go(connection, base_dir_id, database_time(connection))


def carry_out(
    engine: Engine, base_dir_id: int, settings: Settings, *, confirmed: bool, begun: Callable[[int], None]
) -> Iterator[Sequence[Expired]]:
    """Remove the jobs of a base dir that the policies select; yield them page by page, once they are hidden.

    Raises LeaseHeldError if an ingester other than a daemon leads the base dir, or another removal is running.

    Args:
        confirmed: also those that wait for a person's confirmation.
        begun: gets the number of the removal.
    """
    most = None if confirmed else may_go(engine, base_dir_id)
    # Before taking the leases, to hold them briefly.
    named = list(islice(named_by(engine, base_dir_id, settings), most))
    cause, number = cause_of(named, confirmed=confirmed), None
    with removing(engine, base_dir_id, settings) as (lead, leaving):
        for begin in range(0, len(named), JOBS_AT_A_TIME):
            some = named[begin : begin + JOBS_AT_A_TIME]
            gone, number = take_out_of_sight(engine, lead, leaving, some, cause, number)
            yield gone
    if number is not None:
        begun(number)
    look(engine, base_dir_id, settings)  # stores what waits now


def thin_all(engine: Engine, base_dir_id: int, settings: Settings) -> Iterator[int]:
    """Thin the series of a base dir that the policies select; yield the number of samples removed from each.

    That number is 0 for a series that changed meanwhile. Raises LeaseHeldError if an ingester other than a daemon leads
    the base dir.
    """
    named = named_series(engine, base_dir_id, settings)
    while some := list(islice(named, _SERIES_A_LEASE)):
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once", before_daemons=True) as lead:
            yield from [thin(engine, lead, each.key, settings) for each in some]
