"""Explain why a file or a job is, or is not, in the store.

In: an engine, a path, settings. Out: a verdict with all findings, and what to do about them. Promises: applies the
same rules as ingest (names, depth, links, access) to the disk as it is now, and compares with the store; changes
nothing; no transaction is open while the disk is searched, which may take long. Does not read the contents of files;
`inspect` does.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Row

from lineage_store.beneath import base_dir_above
from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.eventlog import formats
from lineage_store.findings import Finding, finding
from lineage_store.ingest.base_dirs import overlapping
from lineage_store.ingest.problems import unlistable_base_dir
from lineage_store.ingest.scan.discovery import scan
from lineage_store.ingest.scan.survey import known_files
from lineage_store.operations import why_checks
from lineage_store.operations.why_checks import Place
from lineage_store.states import FileState
from lineage_store.store.catalog import holdings, moved, registry, tombstones
from lineage_store.store.database.engine import reading
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


def _place(engine: Engine, path: Path, settings: Settings) -> Place | None:
    with reading(engine) as connection:
        known = {from_stored(stored): number for number, stored in registry.base_dirs(connection)}
    if (found := base_dir_above(path, known)) is None:
        return None
    base_dir, beneath = found
    parts, links = Path(beneath).parts, settings.follow_symlinks
    return Place(path, base_dir, known[str(base_dir)], parts, settings.recursive, links)


def _outside(engine: Engine, path: Path) -> Verdict:
    with reading(engine) as connection:
        for base_dir in (path, *path.parents):
            if found := moved.moved_to(connection, to_stored(str(base_dir))):
                now = Path(from_stored(found[1]))
                raise LineageParamSummaryPathError(
                    f"The base dir {base_dir} was moved to {now}.",
                    hint=f"Ask for {now / path.relative_to(base_dir)}.",
                )
        known = [from_stored(place) for _, place in registry.base_dirs(connection)]
    if not os.path.lexists(path):
        raise LineageParamSummaryPathError(
            f"{path} does not exist or may not be looked at, and the store knows nothing of it.",
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


def _of_base_dir(engine: Engine, place: Place) -> Verdict:
    with reading(engine) as connection:
        jobs = registry.job_count(connection, place.base_dir_id)
        left = registry.unfinished(connection, place.base_dir_id)
        removed = {stone.train_id for stone in tombstones.latest(connection, place.base_dir_id)}
    known = {(file.train_id, file.name) for file in known_files(engine, place.base_dir_id)}
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


def _of_job(engine: Engine, place: Place) -> Verdict:
    train_id = place.train_id(place.parts)
    with reading(engine) as connection:
        rows = holdings.generations(connection, place.base_dir_id, train_id)
        job_id = rows[0].job_id if rows else None
        stone = tombstones.of_job(connection, place.base_dir_id, train_id)
        problems = holdings.problems_of_job(connection, place.base_dir_id, train_id, job_id)
        lacks_lineage = job_id is not None and not holdings.has_lineage(connection, job_id)
    way = list(why_checks.of_way(place, place.parts))
    on_disk, found = ([], set()) if way else _look(place, train_id)
    # Behind a link that is not followed, `way` is the only finding about what is on disk.
    is_there = place.status() is not None or (way and os.path.lexists(place.path))
    if not (rows or stone or problems or is_there):
        raise LineageParamSummaryPathError(
            f"{place.path} does not exist or may not be looked at, and the store knows no such job."
        )
    given = [*way, *on_disk, *why_checks.of_tombstone(place.path, stone)]
    unread = found - {(train_id, row.name) for row in rows}
    if unread and stone is None:
        given.append(_unread(place, unread))
    for row in rows:
        given += why_checks.of_row(os.path.join(place.path, from_stored(row.name)), row)
    given += why_checks.of_problems(place, problems)
    if lacks_lineage:
        given.append(finding("no_lineage", str(place.path)))
    complete = bool(rows) and not unread and all(_is_complete(row) for row in rows)
    return _verdict(place, given, complete, bool(rows))


def _of_file(engine: Engine, place: Place) -> Verdict:
    train_id, name = place.train_id(place.parts[:-1]), to_stored(place.parts[-1])
    with reading(engine) as connection:
        stored = holdings.generations(connection, place.base_dir_id, train_id)
        rows = [row for row in stored if row.name == name]
        stone = tombstones.of_job(connection, place.base_dir_id, train_id)
        file = (rows[-1].job_id, rows[-1].file_no) if rows else None
        problems = holdings.problems_of_file(connection, place.base_dir_id, train_id, name, file)
    given = [*why_checks.of_way(place, place.parts[:-1]), *why_checks.of_file(place)]
    given += why_checks.of_tombstone(place.path.parent, stone)
    if not rows and not given:
        given.append(_unread(place, {(train_id, name)}))
    for row in rows:
        prefix = f"Generation {row.generation}: " if len(rows) > 1 else ""
        found = why_checks.of_row(str(place.path), row)
        given += [replace(each, what=f"{prefix}{each.what}") for each in found]
        given += why_checks.of_growth(place, row)
    given += why_checks.of_problems(place, problems)
    complete = bool(rows) and _is_complete(rows[-1])
    begun = any(row.byte_offset for row in rows)
    return _verdict(place, given, complete, begun)


def _verdict(place: Place, given: Sequence[Finding], complete: bool, begun: bool) -> Verdict:
    held = "stored" if complete else "partly stored" if begun else "not stored"
    return Verdict(str(place.path), held, tuple(given))


def _look(place: Place, train_id: str | None) -> tuple[list[Finding], set[tuple[str, str]]]:
    """Scan a job's directory (`train_id` None: the base dir); return findings and (job, name) of its log files."""
    if place.status() is None:
        return [finding("not_on_disk", str(place.path))], set()
    only, links = None if train_id is None else [train_id], place.follow_symlinks
    try:
        seen = scan(place.base_dir, recursive=place.recursive, follow_symlinks=links, only=only)
    except OSError as error:
        return [unlistable_base_dir(str(place.base_dir), error, str(place.base_dir))], set()
    return list(why_checks.of_directory(place, seen)), {(file.train_id, file.name) for file in seen.files}


def _unread(place: Place, files: set[tuple[str, str]]) -> Finding:
    example = from_stored("/".join(min(files)))
    return finding("unread", str(place.path), files=len(files), example=example)


def _is_complete(row: Row[Any]) -> bool:
    """Return whether all of a log file is in the store, without gaps; a superseded generation counts as complete."""
    superseded = row.state == FileState.REPLACED
    return superseded or (row.byte_offset == row.size_bytes and not row.quarantined_bytes)
