"""An ingest that may be killed at any moment, and the one that follows it.

In: a store and a base dir. Out: their contents. The first takes over from the killed one before it without waiting for
its lease; the second reads to the end, as an ingester does after the lease has expired.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from sqlalchemy import Engine

from helpers.ingesting import ingest, let_leases_expire
from lineage_store.config import Settings
from lineage_store.ingest import lease, pipeline

SMALL_BATCHES: dict[str, Any] = {"batch_rows": 5, "chunk_bytes": 4096, "batch_files": 2}
"""Many transactions, so that a random moment is often inside one."""


def ingest_as_one_of_many(engine: Engine, base_dir: Path) -> None:
    """With the lease of the one before, so that nothing keeps it waiting until that one's transaction has ended."""
    replace_function(lease, holder_name)
    pipeline.ingest(engine, base_dir, Settings(**SMALL_BATCHES))
    engine.dispose()


def finish(engine: Engine, base_dir: Path) -> None:
    """Read to the end what is left."""
    let_leases_expire(engine)
    ingest(engine, base_dir)
    engine.dispose()


def holder_name() -> str:
    """Who leads, whichever process it is."""
    return "killed"


def replace_function(module: ModuleType, function: Callable[..., Any], name: str = "") -> None:
    """For good: the process that does it is thrown away."""
    setattr(module, name or function.__name__, function)
