"""The report of an ingest, in numbers and as text for people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lineage_store.eventlog.formats import naming
from lineage_store.ingest.counts import Counts
from lineage_store.ingest.scan.depth import ONE_JOB
from lineage_store.ingest.scan.discovery import SYMBOLIC_LINK


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
