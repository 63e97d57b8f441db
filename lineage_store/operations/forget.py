"""Forget a base dir: remove it and its jobs from the store; its log files stay on disk.

In: an engine and a base dir. Out: what was forgotten. Promises: holds the lease, so that nobody ingests into it
meanwhile; every transaction is short; after an interruption, a later ingest reads all files from the start, and
forgetting the base dir again removes the rest.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.ingest.base_dirs import stored_path
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.leaving import remove_rows
from lineage_store.store import leases
from lineage_store.store.database.engine import reading, require_writable, writing
from lineage_store.store.writes import forgetting
from lineage_store.store.writes.forgetting import Holdings


def holdings(engine: Engine, base_dir: Path) -> Holdings | None:
    """Return what the store holds of a base dir; None if it does not know the base dir."""
    return _known(engine, base_dir)[1]


def forget(engine: Engine, base_dir: Path, settings: Settings) -> Holdings | None:
    """Remove a base dir and its jobs from the store; return what was removed, None for an unknown base dir.

    Raises LeaseHeldError if an ingester leads it.
    """
    require_writable(engine)
    ids, found = _known(engine, base_dir)
    for base_dir_id in ids:
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once") as lease:
            with writing(engine) as connection:
                leases.confirm(connection, lease)
                forgetting.begin(connection, base_dir_id, stored_path(base_dir))
            remove_rows(engine, lease, settings.batch_rows)
    return found


def _known(engine: Engine, base_dir: Path) -> tuple[list[int], Holdings | None]:
    with reading(engine) as connection:
        ids = forgetting.ids_of(connection, stored_path(base_dir))
        return ids, forgetting.holdings(connection, ids) if ids else None
