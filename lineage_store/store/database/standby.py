"""A hot standby that answers questions, and whether it has what was written to its primary by the engine beside it.

In: engines of both servers. Out: whether the standby lacks something. Promises: what is read after a write is no older
than the write, by the place in the write-ahead log; as long as nothing is written, neither server is asked for that.
While the primary does not answer, the standby is taken as it is. Does not know questions, nor tables.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.database.engine import last_write, note_write, reading, safe_url

WRITTEN = """
SELECT pg_wal_lsn_diff(
  CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END, '0/0')::bigint
"""
"""Of a primary what is inserted, not what is written: a commit without a sync is seen before it is written."""
_LACKS = "SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') < %s"
"""Null on a server that never was a standby: the primary itself. One that was promoted gets no further."""
_DATABASE = """
SELECT system_identifier, oid FROM pg_control_system(), pg_database WHERE datname = current_database()
"""


class Standby:
    """A standby beside its primary. Threads may share it."""

    def __init__(self, primary: Engine, engine: Engine) -> None:
        self.engine, self._primary = engine, primary
        self._has: object = None
        """The last write that it is known to have replayed."""
        self._wanted: tuple[object, int] = (None, 0)
        """A write, and the place in the log up to which it is replayed at the latest."""

    def __str__(self) -> str:
        return safe_url(self.engine.url)

    def lacks_writes(self) -> bool:
        """Whether it has not yet replayed what was written, and the primary answers in its place."""
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
        """Take what the primary holds now for something that was written here."""
        note_write(self._primary)
        write, written = last_write(self._primary), self._written()
        if written is not None:
            self._wanted = write, written

    def primary_answers(self) -> bool:
        """Whether the primary answers now."""
        return self._written() is not None

    def is_copy(self) -> bool:
        """Whether it has the primary's database; also where the primary does not answer, and cannot tell."""
        try:
            with reading(self._primary) as connection:
                wanted = _database(connection)
        except DatabaseUnavailableError:
            return True
        with reading(self.engine) as connection:
            return _database(connection) == wanted

    def _written(self) -> int | None:
        """The place in the log that the primary has come to; None where it does not answer."""
        try:
            with reading(self._primary) as connection:
                return int(connection.exec_driver_sql(WRITTEN).scalar_one())
        except DatabaseUnavailableError:
            return None


def _database(connection: Connection) -> tuple[object, ...]:
    return tuple(connection.exec_driver_sql(_DATABASE).one())
