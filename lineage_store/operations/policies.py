"""Carry out the policies of the settings at once, as a daemon does by itself; or say what that would remove.

In: an engine, a base dir, policies. Out: the jobs that they name; afterwards none of them, and a tombstone for each;
the series that they name, and afterwards thinned ones. Promises: as `remove.py` does; a daemon gives way while jobs are
taken out of sight, and while some series are thinned; the size of the store is looked at anew for each base dir.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.leaving import JOBS_AT_A_TIME, NAMED_AT_A_TIME, take_out_of_sight
from lineage_store.ingest.thinning import named_series, thin
from lineage_store.operations.remove import removing
from lineage_store.store.catalog.policies import Expired, Policies, expired, policies_of
from lineage_store.store.catalog.thinnable import Thinnable
from lineage_store.store.database.engine import database_time, reading
from lineage_store.texts import from_stored

_SERIES_A_LEASE = 50
"""So many are thinned while a daemon gives way; then it has its turn."""


@dataclass(frozen=True, slots=True)
class ExpiredJob:
    """A job that a policy names."""

    base_dir: str
    train_id: str
    policy: str
    """The setting that names it, such as `keep_days = 90`."""
    state: str
    begun: int
    """Greatest timestamp in the names of its log files, unix s: by this jobs are older or newer."""
    last_wall_time: float | None
    """Greatest wall time of its events, unix s."""
    on_disk: bool
    """Whether any log file of it is left."""
    log_bytes: int
    samples: int
    store_bytes: int
    """What it takes in the database, about."""

    @staticmethod
    def of(base_dir: str, job: Expired) -> ExpiredJob:
        """A job of a base dir, as people know it."""
        return ExpiredJob(
            base_dir=base_dir,
            train_id=from_stored(job.train_id),
            policy=job.policy,
            state=job.state,
            begun=job.begun,
            last_wall_time=job.last_wall_time,
            on_disk=job.source_present,
            log_bytes=job.log_bytes,
            samples=job.samples,
            store_bytes=job.store_bytes,
        )


@dataclass(frozen=True, slots=True)
class LongSeries:
    """A scalar of one log file of which the policy `keep_every_step_days` lets samples go."""

    base_dir: str
    train_id: str
    tag: str
    log_file: str
    policy: str
    on_disk: bool
    """Whether any log file of the job is left: from it `reingest` reads every step again."""
    samples: int
    """As many as were written; of each bucket seven stay at most."""

    @staticmethod
    def of(base_dir: str, series: Thinnable, policies: Policies) -> LongSeries:
        """A series of a base dir, as people know it."""
        return LongSeries(
            base_dir=base_dir,
            train_id=from_stored(series.train_id),
            tag=from_stored(series.tag),
            log_file=from_stored(series.log_file),
            policy=f"keep_every_step_days = {policies.every_step_days}",
            on_disk=series.source_present,
            samples=series.sample_count,
        )


@dataclass(frozen=True, slots=True)
class ThinTotal:
    """How many series were thinned, and how many of their samples went."""

    series: int = 0
    samples: int = 0


def required(settings: Settings) -> Policies:
    """The policies of some settings. Raises ConfigError where they have none."""
    policies = policies_of(settings)
    if policies is None:
        raise ConfigError(
            "The settings have no policy: all jobs are kept.",
            hint="Set keep_days, keep_jobs, keep_store_bytes or keep_every_step_days; `lineage-store config show` "
            "tells what they are.",
        )
    return policies


def named_by(engine: Engine, base_dir_id: int, policies: Policies) -> Iterator[Expired]:
    """Every job of a base dir that the policies name now, the oldest first."""
    last = None
    while True:
        with reading(engine) as connection:
            now = database_time(connection)
            page = expired(connection, base_dir_id, policies, now, limit=NAMED_AT_A_TIME, after=last)
        yield from page
        if len(page) < NAMED_AT_A_TIME:
            return
        last = page[-1]


def carry_out(
    engine: Engine, base_dir_id: int, policies: Policies, settings: Settings
) -> Iterator[Sequence[Expired]]:
    """Remove the jobs of a base dir that the policies name; gives out which, page by page, when they are out of sight.

    Raises LeaseHeldError when an ingester other than a daemon leads the base dir, or another removal is at work.
    """
    named = list(named_by(engine, base_dir_id, policies))  # before the leases, which do not wait for it
    with removing(engine, base_dir_id, settings) as (lead, leaving):
        for begin in range(0, len(named), JOBS_AT_A_TIME):
            yield take_out_of_sight(engine, lead, leaving, named[begin : begin + JOBS_AT_A_TIME])


def thin_all(engine: Engine, base_dir_id: int, policies: Policies, settings: Settings) -> Iterator[int]:
    """Thin the series of a base dir that the policies name; gives out of each how many samples went, 0 if it changed.

    Raises LeaseHeldError when an ingester other than a daemon leads the base dir.
    """
    named = named_series(engine, base_dir_id, policies)
    while some := list(islice(named, _SERIES_A_LEASE)):
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once", before_daemons=True) as lead:
            yield from [thin(engine, lead, each.key, policies) for each in some]
