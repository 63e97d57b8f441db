"""What a daemon says of itself where the database cannot: a notice in memory, for `status` on the same host.

In: how each base dir stands with a daemon. Out: one small file per daemon, in a directory of its user on a filesystem
in memory, which can be written when the store's disk is full, read-only or away. Promises: posting never fails, nor
waits for a disk; only its user (and root) can read a notice; a daemon that was killed or stopped since is told from one
that runs. Does not know the database.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lineage_store.store.database.locks import is_stopped

log = logging.getLogger(__name__)

MEMORY = Path("/dev/shm") if os.path.isdir("/dev/shm") else Path(tempfile.gettempdir())  # noqa: S108 - see `_private`
LEADS, STANDS_BY, STOPPED, ENDED = "leads", "stands by", "stopped", "ended"
_DIRECTORY = "lineage-store-{}"
_LONGEST = 1 << 20
_NOT_OURS = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What comes of reading something that is no notice."""
_KEPT_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps a daemon from reading a base dir."""

    what: str
    """In few words: `database full`."""
    reason: str
    remedy: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """How a base dir stands with a daemon of this host."""

    base_dir: str
    holder: str
    """The daemon, as leases name it: host, process id, nonce."""
    what: str
    """leads, stands by; stopped, ended, or a trouble in few words."""
    since: datetime | None = None
    reason: str = ""
    remedy: str = ""

    @property
    def is_well(self) -> bool:
        """Whether the daemon does what it should."""
        return self.what in (LEADS, STANDS_BY)

    def but(self, trouble: Trouble | None) -> Standing:
        """The same with a trouble, if there is one."""
        if trouble is None:
            return self
        return replace(
            self, what=trouble.what, since=trouble.since, reason=trouble.reason, remedy=trouble.remedy
        )


@dataclass(frozen=True, slots=True)
class _Notice:
    """What is in the file."""

    store: str
    pid: int
    begun: str
    """When the process began: another one may have its number by now."""
    ended: str
    """Why the daemon ended itself; empty while it runs."""
    base_dirs: list[Standing]

    def is_past(self) -> bool:
        return bool(self.ended) or _begun(self.pid) != self.begun


class Noticeboard:
    """The notice of one daemon."""

    def __init__(self, store: str) -> None:
        self._store, self._told = store, ""
        self._path = _home(os.getuid()) / f"{os.getpid()}-{secrets.token_hex(3)}.json"
        _take_down_the_past(store)

    def post(self, standings: Sequence[Standing], ended: str = "") -> None:
        """Say how base dirs stand now; and why the daemon ends, if it does."""
        notice = _Notice(self._store, os.getpid(), _begun(os.getpid()), ended, list(standings))
        text = json.dumps(asdict(notice), default=datetime.isoformat)
        if text == self._told and self._path.exists():  # logging out may have cleared the memory of a user
            return
        try:
            _write(self._path, text)
        except OSError as error:
            if not self._told:
                fields = {"path": str(self._path), "reason": error.strerror}
                log.warning("`status` will not know how this daemon is", extra=fields)
        self._told = text

    def take_down(self) -> None:
        """Leave nothing behind."""
        with suppress(OSError):
            self._path.unlink()


def read(store: str) -> list[Standing]:
    """How base dirs stand with the daemons of this user that are, or were, at work on a store; root sees all users'."""
    return [_as_it_is(standing, notice) for notice in _notices(store) for standing in notice.base_dirs]


def _as_it_is(standing: Standing, notice: _Notice) -> Standing:
    pid = notice.pid
    if notice.is_past():
        how = notice.ended or "without a word; it was killed, most likely"
        reason = f"The daemon that followed it, process {pid}, has ended: {how}."
        return replace(standing, what=ENDED, reason=reason, remedy="Start it again; its log tells more.")
    if is_stopped(pid):
        reason = f"The daemon that follows it, process {pid}, is stopped."
        remedy = f"Let it go on (kill -CONT {pid}), or end it (kill -KILL {pid})."
        return replace(standing, what=STOPPED, reason=reason, remedy=remedy)
    return standing


def _take_down_the_past(store: str) -> None:
    """Whoever starts anew has the word now; and nobody asks any more for what ended long ago."""
    for path, notice in _all_notices():
        with suppress(OSError):
            if notice.is_past() and (notice.store == store or path.stat().st_mtime < time.time() - _KEPT_S):
                path.unlink()


def _notices(store: str) -> Iterator[_Notice]:
    return (notice for _, notice in _all_notices() if notice.store == store)


def _all_notices() -> Iterator[tuple[Path, _Notice]]:
    mine = _home(os.getuid())
    homes = sorted(MEMORY.glob(_DIRECTORY.format("*"))) if os.getuid() == 0 else [mine]
    for path in (path for home in homes if _is_private(home) for path in sorted(home.glob("*.json"))):
        with suppress(OSError, *_NOT_OURS):
            yield path, _parsed(_text(path))


def _parsed(text: str) -> _Notice:
    fields = json.loads(text)
    words = (value for each in fields["base_dirs"] for name, value in each.items() if name != "since")
    if not all(isinstance(word, str) for word in words):
        raise TypeError
    standings = [Standing(**{**each, "since": _time(each["since"])}) for each in fields["base_dirs"]]
    return _Notice(**{**fields, "pid": int(fields["pid"]), "base_dirs": standings})


def _text(path: Path) -> str:
    """What is in a file, which another user may have made: anything but a plain file of some size is left alone."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
        return file.read(_LONGEST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else ""


def _write(path: Path, text: str) -> None:
    """All or nothing."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(path.parent):
        raise PermissionError(0, f"{path.parent} is not a private directory of this user")
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


def _home(user: int) -> Path:
    return MEMORY / _DIRECTORY.format(user)


def _is_private(home: Path) -> bool:
    """Whether a directory is of the user in its name: anybody may make directories where it lies."""
    try:
        status = home.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and home == _home(status.st_uid) and not status.st_mode & 0o077


def _begun(pid: int) -> str:
    """When a process began, in ticks since the machine did: tells it from a later one of the same number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
