"""The search for log files below a base dir, and how the files found compare with those known.

In: a base dir, or some of its jobs; the known files, by path. Out: the files found, in order; what was ignored and why;
what could not be read; part by part, however many there are; one change per path. Promises: an unreadable or
vanishing directory does not affect others; directories of snapshots and of deleted files are passed over, unless the
base dir is or lies in one; symbolic links are not followed unless allowed, and never out of the base dir; whether a
file is still the same one is decided by digests of its first bytes (fingerprint) and of those before the bookmark
(anchor), never by times or inodes (an equal stamp only spares opening a file that was looked at). Does not know the
database.
"""

from __future__ import annotations

import math
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from heapq import heappop, heappush, merge
from itertools import accumulate, groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from lineage_store.eventlog import formats
from lineage_store.eventlog.formats import LogFormat
from lineage_store.eventlog.values import ParsedName
from lineage_store.finding_kinds import KINDS
from lineage_store.paths import LinkError, OpenBaseDir, opened, resolved
from lineage_store.states import FileState
from lineage_store.store.leases import ALL, Shards
from lineage_store.store.records import FileSight, KnownFile
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
class FoundFiles:
    """The outcome of a search, or of a part of one."""

    files: list[FoundFile] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, OSError] = field(default_factory=dict)
    """By their paths, the directories and entries that could not be read."""
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
        """Whether a file may exist though it was not found, because its place could not be read."""
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


def scan(base_dir: Path, **search_for: Any) -> FoundFiles:
    """Find log files like `search_files`, with the same arguments, but all in one part."""
    (found,) = search_files(base_dir, **search_for, files_at_once=math.inf)
    return found


def search_files(
    base_dir: Path,
    *,
    recursive: bool = False,
    follow_symlinks: bool = False,
    only: Collection[str] | None = None,
    known: Container[str] | None = None,
    on_directory: Callable[[], object] = lambda: None,
    shards: Shards = ALL,
    files_at_once: float = FILES_AT_ONCE,
) -> Iterator[FoundFiles]:
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
        walk = _Walk(root, FoundFiles(), ALL if recursive else shards)
        while waiting:
            train_id = heappop(waiting)
            if train_id == last:
                continue
            if max(len(walk.found.files), len(walk.found.directories)) >= files_at_once:
                walk.found.upto, unreadable = last, walk.found.unreadable
                yield walk.found
                walk.found = FoundFiles(unreadable=unreadable)
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
    found: FoundFiles
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


# ---- Log files that lie deeper than a search goes: reported, never read; directories into which no search goes

LONGEST_TRAIN_ID_BYTES = 1000
"""Longer ids do not fit into a database index; their directories are reported, not ingested."""
SHOWN = 3
MOST_DIRECTORIES = 20_000
ONE_JOB = KINDS["one_job"].what
SNAPSHOTS = "directory of snapshots or of deleted files, by its name"
"""The reason for ignoring a directory in which file systems and tools keep what was there once."""
_SNAPSHOTS = re.compile(
    r"\.snapshots?|[~#]snapshot|\.zfs|\.ckpt_snapshots?|\.stversions|\.~tmp~|\.ipynb_checkpoints|@eadir"
    r"|\.trash(?:es|-\d+)?|@?#?\.?recycle|@recently-snapshot|\$recycle\.bin|system volume information|lost\+found",
    re.IGNORECASE,
)


def is_snapshots(name: str) -> bool:
    """Whether a directory of this name holds snapshots or deleted files: jobs only if it is made a base dir."""
    return _SNAPSHOTS.fullmatch(name) is not None


def in_snapshots(parts: Iterable[str]) -> bool:
    """Whether a path below a base dir, given by its parts, leads through a directory of snapshots or deleted files."""
    return any(map(is_snapshots, parts))


def is_one_job(train_ids: Collection[str]) -> bool:
    """Whether all log files of a base dir lie in the directory itself, which then most likely is a job's directory."""
    return set(train_ids) == {"./"}


def holds_log_files(base_dir: Path, levels: int | None, start: str = ".") -> bool:
    """Whether `start` or a directory down to `levels` (None: any number) below it holds a log file."""
    return any(holds for _, holds in _directories(base_dir, start, levels))


def deeper_jobs(base_dir: Path, levels: int, start: str = ".") -> list[str]:
    """Return up to three directories that hold log files more than `levels` below `start`.

    They are stored text, relative to `start`. Looks at 20,000 directories at most.
    """
    seen = islice(_directories(base_dir, start), MOST_DIRECTORIES)
    hits = (path.removeprefix("./") for path, holds in seen if holds and path.count("/") > levels)
    return [to_stored(path) for path in islice(hits, SHOWN)]


def _directories(base_dir: Path, start: str = ".", levels: int | None = None) -> Iterator[tuple[str, bool]]:
    """The directories in and below `start`, each with whether it holds log files; skips what cannot be listed."""
    waiting = ["."]
    with suppress(OSError), opened(base_dir) as root:
        while waiting:
            path = waiting.pop()
            try:
                below, holds = _content(root, f"{start}/{path}")
            except OSError:
                continue
            yield path, holds
            if levels is None or path.count("/") < levels:
                waiting += (each for name in below if len(each := f"{path}/{name}") <= LONGEST_TRAIN_ID_BYTES)


def _content(root: OpenBaseDir, path: str) -> tuple[list[str], bool]:
    """The names of the directories in a directory, and whether it holds log files."""
    below, holds = [], False
    with root.directory(path) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not is_snapshots(entry.name):
                    below.append(entry.name)
            elif not holds and formats.recognise(entry.name):
                holds = entry.is_file(follow_symlinks=False)
    return below, holds


# ---- What has changed between the disk and the store. Pure

BY_PATH = attrgetter("train_id", "name")
"""The order of both lists."""
_UNSEEN = (FileState.MISSING, FileState.UNREADABLE)


class FileChange(Enum):
    """How a path compares; the values are the words for it."""

    NEW = "new"
    LOOK = "changed or not read to the end"
    """Open the file: it changed, or is not read to its end, or its stamp cannot be trusted."""
    UNCHANGED = "unchanged"
    MISSING = "no longer on disk"


class PathChange(NamedTuple):
    """One path's change, with the file found there and the file known, as far as there are any."""

    change: FileChange
    found: FoundFile | None
    known: KnownFile | None

    @property
    def file(self) -> FoundFile | KnownFile:
        """The file found or, if there is none, the file known."""
        file = self.found or self.known
        assert file is not None
        return file


def diff(
    found: Iterable[FoundFile], known: Iterable[KnownFile], *, distrust: bool = False
) -> Iterator[PathChange]:
    """Compare files that come in the order of their paths, without holding either list in memory.

    Args:
        distrust: look at every file that is still written, whatever its stamp says (network filesystems).
    """
    both: Iterable[FoundFile | KnownFile] = merge(found, known, key=BY_PATH)
    for _, of_path in groupby(both, key=BY_PATH):
        file, match = None, None
        for each in of_path:
            if isinstance(each, FoundFile):
                file = each
            else:
                match = each
        if file is not None:
            yield PathChange(_change(file, match, distrust), file, match)
        elif match is not None and match.state != FileState.MISSING:
            yield PathChange(FileChange.MISSING, None, match)


def _change(found: FoundFile, known: KnownFile | None, distrust: bool) -> FileChange:
    if known is None:
        return FileChange.NEW
    if known.state == FileState.QUARANTINED:
        return FileChange.UNCHANGED  # until a user asks for another try
    looked_at = known.stat_stamp == found.sight.stat_stamp and known.state not in _UNSEEN
    waits = known.suspect_since is not None or not (known.current or known.copy_of is not None)
    if looked_at and not waits and not (distrust and not known.closed):
        return FileChange.UNCHANGED
    return FileChange.LOOK


def is_rewritten(known: KnownFile, size_bytes: int, fingerprint: str | None, anchor: str | None) -> bool:
    """Whether the bytes before the bookmark are no longer those that were read.

    Args:
        fingerprint, anchor: digests of the file's present bytes, over the byte ranges of those in `known`.
    """
    if known.byte_offset == 0:
        return False
    return size_bytes < known.byte_offset or fingerprint != known.fingerprint or anchor != known.anchor
