"""Why a database failed, and what to do: turn a driver's error into one of a few causes.

In: an error of the driver, and the SQLite file if there is one. Out: a finding with a cause and a remedy. The cause
comes from the error's code if the code says it, else from the words of the message.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from lineage_store.errors import CONFLICT
from lineage_store.finding_kinds import KINDS
from lineage_store.findings import Finding, of_database
from lineage_store.paths import beside
from lineage_store.program import command_of, is_stopped

UNABLE_TO_OPEN = "Does its directory exist, and may this user write there?"
SPACE = KINDS["database_full"].remedy
ONLY_READS = (
    "This server or role only reads (a standby, or default_transaction_read_only): ingest where it may write."
)
READ_ONLY = "The file or its directory is read-only for this user."
_HALF_MADE = (
    "A process was killed while it made this file; what it began is taken back by the next command that writes, "
    "such as `lineage-store init`: run that, or its own again."
)
_NOT_GRANTED = (
    "An administrator of the database grants what is missing: `lineage-store db grant --reader ROLE` for questions, "
    "`--ingest ROLE` for ingest, `--owner ROLE` for upgrades. With the views alone (`--analyst`) only `sql` works."
)
_NOT_READABLE = (
    "This user may not read the file: its owner lets others read it and the files beside it (chmod g+r), or makes a "
    "snapshot for them (`lineage-store publish FILE`)."
)
TOO_LONG = "The statement was ended: ask for less, or allow more with the setting statement_timeout_s."
_OF_SQLITE = {
    5: "locked",
    6: "locked",
    8: "read-only",
    9: "timeout",
    11: "damaged",
    13: "full",
    26: "damaged",
}
"""By primary result code: BUSY, LOCKED, READONLY, INTERRUPT, CORRUPT, FULL, NOTADB."""
_MAGIC = b"SQLite format 3\0"
_BEGINNING_BYTES = 1 << 20
_OF_A_STORE = b"lineage_store_version"
"""In the first page of every store's file: the name of a table."""
_OF_SQLSTATE = {
    "25006": "read-only",
    "40001": CONFLICT,
    "40P01": "locked",
    "42501": "denied",
    "53100": "full",
    "55P03": "locked",
    "57014": "timeout",
    "57P01": "down",
    "57P02": "down",
    "57P03": "down",
}
_REMEDIES = (
    # Words in the message; the cause, if the code says none; the remedy.
    ("locked", "locked", "Another session of this process has it: wait."),
    (
        "lock timeout",
        "locked",
        "Another session holds a lock, such as an upgrade or a transaction that was left open: "
        "pg_blocking_pids() and the view pg_stat_activity tell which.",
    ),
    ("permission denied", "denied", _NOT_GRANTED),
    ("must be owner", "denied", _NOT_GRANTED),
    ("must be able to SET ROLE", "denied", _NOT_GRANTED),
    ("statement timeout", "timeout", TOO_LONG),
    ("interrupted", "timeout", TOO_LONG),
    ("read-only transaction", "read-only", ONLY_READS),
    (
        "idle-in-transaction",
        "failed",
        "This process stood still in a transaction, stopped or starved, until the server gave it up: try again.",
    ),
    ("readonly", "read-only", READ_ONLY),
    ("unable to open", "failed", UNABLE_TO_OPEN),
    ("no such table", "failed", "Run `lineage-store init` first."),
    ("full", "full", SPACE),
    ("No space left", "full", SPACE),
    ("password", "refused", "Check user and password (PGPASSFILE or the URL)."),
)
_OF_CONFLICT = "conflict with recovery"
"""Needed because the codes of such an error are also those of deadlocks and of servers that shut down."""
_IS_IT_UP = KINDS["database_down"].remedy
_IS_IT_WELL = "Is its disk well? The system's log may tell."
_LITTLE_BYTES = 1 << 20


def cause_of(error: BaseException | None, words: str, path: Path | None) -> Finding:
    """Return why the driver raised `error`; `words` is its message's first line, `path` the SQLite file, if any."""
    kind, remedy = next(
        ((kind, remedy) for word, kind, remedy in _REMEDIES if word in words), ("failed", _IS_IT_UP)
    )
    kind = _kind_by_code(error) or kind
    if kind == CONFLICT or _OF_CONFLICT in words:
        return of_database(CONFLICT)
    if path is None:
        return of_database(kind, remedy=remedy)
    if path.exists() and not os.access(path, os.R_OK):
        return of_database("denied", remedy=_NOT_READABLE)
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_ROLLBACK:
        return of_database(kind, remedy=_HALF_MADE)
    if kind == "locked":
        return of_database(kind, remedy=locked_remedy(path))
    if kind == "damaged":
        return of_database(kind)
    if remedy not in (_IS_IT_UP, UNABLE_TO_OPEN):
        return of_database(kind, remedy=remedy)
    # On a full disk SQLite also says "disk I/O error", when a file beside the database cannot grow.
    return of_disk(path) or of_database(kind, remedy=_IS_IT_WELL if remedy == _IS_IT_UP else remedy)


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite says that what it reads is no sound SQLite file."""
    return isinstance(error, sqlite3.DatabaseError) and _kind_by_code(error) == "damaged"


def was_a_store(path: Path) -> bool:
    """Return whether a file that SQLite does not take for one of its own has traces of a store: it is damaged then."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING_BYTES)
    except OSError:
        return False
    header = beginning[:100]
    return header.startswith(_MAGIC) or not header.strip(b"\0") or _OF_A_STORE in beginning


def of_disk(path: Path) -> Finding | None:
    """Return a finding if the disk or the permissions keep this user from writing a SQLite file; else None."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return None
    if disk.f_flag & os.ST_RDONLY or not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return of_database("read-only", remedy=READ_ONLY)
    return of_database("full", remedy=SPACE) if disk.f_bavail * disk.f_frsize < _LITTLE_BYTES else None


def _kind_by_code(error: BaseException | None) -> str | None:
    if isinstance(error, sqlite3.Error):
        return _OF_SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    sqlstate = getattr(error, "sqlstate", None)
    if sqlstate is None:  # there was no answer of a server
        return None if error is None or "password" in str(error) else "down"
    return "down" if sqlstate.startswith("08") else _OF_SQLSTATE.get(sqlstate)


def locked_remedy(path: Path) -> str:
    """Return a text that says who holds a SQLite file's write lock, and what to do about it."""
    pid = writer_of(path)
    if pid is None:
        return f"Another process holds its write lock: wait, or find it with `fuser {path}` or `lsof {path}`."
    command = command_of(pid) or "of another user"
    if is_stopped(pid):
        return (
            f"Process {pid} holds its write lock and is stopped ({command}): "
            f"let it go on (kill -CONT {pid}), or end it (kill -KILL {pid})."
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
