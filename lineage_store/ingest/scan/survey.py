"""The comparison of a base dir with the store, before anything is read into it. Writes nothing.

In: a base dir, what to look at in it, and the database. Out: `Survey`s: log files that are new, that are to be opened,
or that are missing; or an `IngestPlan` for people. Promises: a file that could not be read counts neither as
changed nor as missing; of a whole base dir, `survey` holds some thousand files in memory at a time. Does not know
leases, nor what is done with the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.eventlog.formats import format_of
from lineage_store.ingest.report import Counts
from lineage_store.ingest.scan.directory_cache import DirectoryCache, Signs
from lineage_store.ingest.scan.discovery import (
    BY_PATH,
    FILES_AT_ONCE,
    ONE_JOB,
    ROOT,
    FileChange,
    FoundFile,
    FoundFiles,
    PathChange,
    diff,
    is_one_job,
    scan,
    search_files,
)
from lineage_store.paths import filesystem_type, is_network, stored_path
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading
from lineage_store.store.leases import ALL, Shards
from lineage_store.store.records import KnownFile, NewFile, relative_path
from lineage_store.texts import from_stored, to_stored

ALL_KINDS = frozenset({"summary", "lineage"})


@dataclass(frozen=True, slots=True)
class Scope:
    """The base dir whose files are compared with the store, and which of them."""

    engine: Engine
    base_dir: Path
    base_dir_id: int
    settings: Settings
    kinds: Collection[str] = ALL_KINDS
    shards: Shards = ALL
    """Jobs of other shards are neither found nor missing."""
    on_directory: Callable[[], object] = lambda: None
    """Called before each directory that is listed."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What is to be done in a base dir, or in a part of one."""

    unreadable: Mapping[str, OSError] = field(default_factory=dict)
    """The paths that could not be read, in all parts so far."""
    counts: Counts = field(default_factory=Counts)
    """How much was found; the numbers of what was read are 0."""
    new: Sequence[NewFile] = ()
    changed: Sequence[tuple[KnownFile, int]] = ()
    """Files to be opened, with how many bytes each has behind its bookmark (< 0: it was cut)."""
    missing: Sequence[KnownFile] = ()
    owners: Mapping[str, int] = field(default_factory=dict)
    """The user ids that own directories of known jobs, by train id, where the store knows another or none."""

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.new or self.changed or self.missing or self.owners)

    def plus(self, more: Survey) -> Survey:
        """Return this survey and that of a further part of the base dir as one."""
        new, changed = (*self.new, *more.new), (*self.changed, *more.changed)
        missing = (*self.missing, *more.missing)
        owners = {**self.owners, **more.owners}
        return Survey(more.unreadable, self.counts.found(more.counts), new, changed, missing, owners)


def find_files(
    base_dir: Path,
    settings: Settings,
    only: Collection[str] | None = None,
    known: Container[str] | None = None,
    on_directory: Callable[[], object] = lambda: None,
    shards: Shards = ALL,
) -> FoundFiles:
    """Find log files as `scan` does, by the settings. Raises OSError when the base dir cannot be listed."""
    return scan(
        base_dir,
        recursive=settings.recursive,
        follow_symlinks=settings.follow_symlinks,
        only=only,
        known=known,
        on_directory=on_directory,
        shards=shards,
    )


def survey(scope: Scope, only: Collection[str] | None = None) -> Iterator[Survey]:
    """Compare the base dir, or the jobs `only`, with the store, part by part.

    Raises OSError when the base dir cannot be listed.
    """
    distrust = is_network(filesystem_type(scope.base_dir))
    if only is not None:
        found = find_files(scope.base_dir, scope.settings, only)
        with reading(scope.engine) as session:
            known = registry.known_files(session, scope.base_dir_id, only)
        changes = list(_compare(scope, found, known, distrust))
        yield _survey(found, _counts(found, scope.kinds), _without_removed(scope, changes, found))
        return
    for found, compared in _compared_parts(scope, distrust):
        counts = _counts(found, scope.kinds)
        calls_for_more = (
            change
            for change in compared
            if change.change is not FileChange.UNCHANGED or _has_other_owner(found, change)
        )
        while some := list(islice(calls_for_more, FILES_AT_ONCE)):
            yield _survey(found, counts, _without_removed(scope, some, found))
            counts = Counts()
        yield _survey(found, counts, ())


def survey_changes(scope: Scope, cache: DirectoryCache, signs: Signs) -> Survey:
    """Compare what may have changed (`signs`) with the store, and take the outcome into the cache.

    While the cache is new, compares everything. Raises OSError when the base dir cannot be listed.
    """
    if not (signs.directories or signs.files):
        return Survey()
    if not cache.is_new:
        place, shards = (scope.base_dir, scope.settings), scope.shards
        found = find_files(*place, signs.directories, cache, scope.on_directory, shards)
        listed = {*signs.directories, *found.directories, *cache.gone(found)}
        files = {(file.train_id, file.name) for file in signs.files}
        jobs = listed | {train_id for train_id, _ in files}
        with reading(scope.engine) as session:
            known = registry.known_files(session, scope.base_dir_id, jobs, shards)
        known = [file for file in known if file.train_id in listed or BY_PATH(file) in files]
        found.files = sorted([*found.files, *signs.files], key=BY_PATH)
        changes = _without_removed(scope, list(_compare(scope, found, known, cache.distrust)), found)
        cache.take_in(listed, found, changes)
        return _survey(found, _counts(found, scope.kinds), changes)
    surveyed = Survey()
    for found, compared in _compared_parts(scope, cache.distrust):
        changes = _without_removed(scope, list(compared), found)
        cache.take_in(found.directories, found, changes)
        surveyed = surveyed.plus(_survey(found, _counts(found, scope.kinds), changes))
    cache.is_new = False
    return surveyed


def all_known_files(
    engine: Engine, base_dir_id: int, after: str = "", upto: str | None = None, shards: Shards = ALL
) -> Iterator[KnownFile]:
    """The newest generation of every log file of the jobs behind `after` and up to `upto` (None: all), by path.

    Each page is read in a transaction of its own: the caller may take any time before it asks for the next.
    """
    last: str | None = after
    while last is not None:
        with reading(engine) as session:
            files, last = registry.next_known(session, base_dir_id, last, upto, shards)
        yield from files


def _compared_parts(scope: Scope, distrust: bool) -> Iterator[tuple[FoundFiles, Iterator[PathChange]]]:
    """Each part of the base dir, and how the files found or known there compare."""
    after, shards = "", scope.shards
    parts = search_files(
        scope.base_dir,
        recursive=scope.settings.recursive,
        follow_symlinks=scope.settings.follow_symlinks,
        on_directory=scope.on_directory,
        shards=shards,
    )
    for found in parts:
        known = all_known_files(scope.engine, scope.base_dir_id, after, found.upto, shards)
        yield found, _compare(scope, found, known, distrust)
        after = found.upto or ""


def _compare(
    scope: Scope, found: FoundFiles, known: Iterable[KnownFile], distrust: bool
) -> Iterator[PathChange]:
    kinds = scope.kinds
    files = (file for file in found.files if file.parsed.kind in kinds)
    compared = (file for file in known if file.kind in kinds and not found.hides(file.train_id, file.name))
    return diff(files, compared, distrust=distrust)


def _without_removed(scope: Scope, changes: list[PathChange], found: FoundFiles) -> list[PathChange]:
    """Return the changes, but with files that the tombstones of removed jobs cover as unchanged."""
    new = _new_files(changes, found)
    if not new:
        return changes
    with reading(scope.engine) as session:
        wanted = set(registry.without_removed(session, scope.base_dir_id, new))
    if len(wanted) == len(new):
        return changes
    removed = {(file.train_id, file.name) for file in new if file not in wanted}
    return [
        change._replace(change=FileChange.UNCHANGED)
        if change.found and (change.found.train_id, change.found.name) in removed
        else change
        for change in changes
    ]


def _counts(found: FoundFiles, kinds: Collection[str]) -> Counts:
    files = [file for file in found.files if file.parsed.kind in kinds]
    in_base_dir = sum(file.train_id == ROOT for file in files)
    return Counts(
        len(files), ignored=dict(found.ignored), too_deep=tuple(found.too_deep), files_in_base_dir=in_base_dir
    )


def _survey(found: FoundFiles, counts: Counts, changes: Sequence[PathChange]) -> Survey:
    return Survey(
        found.unreadable,
        counts,
        _new_files(changes, found),
        [
            (change.known, change.found.sight.size_bytes - change.known.byte_offset)
            for change in changes
            if change.change is FileChange.LOOK and change.known and change.found
        ],
        [change.known for change in changes if change.change is FileChange.MISSING and change.known],
        {
            change.known.train_id: found.owners[change.known.train_id]
            for change in changes
            if change.known and _has_other_owner(found, change)
        },
    )


def _has_other_owner(found: FoundFiles, change: PathChange) -> bool:
    """Whether the directory of a known file belongs to another user than the store knows."""
    known = change.known
    return known is not None and found.owners.get(known.train_id, known.owner_uid) != known.owner_uid


def next_generation(file: KnownFile) -> NewFile:
    """Return the next generation of a file, which is read again from its beginning."""
    parsed = format_of(file.format).recognise(from_stored(file.name))
    host = to_stored(parsed.host) if parsed and parsed.host else None
    again = file.generation + 1
    about = file.kind, file.file_time, file.device, host, again, file.owner_uid, file.created_at
    return NewFile(file.train_id, file.name, file.format, *about, file.size_bytes)


def _new_files(changes: Iterable[PathChange], found: FoundFiles) -> list[NewFile]:
    owners = found.owners
    return [
        _new_file(change.found)._replace(owner_uid=owners.get(change.found.train_id))
        for change in changes
        if change.change is FileChange.NEW and change.found
    ]


def _new_file(found: FoundFile) -> NewFile:
    parsed = found.parsed
    host = to_stored(parsed.host) or None
    about = parsed.kind, parsed.timestamp, parsed.device, host
    new = NewFile(found.train_id, found.name, found.format.name, *about)
    return new._replace(size_bytes=found.sight.size_bytes, modified_s=found.sight.modified_s)


# ---- What an ingest would do


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


def plan_ingest(engine: Engine, base_dir: Path, settings: Settings) -> IngestPlan:
    """Compare disk and store. Raises LineageParamSummaryPathError when the base dir cannot be listed."""
    try:
        found = find_files(base_dir, settings)
    except OSError as error:
        raise LineageParamSummaryPathError(
            f"{base_dir} cannot be listed: {error.strerror}.",
            hint="Give the directory of the job directories. Is the share mounted, and may this user read it?",
        ) from error
    with reading(engine) as session:
        base_dir_id = registry.base_dir_id(session, stored_path(base_dir))
    paths: dict[str, list[str]] = defaultdict(list)
    to_read = 0
    known = () if base_dir_id is None else all_known_files(engine, base_dir_id)
    for change in diff(found.files, known):
        path = relative_path(change.file.train_id, change.file.name)
        paths[change.change.value].append(from_stored(path))
        if change.found is not None and change.change in (FileChange.NEW, FileChange.LOOK):
            read = change.known.byte_offset if change.known else 0
            to_read += max(0, change.found.sight.size_bytes - read)
    deep, one_job = tuple(found.too_deep), is_one_job({file.train_id for file in found.files})
    return IngestPlan(str(base_dir), dict(paths), to_read, dict(found.ignored), deep, one_job)
