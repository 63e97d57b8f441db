"""What log files there are below a base dir, now.

In: a base dir, or some of its jobs. Out: a sorted list of found files, what was ignored and why, and what could not be
looked at. Promises: one unreadable or vanishing directory costs nothing but itself; symbolic links are not followed
unless allowed, and never out of the base dir; what they lead to is not even asked for. Does not know what the database
holds.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from lineage_store.beneath import LinkError, OpenBaseDir, opened
from lineage_store.eventlog import formats
from lineage_store.eventlog.formats import LogFormat
from lineage_store.eventlog.values import ParsedName
from lineage_store.ingest.scan.depth import LONGEST_TRAIN_ID_BYTES, deeper_jobs
from lineage_store.store.records import FileSight
from lineage_store.store.shards import ALL, Shards
from lineage_store.texts import from_stored, to_stored

ROOT = "./"
"""The base dir itself, as a place for log files."""
SYMBOLIC_LINK = "symbolic link"
"""Why a link was ignored that may lead to a log file or to a directory."""


class FoundFile(NamedTuple):
    """A log file seen in a directory. `train_id` and `name` are storable text; `path_of` leads back to the disk."""

    train_id: str
    name: str
    format: LogFormat
    parsed: ParsedName
    sight: FileSight


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A directory or file that could not be looked at."""

    path: str
    error: OSError


@dataclass(slots=True)
class Found:
    """The outcome of one scan."""

    files: list[FoundFile] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unreadable: list[Unreadable] = field(default_factory=list)
    directories: dict[str, int] = field(default_factory=dict)
    """Change time, in ns, of every directory that was listed, taken before; 0 where the listing failed."""
    below: dict[str, list[str]] = field(default_factory=dict)
    """The directories in a directory, as far as the search goes, where there are any."""
    too_deep: list[str] = field(default_factory=list)
    """Directories deeper than the search went that hold log files (looked for only when nothing else was found)."""
    began_ns: int = field(default_factory=time.time_ns)

    def hides(self, train_id: str, name: str) -> bool:
        """Whether a file may be there though it was not found: where it lies could not be looked at."""
        if not self.unreadable:
            return False
        unread = {path.path for path in self.unreadable}
        steps = list(accumulate(f"{train_id.rstrip('/')}/{name}".split("/"), "{}/{}".format))
        return not unread.isdisjoint(steps)


def path_of(base_dir: Path, train_id: str, name: str = "") -> str:
    """The path on disk of a job or of one of its files, from their stored names."""
    return os.path.join(base_dir, *from_stored(train_id).split("/")[1:], from_stored(name)).rstrip("/")


def sight_of(status: os.stat_result, log_format: LogFormat) -> FileSight:
    """What a stat says of a log file. The stamp is a hint only: it may prove change, never sameness on NFS."""
    stamp = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_mode:o}"
    modified_s = int(status.st_mtime_ns // 1_000_000_000)
    return FileSight(status.st_size, modified_s, log_format.is_finished(status), stamp)


def scan(
    base_dir: Path,
    *,
    recursive: bool = False,
    follow_symlinks: bool = False,
    only: Collection[str] | None = None,
    known: Container[str] | None = None,
    on_directory: Callable[[], object] = lambda: None,
    shards: Shards = ALL,
) -> Found:
    """Find log files: in the base dir itself and one level below it, or at any depth if `recursive`.

    Args:
        only: look into these directories and nowhere else.
        known: with `only`: look also into the directories below those, as far as a search goes, except for these.
        on_directory: called with each directory that is looked into.
        shards: find those of their jobs. Other jobs' directories are not looked into, but for jobs that may lie below.

    Raises OSError when the base dir itself cannot be listed.
    """
    found = Found()
    with opened(base_dir, follow_symlinks=follow_symlinks) as root:
        walk = _Walk(root, known or (), found, on_directory, ALL if recursive else shards)
        if only is None:
            walk.directory(ROOT, depth=None if recursive else 1, required=True)
        for train_id in sorted(only or ()):
            if (recursive or train_id.count("/") == 1) and train_id not in found.directories:
                depth = 0 if known is None else None if recursive else int(train_id == ROOT)
                walk.directory(train_id, depth=depth, required=train_id == ROOT and known is not None)
    if only is None and not recursive and not found.files:
        found.too_deep = deeper_jobs(base_dir, levels=1)
    found.files = [file for file in found.files if shards.hold(file.train_id)]
    found.files.sort(key=lambda file: (file.train_id, file.name))
    return found


@dataclass(frozen=True, slots=True)
class _Walk:
    root: OpenBaseDir
    known: Container[str]
    found: Found
    on_directory: Callable[[], object]
    shards: Shards

    def directory(self, train_id: str, *, depth: int | None, required: bool = False) -> None:
        """Take in one directory and, down to `depth` more levels (None: any), those below it."""
        self.on_directory()
        below: list[str] = []
        try:
            with self.root.directory(from_stored(train_id)) as descriptor:
                changed_ns = os.fstat(descriptor).st_ctime_ns
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        self._entry(train_id, entry, below if depth is None or depth > 0 else None)
        except OSError as error:
            if required:
                raise
            if not isinstance(
                error, FileNotFoundError | LinkError
            ):  # what is gone, or is none of the base dir's
                self.found.unreadable.append(Unreadable(train_id, error))
                self.found.directories[train_id] = 0
            return
        self.found.directories[train_id] = changed_ns
        if below:
            self.found.below[train_id] = below
        for child in below:
            if child not in self.known:
                self.directory(child, depth=None if depth is None else depth - 1)

    def _entry(self, train_id: str, entry: os.DirEntry[str], below: list[str] | None) -> None:
        path = f"{from_stored(train_id).rstrip('/')}/{entry.name}"
        try:
            status = partial(entry.stat, follow_symlinks=False)
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.is_symlink():
                if not self._may_follow(path):
                    if below is not None or formats.recognise(entry.name):
                        self.found.ignored[SYMBOLIC_LINK] += 1
                    return
                status = partial(self.root.status, path)
                is_directory = stat.S_ISDIR(status().st_mode)
            if not is_directory:
                self._file(train_id, entry.name, status)
            elif below is not None:
                self._child(to_stored(path), below)
        except FileNotFoundError:
            return
        except OSError as error:
            self.found.unreadable.append(Unreadable(to_stored(path), error))

    def _child(self, child: str, below: list[str]) -> None:
        if len(child.encode()) > LONGEST_TRAIN_ID_BYTES:
            self.found.ignored["job id too long"] += 1
        elif self.shards.hold(child):
            below.append(child)

    def _file(self, train_id: str, name: str, look: Callable[[], os.stat_result]) -> None:
        recognised = formats.recognise(name)
        if recognised is None:
            if reason := formats.ignored_reason(name):
                self.found.ignored[reason] += 1
            return
        status = look()
        if not stat.S_ISREG(status.st_mode):
            self.found.ignored["no regular file"] += 1
            return
        log_format, parsed = recognised
        sight = sight_of(status, log_format)
        self.found.files.append(FoundFile(train_id, to_stored(name), log_format, parsed, sight))

    def _may_follow(self, path: str) -> bool:
        if not self.root.follow_symlinks:
            return False
        base_dir = os.path.realpath(self.root.path)
        link = os.path.normpath(os.path.join(base_dir, path))
        target = os.path.realpath(link)
        inside = target.startswith(os.path.join(base_dir, ""))
        return inside and not (os.path.isdir(target) and _leads_back(link, target))


def _leads_back(link: str, target: str) -> bool:
    """A link up the tree, or one behind another link: following such links might never end."""
    directory = os.path.dirname(link)
    return os.path.realpath(directory) != directory or f"{directory}/".startswith(f"{target}/")
