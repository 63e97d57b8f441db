"""How fresh an answer is: what each way of asking reads first, and that a failed refresh makes no question fail."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL
from sqlalchemy import event, select
from sqlalchemy.engine import make_url

from helpers.databases import login, plain
from helpers.following_daemon import following_here
from helpers.log_writer import Log, write_small_job
from lineage_store import (
    LineageFileNotFoundError,
    LineageParamSummaryPathError,
    LineageQuerySummaryDataError,
    LineageSearchConditionParamError,
    LineageStore,
    filter_summary_lineage,
    get_summary_lineage,
)
from lineage_store.config import Settings
from lineage_store.ingest import refresh as refreshing
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.lease import register as register_base_dir
from lineage_store.operations.base_dirs import forget
from lineage_store.store.schema.tables import ingest_lease


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """A base dir with one job that has lineage and a curve."""
    path = tmp_path / "base"
    write_small_job(path / "a")
    return path


@pytest.fixture
def store(database_url: str) -> Iterator[LineageStore]:
    with LineageStore(database_url, settings=Settings()) as opened:
        yield opened


def networks(answer: dict[str, Any]) -> list[str]:
    return [found["model_lineage"]["network"] for found in answer["object"]]


def lead_count(store: LineageStore) -> int:
    with store.engine.connect() as connection:
        return int(connection.execute(select(ingest_lease.c.epoch)).scalar_one())


def test_by_default_new_lineage_is_read_first_and_summary_files_are_not(
    store: LineageStore, base_dir: Path
) -> None:
    assert networks(filter_summary_lineage(base_dir, store=store)) == ["A"]
    Log().train(network="B").write_lineage(base_dir / "b")
    answer = filter_summary_lineage(base_dir, {"network": {"eq": "B"}}, store=store)
    assert networks(answer) == ["B"]
    assert store.job((base_dir, "./a")).tags() == {}


def test_a_refresh_on_demand_reads_summary_files_too(store: LineageStore, base_dir: Path) -> None:
    filter_summary_lineage(base_dir, store=store, refresh=True)
    assert store.job((base_dir, "./a")).scalars("loss").values.tolist() == [0.5]


def test_no_refresh_touches_no_file(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    Log().train(network="B").write_lineage(base_dir / "b")
    assert networks(filter_summary_lineage(base_dir, store=store, refresh=False)) == ["A"]
    shutil.rmtree(base_dir)
    assert networks(filter_summary_lineage(base_dir, store=store, refresh=False)) == ["A"]


def test_where_another_leads_the_store_answers_and_tells_its_age(
    store: LineageStore, base_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lineage_store")
    store.ingest(base_dir)
    Log().train(network="B").write_lineage(base_dir / "b")
    base_dir_id = register_base_dir(store.engine, base_dir)
    with hold_lease(store.engine, base_dir_id, 15.0, mode="daemon") as lease:
        assert networks(filter_summary_lineage(base_dir, store=store)) == ["A"]
    assert f"Answered from the store (followed by {lease.holder}; read " in caplog.text


def test_a_refresh_on_demand_waits_for_the_leader_to_read_what_is_there(
    store: LineageStore, base_dir: Path, database_url: str
) -> None:
    settings = Settings(poll_interval_s=0.05, discovery_interval_s=0.05)
    with LineageStore(database_url, settings=settings) as other, following_here(other, base_dir):
        filter_summary_lineage(base_dir, store=store, refresh=True)
        Log().train(network="B").write_lineage(base_dir / "b")
        assert sorted(networks(filter_summary_lineage(base_dir, store=store, refresh=True))) == ["A", "B"]


def test_waiting_for_the_leader_asks_for_what_is_left_and_less_and_less_often(
    store: LineageStore, base_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refreshing, "LEADER_DEADLINE_S", 1.0)
    store.ingest(base_dir)
    Log().train(network="B").write_lineage(base_dir / "b")
    asked: list[str] = []
    base_dir_id = register_base_dir(store.engine, base_dir)
    with hold_lease(store.engine, base_dir_id, 15.0, mode="daemon"):
        event.listen(store.engine, "before_cursor_execute", lambda *args: asked.append(f"{args[2:4]}"))
        refreshing.wait_for_leader(store.engine, base_dir, store.opened.settings)
    assert "has not caught up" in caplog.text
    asked = [each for each in asked if "log_file.fingerprint" in each]
    assert "./a" in asked[0]
    assert all("./a" not in each and "./b" in each for each in asked[1:])
    assert 2 <= len(asked) <= 6


def test_a_role_that_may_only_read_is_answered(
    postgres_url: str, base_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lineage_store")
    with LineageStore(postgres_url, settings=Settings()) as store:
        store.ingest(base_dir)
    Log().train(network="B").write_lineage(base_dir / "b")
    with psycopg.connect(plain(postgres_url), autocommit=True) as connection:
        connection.execute(SQL("CREATE ROLE lineage_reader {}").format(login(postgres_url)))
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO lineage_reader")
    url = make_url(postgres_url).set(username="lineage_reader").render_as_string(hide_password=False)
    try:
        with LineageStore(url, settings=Settings()) as reader:
            for refresh in (None, True, False):
                assert networks(filter_summary_lineage(base_dir, store=reader, refresh=refresh)) == ["A"]
            with pytest.raises(LineageQuerySummaryDataError, match="permission denied"):
                reader.ingest(base_dir)
    finally:
        with psycopg.connect(plain(postgres_url), autocommit=True) as connection:
            connection.execute("DROP OWNED BY lineage_reader")
            connection.execute("DROP ROLE lineage_reader")
    assert "permission denied" in caplog.text


def test_a_base_dir_that_went_away_is_answered_for(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    shutil.rmtree(base_dir)
    for refresh in (None, True, False):
        assert networks(filter_summary_lineage(base_dir, store=store, refresh=refresh)) == ["A"]
        assert get_summary_lineage(base_dir / "a", store=store, refresh=refresh)["algorithm"] == {
            "network": "A"
        }


@pytest.fixture
def unkillable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that do not end when they are killed, as those that wait for a disk."""
    stopped = list[subprocess.Popen[bytes]]()

    def stop(process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGSTOP)
        stopped.append(process)

    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "kill", stop)
        yield stopped
    for process in stopped:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


@pytest.mark.parametrize("refresh", [None, True])
def test_a_disk_that_does_not_answer_fails_no_question(
    sqlite_url: str,
    base_dir: Path,
    refresh: bool | None,
    unkillable: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "lineage_store")
    monkeypatch.setattr("lineage_store.ingest.read.queue.MANY_FILES", 2)
    monkeypatch.setattr("lineage_store.worker._ENDS_WITHIN_S", 0.1)
    with LineageStore(sqlite_url, settings=Settings()) as store:
        filter_summary_lineage(base_dir, store=store)
    log = Log().train(network="B")
    for _ in range(2_000):
        log.evaluation({"accuracy": 0.5})
    for name in ("a", "b"):
        log.write_lineage(base_dir / name, 1_700_000_001)
    with LineageStore(sqlite_url, settings=Settings(reading_deadline_s=0.001)) as store:
        assert networks(filter_summary_lineage(base_dir, store=store, refresh=refresh)) == ["A"]
    assert unkillable
    assert "Answered from the store (" in caplog.text
    assert "waits for a disk that does not answer" in caplog.text


def test_one_jobs_lineage_is_read_without_looking_at_the_others(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    Log().train(network="new").write_lineage(base_dir / "a", 1_700_000_001)
    Log().train(network="B").write_lineage(base_dir / "b")
    found = get_summary_lineage(base_dir / "a", store=store)
    assert found["algorithm"] == {"network": "new"}
    assert found["summary_dir"] == str(base_dir / "a")
    assert [job.train_id for job in store.lineage.jobs(base_dir)] == ["./a"]


def test_the_base_dir_of_a_job_is_the_nearest_that_the_store_knows_else_its_parent(
    store: LineageStore, base_dir: Path
) -> None:
    get_summary_lineage(base_dir / "a", store=store)
    assert list(store.base_dirs) == [str(base_dir)]
    Log().train(network="own").write_lineage(base_dir)
    assert get_summary_lineage(base_dir, store=store)["algorithm"] == {"network": "own"}
    assert list(store.base_dirs) == [str(base_dir)]


def test_a_question_takes_the_lead_only_if_there_is_something_to_read(
    store: LineageStore, base_dir: Path
) -> None:
    filter_summary_lineage(base_dir, store=store)
    epochs = [lead_count(store)]
    for _ in range(2):
        assert networks(filter_summary_lineage(base_dir, store=store)) == ["A"]
        get_summary_lineage(base_dir / "a", store=store)
        epochs.append(lead_count(store))
    Log().train(network="B").write_lineage(base_dir / "a", 1_700_000_001)
    assert networks(filter_summary_lineage(base_dir, store=store)) == ["B"]
    assert [*epochs, lead_count(store)] == [1, 1, 1, 2]


def test_a_question_trusts_nothing_of_before_when_another_has_written_since(
    store: LineageStore, base_dir: Path
) -> None:
    for _ in range(2):
        filter_summary_lineage(base_dir, store=store)
    forget(store.engine, base_dir, Settings())
    assert networks(filter_summary_lineage(base_dir, store=store)) == ["A"]


def test_a_base_dir_inside_another_is_refused_and_names_it(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    for place in (base_dir / "a", base_dir.parent):
        with pytest.raises(LineageParamSummaryPathError, match=f"overlaps with the base dir {base_dir}"):
            store.ingest(place)


# --- errors ---


def test_a_path_that_is_no_directory_is_refused(store: LineageStore, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", "", "a\0b", 5):
        with pytest.raises(LineageParamSummaryPathError):
            filter_summary_lineage(path, store=store)  # type: ignore[arg-type]
        with pytest.raises(LineageParamSummaryPathError):
            get_summary_lineage(path, store=store)  # type: ignore[arg-type]


@pytest.mark.parametrize("refresh", [None, True, False])
def test_a_directory_without_any_log_file_is_said_to_have_none(
    refresh: bool | None, store: LineageStore, tmp_path: Path
) -> None:
    (tmp_path / "empty" / "job").mkdir(parents=True)
    with pytest.raises(LineageFileNotFoundError, match="There is no log file below"):
        filter_summary_lineage(tmp_path / "empty", store=store, refresh=refresh)
    with pytest.raises(LineageFileNotFoundError):
        get_summary_lineage(tmp_path / "empty" / "job", store=store, refresh=refresh)


def test_a_job_with_summary_files_only_has_no_lineage(store: LineageStore, tmp_path: Path) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(tmp_path / "base" / "job")
    with pytest.raises(LineageFileNotFoundError):
        get_summary_lineage(tmp_path / "base" / "job", store=store)
    assert filter_summary_lineage(tmp_path / "base", store=store)["object"] == []


def test_a_refused_condition_reads_no_file(store: LineageStore, base_dir: Path) -> None:
    with pytest.raises(LineageSearchConditionParamError):
        filter_summary_lineage(base_dir, {"nonsense": {"eq": 1}}, store=store)
    assert list(store.base_dirs) == []


def test_a_database_that_is_down_is_named_with_the_cause(tmp_path: Path, base_dir: Path) -> None:
    url = f"postgresql://nobody:secret@localhost/x?host={tmp_path}"
    with pytest.raises(LineageQuerySummaryDataError, match=r"nobody:\*\*\*@.*failed: ") as caught:
        filter_summary_lineage(base_dir, store=url)
    assert "secret" not in str(caught.value)


def test_ingest_of_a_file_names_what_is_wrong(store: LineageStore, base_dir: Path) -> None:
    (file,) = (base_dir / "a").glob("*_MS")
    with pytest.raises(LineageParamSummaryPathError, match="is no directory"):
        store.ingest(file)


def test_a_relative_path_and_a_link_mean_the_same_base_dir(
    store: LineageStore, base_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(base_dir)
    monkeypatch.chdir(tmp_path)
    for path in ("base", "./link/", base_dir):
        store.ingest(path)
    assert list(store.base_dirs) == [os.path.realpath(base_dir)]
