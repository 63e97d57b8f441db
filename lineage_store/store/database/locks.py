"""Which processes write and read a SQLite file now, by Linux's list of file locks; what /proc says of a process.

In: the database's file, or a process id. Out: process ids; none if there is no /proc, no lock, or the process cannot be
seen from here; a process's command, state and beginning, empty if they are unknown.
Knows where SQLite locks: byte 120 of the -shm file in WAL mode, else the database file itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lineage_store.store.database.filesystem import beside
from lineage_store.texts import without_passwords

_WRITER = 120
_READERS = range(123, 128)
"""Bytes of the read marks: a reader holds a shared lock on one of them."""


def writer_of(path: Path) -> int | None:
    """Return the id of the process that has the write lock of a SQLite database now."""
    files = {_inode(beside(path, "-shm")): (_WRITER, _WRITER), _inode(path): None}
    return next(
        (
            pid
            for pid, inode, span in _locks("WRITE")
            if pid > 0 and inode in files and files[inode] in (None, span)
        ),
        None,
    )


def readers_of(path: Path) -> list[int]:
    """Return the ids of other processes that are reading a SQLite database in WAL mode now."""
    shared = _inode(beside(path, "-shm"))
    found = {
        pid
        for pid, inode, span in _locks("READ")
        if inode == shared and span is not None and span[0] in _READERS
    }
    return sorted(found - {os.getpid(), 0, -1})


def command_of(pid: int) -> str:
    """Return the command line of a process without passwords; "" if it cannot be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        return without_passwords(words.strip())
    except OSError:
        return ""


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped (by SIGSTOP or a debugger), so that it will not release its locks."""
    return state_and_begin(pid)[0] in ("T", "t")


def state_and_begin(pid: int) -> tuple[str, str]:
    """Return a process's state, a letter, and when it started, in clock ticks since boot; both "" if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


def _locks(kind: str) -> Iterator[tuple[int, int, tuple[int, int] | None]]:
    """Yield (process id, inode, first and last byte) of every READ or WRITE lock.

    Devices are left out, because /proc/locks and stat may show different ones.
    """
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if fields[1] == "->" or fields[3] != kind:  # "->": a process that waits for the lock
            continue
        last = int(fields[7]) if fields[7].isdigit() else -1
        yield int(fields[4]), int(fields[5].rpartition(":")[2]), (int(fields[6]), last)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1
