"""What an ingest would do: the same search and the same comparison, without writing anything.

In: an engine and a base dir. Out: the paths of the files that are new, changed, unchanged and missing, and how many
bytes would be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.ingest.base_dirs import stored_path
from lineage_store.ingest.scan import survey
from lineage_store.ingest.scan.depth import ONE_JOB, is_one_job
from lineage_store.ingest.scan.diff import Change, diff
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import reading
from lineage_store.store.records import relative_path
from lineage_store.texts import from_stored


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What an ingest would do."""

    base_dir: str
    paths: Mapping[str, Sequence[str]]
    """The log files' paths below the base dir, by how they compare with the store: `new`, `unchanged`, …"""
    bytes_to_read: int
    ignored: Mapping[str, int]
    too_deep: Sequence[str]
    one_job: bool
    """Whether the base dir looks like a job's directory."""

    def __str__(self) -> str:
        lines = [f"{self.base_dir}: {self.bytes_to_read:,} bytes to read."]
        lines += [f"  {len(paths):>8,} files {word}" for word, paths in self.paths.items()]
        lines += [f"  {count:>8,} ignored: {reason}" for reason, count in self.ignored.items()]
        if self.one_job:
            lines.append(f"{ONE_JOB} Ingest {Path(self.base_dir).parent} instead.")
        if self.too_deep:
            lines.append(
                f"Log files lie deeper than one level, such as in {', '.join(self.too_deep)}: use --recursive."
            )
        return "\n".join(lines)


def plan(engine: Engine, base_dir: Path, settings: Settings) -> IngestPlan:
    """Compare disk and store. Raises LineageParamSummaryPathError when the base dir cannot be listed."""
    try:
        found = survey.find(base_dir, settings)
    except OSError as error:
        raise LineageParamSummaryPathError(
            f"{base_dir} cannot be listed: {error.strerror}.",
            hint="Give the directory of the job directories. Is the share mounted, and may this user read it?",
        ) from error
    with reading(engine) as connection:
        base_dir_id = registry.base_dir_id(connection, stored_path(base_dir))
    paths: dict[str, list[str]] = defaultdict(list)
    to_read = 0
    known = () if base_dir_id is None else survey.known_files(engine, base_dir_id)
    for change in diff(found.files, known):
        path = relative_path(change.file.train_id, change.file.name)
        paths[change.change.value].append(from_stored(path))
        if change.found is not None and change.change in (Change.NEW, Change.LOOK):
            read = change.known.byte_offset if change.known else 0
            to_read += max(0, change.found.sight.size_bytes - read)
    deep, one_job = tuple(found.too_deep), is_one_job({file.train_id for file in found.files})
    return IngestPlan(str(base_dir), dict(paths), to_read, dict(found.ignored), deep, one_job)
