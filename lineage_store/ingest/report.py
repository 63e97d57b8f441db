"""The report of an ingest, in numbers and as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lineage_store.eventlog.formats import naming
from lineage_store.ingest.scan.discovery import ONE_JOB, SYMBOLIC_LINK
from lineage_store.store.records import Advance


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pass has come."""

    bytes_read: int
    events: int
    files_waiting: int


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of bringing a base dir up to date."""

    base_dir: str
    counts: Counts
    jobs: int
    pending_bytes: int
    problems: int
    seconds: float
    waiting_files: int = 0
    """Log files that were found and not yet read to their ends, because the pass was stopped."""
    known_at: str | None = None
    """Another base dir that has the same jobs, when this one is new to the store."""

    @property
    def complete(self) -> bool:
        """Whether no problem is open. Bytes that are not complete yet are no problem."""
        return self.problems == 0

    def __str__(self) -> str:
        counts = self.counts
        lines = [
            f"{self.base_dir}: {self.jobs:,} jobs, {counts.files_found:,} log files; read {counts.events:,} events "
            f"({counts.samples:,} samples, {counts.bytes_read:,} bytes) in {self.seconds:.2f} s."
        ]
        if self.waiting_files:
            lines.append(f"{self.waiting_files:,} log files wait to be read: ingest again, or run a daemon.")
        if self.pending_bytes:
            lines.append(f"{self.pending_bytes:,} bytes at the ends of files are not complete yet.")
        if self.problems:
            lines.append(
                f"{self.problems:,} problems are open: see `lineage-store status` or the view v_ingest_problem."
            )
        if counts.one_job:
            parent = Path(self.base_dir).parent
            lines.append(
                f"{ONE_JOB} To have {parent} as the base dir: `lineage-store forget {self.base_dir}`, then "
                f"`lineage-store ingest {parent}`."
            )
        if self.known_at:
            lines.append(
                f"Its jobs are known at {self.known_at} too. If that was renamed: `lineage-store forget "
                f"{self.base_dir}`, then `lineage-store move {self.known_at} {self.base_dir}`."
            )
        if counts.too_deep:
            lines.append(
                "No log file was found here or one level below, but deeper ones exist, such as "
                f"{', '.join(counts.too_deep)}: use --recursive (setting recursive = true)."
            )
        elif counts.files_found == 0 and (links := counts.ignored.get(SYMBOLIC_LINK)):
            lines.append(
                f"No log file was found, but {links} symbolic links: set follow_symlinks = true to follow those that "
                "stay inside the base dir."
            )
        elif counts.files_found == 0:
            lines.append(f"No log file was found. A log file's name has {naming()} in it.")
        return "\n".join(lines)


# ---- The numbers of files, bytes, events and samples of a pass


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a pass, or several, found and read."""

    files_found: int = 0
    files_read: int = 0
    bytes_read: int = 0
    events: int = 0
    samples: int = 0
    batches: int = 0
    batches_s: float = 0.0
    """How long writing the batches took, in seconds."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    too_deep: Sequence[str] = ()
    files_in_base_dir: int = 0
    """Log files that lie in the base dir itself."""

    @property
    def one_job(self) -> bool:
        """Whether the base dir looks like a job's directory."""
        return 0 < self.files_in_base_dir == self.files_found

    def found(self, more: Counts) -> Counts:
        """Return the sum of what this and `more`, of another part of the base dir, have found."""
        return replace(
            self,
            files_found=self.files_found + more.files_found,
            ignored=dict(Counter(self.ignored) + Counter(more.ignored)),
            too_deep=(*self.too_deep, *more.too_deep),
            files_in_base_dir=self.files_in_base_dir + more.files_in_base_dir,
        )

    def since(self, earlier: Counts) -> Counts:
        """Return what has been found and read since `earlier`, in the same pass."""
        names = ("files_found", "files_read", "bytes_read", "events", "samples", "batches", "batches_s")
        return replace(self, **{name: getattr(self, name) - getattr(earlier, name) for name in names})

    def plus(self, batch: Collection[Advance], *, files_read: int, took_s: float) -> Counts:
        """Return this with a batch added that was written in `took_s`; `files_read` is for all batches so far."""
        return replace(
            self,
            files_read=files_read,
            bytes_read=self.bytes_read
            + sum(advance.after.byte_offset - advance.file.byte_offset for advance in batch),
            events=self.events + sum(advance.rows.event_count for advance in batch),
            samples=self.samples + sum(advance.rows.sample_count for advance in batch),
            batches=self.batches + 1,
            batches_s=self.batches_s + took_s,
        )
