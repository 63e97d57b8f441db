"""What the operating system refused, in words that help: whose it is, which mode, what to do."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterable

from lineage_store.ingest.scan.discovery import Unreadable
from lineage_store.store.records import Problem, relative_path
from lineage_store.texts import from_stored, to_stored

MOST_STRIKES = 3
"""So many times in a row reading a file may fail the reader; then it is left alone."""


def unreadable_file(path: str, error: OSError) -> Problem:
    """A log file that could not be opened or read."""
    return Problem("unreadable_file", _reason(path, error), _remedy(path, error))


def poisonous_file(reason: str, strikes: int) -> Problem:
    """A log file whose reading failed the reader so many times in a row."""
    if strikes < MOST_STRIKES:
        remedy = f"It is tried again, {MOST_STRIKES - strikes} more times; the other files go on."
    else:
        remedy = (
            "It is left alone from now on; the other files go on. `lineage-store inspect` shows what is in it, "
            "`lineage-store retry` has it tried again, with reading_deadline_s or reading_memory_bytes raised if "
            "those were too little."
        )
    return Problem("poisonous_file", f"{reason} Times in a row: {strikes}.", remedy)


def path_problems(base_dir: str, paths: Iterable[Unreadable]) -> dict[str, Problem]:
    """Directories and entries that could not be looked at, by their path relative to the base dir."""
    problems = {}
    for unreadable in paths:
        path = os.path.join(base_dir, from_stored(unreadable.path))
        problems[relative_path(unreadable.path)] = Problem(
            "unreadable_path", _reason(path, unreadable.error), _remedy(path, unreadable.error)
        )
    return problems


def unlistable_base_dir(path: str, error: OSError) -> Problem:
    """The base dir itself could not be listed: an unmounted share, most likely."""
    remedy = (
        "Is the share mounted? What the store holds is kept, and ingest goes on when the directory is back."
    )
    return Problem("unlistable_base_dir", _reason(path, error), remedy)


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


def _reason(path: str, error: OSError) -> str:
    access = access_of(path)
    cause = os.strerror(error.errno) if error.errno else to_stored(str(error))
    return f"{cause} ({access})." if access else f"{cause}."


def _remedy(path: str, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"This process runs as {me()}. Run the daemon as the training user, or make the file readable "
            "(MindSpore writes mode 0600 and 0400)."
        )
    if error.errno == errno.ELOOP:
        return (
            "It is a symbolic link; set follow_symlinks = true to follow links that stay inside the base dir."
        )
    return "It is tried again, at the latest every finished_interval_s; look at the filesystem if it stays."


def _name(look_up: Callable[[int], tuple[object, ...]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)
