"""What a base dir calls for: the disk against the store, before anything is read or written.

In: a base dir, what to look at in it, and the database. Out: a `Survey`: log files that are new, that call for a look,
or that are gone. Promises: only reads; what could not be looked at is neither changed nor gone.
Does not know leases, nor what becomes of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine

from lineage_store.config import Settings
from lineage_store.eventlog.formats import format_of
from lineage_store.ingest.counts import Counts
from lineage_store.ingest.scan.depth import is_one_job
from lineage_store.ingest.scan.diff import Change, PathChange, diff
from lineage_store.ingest.scan.directory_cache import DirectoryCache, Signs
from lineage_store.ingest.scan.discovery import Found, FoundFile, Unreadable, scan
from lineage_store.store.catalog import registry, tombstones
from lineage_store.store.database.engine import reading
from lineage_store.store.records import KnownFile, NewFile
from lineage_store.store.shards import ALL, Shards
from lineage_store.texts import from_stored, to_stored

ALL_KINDS = frozenset({"summary", "lineage"})


@dataclass(frozen=True, slots=True)
class Survey:
    """The outcome of a look at a base dir."""

    unreadable: Sequence[Unreadable] = ()
    counts: Counts = field(default_factory=Counts)
    """What was found; nothing is read yet."""
    new: Sequence[tuple[NewFile, int]] = ()
    """With their sizes."""
    changed: Sequence[tuple[KnownFile, int]] = ()
    """With how many bytes there are behind each bookmark."""
    missing: Sequence[KnownFile] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.new or self.changed or self.missing)


def find(
    base_dir: Path,
    settings: Settings,
    only: Collection[str] | None = None,
    known: Container[str] | None = None,
    on_directory: Callable[[], object] = lambda: None,
    shards: Shards = ALL,
) -> Found:
    """Look for log files by the settings. Raises OSError when the base dir cannot be listed."""
    return scan(
        base_dir,
        recursive=settings.recursive,
        follow_symlinks=settings.follow_symlinks,
        only=only,
        known=known,
        on_directory=on_directory,
        shards=shards,
    )


def survey(
    engine: Engine,
    base_dir: Path,
    base_dir_id: int,
    settings: Settings,
    *,
    only: Collection[str] | None = None,
    kinds: Collection[str] = ALL_KINDS,
) -> Survey:
    """Compare the base dir, or the jobs `only`, with the store. Raises OSError when it cannot be listed."""
    found = find(base_dir, settings, only)
    with reading(engine) as connection:
        known = registry.known_files(connection, base_dir_id, only)
        changes = _without_removed(connection, base_dir_id, _compare(found, known, kinds))
    return _survey(found, kinds, changes)


def survey_changes(
    engine: Engine,
    base_dir: Path,
    base_dir_id: int,
    settings: Settings,
    cache: DirectoryCache,
    signs: Signs,
    *,
    kinds: Collection[str] = ALL_KINDS,
    distrust: bool = False,
    on_directory: Callable[[], object] = lambda: None,
    shards: Shards = ALL,
) -> Survey:
    """Compare what may have changed with the store, and remember what has not. Raises OSError likewise.

    `distrust` asks for a look at every open file, whatever its stamp says (network filesystems). `on_directory` is
    called with each directory that is listed. Jobs of other shards are neither found nor missed.
    """
    if not (signs.directories or signs.files):
        return Survey()
    found = find(base_dir, settings, signs.directories, cache, on_directory, shards)
    listed = {*signs.directories, *found.directories, *cache.gone(found)}
    found.files += signs.files
    files = {(file.train_id, file.name) for file in signs.files}
    jobs = None if cache.is_new else listed | {train_id for train_id, _ in files}
    with reading(engine) as connection:
        known = registry.known_files(connection, base_dir_id, jobs, shards)
        if jobs is not None:
            known = [file for file in known if file.train_id in listed or (file.train_id, file.name) in files]
        changes = _compare(found, known, kinds, distrust=distrust)
        changes = _without_removed(connection, base_dir_id, changes)
    cache.take_in(listed, found, changes)
    return _survey(found, kinds, changes)


def _compare(
    found: Found, known: Iterable[KnownFile], kinds: Collection[str], *, distrust: bool = False
) -> list[PathChange]:
    files = [file for file in found.files if file.parsed.kind in kinds]
    compared = [file for file in known if file.kind in kinds and not found.hides(file.train_id, file.name)]
    return diff(files, compared, distrust=distrust)


def _without_removed(connection: Connection, base_dir_id: int, changes: list[PathChange]) -> list[PathChange]:
    """With the files of removed jobs, as far as their tombstones cover them, as what calls for nothing."""
    new = [file for file, _ in _new_files(changes)]
    wanted = set(tombstones.without_removed(connection, base_dir_id, new)) if new else set()
    if len(wanted) == len(new):
        return changes
    removed = {(file.train_id, file.name) for file in new if file not in wanted}
    return [
        change._replace(change=Change.UNCHANGED)
        if change.found and (change.found.train_id, change.found.name) in removed
        else change
        for change in changes
    ]


def _survey(found: Found, kinds: Collection[str], changes: Sequence[PathChange]) -> Survey:
    counts = Counts(
        files_found=sum(file.parsed.kind in kinds for file in found.files),
        ignored=dict(found.ignored),
        too_deep=tuple(found.too_deep),
        one_job=is_one_job({file.train_id for file in found.files}),
    )
    return Survey(
        found.unreadable,
        counts,
        _new_files(changes),
        [
            (change.known, change.found.sight.size_bytes - change.known.byte_offset)
            for change in changes
            if change.change is Change.LOOK and change.known and change.found
        ],
        [change.known for change in changes if change.change is Change.MISSING and change.known],
    )


def next_generation(file: KnownFile) -> NewFile:
    """A file that is read again from its beginning."""
    parsed = format_of(file.format).recognise(from_stored(file.name))
    host = to_stored(parsed.host) if parsed and parsed.host else None
    again = file.generation + 1
    return NewFile(file.train_id, file.name, file.format, file.kind, file.file_time, file.device, host, again)


def _new_files(changes: Iterable[PathChange]) -> list[tuple[NewFile, int]]:
    return [
        (_new_file(change.found), change.found.sight.size_bytes)
        for change in changes
        if change.change is Change.NEW and change.found
    ]


def _new_file(found: FoundFile) -> NewFile:
    parsed = found.parsed
    host = to_stored(parsed.host) or None
    about = parsed.kind, parsed.timestamp, parsed.device, host
    return NewFile(found.train_id, found.name, found.format.name, *about)
