"""The single checks of `why`, one function each.

In: a place on disk, rows of `log_file`. Out: findings, none if all is well. Promises: checks of the disk
look at its present state; `of_row`, `of_tombstone` and `of_problems` are pure. Does not query the database.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Row

from lineage_store.beneath import LinkError, OpenBaseDir, opened, resolved
from lineage_store.eventlog import formats
from lineage_store.findings import Finding, finding, severity_of, with_places
from lineage_store.ingest.problems import path_problems, unreadable_file
from lineage_store.ingest.scan.depth import deeper_jobs, in_snapshots
from lineage_store.ingest.scan.discovery import Found
from lineage_store.states import FileState
from lineage_store.store.catalog.tombstones import Tombstone
from lineage_store.texts import from_stored, to_stored


@dataclass(frozen=True, slots=True)
class Place:
    """A path, with its base dir in the store and its parts relative to the base dir."""

    path: Path
    base_dir: Path
    base_dir_id: int
    parts: tuple[str, ...]
    recursive: bool
    follow_symlinks: bool
    """The settings of these names."""

    def train_id(self, parts: tuple[str, ...]) -> str:
        """Return the stored id of the job at these parts."""
        return "./" + to_stored("/".join(parts))

    @property
    def beneath(self) -> str:
        """Its path relative to the base dir."""
        return "/".join(self.parts)

    def opened(self) -> AbstractContextManager[OpenBaseDir]:
        """Open its base dir."""
        return opened(self.base_dir, follow_symlinks=self.follow_symlinks)

    def status(self) -> os.stat_result | None:
        """Return the status of the path; None if it does not exist, may not be read or is behind an unfollowed link."""
        with suppress(OSError), self.opened() as root:
            return root.status(self.beneath)
        return None


def of_way(place: Place, parts: tuple[str, ...]) -> Iterator[Finding]:
    """Yield what is wrong with the path from the base dir to a job's directory."""
    if in_snapshots(parts):
        yield finding("in_snapshots", str(place.path))
    if len(parts) > 1 and not place.recursive:
        yield finding("too_deep", str(place.path), levels=len(parts), base_dir=place.base_dir)
    yield from _of_links(place, parts)


def of_directory(place: Place, seen: Found) -> Iterator[Finding]:
    """Yield what a scan of a directory has shown."""
    subject = str(place.path)
    for problem in path_problems(place.base_dir, seen.unreadable):
        yield replace(problem, subject=_path(place, problem.subject))
    for reason, count in seen.ignored.items():
        yield finding("ignored_entries", subject, count=count, reason=reason)
    deeper = ", ".join(map(from_stored, deeper_jobs(place.base_dir, 0 if place.parts else 1, place.beneath)))
    if deeper and not place.recursive:
        yield finding("deeper_log_files", subject, where=deeper)
    elif deeper and not seen.files:
        yield finding("jobs_below", subject, where=deeper)
    elif not seen.files and not seen.unreadable:
        yield finding("no_log_file", subject, naming=formats.naming())


def of_file(place: Place) -> Iterator[Finding]:
    """Yield what is wrong with a file on disk."""
    subject = str(place.path)
    if reason := formats.ignored_reason(place.parts[-1]):
        yield finding("ignored_name", subject, reason=reason)
    links = list(_of_links(place, place.parts))
    if links:
        yield from links
        return
    try:
        with place.opened() as root:
            if not stat.S_ISREG(root.status(place.beneath).st_mode):
                yield finding("no_regular_file", subject)
                return
            with root.file(place.beneath):
                pass
    except FileNotFoundError:
        yield finding("not_on_disk", subject)
    except OSError as error:
        train_id, name = place.train_id(place.parts[:-1]), to_stored(place.parts[-1])
        yield unreadable_file(place.base_dir, train_id, name, error)


def of_row(subject: str, row: Row[Any]) -> Iterator[Finding]:
    """Yield what the store knows about one generation of a log file."""
    if row.copy_of is not None:
        yield finding("copy_of_another", subject, position=row.byte_offset, size=row.size_bytes)
    else:
        yield from _of_generation(subject, row)


def _of_generation(subject: str, row: Row[Any]) -> Iterator[Finding]:
    pending = row.size_bytes - row.byte_offset
    if row.state == FileState.REPLACED or (row.state != FileState.REPLACING and not row.current):
        yield finding("old_generation", subject)
        return
    if row.state == FileState.REPLACING:
        yield finding("new_generation" if row.suspect_since is None else "kept_back", subject)
    if row.state == FileState.MISSING:
        yield finding("missing_file", subject)
    elif row.state == FileState.UNREADABLE:
        yield finding("unreadable_file", subject, reason="It could not be read when last looked at.")
    elif row.state == FileState.TORN:
        yield finding("torn_file", subject, pending=pending)
    elif row.state == FileState.SUSPECT:
        since = row.suspect_since
        yield finding("suspect_bytes", subject, since=since, position=row.byte_offset, reason="no frame")
    elif pending and row.suspect_since is None:
        yield finding("waits" if row.stat_stamp is None else "incomplete_frame", subject, pending=pending)
    if row.quarantined_bytes:
        yield finding("given_up", subject, count=row.quarantined_bytes)
    if row.byte_offset:
        position, size = row.byte_offset, row.size_bytes
        yield finding("stored", subject, events=row.event_count, position=position, size=size)


def of_tombstone(directory: Path, stone: Tombstone | None) -> Iterator[Finding]:
    """Yield that the job was removed, if it was."""
    if stone is not None:
        reason, at = from_stored(stone.reason), stone.removed_at
        yield finding("removed_job", str(directory), removed_at=at, reason=reason, directory=directory)


def of_problems(place: Place, problems: Iterable[Row[Any]]) -> Iterator[Finding]:
    """Yield the open problems, about the paths that they name."""
    for row in problems:
        subject, severity = _path(place, row.path), severity_of(row.kind)
        what = with_places(row.reason, row._mapping["count"], row.bytes)
        yield Finding(row.kind, subject, severity, f"Open problem: {what}", row.remedy)


def of_growth(place: Place, row: Row[Any]) -> Iterator[Finding]:
    """Yield by how much the file has grown since ingest last looked, if it has."""
    status = place.status()
    if status and row.current and (more := status.st_size - row.size_bytes) > 0:
        yield finding("grown", str(place.path), more=more)


def _path(place: Place, stored: str) -> str:
    """Return the absolute path of a stored relative path."""
    return os.path.normpath(os.path.join(place.base_dir, from_stored(stored)))


def _of_links(place: Place, parts: tuple[str, ...]) -> Iterator[Finding]:
    """Yield the first symbolic link in the path that is not followed, if there is one."""
    try:
        with place.opened() as root:
            root.status("/".join(parts))
    except LinkError as error:
        step = os.path.join(place.base_dir, error.filename)
        target = resolved(step)
        if not target.startswith(os.path.join(place.base_dir, "")):
            yield finding("link_out", str(place.path), step=step, target=target)
        elif not place.follow_symlinks:
            yield finding("unfollowed_link", str(place.path), step=step)
    except OSError:
        pass  # reported by the checks of the place itself
