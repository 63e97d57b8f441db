"""Read log files again: those in trouble, or all files of a job from their first byte.

In: an engine, and which files. Out: what was read again. Promises: queries return a file's old rows until it has been
read again to its end, never a mix; labels and remarks stay; a daemon gives up its lease meanwhile; after an
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
from lineage_store.errors import TrainJobNotFoundError
from lineage_store.fields import less_is_better
from lineage_store.ingest import copies, pipeline
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.pipeline import Ingester, record_cycle, run_listing
from lineage_store.ingest.report import Counts
from lineage_store.ingest.scan.survey import all_known_files
from lineage_store.states import FileState
from lineage_store.store import leases
from lineage_store.store.catalog import audit, registry
from lineage_store.store.database.db import reading, writing
from lineage_store.store.records import KnownFile, relative_path
from lineage_store.store.writes import file_rows, removal
from lineage_store.store.writes import jobs as revisions
from lineage_store.store.writes.file_rows import in_trouble, look_again
from lineage_store.store.writes.lineage import rewrite_summaries


@dataclass(frozen=True, slots=True)
class Reread:
    """What was read again."""

    tried: int
    """Number of log files that were tried again."""
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


def retry(
    engine: Engine,
    base_dir: Path,
    base_dir_id: int,
    settings: Settings,
    only: Callable[[KnownFile], bool] | None,
) -> Reread:
    """Try the files in trouble again: those that `only` accepts; None: all files and directories of the base dir.

    Files with bytes that were given up are read from the start, as they may have been repaired. Raises LeaseHeldError
    if an ingester other than a daemon leads, LineageParamSummaryPathError if the base dir cannot be listed.
    """
    with _ingester(engine, base_dir, base_dir_id, settings) as this:
        files = all_known_files(engine, base_dir_id)
        troubled = [file for file in files if in_trouble(file) and (only is None or only(file))]
        damaged = [file for file in troubled if file.quarantined_bytes and file.state != FileState.MISSING]
        jobs = None if only is None else {file.train_id for file in troubled}
        _begin(this, troubled, damaged)
        counts = _pass(this, jobs)
        with reading(engine) as session:
            kept_back = _kept_back(
                registry.known_files(session, base_dir_id, {file.train_id for file in damaged})
            )
    return Reread(len(troubled), len(damaged), counts.bytes_read, counts.events, kept_back)


def reingest(engine: Engine, base_dir: Path, base_dir_id: int, train_id: str, settings: Settings) -> Reread:
    """Read a job (stored id), even a removed one, from the first byte of every log file.

    Files that are no longer on disk keep their rows. Raises the same errors as `retry`, and TrainJobNotFoundError if
    neither the store nor the disk has such a job.
    """
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


def _pass(this: Ingester, jobs: Collection[str] | None) -> Counts:
    """Run a pass over these jobs (None: the whole base dir), and remove the rows of replaced generations."""
    with record_cycle(this.engine, this.lease, this.settings.cycle_history) as record:
        recorded = replace(this, record=record.so_far)
        counts = run_listing(this.base_dir, partial(pipeline.run_pass, recorded, only=jobs))
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


# ---- Choose the best results of jobs again, after the setting `less_is_better` was changed
# In: an engine, settings. Out: the number of jobs whose best result is another now. Promises: log files are not read;
# only jobs whose best result changes are written, in batches, and listed as changed; after an interruption, running
# it again does the rest.


JOBS_AT_A_TIME = 500


def choose_best(engine: Engine, settings: Settings) -> int:
    """Update every job whose best results are not as the settings say; return their number.

    Raises LeaseHeldError if an ingester other than a daemon leads a base dir.
    """
    is_less = less_is_better(settings.less_is_better)
    with reading(engine) as session:
        metrics = [metric for metric, _ in audit.chosen_otherwise(session, is_less)]
        places = registry.base_dirs(session) if metrics else []
    count = 0
    for base_dir_id, _ in places:
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once", before_daemons=True) as lease:
            with reading(engine) as session:
                jobs = sorted(audit.jobs_chosen_otherwise(session, base_dir_id, metrics, is_less))
            for first in range(0, len(jobs), JOBS_AT_A_TIME):
                some = jobs[first : first + JOBS_AT_A_TIME]
                with writing(engine) as session:
                    leases.confirm(session, lease)
                    rewrite_summaries(session, some, is_less)
                    revisions.stamp(session, base_dir_id, some)
            count += len(jobs)
    return count
