"""The status file of a daemon, by which `status` on the same host knows about it without the database.

In: what a daemon does with each base dir. Out: one small file per daemon, in a directory of its user in /dev/shm (else
in the directory for temporary files), which can be written when the store's disk is full, read-only or unmounted.
Promises: writing raises nothing, and in /dev/shm never waits for a disk; only the daemon's user and root can read the
file; readers tell a daemon that was killed or stopped from one that runs. Does not know the database.
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
from typing import Any

from lineage_store.finding_kinds import Severity
from lineage_store.findings import Finding, finding
from lineage_store.program import is_stopped
from lineage_store.store.leases import begun

log = logging.getLogger(__name__)

MEMORY = Path("/dev/shm") if os.path.isdir("/dev/shm") else Path(tempfile.gettempdir())  # noqa: S108 - see `_private`
ACTIVE, STANDBY = "active", "standby"
STOPPED, ENDED = "daemon_stopped", "daemon_ended"
_DIRECTORY = "lineage-store-{}"
_LONGEST = 1 << 20
_NOT_OURS = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""The exceptions of parsing a file that is no status file."""
_KEPT_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """What a daemon of this host does with a base dir or a shard of one."""

    base_dir: str
    holder: str
    """The daemon, as leases name it: host, process id, nonce."""
    state: str
    """`active` (it holds the lease) or `standby`, as last written by the daemon."""
    finding: Finding | None = None
    """What keeps the daemon from reading; None: nothing."""
    shard: int = 0
    """The number of the shard."""

    @property
    def title(self) -> str:
        """A few words: what keeps the daemon from reading, else its state."""
        return self.finding.title if self.finding else self.state


@dataclass(frozen=True, slots=True)
class _Content:
    store: str
    pid: int
    begun: str
    """When the process began: a later process may have the same id."""
    ended: str
    """Why the daemon ended itself; empty while it runs."""
    base_dirs: list[DaemonStatus]

    def is_past(self) -> bool:
        return bool(self.ended) or begun(self.pid) != self.begun


class StatusFile:
    """The status file of one daemon."""

    def __init__(self, store: str) -> None:
        self._store, self._written = store, ""
        self._path = _home(os.getuid()) / f"{os.getpid()}-{secrets.token_hex(3)}.json"
        _remove_past(store)

    def write(self, statuses: Sequence[DaemonStatus], ended: str = "") -> None:
        """Write the statuses of all base dirs and, when the daemon ends itself, why. An error is logged."""
        content = _Content(self._store, os.getpid(), begun(os.getpid()), ended, list(statuses))
        text = json.dumps(asdict(content), default=datetime.isoformat)
        if text == self._written and self._path.exists():  # a user's files there may be cleared at logout
            return
        try:
            _write(self._path, text)
        except OSError as error:
            if not self._written:
                fields = {"path": str(self._path), "reason": error.strerror}
                log.warning("status file not written; `status` cannot show this daemon", extra=fields)
        self._written = text

    def remove(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._path.unlink()


def read_statuses(store: str) -> list[DaemonStatus]:
    """Return the statuses that this user's daemons have written about a store; root gets those of all users."""
    found = (content for _, content in _all_contents() if content.store == store)
    return [_checked(status, content) for content in found for status in content.base_dirs]


def _checked(status: DaemonStatus, content: _Content) -> DaemonStatus:
    """Return a status with the finding that the daemon has ended or is stopped, if it has or is."""
    pid, since = content.pid, status.finding.since if status.finding else None
    if content.is_past():
        how = content.ended or "without a message; probably it was killed"
        return replace(status, finding=finding(ENDED, status.base_dir, since=since, pid=pid, how=how))
    if is_stopped(pid):
        return replace(status, finding=finding(STOPPED, status.base_dir, since=since, pid=pid))
    return status


def _remove_past(store: str) -> None:
    """Remove the files of ended daemons: of this store, and of any store when the file is a week old."""
    for path, content in _all_contents():
        with suppress(OSError):
            if content.is_past() and (content.store == store or path.stat().st_mtime < time.time() - _KEPT_S):
                path.unlink()


def _all_contents() -> Iterator[tuple[Path, _Content]]:
    mine = _home(os.getuid())
    homes = sorted(MEMORY.glob(_DIRECTORY.format("*"))) if os.getuid() == 0 else [mine]
    for path in (path for home in homes if _is_private(home) for path in sorted(home.glob("*.json"))):
        with suppress(OSError, *_NOT_OURS):
            yield path, _parsed(_text(path))


def _parsed(text: str) -> _Content:
    fields = json.loads(text)
    return _Content(
        **{**fields, "pid": int(fields["pid"]), "base_dirs": [_status(each) for each in fields["base_dirs"]]}
    )


def _status(fields: dict[str, Any]) -> DaemonStatus:
    found, shard = fields.pop("finding"), int(fields.pop("shard"))
    if found is not None:
        found = Finding(**{**found, "severity": Severity(found["severity"]), "since": _time(found["since"])})
    words = [*fields.values(), *((found.kind, found.what, found.remedy) if found else ())]
    if not all(isinstance(word, str) for word in words):
        raise TypeError
    return DaemonStatus(**fields, finding=found, shard=shard)


def _text(path: Path) -> str:
    """Read a file that another user may have made: only a regular file, and not more than _LONGEST characters of it."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="utf-8") as file:
        return file.read(_LONGEST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else ""


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
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
    """Whether only the user in its name owns and can use a directory. Anybody may make directories beside it."""
    try:
        status = home.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and home == _home(status.st_uid) and not status.st_mode & 0o077


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
