"""A hot standby that answers questions, and whether it has replayed what this process wrote to the primary.

In: engines of both servers. Out: whether the standby still lacks a write. Promises: while it lacks none, a question on
the standby sees every earlier write of the primary's engine, by position in the write-ahead log; as long as nothing is
written, neither server is queried for that. While the primary does not answer, the standby counts as up to date. Does
not know questions or tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.findings import THE_STANDBY, Finding, finding
from lineage_store.store.database.db import last_write, note_write, reading, safe_url
from lineage_store.store.database.sql import Session

WRITTEN = """
SELECT pg_wal_lsn_diff(
  CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END, '0/0')::bigint
"""
"""On a primary the insert position, not the write position: a commit without a sync is visible before it is written."""
_LACKS = "SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') < %s"
"""NULL on a server that never was a standby, such as the primary itself. A promoted standby's position stays."""
_DATABASE = """
SELECT system_identifier, oid FROM pg_control_system(), pg_database WHERE datname = current_database()
"""


class Standby:
    """A standby and its primary. Thread-safe."""

    def __init__(self, primary: Engine, engine: Engine) -> None:
        self.engine, self._primary = engine, primary
        self._has: object = None
        """The last write that it is known to have replayed."""
        self._wanted: tuple[object, int] = (None, 0)
        """A write, and the place in the log up to which it is replayed at the latest."""

    def __str__(self) -> str:
        return safe_url(self.engine.url)

    def lacks_writes(self) -> bool:
        """Return whether the standby has not yet replayed the last write, so that the primary must answer instead."""
        write = last_write(self._primary)
        if write is self._has:
            return False
        written = self._written()
        if written is None:
            self._has = write
            return False
        if self._wanted[0] is not write:
            self._wanted = write, written
        with reading(self.engine) as session:
            lacks = session.value(_LACKS, (self._wanted[1],))
        if not lacks:
            self._has = write
        return bool(lacks)

    def stay_no_older(self) -> None:
        """Treat the present state of the primary as a write of this process, which the standby must have replayed."""
        note_write(self._primary)
        write, written = last_write(self._primary), self._written()
        if written is not None:
            self._wanted = write, written

    def primary_answers(self) -> bool:
        return self._written() is not None

    def is_copy(self) -> bool:
        """Return whether the standby has the primary's database; True if the primary does not answer."""
        try:
            with reading(self._primary) as session:
                wanted = _database(session)
        except DatabaseUnavailableError:
            return True
        with reading(self.engine) as session:
            return _database(session) == wanted

    def _written(self) -> int | None:
        """Return the primary's position in the write-ahead log, in bytes; None if it does not answer."""
        try:
            with reading(self._primary) as session:
                return int(session.value(WRITTEN))
        except DatabaseUnavailableError:
            return None


def _database(session: Session) -> tuple[object, ...]:
    return tuple(session.one(_DATABASE))


# ---- How far a standby is behind its primary
# In: engines of both. Out: the lag in seconds and bytes, and a finding if something is wrong. Promises: a server that
# does not answer raises no error, but is part of the result. The lag in seconds is the age of the last commit that
# the standby shows; it is 0 if no bytes are missing, because an idle primary commits nothing.


_OF_PRIMARY = f"SELECT ({WRITTEN}) AS written, pg_postmaster_start_time() AS started"
_OF_STANDBY = f"""
SELECT ({WRITTEN}) AS replayed, pg_last_xact_replay_timestamp() AS shows, pg_is_in_recovery() AS follows,
  extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS age_s,
  CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END AS paused,
  pg_postmaster_start_time() AS started
"""  # noqa: S608 - both are ours


@dataclass(frozen=True, slots=True)
class Replay:
    """The state of a standby."""

    url: str
    """Without a password."""
    is_up: bool
    lag_s: float | None = None
    """Age of the last commit that it shows, 0 if it shows all; None if that or the primary's position is unknown."""
    lag_bytes: int | None = None
    """Bytes of the write-ahead log that it has not replayed; None if the primary does not answer."""
    shows: datetime | None = None
    """Time of the last commit that it shows; None if it has replayed none since its start."""
    finding: Finding | None = None

    def __str__(self) -> str:
        if not self.is_up:
            return f"{self.url}, which does not answer"
        if self.lag_bytes is None:
            return f"{self.url}, how far behind is unknown; it shows what was committed up to {self.shows}"
        return f"{self.url}, {self.lag_s or 0:,.1f} s ({self.lag_bytes:,} bytes) behind"


def read_replay(primary: Engine, standby: Engine, *, within_s: float) -> Replay:
    """Return the state of a standby, with a finding if it lags by more than `within_s` seconds."""
    url = safe_url(standby.url)
    try:
        of_primary: Row[Any] | None = _ask(primary, _OF_PRIMARY)
    except DatabaseUnavailableError:
        of_primary = None
    try:
        found = _ask(standby, _OF_STANDBY)
    except DatabaseUnavailableError as error:
        return Replay(url, False, finding=finding("standby_down", THE_STANDBY, reason=error.message))
    if not found.follows:
        if of_primary is not None and of_primary.started == found.started:
            chosen = finding("standby_is_primary", THE_STANDBY)
            return Replay(url, True, lag_s=0.0, lag_bytes=0, finding=chosen)
        promoted = finding("standby_promoted", THE_STANDBY, primary=safe_url(primary.url))
        return Replay(url, True, finding=promoted)
    if of_primary is None:
        return Replay(url, True, shows=found.shows)
    lag_bytes = max(0, of_primary.written - found.replayed)
    lag_s = found.age_s if lag_bytes else 0.0
    case = "paused" if found.paused else ""
    behind = finding("standby_behind", THE_STANDBY, case=case, lag_s=lag_s or 0)
    is_behind = lag_s is not None and lag_s > within_s
    return Replay(url, True, lag_s, lag_bytes, found.shows, behind if is_behind else None)


def _ask(engine: Engine, question: str) -> Row[Any]:
    with reading(engine) as session:
        return session.one(question)
