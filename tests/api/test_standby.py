"""A real hot standby: it answers every question, whether or not the store is open for reading only."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from helpers.databases import plain_role
from helpers.log_writer import Log
from helpers.standby import on_standby, wait_until_caught_up
from lineage_store import DatabaseUnavailableError, LineageStore, filter_summary_lineage, get_summary_lineage
from lineage_store.api.reports import CleanUp
from lineage_store.config import Settings


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    path = tmp_path / "base"
    Log().train(network="A", epoch=3).evaluation({"accuracy": 0.9}).write_lineage(path / "a")
    Log().scalar(1, "loss", 0.5).write_summary(path / "a")
    return path


@pytest.fixture
def standby_url(standby_server: str, postgres_url: str, base_dir: Path) -> str:
    """Of a store with one job, which came there by replication."""
    with LineageStore(postgres_url, settings=Settings()) as primary:
        primary.ingest(base_dir)
    return on_standby(standby_server, postgres_url)


def test_a_hot_standby_answers_sql(standby_url: str, postgres_url: str) -> None:
    with plain_role(postgres_url) as asker:
        wait_until_caught_up(postgres_url, standby_url)
        url = make_url(standby_url).set(username=make_url(asker).username)
        with (
            LineageStore(url.render_as_string(hide_password=False), settings=Settings()) as store,
            store.sql("SELECT train_id FROM v_job") as answer,
        ):
            assert list(answer.rows) == [("./a",)]


def test_a_hot_standby_answers_every_question_and_refuses_every_change(
    standby_url: str, base_dir: Path
) -> None:
    for read_only in (True, False):
        with LineageStore(standby_url, settings=Settings(), read_only=read_only) as store:
            ask_everything(store, base_dir)
    with pytest.raises(DatabaseUnavailableError) as refused, LineageStore(standby_url) as store:
        store.ingest(base_dir)
    assert refused.value.cause == "read-only"


def ask_everything(store: LineageStore, base_dir: Path) -> None:
    for refresh in (None, True, False):
        assert filter_summary_lineage(base_dir, store=store, refresh=refresh)["count"] == 1
        assert get_summary_lineage(base_dir / "a", store=store, refresh=refresh)["metric"]
    assert store.lineage.filter({"metric/accuracy": {"gt": 0.5}, "limit": 1}, count=False)["object"]
    assert len(list(store.lineage.iterate({"network": {"eq": "A"}}))) == 1
    assert store.explain({"epoch": {"gt": 1}})
    assert store.job((base_dir, "./a")).scalars("loss").values.tolist() == [0.5]
    assert [job.train_id for job in store.lineage.jobs(limit=1)] == ["./a"]
    assert store.health.status().base_dirs
    assert store.job((base_dir, "./a")).report().series
    assert store.repair.why(base_dir).verdict == "stored"
    assert store.repair.problems() == []
    assert store.removal.removed() == []
    assert store.repair.verify()
    store.health.findings()
    store.health.cycles()
    assert [change.train_id for change in store.changes.since().changes] == ["./a"]
    with store.changes.follow(None) as follower:
        assert [len(answer.changes) for answer in follower.look()] == [1]
    assert store.health.measures().is_up
    list(store.removal.find(CleanUp(older_than_s=0.0)))
