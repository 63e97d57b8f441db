"""A holder of a lease that was stopped inside a transaction: its PostgreSQL session is ended, so that another can lead.

In: a connection, a base dir whose lease has expired. Out: the lease row is free, or an error that says who holds it.
Promises: the session that is ended is the one whose transaction has locked the lease row now (told by its transaction
id, so that neither a reused process id nor a pooled session is mistaken for it); one that is at work is left alone,
however long it takes. Timeouts alone would not do: none fires while the server waits for the rows of a COPY.
On SQLite nobody can be ended from outside: `engine.unavailable` names the process that holds the write lock.
"""

from __future__ import annotations

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import LeaseHeldError

# A row's xmax is the transaction that changes or locks it. What another role's session waits for is NULL, except to
# members of pg_read_all_stats.
_END_STALLED = text("""
SELECT pid, usename, stalled, CASE WHEN stalled THEN pg_terminate_backend(pid, 5000) END AS ended
FROM (
  SELECT activity.pid, activity.usename,
         wait_event_type = 'Client' AND xact_start < clock_timestamp() - make_interval(secs => :lasts_s) AS stalled
  FROM ingest_lease lease
  JOIN pg_locks held ON held.locktype = 'transactionid' AND held.transactionid = lease.xmax AND held.granted
  JOIN pg_stat_activity activity ON activity.pid = held.pid
  WHERE lease.base_dir_id = :base_dir_id AND activity.pid <> pg_backend_pid()
) holder
""")
_INSUFFICIENT_PRIVILEGE = "42501"
_RIGHTS = (
    "Let all ingesters use one role, GRANT pg_signal_backend, pg_read_all_stats TO this one, or have an "
    "administrator end the session: SELECT pg_terminate_backend(pid)."
)


def end_stalled_holder(connection: Connection, base_dir_id: int, lasts_s: float) -> None:
    """End the session that has had the lease row in a transaction for longer than `lasts_s` and waits for its client.

    Raises LeaseHeldError when this role may not.
    """
    if connection.dialect.name == "sqlite":
        return
    this = {"base_dir_id": base_dir_id, "lasts_s": lasts_s}
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
