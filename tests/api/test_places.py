"""Which job an argument means, found without looking at all other jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.api import Job
from lineage_store.api.reports import CleanUp
from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError, TrainJobNotFoundError


@pytest.fixture
def store(sqlite_url: str, tmp_path: Path) -> Iterator[LineageStore]:
    """Two base dirs: `one` with the jobs mine and both, `two` with both."""
    for place in ("one/mine", "one/both", "two/both"):
        Log().train(network="LeNet5").write_lineage(tmp_path / place).chmod(0o400)
    with LineageStore(sqlite_url, settings=Settings()) as store:
        store.ingest(tmp_path / "one")
        store.ingest(tmp_path / "two")
        yield store


def place(job: Job) -> tuple[str, str]:
    return job.base_dir, job.id


def plans(store: LineageStore, asked: list[str]) -> list[str]:
    """The steps of SQLite's plans for these statements."""
    with store.engine.connect() as connection:
        return [
            str(step.detail)
            for statement in asked
            for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")
        ]


@pytest.mark.parametrize("removed", [False, True])
def test_an_id_is_looked_up_by_index(store: LineageStore, tmp_path: Path, removed: bool) -> None:
    asked: list[str] = []
    event.listen(store.engine, "checkout", lambda driver, *_: driver.set_trace_callback(asked.append))
    assert place(store.job("mine", removed=removed)) == (str(tmp_path / "one"), "./mine")
    selects = [statement for statement in asked if statement.startswith("SELECT")]
    steps = [step for step in plans(store, selects) if "train_job" in step]
    assert steps
    assert all(re.match(r"SEARCH.*(train_id=\?|rowid=\?)", step) for step in steps), steps


def test_an_id_of_several_base_dirs_must_say_which(store: LineageStore) -> None:
    with pytest.raises(LineageParamSummaryPathError, match=r"one.*two"):
        store.job("./both").tags()


def test_a_path_outside_is_refused_with_who_tells_more(store: LineageStore, tmp_path: Path) -> None:
    with pytest.raises(TrainJobNotFoundError, match=rf"below a base dir.*why {tmp_path}/elsewhere`"):
        store.job(f"{tmp_path}/elsewhere").tags()


def test_a_removed_job_is_found_where_removed_ones_are_wanted(store: LineageStore, tmp_path: Path) -> None:
    gone = CleanUp(condition={"summary_dir": {"eq": "./mine"}})
    assert store.removal.remove(gone).jobs == 1
    with pytest.raises(TrainJobNotFoundError):
        store.job("./mine").tags()
    assert place(store.job("./mine", removed=True)) == (str(tmp_path / "one"), "./mine")


def test_removed_jobs_are_listed_on_one_connection(store: LineageStore) -> None:
    store.removal.remove(CleanUp(condition={"network": {"eq": "LeNet5"}}))
    in_use: list[int] = []
    pool: Any = store.engine.pool
    event.listen(store.engine, "checkout", lambda *_: in_use.append(pool.checkedout()))
    assert len(store.removal.removed()) == 3
    assert max(in_use) == 1
