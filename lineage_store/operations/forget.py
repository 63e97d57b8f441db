"""Forget a base dir: what the store holds of it goes, its log files stay.

In: an engine and a base dir. Out: what was forgotten. Promises: nobody ingests into it meanwhile, by the lease; every
transaction is short; an interrupted removal leaves nothing that a later ingest could mistake for read, and is taken up
when the base dir is forgotten again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.ingest.base_dirs import stored_path
from lineage_store.ingest.lease import leading
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import reading, require_writable, writing
from lineage_store.store.leases import Lease
from lineage_store.store.writes import forgetting
from lineage_store.store.writes.forgetting import Holdings
from lineage_store.texts import from_stored


def holdings(engine: Engine, base_dir: Path) -> Holdings:
    """What there is to forget. Raises LineageParamSummaryPathError when the store does not know the base dir."""
    return _look_up(engine, base_dir)[1]


def forget(engine: Engine, base_dir: Path, settings: Settings) -> Holdings:
    """Remove a base dir and everything below it from the store.

    Raises LineageParamSummaryPathError when the store does not know it, LeaseHeldError when an ingester leads it.
    """
    require_writable(engine)
    ids, found = _look_up(engine, base_dir)
    for base_dir_id in ids:
        with leading(engine, base_dir_id, settings.lease_s, mode="once") as lease:
            _remove(engine, lease, base_dir, settings.batch_rows)
    return found


def _remove(engine: Engine, lease: Lease, base_dir: Path, rows_at_a_time: int) -> None:
    with writing(engine) as connection:
        leases.confirm(connection, lease)
        forgetting.begin(connection, lease.base_dir_id, stored_path(base_dir))
    more = True
    while more:
        with writing(engine) as connection:
            leases.confirm(connection, lease)
            more = forgetting.remove_part(connection, lease.base_dir_id, rows_at_a_time)


def _look_up(engine: Engine, base_dir: Path) -> tuple[Sequence[int], Holdings]:
    with reading(engine) as connection:
        ids = forgetting.ids_of(connection, stored_path(base_dir))
        found = forgetting.holdings(connection, ids)
        known = ", ".join(from_stored(path) for _, path in registry.base_dirs(connection)) or "none"
    if not ids:
        raise LineageParamSummaryPathError(
            f"The store does not know the base dir {base_dir}.", hint=f"Known base dirs: {known}."
        )
    return ids, found
