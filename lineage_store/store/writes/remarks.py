"""Labels and remarks that people give jobs. They belong to (base dir, train id), and stay when a job is read again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from lineage_store.store.database.dialects import upsert
from lineage_store.store.schema.tables import annotation, train_job
from lineage_store.store.writes import revisions


def annotate(
    connection: Connection, base_dir_id: int, train_id: str, changes: dict[str, Any], now: datetime
) -> None:
    """Set `tag` or `remark` of a job, or both: those that are in `changes`."""
    row = {"base_dir_id": base_dir_id, "train_id": train_id, "updated_at": now, **changes}
    statement = upsert(connection, annotation, ["base_dir_id", "train_id"], ["updated_at", *changes])
    connection.execute(statement, row)
    this = (train_job.c.base_dir_id == base_dir_id) & (train_job.c.train_id == train_id)
    revisions.stamp(
        connection, base_dir_id, connection.execute(select(train_job.c.id).where(this)).scalars().all()
    )
