"""Forget a base dir: what the store holds of it goes, its log files stay.

In: an engine and a base dir. Out: what was forgotten. Promises: nobody ingests into it meanwhile, by the lease; every
transaction is short; an interrupted removal leaves nothing that a later ingest could mistake for read, and is taken up
when the base dir is forgotten again.
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
from lineage_store.store.leases import Lease
from lineage_store.store.writes import forgetting
from lineage_store.store.writes.forgetting import Holdings


def holdings(engine: Engine, base_dir: Path) -> Holdings | None:
    """What there is to forget; None when the store does not know the base dir."""
    with reading(engine) as connection:
        ids = forgetting.ids_of(connection, stored_path(base_dir))
        return forgetting.holdings(connection, ids) if ids else None


def forget(engine: Engine, base_dir: Path, settings: Settings) -> Holdings | None:
    """Remove a base dir and everything below it from the store; what there was, None for one that it does not know.

    Raises LeaseHeldError when an ingester leads it.
    """
    require_writable(engine)
    with reading(engine) as connection:
        ids = forgetting.ids_of(connection, stored_path(base_dir))
        found = forgetting.holdings(connection, ids) if ids else None
    for base_dir_id in ids:
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once") as lease:
            _remove(engine, lease, base_dir, settings.batch_rows)
    return found


def _remove(engine: Engine, lease: Lease, base_dir: Path, rows_at_a_time: int) -> None:
    with writing(engine) as connection:
        leases.confirm(connection, lease)
        forgetting.begin(connection, lease.base_dir_id, stored_path(base_dir))
    remove_rows(engine, lease, rows_at_a_time)
