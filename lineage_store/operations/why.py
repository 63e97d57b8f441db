"""Explain why a file or a job is, or is not, in the store.

In: an engine, a path, settings. Out: a verdict with all findings, and what to do about them. Promises: applies the
same rules as ingest (names, depth, links, access) to the disk as it is now, and compares with the store; changes
nothing; no transaction is open while the disk is searched, which may take long. Does not read the contents of files;
`inspect` does.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Row

from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.eventlog import formats
from lineage_store.findings import Finding, finding, severity_of, with_places
from lineage_store.ingest.lease import overlapping
from lineage_store.ingest.problems import path_problems, unlistable_base_dir, unreadable_file
from lineage_store.ingest.scan.discovery import FoundFiles, deeper_jobs, in_snapshots, scan
from lineage_store.ingest.scan.survey import all_known_files
from lineage_store.paths import LinkError, OpenBaseDir, base_dir_above, opened, resolved
from lineage_store.states import FileState
from lineage_store.store.catalog import registry
from lineage_store.store.catalog.registry import RemovedJob
from lineage_store.store.database.db import reading
from lineage_store.texts import from_stored, to_stored


@dataclass(frozen=True, slots=True)
class Verdict:
    """How much of a path the store holds, and why."""

    path: str
    verdict: str
    """stored, partly stored, or not stored."""
    findings: tuple[Finding, ...]


def why(engine: Engine, path: Path, settings: Settings) -> Verdict:
    """Look at a path on disk and in the store. Raises LineageParamSummaryPathError if neither has it."""
    path = Path(os.path.abspath(path.expanduser()))
    place = _place(engine, path, settings)
    if place is None:
        return _outside(engine, path)
    if not place.parts:
        return _of_base_dir(engine, place)
    status = place.status()
    of_job = stat.S_ISDIR(status.st_mode) if status else formats.recognise(path.name) is None
    return (_of_job if of_job else _of_file)(engine, place)


def _place(engine: Engine, path: Path, settings: Settings) -> WhyPlace | None:
    with reading(engine) as session:
        known = {from_stored(stored): number for number, stored in registry.stored_base_dirs(session)}
    if (found := base_dir_above(path, known)) is None:
        return None
    base_dir, beneath = found
    parts, links = Path(beneath).parts, settings.follow_symlinks
    return WhyPlace(path, base_dir, known[str(base_dir)], parts, settings.recursive, links)


def _outside(engine: Engine, path: Path) -> Verdict:
    with reading(engine) as session:
        for base_dir in (path, *path.parents):
            if found := registry.moved_to(session, to_stored(str(base_dir))):
                now = Path(from_stored(found[1]))
                raise LineageParamSummaryPathError(
                    f"The base dir {base_dir} was moved to {now}.",
                    hint=f"Ask for {now / path.relative_to(base_dir)}.",
                )
        known = [from_stored(place) for _, place in registry.stored_base_dirs(session)]
    if not os.path.lexists(path):
        raise LineageParamSummaryPathError(
            f"{path} does not exist or may not be read, and the store does not know it.",
            hint="Give the path of a file or directory; `lineage-store jobs` lists jobs with their base dirs.",
        )
    if beneath := [each for each in known if Path(each).is_relative_to(path)]:
        above_them = finding("above_base_dirs", str(path), known=", ".join(beneath))
        return Verdict(str(path), "partly stored", (above_them,))
    above = path.parent if os.path.isdir(path) else path.parent.parent
    is_whole = above == above.parent  # nobody ingests the whole file system
    proposed = "BASE_DIR" if is_whole or overlapping(engine, above) else above
    outside = finding("outside_base_dirs", str(path), known=", ".join(known) or "none", base_dir=proposed)
    if not os.path.isdir(path) and (reason := formats.ignored_reason(path.name)):
        ignored = finding("ignored_name", str(path), reason=reason)
        return Verdict(str(path), "not stored", (replace(outside, remedy=""), ignored))
    return Verdict(str(path), "not stored", (outside,))


def _of_base_dir(engine: Engine, place: WhyPlace) -> Verdict:
    with reading(engine) as session:
        jobs = registry.job_count(session, place.base_dir_id)
        left = registry.unfinished(session, place.base_dir_id)
        removed = {to_stored(stone.train_id) for stone in registry.latest(session, place.base_dir_id)}
    known = {(file.train_id, file.name) for file in all_known_files(engine, place.base_dir_id)}
    subject, problems, pending = str(place.path), left.problems, left.pending_bytes
    case = "problems" if problems else ""
    given = [finding("base_dir_totals", subject, case=case, jobs=jobs, pending=pending, problems=problems)]
    on_disk, found = _look(place, None)
    unread = {(train_id, name) for train_id, name in found - known if train_id not in removed}
    if unread:
        given.append(_unread(place, unread))
    if removed:
        given.append(finding("removed_jobs", subject, count=len(removed)))
    complete = place.status() is not None and not (unread or pending or problems)
    return _verdict(place, [*given, *on_disk], complete, jobs > 0)


def _of_job(engine: Engine, place: WhyPlace) -> Verdict:
    train_id = place.train_id(place.parts)
    with reading(engine) as session:
        rows = registry.generations(session, place.base_dir_id, train_id)
        job_id = rows[0].job_id if rows else None
        stone = registry.of_job(session, place.base_dir_id, train_id)
        problems = registry.problems_of_job(session, place.base_dir_id, train_id, job_id)
        lacks_lineage = job_id is not None and not registry.has_lineage(session, job_id)
    way = list(of_way(place, place.parts))
    on_disk, found = ([], set()) if way else _look(place, train_id)
    # Behind a link that is not followed, `way` is the only finding about what is on disk.
    is_there = place.status() is not None or (way and os.path.lexists(place.path))
    if not (rows or stone or problems or is_there):
        raise LineageParamSummaryPathError(
            f"{place.path} does not exist or may not be read, and the store knows no such job."
        )
    given = [*way, *on_disk, *of_tombstone(place.path, stone)]
    unread = found - {(train_id, row.name) for row in rows}
    if unread and stone is None:
        given.append(_unread(place, unread))
    for row in rows:
        given += of_row(os.path.join(place.path, from_stored(row.name)), row)
    given += of_problems(place, problems)
    if lacks_lineage:
        given.append(finding("no_lineage", str(place.path)))
    complete = bool(rows) and not unread and all(_is_complete(row) for row in rows)
    return _verdict(place, given, complete, bool(rows))


def _of_file(engine: Engine, place: WhyPlace) -> Verdict:
    train_id, name = place.train_id(place.parts[:-1]), to_stored(place.parts[-1])
    with reading(engine) as session:
        stored = registry.generations(session, place.base_dir_id, train_id)
        rows = [row for row in stored if row.name == name]
        stone = registry.of_job(session, place.base_dir_id, train_id)
        file = (rows[-1].job_id, rows[-1].file_no) if rows else None
        problems = registry.problems_of_file(session, place.base_dir_id, train_id, name, file)
    given = [*of_way(place, place.parts[:-1]), *findings_of_file(place)]
    given += of_tombstone(place.path.parent, stone)
    if not rows and not given:
        given.append(_unread(place, {(train_id, name)}))
    for row in rows:
        prefix = f"Generation {row.generation}: " if len(rows) > 1 else ""
        found = of_row(str(place.path), row)
        given += [replace(each, what=f"{prefix}{each.what}") for each in found]
        given += of_growth(place, row)
    given += of_problems(place, problems)
    complete = bool(rows) and _is_complete(rows[-1])
    begun = any(row.byte_offset for row in rows)
    return _verdict(place, given, complete, begun)


def _verdict(place: WhyPlace, given: Sequence[Finding], complete: bool, begun: bool) -> Verdict:
    held = "stored" if complete else "partly stored" if begun else "not stored"
    return Verdict(str(place.path), held, tuple(given))


def _look(place: WhyPlace, train_id: str | None) -> tuple[list[Finding], set[tuple[str, str]]]:
    """Scan a job's directory (`train_id` None: the base dir); return findings and (job, name) of its log files."""
    if place.status() is None:
        return [finding("not_on_disk", str(place.path))], set()
    only, links = None if train_id is None else [train_id], place.follow_symlinks
    try:
        seen = scan(place.base_dir, recursive=place.recursive, follow_symlinks=links, only=only)
    except OSError as error:
        return [unlistable_base_dir(str(place.base_dir), error, str(place.base_dir))], set()
    return list(of_directory(place, seen)), {(file.train_id, file.name) for file in seen.files}


def _unread(place: WhyPlace, files: set[tuple[str, str]]) -> Finding:
    example = from_stored("/".join(min(files)))
    return finding("unread", str(place.path), files=len(files), example=example)


def _is_complete(row: Row[Any]) -> bool:
    """Return whether all of a log file is in the store, without gaps; a superseded generation counts as complete."""
    superseded = row.state == FileState.REPLACED
    return superseded or (row.byte_offset == row.size_bytes and not row.quarantined_bytes)


# ---- The single checks of `why`, one function each
# In: a place on disk, rows of `log_file`. Out: findings, none if all is well. Promises: checks of the disk look at
# its present state; `of_row`, `of_tombstone` and `of_problems` are pure. Does not query the database.


@dataclass(frozen=True, slots=True)
class WhyPlace:
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


def of_way(place: WhyPlace, parts: tuple[str, ...]) -> Iterator[Finding]:
    """Yield what is wrong with the path from the base dir to a job's directory."""
    if in_snapshots(parts):
        yield finding("in_snapshots", str(place.path))
    if len(parts) > 1 and not place.recursive:
        yield finding("too_deep", str(place.path), levels=len(parts), base_dir=place.base_dir)
    yield from _of_links(place, parts)


def of_directory(place: WhyPlace, seen: FoundFiles) -> Iterator[Finding]:
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


def findings_of_file(place: WhyPlace) -> Iterator[Finding]:
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
        yield finding("unreadable_file", subject, reason="It could not be read at the last check.")
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


def of_tombstone(directory: Path, stone: RemovedJob | None) -> Iterator[Finding]:
    """Yield that the job was removed, if it was."""
    if stone is not None:
        reason, at = from_stored(stone.reason), stone.removed_at
        yield finding("removed_job", str(directory), removed_at=at, reason=reason, directory=directory)


def of_problems(place: WhyPlace, problems: Iterable[Row[Any]]) -> Iterator[Finding]:
    """Yield the open problems, about the paths that they name."""
    for row in problems:
        subject, severity = _path(place, row.path), severity_of(row.kind)
        what = with_places(row.reason, row._mapping["count"], row.bytes)
        yield Finding(row.kind, subject, severity, f"Open problem: {what}", row.remedy)


def of_growth(place: WhyPlace, row: Row[Any]) -> Iterator[Finding]:
    """Yield by how much the file has grown since ingest last looked, if it has."""
    status = place.status()
    if status and row.current and (more := status.st_size - row.size_bytes) > 0:
        yield finding("grown", str(place.path), more=more)


def _path(place: WhyPlace, stored: str) -> str:
    """Return the absolute path of a stored relative path."""
    return os.path.normpath(os.path.join(place.base_dir, from_stored(stored)))


def _of_links(place: WhyPlace, parts: tuple[str, ...]) -> Iterator[Finding]:
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
