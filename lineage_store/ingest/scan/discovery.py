"""The search for log files below a base dir.

In: a base dir, or some of its jobs. Out: the files found, in order; what was ignored and why; what could not be looked
at; part by part, however many there are. Promises: an unreadable or vanishing directory does not affect others;
directories of snapshots and of deleted files are passed over, unless the base dir is or lies in one; symbolic links are
not followed unless allowed, and never out of the base dir. Does not know what the database holds.
"""

from __future__ import annotations

import math
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from lineage_store.beneath import LinkError, OpenBaseDir, opened, resolved
from lineage_store.eventlog import formats
from lineage_store.eventlog.formats import LogFormat
from lineage_store.eventlog.values import ParsedName
from lineage_store.ingest.scan.depth import (
    LONGEST_TRAIN_ID_BYTES,
    SNAPSHOTS,
    deeper_jobs,
    in_snapshots,
    is_snapshots,
)
from lineage_store.store.records import FileSight
from lineage_store.store.shards import ALL, Shards
from lineage_store.texts import from_stored, to_stored

ROOT = "./"
"""The train id of the base dir itself."""
SYMBOLIC_LINK = "symbolic link"
"""The reason for ignoring a link that may lead to a log file or to a directory."""
FILES_AT_ONCE = 5_000
"""About how many files one part of a search has: the parts are held in memory one at a time."""


class FoundFile(NamedTuple):
    """A log file seen in a directory. `train_id` and `name` are storable text; `path_of` leads back to the disk."""

    train_id: str
    name: str
    format: LogFormat
    parsed: ParsedName
    sight: FileSight


@dataclass(slots=True)
class Found:
    """The outcome of a search, or of a part of one."""

    files: list[FoundFile] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, OSError] = field(default_factory=dict)
    """By their paths, the directories and entries that could not be looked at."""
    directories: dict[str, int] = field(default_factory=dict)
    """The change time, in ns, of every directory that was listed, taken before listing; 0 where the listing failed."""
    owners: dict[str, int] = field(default_factory=dict)
    """The user id that owns each directory that was listed."""
    below: dict[str, list[str]] = field(default_factory=dict)
    """For each directory that has any, the directories in it that the search goes into."""
    too_deep: list[str] = field(default_factory=list)
    """Some directories that hold log files deeper than the search went (looked for only when it found none)."""
    began_ns: int = field(default_factory=time.time_ns)
    upto: str | None = None
    """The last directory of this part; None where no part follows."""

    def hides(self, train_id: str, name: str) -> bool:
        """Whether a file may exist though it was not found, because its place could not be looked at."""
        if not self.unreadable:
            return False
        steps = accumulate(f"{train_id.rstrip('/')}/{name}".split("/"), "{}/{}".format)
        return any(step in self.unreadable for step in steps)


def path_of(base_dir: Path, train_id: str, name: str = "") -> str:
    """Return the path on disk of a job or of one of its files, from their stored names."""
    return os.path.join(base_dir, *from_stored(train_id).split("/")[1:], from_stored(name)).rstrip("/")


def sight_of(status: os.stat_result, log_format: LogFormat) -> FileSight:
    """Return what a stat says of a log file. A new stamp proves a change; on NFS, an equal one does not exclude one."""
    stamp = f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_mode:o}"
    modified_s = int(status.st_mtime_ns // 1_000_000_000)
    return FileSight(status.st_size, modified_s, log_format.is_finished(status), stamp)


def scan(base_dir: Path, **search_for: Any) -> Found:
    """Find log files like `search`, with the same arguments, but all in one part."""
    (found,) = search(base_dir, **search_for, files_at_once=math.inf)
    return found


def search(
    base_dir: Path,
    *,
    recursive: bool = False,
    follow_symlinks: bool = False,
    only: Collection[str] | None = None,
    known: Container[str] | None = None,
    on_directory: Callable[[], object] = lambda: None,
    shards: Shards = ALL,
    files_at_once: float = FILES_AT_ONCE,
) -> Iterator[Found]:
    """Find log files: in the base dir itself and one level below it, or at any depth if `recursive`.

    Yields parts, each with the files of successive directories, ordered by train id and name. Only `unreadable`
    accumulates over the parts.

    Args:
        only: look into these directories and nowhere else.
        known: with `only`: look also into directories below those, as deep as a search goes, except for the known.
        on_directory: called before each directory that is looked into.
        shards: find the log files of their jobs. Other jobs' directories are looked into only if `recursive`, for jobs
            below them.
        files_at_once: about how many files a part has.

    Raises OSError when the base dir itself cannot be listed.
    """
    searches = only is None or known is not None
    depth = math.inf if recursive else 1
    asked = (each for each in only or () if each.count("/") <= depth and not in_snapshots(each.split("/")))
    waiting = [ROOT] if only is None else sorted(asked)
    any_file, last = False, ""
    with opened(base_dir, follow_symlinks=follow_symlinks) as root:
        walk = _Walk(root, Found(), ALL if recursive else shards)
        while waiting:
            train_id = heappop(waiting)
            if train_id == last:
                continue
            if max(len(walk.found.files), len(walk.found.directories)) >= files_at_once:
                walk.found.upto, unreadable = last, walk.found.unreadable
                yield walk.found
                walk.found = Found(unreadable=unreadable)
            on_directory()
            before, is_root = len(walk.found.files), train_id == ROOT
            deep = recursive or is_root
            for child in walk.directory(train_id, goes_on=searches and deep, required=searches and is_root):
                if known is None or child not in known:
                    heappush(waiting, child)
            any_file, last = any_file or len(walk.found.files) > before, train_id
            if not shards.hold(train_id):
                del walk.found.files[before:]
    if only is None and not recursive and not any_file:
        walk.found.too_deep = deeper_jobs(base_dir, levels=1)
    yield walk.found


@dataclass(slots=True)
class _Walk:
    root: OpenBaseDir
    found: Found
    shards: Shards

    def directory(self, train_id: str, *, goes_on: bool, required: bool) -> list[str]:
        """Take in one directory; return the directories in it, if `goes_on`. Raises OSError if `required`."""
        before, below = len(self.found.files), list[str]()
        try:
            with self.root.directory(from_stored(train_id)) as descriptor:
                status = os.fstat(descriptor)
                changed_ns, self.found.owners[train_id] = status.st_ctime_ns, self._owner(train_id, status)
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        self._entry(train_id, entry, below if goes_on else None)
        except OSError as error:
            if required:
                raise
            if isinstance(error, FileNotFoundError | LinkError):
                return []  # it is gone, or a link is in its place
            self.found.unreadable[train_id] = error
            changed_ns, below = 0, []
        self.found.files[before:] = sorted(self.found.files[before:], key=attrgetter("name"))
        self.found.directories[train_id] = changed_ns
        if below:
            self.found.below[train_id] = below
        return below

    def _owner(self, train_id: str, status: os.stat_result) -> int:
        """Return who put a directory there: its owner, or that of the link behind which it is, for nobody's jobs become
        more because somebody else links to them."""
        if not self.root.follow_symlinks:
            return status.st_uid
        steps = accumulate(from_stored(train_id).split("/"), "{}/{}".format)
        for step in steps:
            with suppress(OSError):
                met = os.lstat(os.path.join(self.root.path, step))
                if stat.S_ISLNK(met.st_mode):
                    return met.st_uid
        return status.st_uid

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
            elif below is not None and is_snapshots(entry.name):
                self.found.ignored[SNAPSHOTS] += 1
            elif below is not None:
                self._child(to_stored(path), below)
        except FileNotFoundError:
            return
        except OSError as error:
            self.found.unreadable[to_stored(path)] = error

    def _child(self, child: str, below: list[str]) -> None:
        if len(child.encode()) > LONGEST_TRAIN_ID_BYTES:
            self.found.ignored["job id too long"] += 1
        elif self.shards.hold(child):
            below.append(child)

    def _file(self, train_id: str, name: str, look: Callable[[], os.stat_result]) -> None:
        recognised = formats.recognise(name)
        if recognised is None:
            self.found.ignored[formats.why_not_recognised(name)] += 1
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
        base_dir = resolved(self.root.path)
        link = os.path.normpath(os.path.join(base_dir, path))
        target = resolved(link)
        inside = target.startswith(os.path.join(base_dir, ""))
        return inside and not (os.path.isdir(target) and _leads_back(link, target))


def _leads_back(link: str, target: str) -> bool:
    """Whether a link leads up the tree, or lies behind another link: following such links might never end."""
    directory = os.path.dirname(link)
    return resolved(directory) != directory or f"{directory}/".startswith(f"{target}/")
