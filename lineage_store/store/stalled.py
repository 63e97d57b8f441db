"""A holder of a lease that was stopped inside a transaction: its PostgreSQL session is ended, so that another can lead.

In: a connection, the name that such a session has by its lease (`Lease.session_name`). Out: the lease row is free, or
an error that says who holds it. Promises: the session that is ended is in a transaction of that very lease now, for its
name ends with the transaction (so neither a reused process id nor a pooled session is mistaken for it); one that is at
work is left alone, however long it takes. Timeouts alone would not do: none fires while the server waits for the rows
of a COPY; and the lease's own columns cannot free what a session has locked: it must be ended on its server.
On SQLite nobody can be ended from outside: `engine.unavailable` names the process that holds the write lock.
"""

from __future__ import annotations

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import LeaseHeldError

# What another role's session waits for is NULL, except to members of pg_read_all_stats; its name is told to all.
_END_STALLED = text("""
SELECT pid, usename, stalled, CASE WHEN stalled THEN pg_terminate_backend(pid, 5000) END AS ended
FROM (
  SELECT pid, usename,
         wait_event_type = 'Client' AND xact_start < clock_timestamp() - make_interval(secs => :lasts_s) AS stalled
  FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = :session_name AND pid <> pg_backend_pid()
) holder
""")
_INSUFFICIENT_PRIVILEGE = "42501"
_RIGHTS = (
    "Let all ingesters use one role, GRANT pg_signal_backend, pg_read_all_stats TO this one, or have an "
    "administrator end the session: SELECT pg_terminate_backend(pid)."
)


def end_stalled_holder(connection: Connection, session_name: str, lasts_s: float) -> None:
    """End the session of this name if its transaction lasts longer than `lasts_s` and it waits for its client.

    Raises LeaseHeldError when this role may not.
    """
    if connection.dialect.name == "sqlite":
        return
    this = {"session_name": session_name, "lasts_s": lasts_s}
    try:
        holder = connection.execute(_END_STALLED, this).first()
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _INSUFFICIENT_PRIVILEGE:
            raise
        raise _held("a session") from error
    if holder is not None and holder.stalled is None:
        raise _held(f"session {holder.pid} of role {holder.usename}")


def _held(by: str) -> LeaseHeldError:
    return LeaseHeldError(
        f"The lease has expired, but {by} has it in an open transaction that this role may not end.",
        hint=_RIGHTS,
    )
