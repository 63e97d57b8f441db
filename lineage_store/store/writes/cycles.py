"""Rows of `ingest_cycle`: the newest ones are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from lineage_store.store.schema.tables import ingest_cycle


def write_cycle(connection: Connection, row: Mapping[str, Any], history: int) -> None:
    """Add a cycle and keep the newest `history` of its base dir."""
    connection.execute(insert(ingest_cycle).values(row))
    mine = ingest_cycle.c.base_dir_id == row["base_dir_id"]
    newest_first = select(ingest_cycle.c.id).where(mine).order_by(ingest_cycle.c.id.desc())
    last_kept = connection.execute(newest_first.offset(history - 1).limit(1)).scalar()
    if last_kept is not None:
        connection.execute(delete(ingest_cycle).where(mine, ingest_cycle.c.id < last_kept))
