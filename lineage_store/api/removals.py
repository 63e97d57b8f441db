"""Remove jobs from a store, thin scalars, forget base dirs, and move base dirs to another path.

In: base dirs, rules, as people write them. Out: frozen reports. Promises: the name and docstring of a method say what
it removes; log files are never touched. Does not know SQL: `operations` does the work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_store.errors import TrainJobNotFoundError
from lineage_store.paths import PathLike, absolute_path, real_path
from lineage_store.store.catalog import refs
from lineage_store.store.catalog.refs import BaseDir
from lineage_store.store.opened import OpenedStore, all_asked_again, stored_id
from lineage_store.texts import from_stored

if TYPE_CHECKING:
    from lineage_store.operations.base_dirs import Move
    from lineage_store.operations.removal import (
        CleanUp,
        ExpiredJob,
        LongSeries,
        RemovableJob,
        Removal,
        RemovalPlan,
        RemovedJob,
        Restored,
        ThinTotal,
        Total,
    )
    from lineage_store.store.catalog.retention import Rules
    from lineage_store.store.writes.removal import Holdings


@all_asked_again
class Removals(OpenedStore):
    """A store from which jobs and base dirs can be removed."""

    def removable_jobs(self, clean_up: CleanUp, base_dir: PathLike | None = None) -> Iterator[RemovableJob]:
        """Yield the jobs that `remove_jobs` would remove, of one base dir or of all.

        Raises:
            LineageParamValueError: the clean-up has no rule.
            LineageSearchConditionParamError: the condition is refused, names a metric or user-defined value that no job
                of the base dirs has, or has a part that restricts nothing.
            LineageParamSummaryPathError: the store does not know the base dir; or the rule is `missing` and the log
                files of all its jobs are missing, as when a share is not mounted.
        """
        from lineage_store.operations import removal

        for place, rules in self._rules(clean_up, base_dir):
            for job in removal.named_by(self.engine, place.id, rules):
                train_id = from_stored(job.train_id)
                yield removal.RemovableJob(
                    str(place.path), train_id, job.state, job.last_wall_time, job.log_bytes
                )

    def removal_plan(self, clean_up: CleanUp, base_dir: PathLike | None = None) -> RemovalPlan:
        """Return how a clean-up is understood, in words, and how many jobs it would remove of how many.

        `str()` of it is one line, such as `jobs where optimizer is "Adam" (12 of 3,400 jobs)`. Raises as
        `removable_jobs` does.
        """
        from lineage_store.operations import removal

        going = removal.total(self.removable_jobs(clean_up, base_dir))
        return removal.plan(self.engine, [place.id for place in self._places(base_dir)], clean_up, going)

    def remove_jobs(
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
        which `progress` gets after each page of jobs, and the numbers by which `restore_removal` brings them back.
        Raises as `removable_jobs` does, LeaseHeldError while an ingester that is no daemon, or another removal, is
        running, and ClockDisagreesError if jobs are to go by age while the clock is further than eight days from what
        the store last wrote down.

        `confirm`: a person says that the clock is right.
        """
        from lineage_store.operations import removal

        done, numbers, named = removal.Total(), list[int](), self._rules(clean_up, base_dir)
        if clean_up.older_than_s is not None:
            timed = ((place.id, place.path) for place, _ in named)
            removal.require_right_clock(self.engine, timed, confirmed=confirm)
        for place, rules in named:
            for page in removal.remove(self.engine, place.id, rules, self.settings, numbers.append):
                done = done.plus(removal.total(page))
                progress(done)
        return removal.Total(done.jobs, done.log_bytes, tuple(numbers))

    def expired_jobs(self, base_dir: PathLike | None = None) -> Iterator[ExpiredJob]:
        """Yield the jobs that `remove_expired_jobs` would remove, of each base dir or of one, the oldest first.

        They are named by the policies of the settings (`keep_…`); those that `waits` go only with `confirm`. Raises
        ConfigError if the settings have no policy, LineageParamSummaryPathError when the store does not know the base
        dir.
        """
        from lineage_store.operations import removal

        removal.require(self.settings)
        for place in self._places(base_dir):
            may_go = removal.may_go(self.engine, place.id)
            for number, job in enumerate(removal.expired_by(self.engine, place.id, self.settings)):
                yield removal.ExpiredJob.of(str(place.path), job, waits=number >= may_go)

    def remove_expired_jobs(
        self,
        base_dir: PathLike | None = None,
        *,
        confirm: bool = False,
        progress: Callable[[Total], None] = lambda _: None,
    ) -> Total:
        """Remove the jobs that the policies of the settings name, as a daemon does.

        In 24 hours no more than 10 jobs of a base dir go, or a tenth of its jobs if that is more, counted with what
        daemons removed. Tombstones, interruptions, result and `progress` as for `remove_jobs`. Raises as `expired_jobs`
        does, LeaseHeldError as `remove_jobs` does, and ClockDisagreesError while the clock is further than eight days
        from what the store last wrote down.

        `confirm`: a person says that all of these jobs may go, and that the clock is right.
        """
        from lineage_store.operations import removal

        removal.require(self.settings)
        done, numbers, places = removal.Total(), list[int](), self._places(base_dir)
        timed = ((place.id, place.path) for place in places)
        removal.require_right_clock(self.engine, timed, confirmed=confirm)
        for place in places:
            pages = removal.carry_out(
                self.engine, place.id, self.settings, confirmed=confirm, begun=numbers.append
            )
            for page in pages:
                done = done.plus(removal.total(page))
                progress(done)
        return removal.Total(done.jobs, done.log_bytes, tuple(numbers))

    def long_series(self, base_dir: PathLike | None = None) -> Iterator[LongSeries]:
        """Yield the scalars that `thin_series` would thin, of one base dir or of all; raises as `expired_jobs` does."""
        from lineage_store.ingest.retention import named_series
        from lineage_store.operations import removal

        removal.require(self.settings)
        for place in self._places(base_dir):
            for series in named_series(self.engine, place.id, self.settings):
                yield removal.LongSeries.of(str(place.path), series, self.settings)

    def thin_series(
        self, base_dir: PathLike | None = None, *, progress: Callable[[ThinTotal], None] = lambda _: None
    ) -> ThinTotal:
        """Thin the scalars that the setting `keep_every_step_days` names: keep buckets and a few samples of each.

        The process may be killed at any moment: each series is then either complete or thinned. `reingest` reads every
        step again while the log file exists. Raises as `expired_jobs` does, LeaseHeldError while an ingester that is no
        daemon is running, and ClockDisagreesError as `remove_expired_jobs` does.
        """
        from lineage_store.operations import removal

        removal.require(self.settings)
        done, places = removal.ThinTotal(), self._places(base_dir)
        timed = ((place.id, place.path) for place in places)
        removal.require_right_clock(self.engine, timed, confirmed=False)
        for place in places:
            for gone in removal.thin_all(self.engine, place.id, self.settings):
                done = removal.ThinTotal(done.series + bool(gone), done.samples + gone)
                progress(done)
        return done

    def removed_jobs(
        self, base_dir: PathLike | None = None, *, limit: int | None = None, page: int = 0
    ) -> list[RemovedJob]:
        """Return the jobs that have a tombstone, of one base dir or of all, latest first; pages as for `train_jobs`."""
        from lineage_store.operations.removal import RemovedJob
        from lineage_store.store.catalog import registry
        from lineage_store.store.database.db import Page

        part = Page(limit, page)
        with self._reading() as session:
            base_dir_id = None if base_dir is None else refs.find(session, base_dir).id
            found = registry.latest(session, base_dir_id, page=part)
        return [
            RemovedJob(
                from_stored(each.base_dir),
                from_stored(each.train_id),
                each.removed_at,
                each.reason,
                each.removal_id,
            )
            for each in found
        ]

    def removals(
        self, base_dir: PathLike | None = None, *, limit: int | None = None, page: int = 0
    ) -> list[Removal]:
        """Return what was removed at one time, of one base dir or of all, latest first; pages as for `train_jobs`."""
        from lineage_store.operations.removal import Removal
        from lineage_store.store.catalog import registry
        from lineage_store.store.database.db import Page

        part = Page(limit, page)
        with self._reading() as session:
            base_dir_id = None if base_dir is None else refs.find(session, base_dir).id
            found = registry.removals(session, base_dir_id, page=part)
        return [
            Removal(
                each.id,
                from_stored(each.base_dir),
                each.removed_at,
                each.reason,
                "policies" if each.by_policy else "a person",
                each.holder,
                each.jobs,
                each.restorable,
            )
            for each in found
        ]

    def restore_removal(self, number: int) -> Restored:
        """Delete the tombstones of all jobs of one removal, so that the next ingest reads their log files.

        Labels and remarks were kept, so the jobs have them again. A job without any log file on disk cannot come back:
        its tombstone stays. Raises TrainJobNotFoundError if there is no such removal, LineageParamSummaryPathError if
        its base dir cannot be listed, LeaseHeldError while an ingester that is no daemon is running.
        """
        from lineage_store.operations import removal

        restored = removal.restore_removal(self.engine, number, self.settings)
        if restored is None:
            raise TrainJobNotFoundError(
                f"There is no removal {number}.", hint="`lineage-store gc --removals` lists those."
            )
        return restored

    def restore_job(self, base_dir: PathLike, train_id: str) -> bool:
        """Delete a job's tombstone, so that the next ingest reads its log files. Label and remark were kept.

        Returns whether any log file of it is on disk: without one it comes back only when its files do. Raises
        TrainJobNotFoundError without a tombstone, LeaseHeldError while an ingester that is no daemon is running.
        """
        from lineage_store.operations import removal

        place = self._place(base_dir)
        if not removal.restore(self.engine, place.id, stored_id(train_id), self.settings):
            raise TrainJobNotFoundError(
                f"No job {train_id} below {place.path} was removed.",
                hint="`lineage-store gc --removed` lists those.",
            )
        return bool(removal.on_disk(place.path, [stored_id(train_id)], self.settings))

    def holdings(self, base_dir: PathLike) -> Holdings:
        """Return what `forget` would remove. Raises LineageParamSummaryPathError for an unknown base dir."""
        from lineage_store.operations import base_dirs

        path = real_path(base_dir)
        return self._known(path, base_dirs.holdings(self.engine, path))

    def forget(self, base_dir: PathLike) -> Holdings:
        """Remove a base dir with all its jobs, remarks and labels from the store; log files stay.

        Raises LineageParamSummaryPathError when the store does not know it, LeaseHeldError when an ingester leads it.
        """
        from lineage_store.operations import base_dirs

        path = real_path(base_dir)
        return self._known(path, base_dirs.forget(self.engine, path, self.settings))

    def plan_move(self, old: PathLike, new: PathLike) -> Move:
        """Return what `move` would do. Raises as `move` does, but not for a lease or for missing log files."""
        from lineage_store.operations import base_dirs

        place = self._left(old)
        return base_dirs.plan(self.engine, place.id, place.path, real_path(new))

    def move(self, old: PathLike, new: PathLike, *, force: bool = False) -> Move:
        """Change the path of a base dir in the store, in one transaction; nothing is read again.

        `force`: even if log files that were read are missing below `new`. Raises LineageParamSummaryPathError when the
        store does not know `old`, or knows `new`, or `new` is no directory, lies in another base dir or lacks log
        files; LeaseHeldError when an ingester leads `old`.
        """
        from lineage_store.operations import base_dirs

        place = self._left(old)
        return base_dirs.move(self.engine, place.id, place.path, real_path(new), self.settings, force=force)

    def _left(self, old: PathLike) -> BaseDir:
        """Return the base dir at a path that may have become a symbolic link to the new place."""
        named = Path(os.path.normpath(absolute_path(old)))
        with self._reading(self.engine) as session:
            known = refs.find_all(session, None)
            return next((place for place in known if place.path == named), None) or refs.find(session, old)

    def _known(self, path: Path, found: Holdings | None) -> Holdings:
        if found is None:
            with self._reading() as session:
                raise refs.unknown(session, path)
        return found

    def _rules(self, clean_up: CleanUp, base_dir: PathLike | None) -> list[tuple[BaseDir, Rules]]:
        """Return the rules for each base dir, all of which are checked before the first job is removed."""
        from lineage_store.operations import removal

        places = self._places(base_dir)
        rules = [(place, removal.rules_of(self.engine, place.id, place.path, clean_up)) for place in places]
        removal.require_names(self.engine, {place.id: place.path for place in places}, clean_up)
        return rules

    def _places(self, base_dir: PathLike | None) -> list[BaseDir]:
        with self._reading(self.engine) as session:
            return refs.find_all(session, base_dir)

    def _place(self, base_dir: PathLike) -> BaseDir:
        with self._reading(self.engine) as session:
            return refs.find(session, base_dir)
