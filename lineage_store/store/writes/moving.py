"""Giving a base dir another path.

In: a write transaction, a base dir, two stored paths. Out: the base dir, and what is still being removed of it, under
the new path. Promises: the rows of its jobs are not touched. Those who follow its changes learn that the old path is
forgotten and see all of the new one, for a position in the changes belongs to a path.
"""

from __future__ import annotations

import json

from sqlalchemy import Connection, select, update

from lineage_store.store.catalog import registry
from lineage_store.store.schema.tables import base_dir
from lineage_store.store.writes import forgetting, revisions
from lineage_store.texts import key


def rename(connection: Connection, base_dir_id: int, old: str, new: str) -> None:
    """Rename a base dir. A base dir without jobs that is known at the new path is forgotten."""
    registry.forget_base_dir(connection, new)
    rows = select(base_dir.c.id, base_dir.c.path, base_dir.c.moved_from)
    for row in connection.execute(rows.where(base_dir.c.id.in_(forgetting.ids_of(connection, old)))).all():
        path = row.path.removesuffix(old) + new
        values: dict[str, str | int] = {"path": path, "path_key": key(path)}
        if row.id == base_dir_id:
            before = {*json.loads(row.moved_from or "[]"), old} - {new}
            values["moved_from"] = json.dumps(sorted(before))
        connection.execute(update(base_dir).where(base_dir.c.id == row.id).values(values))
    revisions.take(connection, base_dir_id)
