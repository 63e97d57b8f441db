"""What the operating system refused, in words that help: whose it is, which mode, what to do."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterable

from lineage_store.findings import Finding, finding
from lineage_store.ingest.scan.discovery import Unreadable
from lineage_store.store.records import relative_path
from lineage_store.texts import from_stored, to_stored

MOST_FAILED_READS = 3
"""So many times in a row reading a file may fail the reader; then it is left alone."""


_CASES = {errno.EACCES: "denied", errno.EPERM: "denied", errno.ELOOP: "link"}


def unreadable_file(path: str, error: OSError) -> Finding:
    """A log file that could not be opened or read."""
    return _unreadable("unreadable_file", path, path, error)


def poisonous_file(path: str, reason: str, failed_reads: int) -> Finding:
    """A log file whose reading failed the reader so many times in a row."""
    left = MOST_FAILED_READS - failed_reads
    case = "again" if left > 0 else ""
    return finding("poisonous_file", path, case=case, reason=reason, times=failed_reads, left=left)


def path_problems(base_dir: str, paths: Iterable[Unreadable]) -> list[Finding]:
    """Directories and entries that could not be looked at, by their path relative to the base dir."""
    return [
        _unreadable(
            "unreadable_path",
            relative_path(each.path),
            os.path.join(base_dir, from_stored(each.path)),
            each.error,
        )
        for each in paths
    ]


def unlistable_base_dir(path: str, error: OSError, subject: str = ".") -> Finding:
    """The base dir itself could not be listed: an unmounted share, most likely."""
    return finding("unlistable_base_dir", subject, reason=_reason(path, error), me=me())


def access_of(path: str) -> str:
    """Owner, group and mode of a path, as `ls -l` shows them; empty when even that is refused."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return ""
    owner, group = _name(pwd.getpwuid, status.st_uid), _name(grp.getgrgid, status.st_gid)
    return f"owner {owner}, group {group}, mode {stat.filemode(status.st_mode)} ({stat.S_IMODE(status.st_mode):04o})"


def me() -> str:
    """Who this process is."""
    return _name(pwd.getpwuid, os.geteuid())


def _unreadable(kind: str, subject: str, path: str, error: OSError) -> Finding:
    case = _CASES.get(error.errno or 0, "")
    return finding(kind, subject, case=case, reason=_reason(path, error), me=me())


def _reason(path: str, error: OSError) -> str:
    access = access_of(path)
    cause = os.strerror(error.errno) if error.errno else to_stored(str(error))
    return f"{cause} ({access})." if access else f"{cause}."


def _name(look_up: Callable[[int], tuple[object, ...]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)
