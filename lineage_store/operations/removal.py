"""Remove jobs by age, by condition, because no log file is left on disk, or by policies; thin scalars; restore jobs.

In: `Removal`, the noun of `LineageStore`, takes an open store, base dirs and rules as people write them; the functions
take an engine and ids. Out: the jobs and series that are selected; afterwards these are removed, with a tombstone each,
or thinned.
Promises: every transaction is short, and only one page of jobs is in memory (by policies: all selected jobs of a base
dir); a daemon gives up its lease while jobs are hidden or a group of series is thinned, and goes on reading while rows
are deleted; after an interruption, the hidden jobs stay hidden, and the next removal deletes their rows. Without a
person's confirmation, policies remove no more jobs than in a day, and none while the clock is wrong. Log files, labels
and remarks stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import (
    ClockDisagreesError,
    ConfigError,
    LineageParamSummaryPathError,
    LineageParamValueError,
    TrainJobNotFoundError,
)
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.retention import (
    JOBS_AT_A_TIME,
    NAMED_AT_A_TIME,
    look_up_expired,
    named_series,
    policy_cause,
    remove_rows,
    take_out_of_sight,
    thin_series,
)
from lineage_store.ingest.scan.survey import find_files
from lineage_store.paths import PathLike
from lineage_store.query import vocabulary
from lineage_store.query.condition import subjects
from lineage_store.query.condition_dict import condition_in_words, parse, require_meant
from lineage_store.query.job_sql import compile_all
from lineage_store.store import clock, leases
from lineage_store.store.catalog import refs, registry
from lineage_store.store.catalog.refs import BaseDirRef, stored_id
from lineage_store.store.catalog.registry import PastRemoval, RemovedJob
from lineage_store.store.catalog.retention import (
    Expired,
    Removable,
    Rules,
    Thinnable,
    all_and_live,
    any_present,
    expired,
    has_policies,
    removable,
)
from lineage_store.store.database.db import Page, reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.leases import Lease
from lineage_store.store.opened import Opened
from lineage_store.store.writes import removal
from lineage_store.store.writes.removal import RemovalCause
from lineage_store.texts import from_stored

R = TypeVar("R")
LONGEST_S = 1_000 * 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Which jobs to remove: those that match all given rules. Live jobs are never removed.

    Raises LineageParamValueError for an age out of range.
    """

    older_than_s: float | None = None
    """Seconds in which there was no event and no growth."""
    condition: Mapping[str, Any] | None = None
    """A search_condition; jobs without lineage never match. It names nothing that no job has, and no order or page."""
    missing: bool = False
    """Only jobs without any log file left on disk."""

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

    def in_words(self) -> str:
        """Return the rules as a part of a sentence, such as `where optimizer is "Adam", without life for 90 days`."""
        rules = []
        if self.condition:
            rules.append(f"where {condition_in_words(self.condition)}")
        if self.older_than_s is not None:
            rules.append(f"without a sign of life for {_duration(self.older_than_s)}")
        if self.missing:
            rules.append("without any log file left on disk")
        return ", ".join(rules)


def _duration(seconds: float) -> str:
    return f"{seconds / 86_400:g} days" if seconds >= 86_400 else str(timedelta(seconds=seconds))


@dataclass(frozen=True, slots=True)
class Total:
    """Number of jobs, and the bytes of their log files."""

    jobs: int = 0
    log_bytes: int = 0
    removals: tuple[int, ...] = field(default=(), compare=False)
    """The numbers of the removals, one per base dir, by which all of these jobs can be brought back."""

    def plus(self, other: Total) -> Total:
        """Return the sum of both."""
        removals = (*self.removals, *other.removals)
        return Total(self.jobs + other.jobs, self.log_bytes + other.log_bytes, removals)


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What a clean-up was understood to mean, and what it would remove now."""

    rules: str
    """The rules in words."""
    going: Total
    jobs: int
    """Jobs of the base dirs in question."""
    live: int
    """Those of them that are live, and stay."""

    def __str__(self) -> str:
        if self.going.jobs == self.jobs > 0:
            return f"jobs {self.rules} (all {self.jobs:,} jobs)"
        if self.going.jobs == self.jobs - self.live > 0:
            return f"jobs {self.rules} (all {self.going.jobs:,} jobs that are not live)"
        return f"jobs {self.rules} ({self.going.jobs:,} of {self.jobs:,} jobs)"


@dataclass(frozen=True, slots=True)
class RemovableJob:
    """A job that a clean-up selects."""

    base_dir: str
    train_id: str
    state: str
    last_wall_time: float | None
    """Latest wall time of its events, unix time in seconds."""
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Restored:
    """What bringing back a removal came to."""

    base_dir: str
    jobs: int
    """Number of jobs that the next ingest reads again, with their labels and remarks."""
    gone: Sequence[str]
    """The ids of those that stay removed, because no log file of theirs is on disk: only the store had them."""


class _Job(Protocol):
    @property
    def log_bytes(self) -> int: ...


def total_of(jobs: Iterable[_Job]) -> Total:
    """Count jobs and their bytes, keeping none in memory."""
    count = log_bytes = 0
    for job in jobs:
        count, log_bytes = count + 1, log_bytes + job.log_bytes
    return Total(count, log_bytes)


class Removal:
    """Which jobs leave the store, and how they come back: `store.removal`. Log files are never touched.

    `base_dir` is one that the store knows, or None for all. Everywhere LineageParamSummaryPathError is raised when the
    store does not know it.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @property
    def _engine(self) -> Engine:
        return self._opened.engine

    @property
    def _policies(self) -> Settings:
        """The settings. Raises ConfigError if they have no policy."""
        require_policies(self._opened.settings)
        return self._opened.settings

    def find(self, clean_up: CleanUp, base_dir: PathLike | None = None) -> Iterator[RemovableJob]:
        """Yield the jobs that `remove` would remove.

        Raises:
            LineageParamValueError: the clean-up has no rule.
            LineageSearchConditionParamError: the condition is refused, names a metric or user-defined value that no job
                of the base dirs has, or has a part that restricts nothing.
            LineageParamSummaryPathError: the rule is `missing` and the log files of all jobs of the base dir are
                missing, as when a share is not mounted.
        """
        for place, rules in self._rules(clean_up, base_dir):
            for job in jobs_named_by(self._engine, place.id, rules):
                train_id = from_stored(job.train_id)
                yield RemovableJob(str(place.path), train_id, job.state, job.last_wall_time, job.log_bytes)

    def plan(self, clean_up: CleanUp, base_dir: PathLike | None = None) -> RemovalPlan:
        """Return how a clean-up is understood, in words, and how many jobs it would remove of how many.

        `str()` of it is one line, such as `jobs where optimizer is "Adam" (12 of 3,400 jobs)`. Raises as `find` does.
        """
        going = total_of(self.find(clean_up, base_dir))
        ids = [place.id for place in self._opened.base_dirs(base_dir)]
        jobs, live = self._opened.ask(lambda session: all_and_live(session, ids), self._engine)
        return RemovalPlan(clean_up.in_words(), going, jobs, live)

    def remove(
        self,
        clean_up: CleanUp,
        base_dir: PathLike | None = None,
        *,
        confirm: bool = False,
        progress: Callable[[Total], None] = lambda _: None,
    ) -> Total:
        """Remove jobs from the store, and leave tombstones, so that ingest does not read them again.

        The process may be killed at any moment: each job is then either untouched, invisible to readers, or removed.
        The next removal deletes the rows of invisible jobs. Returns the number of jobs, the bytes of their log files,
        which `progress` gets after each page of jobs, and the numbers by which `undo` brings them back. Raises as
        `find` does, LeaseHeldError while an ingester that is no daemon, or another removal, is running, and
        ClockDisagreesError if jobs are to go by age while the clock is further than eight days from what the store last
        wrote down.

        `confirm`: a person says that the clock is right.
        """
        named, settings, numbers = self._rules(clean_up, base_dir), self._opened.settings, list[int]()
        if clean_up.older_than_s is not None:
            self._require_right_clock([place for place, _ in named], confirmed=confirm)
        pages = (
            page
            for place, rules in named
            for page in remove(self._engine, place.id, rules, settings, numbers.append)
        )
        return _all_of(pages, numbers, progress)

    def expired(self, base_dir: PathLike | None = None) -> Iterator[ExpiredJob]:
        """Yield the jobs that `remove_expired` would remove, of each base dir the oldest first.

        They are named by the policies of the settings (`keep_…`); those that `waits` go only with `confirm`. Raises
        ConfigError if the settings have no policy.
        """
        policies = self._policies
        for place in self._opened.base_dirs(base_dir):
            most = policies_may_remove(self._engine, place.id)
            for number, job in enumerate(expired_by(self._engine, place.id, policies)):
                yield ExpiredJob.of(str(place.path), job, waits=number >= most)

    def remove_expired(
        self,
        base_dir: PathLike | None = None,
        *,
        confirm: bool = False,
        progress: Callable[[Total], None] = lambda _: None,
    ) -> Total:
        """Remove the jobs that the policies of the settings name, as a daemon does.

        In 24 hours no more than 10 jobs of a base dir go, or a tenth of its jobs if that is more, counted with what
        daemons removed. Tombstones, interruptions, result and `progress` as for `remove`. Raises as `expired` does,
        LeaseHeldError as `remove` does, and ClockDisagreesError while the clock is further than eight days from what
        the store last wrote down.

        `confirm`: a person says that all of these jobs may go, and that the clock is right.
        """
        policies, places, numbers = self._policies, self._opened.base_dirs(base_dir), list[int]()
        self._require_right_clock(places, confirmed=confirm)
        pages = (
            page
            for place in places
            for page in carry_out(self._engine, place.id, policies, confirmed=confirm, begun=numbers.append)
        )
        return _all_of(pages, numbers, progress)

    def long_series(self, base_dir: PathLike | None = None) -> Iterator[LongSeries]:
        """Yield the scalars that `thin` would thin. Raises as `expired` does."""
        policies = self._policies
        for place in self._opened.base_dirs(base_dir):
            for series in named_series(self._engine, place.id, policies):
                yield LongSeries.of(str(place.path), series, policies)

    def thin(
        self, base_dir: PathLike | None = None, *, progress: Callable[[ThinTotal], None] = lambda _: None
    ) -> ThinTotal:
        """Thin the scalars that the setting `keep_every_step_days` names: keep buckets and a few samples of each.

        The process may be killed at any moment: each series is then either complete or thinned. `Job.reingest` reads
        every step again while the log file exists. Raises as `expired` does, LeaseHeldError while an ingester that is
        no daemon is running, and ClockDisagreesError as `remove_expired` does.
        """
        policies, places, done = self._policies, self._opened.base_dirs(base_dir), ThinTotal()
        self._require_right_clock(places, confirmed=False)
        for place in places:
            for gone in thin_all(self._engine, place.id, policies):
                done = ThinTotal(done.series + bool(gone), done.samples + gone)
                progress(done)
        return done

    def removed(
        self, base_dir: PathLike | None = None, *, limit: int | None = None, page: int = 0
    ) -> list[RemovedJob]:
        """Return a page of the jobs that have a tombstone, latest first; `page` counts from 0, `limit` None: all."""
        return self._page(registry.latest, base_dir, Page(limit, page))

    def history(
        self, base_dir: PathLike | None = None, *, limit: int | None = None, page: int = 0
    ) -> list[PastRemoval]:
        """Return a page of what was removed at one time, latest first; pages as for `removed`."""
        return self._page(registry.removals, base_dir, Page(limit, page))

    def restore(self, base_dir: PathLike, train_id: str) -> bool:
        """Delete a job's tombstone, so that the next ingest reads its log files. Label and remark were kept.

        Returns whether any log file of it is on disk: without one it comes back only when its files do. Raises
        TrainJobNotFoundError without a tombstone, LeaseHeldError while an ingester that is no daemon is running.
        """
        (place,), settings = self._opened.base_dirs(base_dir), self._opened.settings
        if not restore_job(self._engine, place.id, stored_id(train_id), settings):
            raise TrainJobNotFoundError(
                f"No job {train_id} below {place.path} was removed.",
                hint="`lineage-store gc --removed` lists those.",
            )
        return bool(on_disk(place.path, [stored_id(train_id)], settings))

    def undo(self, number: int) -> Restored:
        """Delete the tombstones of all jobs of one removal, so that the next ingest reads their log files.

        Labels and remarks were kept, so the jobs have them again. A job without any log file on disk cannot come back:
        its tombstone stays. Raises TrainJobNotFoundError if there is no such removal, LineageParamSummaryPathError if
        its base dir cannot be listed, LeaseHeldError while an ingester that is no daemon is running.
        """
        found = self._opened.ask(lambda session: registry.of_removal(session, number), self._engine)
        if found is None:
            raise TrainJobNotFoundError(
                f"There is no removal {number}.", hint="`lineage-store gc --removals` lists those."
            )
        base_dir_id, path, train_ids = found
        base_dir, settings = Path(from_stored(path)), self._opened.settings
        there = on_disk(base_dir, train_ids, settings) if train_ids else set[str]()
        back = restore_all(self._engine, base_dir_id, there, settings) if there else 0
        gone = [from_stored(train_id) for train_id in train_ids if train_id not in there]
        return Restored(str(base_dir), back, gone)

    def _rules(self, clean_up: CleanUp, base_dir: PathLike | None) -> list[tuple[BaseDirRef, Rules]]:
        """Return the rules for each base dir, all of which are checked before the first job is removed."""
        places = self._opened.base_dirs(base_dir)
        rules = [(place, rules_of(self._engine, place.id, place.path, clean_up)) for place in places]
        require_names(self._engine, {place.id: place.path for place in places}, clean_up)
        return rules

    def _require_right_clock(self, places: Iterable[BaseDirRef], *, confirmed: bool) -> None:
        require_right_clock(self._engine, ((each.id, each.path) for each in places), confirmed=confirmed)

    def _page(self, query: Callable[..., list[R]], base_dir: PathLike | None, page: Page) -> list[R]:
        def answer(session: Session) -> list[R]:
            base_dir_id = None if base_dir is None else refs.base_dir(session, base_dir).id
            return query(session, base_dir_id, page=page)

        return self._opened.ask(answer)


def _all_of(
    pages: Iterable[Sequence[_Job]], numbers: Sequence[int], progress: Callable[[Total], None]
) -> Total:
    """Remove page after page, and return what went; `numbers` has those of the removals when all pages are."""
    done = Total()
    for page in pages:
        done = done.plus(total_of(page))
        progress(done)
    return Total(done.jobs, done.log_bytes, tuple(numbers))


# ---- By rules


def require_names(engine: Engine, base_dirs: Mapping[int, Path], clean_up: CleanUp) -> None:
    """Raise LineageSearchConditionParamError if no job of the base dirs has a name of the condition.

    Such a name counts as missing in every job: `metric/typo is null` would remove all of them.
    """
    if not clean_up.condition or not base_dirs:
        return
    condition = parse(clean_up.condition, base_dir=str(next(iter(base_dirs.values()))))
    with reading(engine) as session:
        vocabulary.require_known(session, subjects(condition.where), list(base_dirs))


def jobs_named_by(engine: Engine, base_dir_id: int, rules: Rules) -> Iterator[Removable]:
    """Yield every job that the rules select now, by ascending id."""
    after = 0
    while True:
        with reading(engine) as session:
            now = session.now()
            page = removable(session, base_dir_id, rules, now, after=after, limit=JOBS_AT_A_TIME)
        if not page:
            return
        yield from page
        after = page[-1].id


def remove(
    engine: Engine,
    base_dir_id: int,
    rules: Rules,
    settings: Settings,
    begun: Callable[[int], None] = lambda _: None,
) -> Iterator[Sequence[Removable]]:
    """Remove the jobs that the rules select; yield them by pages, once hidden. `begun` gets the removal's number."""
    with removing(engine, base_dir_id, settings) as (lead, leaving):
        cause, number, after = RemovalCause(rules.text, lead.holder), None, 0
        while True:
            page, number = _hide(engine, lead, leaving.base_dir_id, rules, after, cause, number)
            if not page:
                break
            yield page
            after = page[-1].id
    if number is not None:
        begun(number)


def require_right_clock(engine: Engine, base_dirs: Iterable[tuple[int, Path]], *, confirmed: bool) -> None:
    """Raise ClockDisagreesError if it disagrees with the store; `confirmed`: note that a person says it is right."""
    for base_dir_id, path in base_dirs:
        if confirmed:
            with writing(engine) as session:
                clock.confirm_clock(session, base_dir_id, session.now())
        with reading(engine) as session:
            off_s = clock.off_s(session, base_dir_id, session.now())
        if off_s is not None:
            raise ClockDisagreesError(
                f"The clock is {clock.offset_in_words(off_s)} the last write of the store to {path}, so nothing is "
                "removed by age: jobs would seem older or younger than they are.",
                hint="Set the clock right. If it is right, and the store was only idle for that long, confirm it: "
                "`lineage-store gc … --confirm`.",
            )


@contextmanager
def removing(engine: Engine, base_dir_id: int, settings: Settings) -> Iterator[tuple[Lease, Lease]]:
    """Hold the leases of a base dir and of its leaving jobs; afterwards, with only the latter, delete their rows."""
    lasts_s = settings.lease_s
    with writing(engine) as session:
        leaving_id = removal.ensure_leaving(session, base_dir_id, session.now())
    with hold_lease(engine, leaving_id, lasts_s, mode="once", before_daemons=True) as leaving:
        with hold_lease(engine, base_dir_id, lasts_s, mode="once", before_daemons=True) as lead:
            yield lead, leaving
        remove_rows(engine, leaving, settings.batch_rows)


def _hide(
    engine: Engine,
    lead: Lease,
    leaving_id: int,
    rules: Rules,
    after: int,
    cause: RemovalCause,
    number: int | None,
) -> tuple[list[Removable], int | None]:
    with writing(engine) as session:
        now = leases.confirm(session, lead)
        page = removable(session, lead.base_dir_id, rules, now, after=after, limit=JOBS_AT_A_TIME)
        jobs = [job.id for job in page]
        number = removal.begin_removal(session, lead.base_dir_id, leaving_id, jobs, cause, now, number)
    return page, number


def refuse_unmounted(engine: Engine, base_dir: Path, base_dir_id: int) -> None:
    """Raise LineageParamSummaryPathError if log files seem to be missing only because a share is not mounted."""
    with reading(engine) as session:
        present = any_present(session, base_dir_id)
    if os.path.isdir(base_dir) and present:
        return
    raise LineageParamSummaryPathError(
        f"No log file of any job below {base_dir} exists: the share is probably not mounted.",
        hint=f"Mount it; or, if all of them are gone, `lineage-store forget {base_dir}`.",
    )


def rules_of(engine: Engine, base_dir_id: int, base_dir: Path, clean_up: CleanUp) -> Rules:
    """Convert a clean-up to the rules for one base dir."""
    if not (clean_up.older_than_s is not None or clean_up.condition or clean_up.missing):
        raise LineageParamValueError("A clean-up without any rule would remove every job.")
    if clean_up.missing:
        refuse_unmounted(engine, base_dir, base_dir_id)
    among = None
    if clean_up.condition:
        condition = parse(clean_up.condition, base_dir=str(base_dir))
        require_meant(clean_up.condition)
        among = compile_all(condition.where, (), (base_dir_id,)).params(condition.values)
    return Rules(str(clean_up), clean_up.older_than_s, clean_up.missing, among)


def restore_job(engine: Engine, base_dir_id: int, train_id: str, settings: Settings) -> bool:
    """Remove the tombstone of a job (stored id), so that a daemon reads them again; return whether it had one."""
    return restore_all(engine, base_dir_id, [train_id], settings) > 0


def restore_all(engine: Engine, base_dir_id: int, train_ids: Collection[str], settings: Settings) -> int:
    """Remove the tombstones of jobs (stored ids) as `restore` does; return how many had one."""
    with (
        hold_lease(engine, base_dir_id, settings.lease_s, mode="once", before_daemons=True) as lease,
        writing(engine) as session,
    ):
        leases.confirm(session, lease)
        return removal.lift_all(session, base_dir_id, train_ids)


def on_disk(base_dir: Path, train_ids: Collection[str], settings: Settings) -> set[str]:
    """Return which of the jobs (stored ids) have a log file on disk."""
    try:
        return {file.train_id for file in find_files(base_dir, settings, only=train_ids).files}
    except OSError as error:
        raise LineageParamSummaryPathError(
            f"{base_dir} cannot be listed: {error.strerror or error}.", hint="Is the share mounted?"
        ) from error


# ---- Policies: those of the settings, applied now instead of by a daemon once an hour


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


def require_policies(settings: Settings) -> None:
    """Raise ConfigError if the settings have no policy."""
    if not has_policies(settings):
        raise ConfigError(
            "The settings have no policy: all jobs are kept.",
            hint="Set keep_days, keep_jobs, keep_store_bytes or keep_every_step_days; `lineage-store config show` "
            "shows them.",
        )


def expired_by(engine: Engine, base_dir_id: int, settings: Settings) -> Iterator[Expired]:
    """Yield every job of a base dir that the policies select now, the oldest first."""
    last = None
    while True:
        with reading(engine) as session:
            now = session.now()
            page = expired(session, base_dir_id, settings, now, limit=NAMED_AT_A_TIME, after=last)
        yield from page
        if len(page) < NAMED_AT_A_TIME:
            return
        last = page[-1]


def policies_may_remove(engine: Engine, base_dir_id: int) -> int:
    """Return how many jobs of a base dir the policies may remove now without a person's confirmation."""
    with reading(engine) as session:
        return removal.removable_by_policies(session, base_dir_id, session.now())


def carry_out(
    engine: Engine, base_dir_id: int, settings: Settings, *, confirmed: bool, begun: Callable[[int], None]
) -> Iterator[Sequence[Expired]]:
    """Remove the jobs that the policies select; yield them by pages, once hidden. `confirmed`: also those that wait."""
    most = None if confirmed else policies_may_remove(engine, base_dir_id)
    # Before taking the leases, to hold them briefly.
    named = list(islice(expired_by(engine, base_dir_id, settings), most))
    cause, number = policy_cause(named, confirmed=confirmed), None
    with removing(engine, base_dir_id, settings) as (lead, leaving):
        for begin in range(0, len(named), JOBS_AT_A_TIME):
            some = named[begin : begin + JOBS_AT_A_TIME]
            gone, number = take_out_of_sight(engine, lead, leaving, some, cause, number)
            yield gone
    if number is not None:
        begun(number)
    look_up_expired(engine, base_dir_id, settings)  # stores what waits now


def thin_all(engine: Engine, base_dir_id: int, settings: Settings) -> Iterator[int]:
    """Thin the series that the policies select; yield how many samples each lost: 0 if it changed meanwhile."""
    named = named_series(engine, base_dir_id, settings)
    while some := list(islice(named, _SERIES_A_LEASE)):
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once", before_daemons=True) as lead:
            yield from [thin_series(engine, lead, each.key, settings) for each in some]
