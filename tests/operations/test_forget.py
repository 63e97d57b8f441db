"""Forgetting a base dir: the store is as if it had never known it, and nothing else changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.contents import natural_contents
from helpers.databases import BY_JOBS
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.errors import LeaseHeldError, LineageParamSummaryPathError
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.operations.base_dirs import forget, read_holdings
from lineage_store.paths import stored_path
from lineage_store.store.admin.partitioning import drop_vacated_partitions
from lineage_store.store.database.db import writing
from lineage_store.store.writes import removal
from lineage_store.store.writes.jobs import annotate
from lineage_store.store.writes.removal import Holdings

SMALL = Settings(batch_rows=3)


@pytest.fixture
def base_dir(tmp_path: Path, corpus: Path) -> Path:
    """Jobs with everything that a log file may hold, one of them with a suspect end."""
    base_dir = shutil.copytree(corpus, tmp_path / "base")
    Log().version().scalar(1, "loss", 1.0).raw(bytes(64)).write_summary(base_dir / "hole")
    return base_dir


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A base dir whose job has its dataset pipeline, and more, in common with nobody."""
    Log().train(network="LeNet5").write_lineage(tmp_path / "other" / "run")
    Log().version().scalar(1, "loss", 0.5).write_summary(tmp_path / "other" / "run")
    return tmp_path / "other"


def remark(engine: Engine, base_dir: Path, train_id: str) -> None:
    with writing(engine) as session:
        forgotten_too = {"tag": 1, "remark": "the one in the paper"}
        base_dir_id = removal.ids_of(session, stored_path(base_dir))[0]
        annotate(session, base_dir_id, train_id, forgotten_too, session.now())


def test_nothing_is_left_of_it_and_others_stay(engine: Engine, base_dir: Path, other: Path) -> None:
    ingest(engine, other)
    before = natural_contents(engine)
    files = sorted(base_dir.rglob("*"))
    ingest(engine, base_dir)
    jobs = column(engine, "SELECT train_id FROM v_job WHERE base_dir = :path", path=str(base_dir))
    remark(engine, base_dir, jobs[0])
    found = forget(engine, base_dir, Settings(batch_rows=500))
    assert found == Holdings(len(jobs), 1)
    assert natural_contents(engine) == before
    assert column(engine, "SELECT count(*) FROM ingest_cycle") == [1]
    assert column(engine, "SELECT count(*) FROM ingest_lease") == [1]
    assert sorted(base_dir.rglob("*")) == files


def test_the_next_ingest_reads_everything_again(engine: Engine, base_dir: Path) -> None:
    ingest(engine, base_dir)
    whole = natural_contents(engine)
    forget(engine, base_dir, Settings(batch_rows=500))
    ingest(engine, base_dir)
    assert natural_contents(engine) == whole


def test_an_interrupted_removal_is_in_nobodys_way_and_can_be_taken_up(engine: Engine, other: Path) -> None:
    ingest(engine, other)
    whole = natural_contents(engine)
    with writing(engine) as session:
        (base_dir_id,) = removal.ids_of(session, stored_path(other))
        removal.begin_forgetting(session, base_dir_id, stored_path(other))
        assert removal.remove_part(session, base_dir_id, 1)
    ingest(engine, other)
    left = 2 if BY_JOBS == 0 else 1  # where the samples go with their partition, a job is few rows
    assert read_holdings(engine, other) == Holdings(left, 0)
    with writing(engine) as session:
        (rest, _) = removal.ids_of(session, stored_path(other))
        assert rest == base_dir_id
        while removal.remove_part(session, rest, 1):
            pass
    drop_vacated_partitions(engine)  # where the samples go with their partition
    assert natural_contents(engine) == whole
    forget(engine, other, SMALL)
    assert not any(natural_contents(engine).values())


def test_while_another_ingester_leads_nothing_goes(engine: Engine, other: Path) -> None:
    ingest(engine, other)
    whole = natural_contents(engine)
    with (
        hold_lease(engine, register(engine, other), 60, mode="daemon"),
        pytest.raises(LeaseHeldError, match="holds the lease"),
    ):
        forget(engine, other, SMALL)
    assert natural_contents(engine) == whole


def test_what_is_gone_from_disk_can_be_forgotten(engine: Engine, other: Path) -> None:
    ingest(engine, other)
    shutil.rmtree(other)
    assert forget(engine, other, SMALL) == Holdings(1, 0)
    assert forget(engine, other, SMALL) is None


def test_a_directory_inside_it_can_be_a_base_dir_then(engine: Engine, other: Path) -> None:
    ingest(engine, other / "run")
    with pytest.raises(LineageParamSummaryPathError, match="overlaps"):
        ingest(engine, other)
    forget(engine, other / "run", SMALL)
    assert ingest(engine, other).jobs == 1
