"""A cache of a base dir's directories and files that the store is up to date with, so that only changes are looked at.

In: what surveys found and how it compared with the store. Out: the few directories and files that may have changed.
Promises: an entry was in the store when it was made, and its directory had not changed in the last two seconds, so
that no entry hides a change (a resting directory's may show late) and dropping one is always safe; a resting directory
takes about 140 bytes. Valid while nobody else writes the base dir's rows, so it belongs to one lease. Does not know
the database.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.ingest.scan.discovery import ROOT, FileChange, FoundFile, FoundFiles, PathChange, sight_of
from lineage_store.paths import OpenBaseDir, filesystem_type, is_network, opened
from lineage_store.store.records import FileSight
from lineage_store.texts import from_stored

SETTLED_AFTER_NS = 2_000_000_000
"""A directory that changed less than this ago may change again without a new change time: some file systems count in
steps of two seconds."""
RESTING_PER_SEARCH = 1000
"""How many resting directories one search looks at (a hundredth of them, where that is more), all of them in turn."""

_LISTED_BITS = 32
_LISTED_MASK = (1 << _LISTED_BITS) - 1


@dataclass(frozen=True, slots=True)
class Signs:
    """What may have changed: directories to list, and changed files in directories that need no listing."""

    directories: Collection[str] = ()
    files: Collection[FoundFile] = ()


@dataclass(frozen=True, slots=True)
class _Watched:
    """A directory that every search looks at."""

    changed_ns: int
    """The directory's change time; 0 when it has to be listed in any case."""
    files: tuple[FoundFile, ...] = ()
    """The files in it that may grow, each with the stamp at which the store had all of it, or with _UNSEEN."""


_TO_BE_LISTED = _Watched(0)
_UNSEEN = FileSight(0, 0, closed=False, stat_stamp="")
"""Equal to no sight of a file, so that the file counts as changed."""


@dataclass(slots=True)
class DirectoryCache:
    """The directories of one base dir: `_watched` ones are looked at in every search, `_resting` ones now and then."""

    follow_symlinks: bool = False
    distrust: bool = False
    """Whether times may lag behind what is written (network filesystems): directories with files that may grow, or with
    directories in them, are then listed in every search."""
    settled_after_ns: int = SETTLED_AFTER_NS
    is_new: bool = True
    """Whether no survey has been completed yet: the first one has to look at everything."""
    _watched: dict[str, _Watched] = field(default_factory=lambda: {ROOT: _TO_BE_LISTED})
    _resting: dict[str, int] = field(default_factory=dict)
    """All other directories, those listed longest ago first: the change time in the high bits and, in the low
    _LISTED_BITS, the time (monotonic, s) of the last listing. One number, for there may be a million: a tuple of two
    takes three times the memory."""
    _branches: set[str] = field(default_factory=lambda: {ROOT})
    """Directories that have directories which a search goes into."""
    _round: Iterator[str] = field(default_factory=lambda: iter(()))

    def __contains__(self, train_id: object) -> bool:
        return train_id in self._watched or train_id in self._resting

    def signs(self, base_dir: Path, *, relist_after_s: float, thorough: bool = False) -> Signs:
        """Return what may have changed in the watched directories and in some (`thorough`: all) of the resting ones.

        Some of the resting directories that were listed more than `relist_after_s` ago are to be listed in any case.
        Raises OSError when the base dir cannot be opened.
        """
        share = max(RESTING_PER_SEARCH, len(self._resting) // 100)
        with opened(base_dir, follow_symlinks=self.follow_symlinks) as root:
            signs = self._signs(root, self._watched)
            checked = self._resting if thorough else self._next_round(share)
            changed = [
                name for name, seen in checked.items() if _changed_ns(root, name) != seen >> _LISTED_BITS
            ]
        since = time.monotonic() - relist_after_s
        due = islice(takewhile(lambda name: self._resting[name] & _LISTED_MASK < since, self._resting), share)
        return Signs({*signs.directories, *changed, *due}, signs.files)

    def signs_in(self, base_dir: Path, directories: Iterable[str]) -> Signs:
        """Return what may have changed in these directories, resting ones excepted.

        Raises OSError when the base dir cannot be opened.
        """
        watched = {
            name: self._watched.get(name, _TO_BE_LISTED) for name in directories if name not in self._resting
        }
        with opened(base_dir, follow_symlinks=self.follow_symlinks) as root:
            return self._signs(root, watched)

    def gone(self, found: FoundFiles) -> set[str]:
        """Return the remembered directories that were not found although the directories above them were listed."""
        gone = set[str]()
        for parent in self._branches.intersection(found.directories):
            if found.directories[parent]:
                gone.update(self._remembered_below(parent, set(found.below.get(parent, ()))))
        return gone

    def take_in(self, listed: Iterable[str], found: FoundFiles, changes: Iterable[PathChange]) -> None:
        """Remember the directories `listed`, and the changed files of others, as far as the store is up to date."""
        of_directory: dict[str, list[PathChange]] = defaultdict(list)
        for change in changes:
            of_directory[change.file.train_id].append(change)
        incomplete = _incomplete(found)
        settled_ns = found.began_ns - self.settled_after_ns
        for train_id in listed:
            its_changes = of_directory.pop(train_id, [])
            changed_ns = found.directories.get(train_id, 0)
            self._forget(train_id)
            if train_id in found.below:
                self._branches.add(train_id)
            if changed_ns >= settled_ns or train_id in incomplete or _lacks_any(its_changes):
                self._watched[train_id] = _TO_BE_LISTED
            elif changed_ns:
                self._remember(train_id, changed_ns, map(_as_remembered, its_changes))
        for train_id, its_changes in of_directory.items():
            self._update(train_id, its_changes)

    def _signs(self, root: OpenBaseDir, watched: Mapping[str, _Watched]) -> Signs:
        directories: list[str] = []
        files: list[FoundFile] = []
        for name, seen in watched.items():
            if not seen.changed_ns or _changed_ns(root, name) != seen.changed_ns:
                directories.append(name)
                continue
            try:
                files += _grown(root, seen.files)
            except OSError:
                directories.append(name)
        return Signs(directories, files)

    def _next_round(self, share: int) -> Mapping[str, int]:
        names = list(islice(self._round, share))
        if not names:
            self._round = iter(list(self._resting))
            names = list(islice(self._round, share))
        return {name: self._resting[name] for name in names if name in self._resting}

    def _remembered_below(self, parent: str, present: Collection[str]) -> Iterator[str]:
        start = f"{parent.rstrip('/')}/"
        for name in (*self._watched, *self._resting):
            if name != parent and name.startswith(start):
                child = start + name[len(start) :].partition("/")[0]
                if child not in present:
                    yield name

    def _forget(self, train_id: str) -> None:
        self._watched.pop(train_id, None)
        self._resting.pop(train_id, None)
        if train_id != ROOT:
            self._branches.discard(train_id)

    def _remember(self, train_id: str, changed_ns: int, files: Iterable[FoundFile | None]) -> None:
        growing = tuple(file for file in files if file is not None)
        if not growing and train_id not in self._branches:
            self._resting[train_id] = changed_ns << _LISTED_BITS | int(time.monotonic())
        else:
            self._watched[train_id] = _Watched(0 if self.distrust else changed_ns, growing)

    def _update(self, train_id: str, changes: Sequence[PathChange]) -> None:
        """Remember how the files compared of a directory that was not listed."""
        seen = self._watched.pop(train_id, _TO_BE_LISTED)
        if not seen.changed_ns or _lacks_any(changes):
            self._watched[train_id] = _TO_BE_LISTED
            return
        compared = {change.found.name: _as_remembered(change) for change in changes if change.found}
        self._remember(train_id, seen.changed_ns, (compared.get(file.name, file) for file in seen.files))


def new_cache(base_dir: Path, settings: Settings) -> DirectoryCache:
    """Return a cache that does not remember anything yet."""
    return DirectoryCache(settings.follow_symlinks, distrust=is_network(filesystem_type(base_dir)))


def _as_remembered(change: PathChange) -> FoundFile | None:
    """The file, if it may grow or the store lacks something of it, else None."""
    file = change.found
    if file is None:
        return None
    if change.change is not FileChange.UNCHANGED:
        return file._replace(sight=_UNSEEN)
    return None if file.sight.closed else file


def _lacks_any(changes: Iterable[PathChange]) -> bool:
    return any(change.change is FileChange.MISSING for change in changes)


def _incomplete(found: FoundFiles) -> set[str]:
    """The directories that could not be listed, or in which an entry could not be read."""
    return {path if path in found.directories else _parent(path) for path in found.unreadable}


def _parent(path: str) -> str:
    above = path.rpartition("/")[0]
    return ROOT if above == "." else above


def _changed_ns(root: OpenBaseDir, name: str) -> int:
    try:
        return root.status(from_stored(name)).st_ctime_ns
    except OSError:
        return -1


def _grown(root: OpenBaseDir, files: Iterable[FoundFile]) -> list[FoundFile]:
    grown = []
    for file in files:
        sight = sight_of(root.status(from_stored(f"{file.train_id}/{file.name}")), file.format)
        if sight.stat_stamp != file.sight.stat_stamp:
            grown.append(file._replace(sight=sight))
    return grown
