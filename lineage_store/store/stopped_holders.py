"""End the PostgreSQL session of a lease holder that was stopped inside a transaction, so that another can take over.

In: a connection, and the name that the lease gives such a session (`Lease.session_name`). Out: no stalled session of
that name is left, or an error names the one that this role may not end. Promises: only a session inside a transaction
of that very lease is ended, because the name is set for one transaction (so neither a reused process id nor a pooled
session is mistaken for it); a session that is working is left alone, however long it takes.
Why: only the end of the session frees the row that it has locked, and no timeout of the server fires while it waits for
the rows of a COPY. On SQLite no session can be ended: `engine.unavailable` names the process that holds the write lock.
"""

from __future__ import annotations

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import LeaseHeldError

# Only members of pg_read_all_stats see what another role's session waits for; the others see NULL. All see its name.
_END_STOPPED = text("""
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


def end_stopped_holder(connection: Connection, session_name: str, lasts_s: float) -> None:
    """End the session of this name if its transaction is older than `lasts_s` and waits for the client.

    Does nothing on SQLite. Raises LeaseHeldError if this role may not see or end the session.
    """
    if connection.dialect.name == "sqlite":
        return
    this = {"session_name": session_name, "lasts_s": lasts_s}
    try:
        holder = connection.execute(_END_STOPPED, this).first()
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
