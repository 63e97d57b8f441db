"""A hot standby that answers questions, and whether it has replayed what this process wrote to the primary.

In: engines of both servers. Out: whether the standby still lacks a write. Promises: while it lacks none, a question on
the standby sees every earlier write of the primary's engine, by position in the write-ahead log; as long as nothing is
written, neither server is queried for that. While the primary does not answer, the standby counts as up to date. Does
not know questions or tables.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.database.engine import last_write, note_write, reading, safe_url

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
        with reading(self.engine) as connection:
            lacks = connection.exec_driver_sql(_LACKS, (self._wanted[1],)).scalar_one()
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
            with reading(self._primary) as connection:
                wanted = _database(connection)
        except DatabaseUnavailableError:
            return True
        with reading(self.engine) as connection:
            return _database(connection) == wanted

    def _written(self) -> int | None:
        """Return the primary's position in the write-ahead log, in bytes; None if it does not answer."""
        try:
            with reading(self._primary) as connection:
                return int(connection.exec_driver_sql(WRITTEN).scalar_one())
        except DatabaseUnavailableError:
            return None


def _database(connection: Connection) -> tuple[object, ...]:
    return tuple(connection.exec_driver_sql(_DATABASE).one())
