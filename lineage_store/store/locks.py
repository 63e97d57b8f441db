"""Who holds a SQLite file's write lock, as far as Linux tells.

In: the database's file. Out: the process, or nothing: no /proc, no lock, or a process that this one cannot see.
Knows where SQLite locks: byte 120 of the -shm file in WAL mode, else the database file itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_WRITER = 120


def writer_of(path: Path) -> int | None:
    """The id of the process that has the write lock of a SQLite database now."""
    files = {_inode(Path(f"{path}-shm")): (_WRITER, _WRITER), _inode(path): None}
    return next(
        (
            pid
            for pid, inode, span in _write_locks()
            if pid > 0 and inode in files and files[inode] in (None, span)
        ),
        None,
    )


def command_of(pid: int) -> str:
    """The command line of a process; empty when it is not told."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def _write_locks() -> Iterator[tuple[int, int, tuple[int, int] | None]]:
    """(process id, inode, first and last byte) of every write lock. Devices are left out: /proc and stat may differ."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if fields[1] == "->" or fields[3] != "WRITE":  # somebody waits for it, or reads
            continue
        last = int(fields[7]) if fields[7].isdigit() else -1
        yield int(fields[4]), int(fields[5].rpartition(":")[2]), (int(fields[6]), last)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1
