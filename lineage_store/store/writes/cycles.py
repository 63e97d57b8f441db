"""Rows of `ingest_cycle`, of which the newest are kept, and the totals of all cycles in `ingest_total`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from lineage_store.store.database.dialects import upsert
from lineage_store.store.schema.tables import ingest_cycle, ingest_total


def write_cycle(
    connection: Connection, row: Mapping[str, Any], history: int, *, batches: int, batches_s: float
) -> None:
    """Add a cycle, and delete all but the newest `history` cycles of its base dir.

    Args:
        row: the row of `ingest_cycle`.
        batches, batches_s: how many batches the cycle wrote, and how many seconds writing them took; for the totals.
    """
    connection.execute(insert(ingest_cycle).values(row))
    mine = ingest_cycle.c.base_dir_id == row["base_dir_id"]
    newest_first = select(ingest_cycle.c.id).where(mine).order_by(ingest_cycle.c.id.desc())
    last_kept = connection.execute(newest_first.offset(history - 1).limit(1)).scalar()
    if last_kept is not None:
        connection.execute(delete(ingest_cycle).where(mine, ingest_cycle.c.id < last_kept))
    took_s = (row["finished_at"] - row["started_at"]).total_seconds()
    added = {"cycles": 1, "cycles_s": took_s, "batches": batches, "batches_s": batches_s}
    added |= {name: row[name] for name in ("bytes_read", "events", "samples")}
    _add_up(connection, row["base_dir_id"], added)


def _add_up(connection: Connection, base_dir_id: int, added: Mapping[str, float]) -> None:
    """Add numbers to the totals of a base dir. The row is made by upsert: ingesters of other shards may do the same."""
    more = {name: ingest_total.c[name] + value for name, value in added.items()}
    mine = update(ingest_total).where(ingest_total.c.base_dir_id == base_dir_id).values(more)
    if not connection.execute(mine).rowcount:
        nothing = dict.fromkeys(added, 0)
        made = upsert(connection, ingest_total, ["base_dir_id"])
        connection.execute(made, {"base_dir_id": base_dir_id, **nothing})
        connection.execute(mine)
