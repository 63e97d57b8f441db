"""Statistics for the planner: gathered after much was read at once, and not after little."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from helpers.ingesting import ingest
from helpers.log_writer import Log
from lineage_store.ingest import ingester


def analysed(engine: Engine) -> bool:
    """Whether the database has statistics of the samples."""
    gathered = {
        "sqlite": "SELECT count(*) FROM sqlite_stat1 WHERE tbl = 'scalar_sample'",
        "postgresql": "SELECT count(last_analyze) FROM pg_stat_user_tables WHERE relname = 'scalar_sample'",
    }
    with engine.connect() as connection:
        tables = "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'"
        if engine.dialect.name == "sqlite" and not connection.execute(text(tables)).scalar():
            return False
        return bool(connection.execute(text(gathered[engine.dialect.name])).scalar())


def test_a_large_pass_gathers_statistics_and_a_small_one_does_not(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingester, "EVENTS_BEFORE_ANALYSE", 10)
    before = analysed(engine)
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "small")
    ingest(engine, base_dir)
    assert analysed(engine) is before
    log = Log()
    for step in range(20):
        log.scalar(step, "loss", 1.0 / (step + 1))
    log.write_summary(base_dir / "large")
    ingest(engine, base_dir)
    assert analysed(engine)
