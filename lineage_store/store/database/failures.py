"""Why a database failed, and what to do: turn a driver's error into one of a few causes.

In: an error of the driver, and the SQLite file if there is one. Out: the cause, and a remedy. The cause comes from the
error's code if the code says it, else from the words of the message.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from lineage_store.errors import Cause
from lineage_store.finding_kinds import of_cause
from lineage_store.paths import beside
from lineage_store.program import command_of, is_stopped

UNABLE_TO_OPEN = "Does its directory exist, and may this user write there?"
SPACE = of_cause(Cause.FULL).remedy
ONLY_READS = (
    "This server or role only reads (a standby, or default_transaction_read_only): ingest where it may write."
)
READ_ONLY = "The file or its directory is read-only for this user."
_HALF_MADE = (
    "A process was killed while it made this file; the next command that writes rolls back what it began: "
    "run it again, or `lineage-store init`."
)
_NOT_GRANTED = (
    "An administrator of the database grants what is missing: `lineage-store db grant --reader ROLE` for questions, "
    "`--ingest ROLE` for ingest, `--owner ROLE` for upgrades. With the views alone (`--analyst`) only `sql` works."
)
_NOT_READABLE = (
    "This user may not read the file: its owner lets others read it and the files beside it (chmod g+r), or makes a "
    "snapshot for them (`lineage-store backup FILE --mode 444`)."
)
TOO_LONG = "The statement was cancelled: ask for less, or allow more with the setting statement_timeout_s."
_OF_SQLITE = {
    5: Cause.LOCKED,
    6: Cause.LOCKED,
    8: Cause.READ_ONLY,
    9: Cause.TIMEOUT,
    11: Cause.DAMAGED,
    13: Cause.FULL,
    26: Cause.DAMAGED,
}
"""By primary result code: BUSY, LOCKED, READONLY, INTERRUPT, CORRUPT, FULL, NOTADB."""
_MAGIC = b"SQLite format 3\0"
_BEGINNING_BYTES = 1 << 20
_OF_A_STORE = b"lineage_store_version"
"""In the first page of every store's file: the name of a table."""
_OF_SQLSTATE = {
    "25006": Cause.READ_ONLY,
    "40001": Cause.CONFLICT,
    "40P01": Cause.LOCKED,
    "42501": Cause.DENIED,
    "53100": Cause.FULL,
    "55P03": Cause.LOCKED,
    "57014": Cause.TIMEOUT,
    "57P01": Cause.DOWN,
    "57P02": Cause.DOWN,
    "57P03": Cause.DOWN,
}
_REMEDIES = (
    # Words in the message; the cause, if the code says none; the remedy.
    ("locked", Cause.LOCKED, "Another session of this process has it: wait."),
    (
        "lock timeout",
        Cause.LOCKED,
        "Another session holds a lock, such as an upgrade or a transaction that was left open: "
        "pg_blocking_pids() and the view pg_stat_activity show which.",
    ),
    ("permission denied", Cause.DENIED, _NOT_GRANTED),
    ("must be owner", Cause.DENIED, _NOT_GRANTED),
    ("must be able to SET ROLE", Cause.DENIED, _NOT_GRANTED),
    ("statement timeout", Cause.TIMEOUT, TOO_LONG),
    ("interrupted", Cause.TIMEOUT, TOO_LONG),
    ("read-only transaction", Cause.READ_ONLY, ONLY_READS),
    (
        "idle-in-transaction",
        Cause.FAILED,
        "This process stood still in a transaction, stopped or starved, until the server gave it up: try again.",
    ),
    ("readonly", Cause.READ_ONLY, READ_ONLY),
    ("unable to open", Cause.FAILED, UNABLE_TO_OPEN),
    ("no such table", Cause.FAILED, "Run `lineage-store init` first."),
    ("full", Cause.FULL, SPACE),
    ("No space left", Cause.FULL, SPACE),
    ("password", Cause.REFUSED, "Check user and password (PGPASSFILE or the URL)."),
)
_OF_CONFLICT = "conflict with recovery"
"""Needed because the codes of such an error are also those of deadlocks and of servers that shut down."""
_IS_IT_UP = of_cause(Cause.DOWN).remedy
_IS_IT_WELL = "Is its disk healthy? See the system's log."
_LITTLE_BYTES = 1 << 20


def cause_of(error: BaseException | None, words: str, path: Path | None) -> tuple[Cause, str]:
    """Return why the driver raised `error`, and what to do.

    `words` is its message's first line, `path` the SQLite file, if any.
    """
    cause, remedy = next(
        ((cause, remedy) for word, cause, remedy in _REMEDIES if word in words), (Cause.FAILED, _IS_IT_UP)
    )
    cause = _cause_by_code(error) or cause
    if cause == Cause.CONFLICT or _OF_CONFLICT in words:
        return Cause.CONFLICT, of_cause(Cause.CONFLICT).remedy
    if path is None:
        return cause, remedy
    if path.exists() and not os.access(path, os.R_OK):
        return Cause.DENIED, _NOT_READABLE
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK:
        return cause, _HALF_MADE
    if cause == Cause.LOCKED:
        return cause, locked_remedy(path)
    if cause == Cause.DAMAGED:
        return cause, of_cause(cause).remedy
    if remedy not in (_IS_IT_UP, UNABLE_TO_OPEN):
        return cause, remedy
    # On a full disk SQLite also says "disk I/O error", when a file beside the database cannot grow.
    return of_disk(path) or (cause, _IS_IT_WELL if remedy == _IS_IT_UP else remedy)


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite says that what it reads is no sound SQLite file."""
    return isinstance(error, sqlite3.DatabaseError) and _cause_by_code(error) == Cause.DAMAGED


def was_a_store(path: Path) -> bool:
    """Return whether a file that SQLite does not take for one of its own has traces of a store: it is damaged then."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING_BYTES)
    except OSError:
        return False
    header = beginning[:100]
    return header.startswith(_MAGIC) or not header.strip(b"\0") or _OF_A_STORE in beginning


def of_disk(path: Path) -> tuple[Cause, str] | None:
    """Return why the disk or the permissions keep this user from writing a SQLite file, and what to do; else None."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    if disk.f_flag & os.ST_RDONLY or not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return Cause.READ_ONLY, READ_ONLY
    return (Cause.FULL, SPACE) if disk.f_bavail * disk.f_frsize < _LITTLE_BYTES else None


def _cause_by_code(error: BaseException | None) -> Cause | None:
    if isinstance(error, sqlite3.Error):
        return _OF_SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    sqlstate = getattr(error, "sqlstate", None)
    if sqlstate is None:  # there was no answer of a server
        return None if error is None or "password" in str(error) else Cause.DOWN
    return Cause.DOWN if sqlstate.startswith("08") else _OF_SQLSTATE.get(sqlstate)


def locked_remedy(path: Path) -> str:
    """Return a text that says who holds a SQLite file's write lock, and what to do about it."""
    pid = writer_of(path)
    if pid is None:
        return f"Another process holds its write lock: wait, or find it with `fuser {path}` or `lsof {path}`."
    command = command_of(pid) or "of another user"
    if is_stopped(pid):
        return (
            f"Process {pid} holds its write lock and is stopped ({command}): "
            f"resume it (kill -CONT {pid}), or end it (kill -KILL {pid})."
        )
    return f"Process {pid} holds its write lock ({command}): wait for it, or end it."


# ---- Which processes write and read a SQLite file now, by Linux's list of file locks; what /proc says of a process
# In: the database's file, or a process id. Out: process ids; none if there is no /proc, no lock, or the process
# cannot be seen from here; a process's command, state and beginning, empty if they are unknown. Knows where SQLite
# locks: byte 120 of the -shm file in WAL mode, else the database file itself.


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
