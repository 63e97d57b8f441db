"""Problems of ingest and what to do about them: list them, explain, verify, and read log files again.

In: `Repair`, the noun of `LineageStore`, takes an open store and paths as people write them; the functions take an
engine and which files. Out: problems, verdicts, what was read again. Promises: queries return a file's old rows until
it has been read again to its end, never a mix; labels and remarks stay; a daemon gives up its lease meanwhile; after an
interruption the next pass continues. Does not repair anything on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError, TrainJobNotFoundError
from lineage_store.fields import less_is_better
from lineage_store.findings import Finding
from lineage_store.ingest import copies, pipeline
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.pipeline import Ingester, record_cycle, run_listing
from lineage_store.ingest.report import Counts
from lineage_store.ingest.scan.survey import all_known_files
from lineage_store.operations.verify import FileVerdict, verify
from lineage_store.operations.why import Verdict, why
from lineage_store.paths import PathLike, absolute_path
from lineage_store.query import status
from lineage_store.states import FileState
from lineage_store.store import leases
from lineage_store.store.catalog import audit, refs, registry
from lineage_store.store.database.db import Page, reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.opened import Opened
from lineage_store.store.records import KnownFile, relative_path
from lineage_store.store.writes import file_rows, jobs, removal
from lineage_store.store.writes.file_rows import in_trouble, look_again
from lineage_store.store.writes.lineage import rewrite_summaries
from lineage_store.texts import to_stored


@dataclass(frozen=True, slots=True)
class Reread:
    """What was read again."""

    tried: int
    """Number of log files that were retried."""
    from_start: int
    """Number of them that were read from their first byte."""
    bytes_read: int = 0
    events: int = 0
    kept_back: int = 0
    """Number of log files of which readers still see what was read before."""

    def plus(self, other: Reread) -> Reread:
        """Return the sum of both."""
        return Reread(
            self.tried + other.tried,
            self.from_start + other.from_start,
            self.bytes_read + other.bytes_read,
            self.events + other.events,
            self.kept_back + other.kept_back,
        )


class Repair:
    """What is wrong with log files and jobs, and how it is put right: `store.repair`.

    `base_dir` is one that the store knows, or None for all. Everywhere LineageParamSummaryPathError is raised when the
    store does not know it. What compares with the disk asks the primary, because a standby may lag.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def problems(
        self,
        base_dir: PathLike | None = None,
        *,
        resolved: bool = False,
        limit: int | None = None,
        page: int = 0,
    ) -> Sequence[Finding]:
        """Return a page of the open problems of ingest, newest first; `resolved`: resolved ones too.

        One is about all places of a log file that have it. Of a job with very many problems some are listed, and one
        says how many are not (`problems`). `page` counts from 0; `limit` None: all.
        """
        part = Page(limit, page)
        return self._of(base_dir, partial(status.read_problems, resolved=resolved, page=part))

    def some_problems(
        self, base_dir: PathLike | None = None, *, resolved: bool = False, most: int = 100
    ) -> Sequence[Finding]:
        """Return at most `most` of the problems that `problems` returns, newest first: of every job some."""
        return self._of(base_dir, partial(status.read_some_problems, most=most, resolved=resolved))

    def problems_below(self, path: PathLike | None = None) -> Sequence[Finding]:
        """Return the open problems of a log file, or of a job or base dir with everything in it; None: all problems."""
        if path is None:
            return self.problems()

        def answer(session: Session) -> Sequence[Finding]:
            return status.read_problems_below(session, to_stored(str(refs.spelling(session, path))))

        return self._opened.ask(answer)

    def why(self, path: PathLike) -> Verdict:
        """Say why a file or job is or is not in the store. Raises LineageParamSummaryPathError for an invalid path."""
        return why(self._opened.engine, absolute_path(path), self._opened.settings)

    def verify(self, base_dir: PathLike | None = None, *, sample: int | None = None) -> Iterator[FileVerdict]:
        """Read log files of a base dir, or of all base dirs, and compare them with the store.

        `sample`: only so many files of each base dir, chosen at random.
        """
        opened = self._opened
        for place in opened.base_dirs(base_dir):
            yield from verify(opened.engine, place.path, place.id, opened.settings, sample=sample)

    def retry(self, path: PathLike | None = None) -> Reread:
        """Retry log files with problems: one log file, or those of a job or base dir; None: of all base dirs.

        Files that lost bytes are read from the start. A daemon yields its lease meanwhile.

        Raises LineageParamSummaryPathError for a path outside the store's base dirs, LeaseHeldError while another
        ingester that is no daemon is running.
        """
        engine, places = self._opened.engine, self._opened.base_dirs()
        wanted = (
            None if path is None else self._opened.ask(lambda session: refs.spelling(session, path), engine)
        )
        if wanted is not None:
            places = [place for place in places if place.path in (wanted, *wanted.parents)]
            if not places:
                raise LineageParamSummaryPathError(
                    f"{wanted} is not below a base dir of the store.", hint="`lineage-store why` explains it."
                )
        total = Reread(0, 0)
        for place in places:
            within = None if wanted in (None, place.path) else wanted.relative_to(place.path).as_posix()
            only = None if within is None else below(to_stored(within))
            total = total.plus(retry(self._opened.engine, place.path, place.id, self._opened.settings, only))
        return total

    def choose_best(self) -> int:
        """Choose the best result of each metric again by the setting `less_is_better`; return how many jobs changed.

        A daemon yields its lease meanwhile. Raises LeaseHeldError while an ingester that is no daemon is running.
        """
        return choose_best(self._opened.engine, self._opened.settings)

    def _of(
        self, base_dir: PathLike | None, read: Callable[[Session, str | None], Sequence[Finding]]
    ) -> Sequence[Finding]:
        """Return what `read` returns for a base dir as the store spells it."""

        def answer(session: Session) -> Sequence[Finding]:
            place = None if base_dir is None else refs.base_dir(session, base_dir)
            return read(session, None if place is None else to_stored(str(place.path)))

        return self._opened.ask(answer)


def retry(
    engine: Engine,
    base_dir: Path,
    base_dir_id: int,
    settings: Settings,
    only: Callable[[KnownFile], bool] | None,
) -> Reread:
    """Try again the files in trouble that `only` accepts (None: all); those with bytes given up, from the start."""
    with _ingester(engine, base_dir, base_dir_id, settings) as this:
        files = all_known_files(engine, base_dir_id)
        troubled = [file for file in files if in_trouble(file) and (only is None or only(file))]
        damaged = [file for file in troubled if file.quarantined_bytes and file.state != FileState.MISSING]
        among = None if only is None else {file.train_id for file in troubled}
        _begin(this, troubled, damaged)
        counts = _pass(this, among)
        with reading(engine) as session:
            kept_back = _kept_back(
                registry.known_files(session, base_dir_id, {file.train_id for file in damaged})
            )
    return Reread(len(troubled), len(damaged), counts.bytes_read, counts.events, kept_back)


def reingest(engine: Engine, base_dir: Path, base_dir_id: int, train_id: str, settings: Settings) -> Reread:
    """Read a job (stored id), even a removed one, from the first byte of every log file that is on disk."""
    with _ingester(engine, base_dir, base_dir_id, settings) as this:
        with writing(engine) as session:
            leases.confirm(session, this.lease)
            removal.lift(session, base_dir_id, train_id)
        again = begin_anew(this, [train_id])
        counts = _pass(this, [train_id])
        with reading(engine) as session:
            known = registry.job_id(session, base_dir_id, train_id) is not None
            kept_back = _kept_back(registry.known_files(session, base_dir_id, [train_id]))
    if not known:
        raise TrainJobNotFoundError(
            f"Neither the store nor {base_dir} has a job {train_id}.", hint="`lineage-store jobs` lists them."
        )
    return Reread(again, again, counts.bytes_read, counts.events, kept_back)


def _kept_back(files: Sequence[KnownFile]) -> int:
    """How many files have a new generation that readers do not see yet."""
    return sum(not file.current for file in files)


def begin_anew(this: Ingester, train_ids: Collection[str]) -> int:
    """Start a new generation of every log file of some jobs (stored ids); return the number of files.

    Queries return the old generation until the new one has been read.
    """
    with reading(this.engine) as session:
        files = registry.known_files(session, this.lease.base_dir_id, train_ids)
    again = [file for file in files if file.byte_offset and file.state != FileState.MISSING]
    _begin(this, files, again)
    return len(again)


@contextmanager
def _ingester(engine: Engine, base_dir: Path, base_dir_id: int, settings: Settings) -> Iterator[Ingester]:
    """Hold the lease of a base dir, and yield an ingester for it."""
    with hold_lease(
        engine, base_dir_id, settings.lease_s, mode="once", base_dir=base_dir, before_daemons=True
    ) as lease:
        yield Ingester(engine, base_dir, lease, settings)


def _begin(this: Ingester, files: Sequence[KnownFile], anew: Sequence[KnownFile]) -> None:
    """Have the next pass look at `files` again, and read those that are also in `anew` from the start."""
    with writing(this.engine) as session:
        leases.confirm(session, this.lease)
        look_again(session, this.lease.base_dir_id, files)
    if anew:
        copies.start_generations(this.engine, this.lease, anew)


def _pass(this: Ingester, among: Collection[str] | None) -> Counts:
    """Run a pass over these jobs (None: the whole base dir), and remove the rows of replaced generations."""
    with record_cycle(this.engine, this.lease, this.settings.cycle_history) as record:
        recorded = replace(this, record=record.so_far)
        counts = run_listing(this.base_dir, partial(pipeline.run_pass, recorded, only=among))
        record.finish(counts)
    more = True
    while more:
        with writing(this.engine) as session:
            leases.confirm(session, this.lease)
            mine = this.lease.base_dir_id, this.lease.shards
            more = file_rows.remove_replaced(session, *mine, this.settings.batch_rows)
    return counts


def below(path: str) -> Callable[[KnownFile], bool]:
    """Return a predicate: whether a file is at `path` (relative to the base dir, stored text) or beneath it."""

    def admits(file: KnownFile) -> bool:
        place = relative_path(file.train_id, file.name)
        return place == path or place.startswith(f"{path}/")

    return admits


# ---- The best results of jobs, chosen again after the setting `less_is_better` was changed. Log files are not read;
# only jobs whose best result changes are written, in batches, and listed as changed.


JOBS_AT_A_TIME = 500


def choose_best(engine: Engine, settings: Settings) -> int:
    """Update every job whose best results are not as the settings say; return their number."""
    is_less = less_is_better(settings.less_is_better)
    with reading(engine) as session:
        metrics = [metric for metric, _ in audit.chosen_otherwise(session, is_less)]
        places = registry.stored_base_dirs(session) if metrics else []
    count = 0
    for base_dir_id, _ in places:
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once", before_daemons=True) as lease:
            with reading(engine) as session:
                changed = sorted(audit.jobs_chosen_otherwise(session, base_dir_id, metrics, is_less))
            for first in range(0, len(changed), JOBS_AT_A_TIME):
                some = changed[first : first + JOBS_AT_A_TIME]
                with writing(engine) as session:
                    leases.confirm(session, lease)
                    rewrite_summaries(session, some, is_less)
                    jobs.stamp(session, base_dir_id, some)
            count += len(changed)
    return count
