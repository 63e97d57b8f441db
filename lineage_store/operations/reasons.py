"""The reasons that `why` gives, one small question each.

In: a place on disk, settings, rows of `log_file`. Out: reasons, none where there is nothing to say.
The questions about the disk look at it now; those about rows are pure.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Row

from lineage_store.config import Settings
from lineage_store.eventlog import formats
from lineage_store.ingest.problems import unreadable_file
from lineage_store.ingest.scan.depth import deeper_jobs
from lineage_store.ingest.scan.discovery import Found
from lineage_store.states import FileState
from lineage_store.store.catalog.tombstones import Tombstone
from lineage_store.texts import from_stored, to_stored

INGEST = "Run `lineage-store ingest`, or leave it to the daemon."
RECURSIVE = "Use --recursive, or set recursive = true."


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing to know, and what to do about it (None: nothing)."""

    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path lies: its base dir in the store, and its parts below it."""

    path: Path
    base_dir: Path
    base_dir_id: int
    parts: tuple[str, ...]

    def train_id(self, parts: tuple[str, ...]) -> str:
        """The stored id of the job at these parts."""
        return "./" + to_stored("/".join(parts))


def of_way(place: Place, parts: tuple[str, ...], settings: Settings) -> Iterator[Reason]:
    """What the way from the base dir to a job's directory has to do with it."""
    if len(parts) > 1 and not settings.recursive:
        text = (
            f"It lies {len(parts)} levels below the base dir {place.base_dir}, and only one is looked into."
        )
        yield Reason(text, RECURSIVE)
    step = place.path if len(parts) == len(place.parts) else place.path.parent
    for _ in parts:
        yield from _of_link(place, step, settings)
        step = step.parent


def of_directory(place: Place, seen: Found, settings: Settings) -> Iterator[Reason]:
    """What a look into a directory has shown."""
    for unreadable in seen.unreadable:
        path = from_stored(unreadable.path)
        problem = unreadable_file(os.path.join(place.base_dir, path), unreadable.error)
        yield Reason(f"{path}: {problem.reason}", problem.remedy)
    for reason, count in seen.ignored.items():
        yield Reason(f"{count} of its entries do not count: {reason}.")
    deeper = ", ".join(map(from_stored, deeper_jobs(place.path, levels=0 if place.parts else 1)))
    if deeper and not settings.recursive:
        yield Reason(f"Log files lie deeper than ingest looks, such as in {deeper}.", RECURSIVE)
    elif deeper and not seen.files:
        yield Reason(
            f"It holds no log file itself; directories below it do, such as {deeper}.", "Ask for those."
        )
    elif not seen.files and not seen.unreadable:
        yield Reason(
            "It holds no log file.",
            f"A log file's name has {formats.naming()} in it.",
        )


def of_file(place: Place, settings: Settings) -> Iterator[Reason]:
    """What the file itself has to do with it."""
    if reason := formats.ignored_reason(place.parts[-1]):
        yield Reason(f"Its name does not count: {reason}.")
    links = list(_of_link(place, place.path, settings))
    if links:
        yield from links
        return
    try:
        if not stat.S_ISREG(place.path.stat().st_mode):
            yield Reason("It is no regular file.")
            return
        os.close(os.open(place.path, os.O_RDONLY | os.O_NONBLOCK))
    except FileNotFoundError:
        yield Reason("It is not on disk now.")
    except OSError as error:
        problem = unreadable_file(str(place.path), error)
        yield Reason(f"It cannot be read: {problem.reason}", problem.remedy)


def of_row(row: Row[Any]) -> Iterator[Reason]:
    """What the store says of one generation of a log file."""
    pending = row.size_bytes - row.byte_offset
    if row.state == FileState.REPLACED or (row.state != FileState.REPLACING and not row.current):
        yield Reason("It was rewritten; this older generation no longer counts.")
        return
    if row.state == FileState.REPLACING:
        yield Reason("It was rewritten; the new generation counts when it has been read in full.", INGEST)
    if row.state == FileState.MISSING:
        yield Reason("It is no longer on disk; what was read of it is kept.")
    elif row.state == FileState.UNREADABLE:
        yield Reason("It could not be read when last looked at.")
    elif row.state == FileState.TORN:
        yield Reason(f"Its writer has finished in the middle of a frame: the last {pending} bytes are lost.")
    elif row.state == FileState.SUSPECT:
        text = f"At byte {row.byte_offset} stands no frame since {row.suspect_since:%Y-%m-%d %H:%M:%S} UTC."
        yield Reason(
            text, "Wait: it is read again, and given up after suspect_grace_s. `inspect` shows what is there."
        )
    elif pending:
        yield Reason(f"{pending} bytes at its end are not a complete frame yet.")
    if row.quarantined_bytes:
        yield Reason(f"{row.quarantined_bytes} bytes of it were given up as damaged; the rest was read.")
    if row.byte_offset:
        yield Reason(f"Events stored: {row.event_count}, from {row.byte_offset} of {row.size_bytes} bytes.")


def of_tombstone(directory: Path, stone: Tombstone | None) -> Iterator[Reason]:
    """That the job was removed, if it was."""
    if stone is not None:
        text = (
            f"The job was removed on {stone.removed_at:%Y-%m-%d %H:%M:%S} UTC ({from_stored(stone.reason)})."
        )
        yield Reason(text, f"Run `lineage-store gc --restore {directory}` to have it read again.")


def of_problems(problems: Iterable[Row[Any]]) -> Iterator[Reason]:
    """Open problems, with the paths that they name."""
    for problem in problems:
        yield Reason(f"Open problem of {from_stored(problem.path)}: {problem.reason}", problem.remedy)


def of_growth(path: Path, row: Row[Any]) -> Iterator[Reason]:
    try:
        more = path.stat().st_size - row.size_bytes
    except OSError:
        return
    if more > 0 and row.current:
        yield Reason(f"It has grown by {more} bytes since it was last looked at.", INGEST)


def _of_link(place: Place, step: Path, settings: Settings) -> Iterator[Reason]:
    """Why a symbolic link on the way is not followed; nothing for what is none, or is followed."""
    if not os.path.islink(step):
        return
    target = os.path.realpath(step)
    if not target.startswith(os.path.join(place.base_dir, "")):
        text = f"{step} is a symbolic link that leads out of the base dir, to {target}; no setting follows such links."
        yield Reason(
            text, "Move what it leads to into the base dir, or make a base dir of the place where that lies."
        )
    elif not settings.follow_symlinks:
        text = f"{step} is a symbolic link, and those are not followed."
        yield Reason(text, "Set follow_symlinks = true, which follows links that stay inside the base dir.")
