"""Reading the samples of a tag reads only its own rows, by their primary key, however many others there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from helpers.databases import BY_JOBS
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.store.database.db import writing

BY_KEY = {
    "sqlite": r"SEARCH \w+_sample USING PRIMARY KEY \(job_id=\? AND series_no=\?",
    "postgresql": r"(Index|Bitmap Index) Scan (using|on) pk_\w+_sample.*\n *Index Cond: \(\(job_id = .*\(series_no = ",
}


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Any:
    for job in range(10):
        log = Log().version()
        for step in range(200):
            for tag in "abc":
                log.scalar(step, tag, 0.5)
            log.histogram(step, "h", [0.5])
        log.write_summary(tmp_path / "base" / f"run_{job}")
    with LineageStore(database_url) as store:
        store.ingest(tmp_path / "base")
        with writing(store.engine) as session:
            session.change(text("ANALYZE"))
        yield store


@pytest.mark.skipif(BY_JOBS > 0, reason="a partition of two jobs is read as quickly as its index")
def test_samples_are_found_by_their_key(store: LineageStore, tmp_path: Path) -> None:
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "_sample" in statement:
            seen.append((statement, parameters))

    event.listen(store.engine, "before_cursor_execute", note)
    for steps, count in (({}, 200), ({"start": 20, "stop": 40}, 20)):
        assert len(store.job((tmp_path / "base", "./run_7")).scalars("b", **steps)) == count
        assert len(store.job((tmp_path / "base", "./run_7")).histograms("h", **steps)) == count
    event.remove(store.engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN" if store.engine.dialect.name == "sqlite" else "EXPLAIN"
    with store.engine.connect() as connection:
        for statement, parameters in seen:
            rows = connection.exec_driver_sql(f"{explain} {statement}", parameters).all()
            plan = "\n".join(str(row[-1]) for row in rows)
            assert re.search(BY_KEY[store.engine.dialect.name], plan), plan
    assert {table for statement, _ in seen for table in re.findall(r"FROM (\w+_sample)", statement)} == {
        "scalar_sample",
        "payload_sample",
    }
