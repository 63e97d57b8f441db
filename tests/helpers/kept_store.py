"""A store with everything that only a store knows, and its contents, row by row.

In: the URL of a database, a base dir. Out: a store with extreme values, odd names, labels, a removed job, and a job
whose log files were deleted; the rows of every table except leases.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import select

from helpers.engines import opened
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.operations.removal import CleanUp
from lineage_store.store.schema.tables import ingest_lease, metadata

GREATEST = 2**63 - 1
_LEAST_AND_OTHERS = [(-GREATEST - 1, 1.0), (0, float("nan")), (1, float("inf")), (GREATEST, -float("inf"))]


def fill(url: str, base_dir: Path, *, jobs: int = 8, steps: int = 7) -> None:
    """Fill a store with `jobs` jobs and one with extreme values; one is removed, and one loses its directory."""
    log = Log().version().histogram(1, "w", [0.0, float("inf")]).image(3, "i\0\\x00", [[[1, 2, 3]]])
    for step, value in _LEAST_AND_OTHERS:
        log.scalar(step, "tag \0 \t\\N", value)
    log.write_summary(base_dir / "extreme\udcff\n")
    for number in range(jobs):
        log = Log().version()
        for step in range(steps):
            log.scalar(step, "loss", number + step / 8)
        log.write_summary(base_dir / f"job_{number}", timestamp=1_600_000_000).chmod(0o400)
        lineage = Log().train(network="N\\", loss=float("nan"), epoch=3)
        lineage.evaluation({"accuracy": float("inf"), "\u00e9": 0.1}).user_info(k="v\0").write_lineage(
            base_dir / f"job_{number}"
        )
    with LineageStore(url, settings=Settings()) as store:
        store.ingest(base_dir)
        store.job((base_dir, "./job_1")).annotate(label=3, remark="of \u20ac\\n")
        shutil.rmtree(base_dir / "job_2")
        store.ingest(base_dir)
        store.removal.remove(CleanUp(missing=True), base_dir)
        shutil.rmtree(base_dir / "job_1")
        store.ingest(base_dir)


def rows_of(url: str) -> dict[str, list[Any]]:
    """Return the rows of every table except leases."""
    with opened(url) as engine, engine.connect() as connection:
        return {
            table.name: [
                tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))
            ]
            for table in metadata.sorted_tables
            if table is not ingest_lease
        }
