"""Findings about files and directories that could not be read: with owner, mode and what to do.

In: paths, and the errors of the operating system. Out: findings. Promises: raises nothing more when a path cannot be
looked at either. Does not know the database.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lineage_store.findings import Finding, finding
from lineage_store.paths import LinkError, OpenBaseDir, opened
from lineage_store.store.records import KnownFile, relative_path
from lineage_store.texts import from_stored, to_stored

MOST_FAILED_READS = 3
"""After this many failed reads in a row, a file is no longer read."""

_CASES = {errno.EACCES: "denied", errno.EPERM: "denied", errno.ELOOP: "link"}


def unreadable_file(base_dir: Path, train_id: str, name: str, error: OSError) -> Finding:
    """Return the finding about a log file (stored names) that could not be opened or read."""
    path = from_stored(relative_path(train_id, name))
    return _unreadable("unreadable_file", os.path.join(base_dir, path), base_dir, path, error)


def missing_files(
    base_dir: Path, files: Iterable[KnownFile], *, follow_symlinks: bool
) -> dict[KnownFile, Finding]:
    """Return the findings about log files that were not found: missing, or with a symbolic link in their place.

    Raises OSError when the base dir cannot be opened.
    """
    with opened(base_dir, follow_symlinks=follow_symlinks) as root:
        return {file: _missing(root, relative_path(file.train_id, file.name)) for file in files}


def quarantined_file(path: str, reason: str, failed_reads: int) -> Finding:
    """Return the finding about a log file whose reading failed the reader `failed_reads` times in a row."""
    left = MOST_FAILED_READS - failed_reads
    case = "again" if left > 0 else ""
    return finding("quarantined_file", path, case=case, reason=reason, times=failed_reads, left=left)


def path_problems(base_dir: Path, paths: Mapping[str, OSError]) -> list[Finding]:
    """Return the findings about directories and entries that could not be read, with paths below the base dir."""
    return [
        _unreadable("unreadable_path", relative_path(path), base_dir, from_stored(path), error)
        for path, error in paths.items()
    ]


def unlistable_base_dir(path: str, error: OSError, subject: str = ".") -> Finding:
    """Return the finding that the base dir itself could not be listed: most likely, a share is not mounted."""
    return finding("unlistable_base_dir", subject, reason=_reason(access_of(path), error), me=me())


def access_of(path: str) -> str:
    """Return owner, group and mode of a path, as `ls -l` shows them; an empty text when it cannot be looked at."""
    try:
        return _access(os.stat(path, follow_symlinks=False))
    except OSError:
        return ""


def _access(status: os.stat_result) -> str:
    owner, group = _name(pwd.getpwuid, status.st_uid), _name(grp.getgrgid, status.st_gid)
    return f"owner {owner}, group {group}, mode {stat.filemode(status.st_mode)} ({stat.S_IMODE(status.st_mode):04o})"


def me() -> str:
    """Return the name of this process's user."""
    return _name(pwd.getpwuid, os.geteuid())


def _unreadable(kind: str, subject: str, base_dir: Path, path: str, error: OSError) -> Finding:
    case = _CASES.get(error.errno or 0, "")
    try:
        with opened(base_dir) as root:
            access = _access(root.status(path))
    except OSError:
        access = ""
    return finding(kind, subject, case=case, reason=_reason(access, error), me=me())


def _missing(root: OpenBaseDir, path: str) -> Finding:
    try:
        root.status(from_stored(path))
    except LinkError as error:
        return finding("link_in_place", path, link=to_stored(error.filename))
    except OSError:
        pass
    return finding("missing_file", path)


def _reason(access: str, error: OSError) -> str:
    cause = to_stored(error.strerror or str(error))
    return f"{cause} ({access})." if access else f"{cause}."


def _name(look_up: Callable[[int], tuple[object, ...]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)
