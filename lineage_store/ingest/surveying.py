"""What a base dir calls for: the disk against the store, before anything is read or written.

In: a base dir, what to look at in it, and the database. Out: a `Survey`: log files that are new, that call for a look,
or that are gone. Promises: only reads; what could not be looked at is neither changed nor gone.
Does not know leases, nor what becomes of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.ingest.changes import Change, PathChange, diff
from lineage_store.ingest.depth import is_one_job
from lineage_store.ingest.discovery import Found, FoundFile, scan
from lineage_store.ingest.report import Counts
from lineage_store.store import registry, tombstones
from lineage_store.store.batch import KnownFile, NewFile
from lineage_store.store.engine import reading
from lineage_store.texts import to_stored

ALL_KINDS = frozenset({"summary", "lineage"})


@dataclass(frozen=True, slots=True)
class Survey:
    """The outcome of a look at a base dir."""

    found: Found
    counts: Counts
    """What was found; nothing is read yet."""
    new: Sequence[NewFile]
    changed: Sequence[KnownFile]
    missing: Sequence[KnownFile]


def find(
    base_dir: Path,
    settings: Settings,
    only: Collection[str] | None = None,
    resting: Mapping[str, int] | None = None,
) -> Found:
    """Look for log files by the settings. Raises OSError when the base dir cannot be listed."""
    links = settings.follow_symlinks
    return scan(base_dir, recursive=settings.recursive, follow_symlinks=links, only=only, resting=resting)


def survey(
    engine: Engine,
    base_dir: Path,
    base_dir_id: int,
    settings: Settings,
    *,
    only: Collection[str] | None = None,
    kinds: Collection[str] = ALL_KINDS,
    distrust: bool = False,
    resting: Mapping[str, int] | None = None,
) -> Survey:
    """Compare the base dir, or the jobs `only`, with the store. Raises OSError when it cannot be listed."""
    found = find(base_dir, settings, only, resting)
    with reading(engine) as connection:
        known = registry.known_files(connection, base_dir_id, only)
    files = [file for file in found.files if file.parsed.kind in kinds]
    compared = [file for file in known if file.kind in kinds and not found.hides(file.train_id, file.name)]
    changes = diff(files, compared, distrust=distrust)
    counts = Counts(
        files_found=len(files),
        ignored=dict(found.ignored),
        too_deep=tuple(found.too_deep),
        one_job=is_one_job({file.train_id for file in found.files}),
    )
    new = [
        _new_file(change.found)
        for change in changes
        if change.change is Change.NEW and change.found is not None
    ]
    if new:
        with reading(engine) as connection:
            new = tombstones.without_removed(connection, base_dir_id, new)
    return Survey(found, counts, new, _known(changes, Change.LOOK), _known(changes, Change.MISSING))


def _known(changes: Sequence[PathChange], kind: Change) -> list[KnownFile]:
    return [change.known for change in changes if change.change is kind and change.known is not None]


def _new_file(found: FoundFile) -> NewFile:
    parsed = found.parsed
    host = to_stored(parsed.host) or None
    return NewFile(found.train_id, found.name, parsed.kind, parsed.timestamp, parsed.device, host)
