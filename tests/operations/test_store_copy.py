"""A whole store copied into another database, from each kind to each, also when the copying process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from helpers import databases
from helpers.ingesting import column, ingest
from helpers.kept_store import fill, rows_of
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.errors import LineageStoreError, UnfinishedCopyError
from lineage_store.operations import store_copy
from lineage_store.operations.store_copy import copy_contents
from lineage_store.store.admin import planner_statistics
from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import partitions, upgrade

KINDS = ["sqlite", "postgresql"]

_KILLED = """
import os, signal, sys
from sqlalchemy import Engine, event
from lineage_store.operations import store_copy

store_copy.ROWS_AT_A_TIME, store_copy.SAMPLES_AT_A_TIME, store_copy._BATCHES = 3, 5, 1
writes_left = int(sys.argv[3])

@event.listens_for(Engine, "commit")
def kill(connection):
    global writes_left
    if connection.get_execution_options().get("lineage_store_write"):
        writes_left -= 1
        if not writes_left:
            os.kill(os.getpid(), signal.SIGKILL)

store_copy.copy_contents(sys.argv[1], sys.argv[2])
"""


@pytest.fixture
def new_url(request: pytest.FixtureRequest, tmp_path: Path, postgres_server: str) -> Callable[[str], str]:
    """Makes the URL of a database of a kind that holds nothing."""

    def made(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/{len(list(tmp_path.iterdir()))}.db"
        context = databases.postgres_database(postgres_server)
        url = context.__enter__()
        request.addfinalizer(lambda: context.__exit__(None, None, None))
        return url

    return made


@pytest.fixture(scope="module")
def filled(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Fills a store of a kind, once for all tests, and gives its URL; nobody may be connected to it."""
    with ExitStack() as until_the_end:

        @cache
        def of(kind: str) -> str:
            directory = tmp_path_factory.mktemp(kind)
            url = f"sqlite:///{directory}/store.db"
            if kind == "postgresql":
                url = until_the_end.enter_context(databases.postgres_database(postgres_server))
            fill(url, directory / "base")
            return url

        yield of


@pytest.fixture
def source(request: pytest.FixtureRequest, filled: Callable[[str], str], tmp_path: Path) -> Iterator[str]:
    """A store with extreme values, labels, a removed job, and a job whose log files are gone."""
    with databases.copied(
        filled(getattr(request, "param", "sqlite")), tmp_path, lambda url: fill(url, tmp_path / "base")
    ) as url:
        yield url


def opened(url: str, request: pytest.FixtureRequest) -> Engine:
    engine = open_engine(url)
    request.addfinalizer(engine.dispose)
    return engine


@pytest.mark.parametrize("target_kind", KINDS)
@pytest.mark.parametrize("source", KINDS, indirect=True)
def test_every_row_is_in_the_copy_and_ids_go_on_from_there(
    source: str,
    target_kind: str,
    new_url: Callable[[str], str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    target, told = new_url(target_kind), []  # type: ignore[var-annotated]
    before = rows_of(source)
    copied = copy_contents(source, target, progress=told.append)
    assert rows_of(target) == rows_of(source) == before
    assert copied.rows == {name: len(rows) for name, rows in before.items()}
    assert copied.rows["scalar_sample"] == 4 + 7 * 7
    assert (copied.rows["tombstone"], copied.rows["annotation"], copied.leaders) == (1, 1, 0)
    assert "scalar_sample: 53 rows." in told
    base_dir = tmp_path / "base"
    Log().version().scalar(1, "loss", 1.0).write_summary(base_dir / "new")
    with LineageStore(target) as store:
        store.ingest(base_dir)
    engine = opened(target, request)
    assert column(engine, "SELECT count(*) FROM train_job") == [len(before["train_job"]) + 1]
    assert column(engine, "SELECT count(*) FROM v_scalar") == [54]


@pytest.mark.parametrize("target_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
def test_what_was_copied_is_what_the_log_files_say(
    source_kind: str, target_kind: str, new_url: Callable[[str], str], tmp_path: Path
) -> None:
    log, base_dir = Log().version(), tmp_path / "base"
    for step, value in enumerate((-0.0, 0.0, float("nan"), float("-inf"), 1e-45)):
        log.scalar(step, "loss", value)  # of the two databases SQLite keeps no -0.0
    log.write_summary(base_dir / "job")
    source = new_url(source_kind)
    with LineageStore(source) as store:
        store.ingest(base_dir)
    target = new_url(target_kind)
    copy_contents(source, target)
    with LineageStore(target) as store:
        (verdict,) = store.repair.verify(base_dir)
    assert verdict.differences == ()


@pytest.mark.parametrize(
    ("source", "target_kind"), [("sqlite", "postgresql"), ("postgresql", "sqlite")], indirect=["source"]
)
@pytest.mark.slow
def test_a_copy_that_is_killed_goes_on_where_it_was(
    source: str, target_kind: str, new_url: Callable[[str], str]
) -> None:
    target, killed = new_url(target_kind), 0
    for after in [1, 2, 3, *[20] * 50]:
        command = [sys.executable, "-c", _KILLED, source, target, str(after)]
        ended = subprocess.run(command, check=False, timeout=120, capture_output=True, text=True)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        killed += 1
        if killed > 1:  # the first came before there was anything
            with pytest.raises(UnfinishedCopyError, match="has not come to its end"):
                LineageStore(target).close()
    assert killed > 4
    assert rows_of(target) == rows_of(source)
    upgrade.check(target)


@pytest.mark.parametrize("target_kind", KINDS)
def test_a_copy_that_came_to_its_end_in_a_killed_process_is_told_as_whole(
    source: str, target_kind: str, new_url: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    target, told = new_url(target_kind), list[str]()
    first = copy_contents(source, target)
    assert copy_contents(source, target, progress=told.append) == first
    assert told == ["All rows are copied; now they are compared."]
    with writing(opened(target, request)) as session:
        session.change(text("DELETE FROM annotation"))
    with pytest.raises(LineageStoreError, match="differs from its source in annotation") as refused:
        copy_contents(source, target)
    assert "--anew" not in str(refused.value.hint), "it removes unfinished copies alone"


@pytest.mark.parametrize("target_kind", KINDS)
def test_the_store_that_a_copy_makes_is_never_taken_for_an_empty_one(
    source: str, target_kind: str, new_url: Callable[[str], str]
) -> None:
    target = new_url(target_kind)
    killed = subprocess.run([sys.executable, "-c", _KILLED, source, target, "2"], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(UnfinishedCopyError, match="has not come to its end"):
        LineageStore(target).close()
    copy_contents(source, target)
    assert rows_of(target) == rows_of(source)


@pytest.mark.parametrize("target_kind", KINDS)
def test_statistics_are_gathered_before_the_copy_is_a_store(
    source: str, target_kind: str, new_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take half a minute of a large store, in which it may be killed."""

    def killed(_: Engine) -> None:
        raise InterruptedByHandError

    target = new_url(target_kind)
    with monkeypatch.context() as killing:
        killing.setattr(planner_statistics, "gather", killed)
        with pytest.raises(InterruptedByHandError):
            copy_contents(source, target)
    with pytest.raises(UnfinishedCopyError):
        upgrade.check(target)
    copy_contents(source, target)
    upgrade.check(target)


def test_the_last_transaction_of_a_copy_that_was_killed_is_waited_for(
    source: str, new_url: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    """The server commits it, when it comes to that, after the process is gone."""
    target = new_url("postgresql")
    with pytest.raises(InterruptedByHandError):
        copy_contents(source, target, progress=interrupted)
    with ThreadPoolExecutor() as threads:
        with writing(opened(target, request)) as session:
            session.change(text("UPDATE unfinished_copy SET key = key"))
            again = threads.submit(copy_contents, source, target)
            waits = (
                "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'ShareRowExclusiveLock')"
            )
            wait_until(lambda: column(opened(target, request), waits) == [True])
        assert again.result().rows["train_job"]


class InterruptedByHandError(Exception):
    """Somebody pressed a key."""


def interrupted(told: str) -> None:
    if told.startswith("log_file"):
        raise InterruptedByHandError


@pytest.mark.parametrize("target_kind", KINDS)
def test_a_source_that_has_changed_between_two_runs_is_copied_anew(
    source: str, target_kind: str, new_url: Callable[[str], str], tmp_path: Path
) -> None:
    target = new_url(target_kind)
    with pytest.raises(InterruptedByHandError):
        copy_contents(source, target, progress=interrupted)
    Log().version().scalar(1, "loss", 1.0).write_summary(tmp_path / "base" / "new")
    with LineageStore(source) as store:
        store.ingest(tmp_path / "base")
    with pytest.raises(LineageStoreError, match="has changed") as refused:
        copy_contents(source, target)
    assert "--anew" in str(refused.value.hint)
    copy_contents(source, target, anew=True)
    assert rows_of(target) == rows_of(source)


def test_a_scalar_that_differs_is_named(
    source: str, new_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = "UPDATE scalar_sample SET value = float8 '1e-323' WHERE value IS NULL AND job_id = 1"
    finish_copying = store_copy._compare

    def compare(snapshot: Session, target: Engine, *rest: Any) -> dict[str, int]:
        with writing(target) as session:
            assert session.change(text(changed))
        return finish_copying(snapshot, target, *rest)

    monkeypatch.setattr(store_copy, "_compare", compare)
    with pytest.raises(LineageStoreError, match=r"in scalar_sample \(from the key \[1, "):
        copy_contents(source, new_url("postgresql"))


@pytest.mark.parametrize("target_kind", KINDS)
def test_rows_that_differ_are_named(
    source: str, target_kind: str, new_url: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    target = new_url(target_kind)
    with pytest.raises(InterruptedByHandError):
        copy_contents(source, target, progress=interrupted)
    with writing(opened(target, request)) as session:
        session.change(text("UPDATE train_job SET host = 'elsewhere' WHERE train_id = './job_3'"))
        number = session.value(text("SELECT id FROM train_job WHERE train_id = './job_3'"))
    with pytest.raises(LineageStoreError) as refused:
        copy_contents(source, target)
    assert refused.value.message.endswith(f"in train_job (from the key [{number}] on).")
    with pytest.raises(UnfinishedCopyError):
        upgrade.check(target)


@pytest.mark.parametrize("target_kind", KINDS)
def test_a_target_with_data_is_refused_and_stays_as_it_is(
    source: str, target_kind: str, new_url: Callable[[str], str], tmp_path: Path
) -> None:
    target = new_url(target_kind)
    Log().version().scalar(1, "loss", 1.0).write_summary(tmp_path / "other" / "job")
    with LineageStore(target) as store:
        store.ingest(tmp_path / "other")
    before = rows_of(target)
    for anew in (False, True):
        with pytest.raises(LineageStoreError, match="not empty: it has rows in base_dir"):
            copy_contents(source, target, anew=anew)
    assert rows_of(target) == before
    with pytest.raises(LineageStoreError, match="same database"):
        copy_contents(source, source)


def test_a_store_that_was_made_for_it_may_have_partitions(
    source: str, new_url: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    from lineage_store.store.admin.partitioning import lay_out

    target = new_url("postgresql")
    upgrade.upgrade(target)
    engine = opened(target, request)
    lay_out(engine, 3)
    copy_contents(source, target)
    assert rows_of(target) == rows_of(source)
    with engine.connect() as connection:
        assert partitions.is_partitioned(Session(connection))


def test_what_is_written_while_it_is_copied_is_not_in_the_copy(
    source: str, new_url: Callable[[str], str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    target, before = new_url("postgresql"), rows_of(source)
    engine = opened(source, request)

    def ingested(told: str) -> None:
        if told.startswith("log_file"):
            Log().version().scalar(1, "loss", 1.0).write_summary(tmp_path / "base" / "new")
            ingest(engine, tmp_path / "base")

    copy_contents(source, target, progress=ingested)
    assert rows_of(target) == before
    assert rows_of(source) != before
    with LineageStore(target) as store:
        store.ingest(tmp_path / "base")
    assert column(opened(target, request), "SELECT count(*) FROM v_scalar") == [54]


@pytest.mark.parametrize("target_kind", KINDS)
def test_batches_are_bounded_and_told_with_about_how_far_they_are(
    source: str, target_kind: str, new_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_copy, "ROWS_AT_A_TIME", 2)
    monkeypatch.setattr(store_copy, "SAMPLES_AT_A_TIME", 2)
    monkeypatch.setattr(store_copy, "_TOLD_EACH", 20)
    told: list[str] = []
    target = new_url(target_kind)
    copy_contents(source, target, progress=told.append)
    compared = ["scalar_sample: 20 rows compared, about 56%", "scalar_sample: 40 rows compared, about 89%"]
    assert [each for each in told if each.startswith("scalar_sample")] == [
        "scalar_sample: 20 rows copied, about 56%",
        "scalar_sample: 40 rows copied, about 89%",
        "scalar_sample: 53 rows.",
        *(compared if target_kind == "sqlite" else ()),
    ]
    assert rows_of(target) == rows_of(source)
