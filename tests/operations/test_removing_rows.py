"""The cost of removal depends on the deleted rows only, however long a series is and however many jobs there are."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from benchmarks.many_rows import add_jobs
from helpers.databases import BY_JOBS
from helpers.ingesting import column
from helpers.stored_jobs import add_base_dir
from lineage_store.store.database.db import writing
from lineage_store.store.writes import removal
from lineage_store.store.writes.removal import remove_series

pytestmark = pytest.mark.skipif(BY_JOBS > 0, reason="where samples go with their partition, none are removed")

PART = 1_000


def stored(engine: Engine, jobs: int, *, series: int, steps: int) -> None:
    """So many jobs in a base dir, and statistics of them."""
    with writing(engine) as session:
        add_jobs(session, add_base_dir(session), jobs, series=series, steps=steps)
        session.change(text("ANALYZE"))


def listened(engine: Engine) -> list[tuple[str, Any]]:
    asked = list[tuple[str, Any]]()
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2:4]))
    return asked


def in_parts(engine: Engine, rows: int = PART) -> int:
    """Remove the base dir; how many transactions that took."""
    (base_dir_id,) = column(engine, "SELECT id FROM base_dir")
    for parts in range(1, 100_000):
        with writing(engine) as session:
            if not removal.remove_part(session, base_dir_id, rows):
                return parts
    raise AssertionError("there is no end")


def test_a_long_series_goes_in_parts_that_each_begin_behind_the_last(engine: Engine) -> None:
    stored(engine, 2, series=1, steps=5_500)
    left = []
    for _ in range(3):
        with writing(engine) as session:
            assert remove_series(session, 1, PART) == 0
        left += column(engine, "SELECT count(*) FROM scalar_sample WHERE job_id = 1")
    assert left == [4_500, 3_500, 2_500]
    assert column(engine, "SELECT first_step || ' ' || sample_count FROM series WHERE job_id = 1") == [
        "3001 2500"
    ]
    with writing(engine) as session:
        assert remove_series(session, 1, 3_000) == 3_000 - 2_500 - 1
    assert column(engine, "SELECT job_id FROM series") == [2]
    assert column(engine, "SELECT DISTINCT job_id FROM scalar_sample") == [2]


def test_a_part_of_a_series_is_found_by_its_first_and_last_step(engine: Engine) -> None:
    stored(engine, 4, series=2, steps=5_000)
    with writing(engine) as session:
        remove_series(session, 1, PART)
    asked = listened(engine)
    with writing(engine) as session:
        remove_series(session, 1, PART)
        of_samples = [each for each in asked if "scalar_sample" in each[0]]
        assert len(of_samples) == 2
        for statement, values in of_samples:
            explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
            plan = "\n".join(str(row[-1]) for row in session.rows(f"{explain} {statement}", values))
            if engine.dialect.name == "sqlite":
                assert "USING PRIMARY KEY (job_id=? AND series_no=? AND step>" in plan
            else:
                assert "(step >= " in plan.partition("Index Cond:")[2]
            assert "Nested Loop" not in plan


@pytest.mark.parametrize("jobs", [150, 1_500])
def test_jobs_go_many_at_a_time(engine: Engine, jobs: int) -> None:
    stored(engine, jobs, series=2, steps=3)
    asked = listened(engine)
    transactions = in_parts(engine)
    assert transactions <= 2 + jobs * 2 * (3 + 1) / (PART - 8)
    assert len(asked) <= 17 * transactions
    for table in ("train_job", "log_file", "series", "scalar_sample", "base_dir"):
        assert column(engine, f"SELECT count(*) FROM {table}") == [0]


def test_a_count_that_is_wrong_leaves_nothing_behind(engine: Engine) -> None:
    stored(engine, 2, series=1, steps=2_000)
    with writing(engine) as session:
        session.change(text("UPDATE series SET sample_count = 5 WHERE job_id = 1"))
        session.change(text("UPDATE series SET sample_count = 9000, first_step = 10 WHERE job_id = 2"))
    in_parts(engine)
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [0]
