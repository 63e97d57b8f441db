"""Questions answered by a hot standby: when it lags, cancels queries, is down, or is promoted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from helpers.cut_proxy import TO_SERVER, cut_proxy
from helpers.databases import plain_role
from helpers.log_writer import Log
from helpers.standby import (
    cut_off,
    end_what_reads,
    execute,
    held_up,
    hot_standby,
    impatient,
    on_standby,
    paused,
    promote,
    wait_until_caught_up,
)
from helpers.waiting import wait_until
from lineage_store import DatabaseUnavailableError, LineageStore, filter_summary_lineage
from lineage_store.api.reports import ChangeKind, Replay
from lineage_store.config import Settings
from lineage_store.errors import ConfigError, SchemaTooOldError
from lineage_store.store.database.db import reading

JOBS = ["./a", "./b"]


def train(base_dir: Path, *names: str) -> Path:
    for name in names:
        Log().train(network="A", epoch=3).evaluation({"accuracy": 0.9}).write_lineage(base_dir / name)
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / name)
    return base_dir


@pytest.fixture
def replayed(postgres_server: str, standby_server: str) -> Callable[[], None]:
    return lambda: wait_until_caught_up(postgres_server, standby_server)


@pytest.fixture
def standby_url(standby_server: str, postgres_url: str) -> str:
    return on_standby(standby_server, postgres_url)


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    return train(tmp_path / "base", "a")


@pytest.fixture
def writer(
    postgres_url: str, base_dir: Path, standby_url: str, replayed: Callable[[], None]
) -> Iterator[Any]:
    """Somebody else, who has ingested one job, which the standby has."""
    with LineageStore(postgres_url, settings=Settings()) as store:
        store.ingest(base_dir)
        replayed()
        yield store


@pytest.fixture
def store(writer: LineageStore, postgres_url: str, standby_url: str) -> Iterator[LineageStore]:
    with LineageStore(postgres_url, settings=Settings(read_database_url=standby_url)) as store:
        yield store


def jobs(store: LineageStore) -> list[str]:
    return sorted(job.train_id for job in store.lineage.jobs())


def remark(store: LineageStore) -> object:
    found = {each["summary_dir"]: each["added_info"] for each in store.lineage.filter()["object"]}
    return found["./a"].get("remark")


def test_what_only_asks_is_asked_of_the_standby(
    store: LineageStore, writer: LineageStore, standby_url: str, base_dir: Path, replayed: Callable[[], None]
) -> None:
    with paused(standby_url):
        writer.ingest(train(base_dir, "b"))
        assert jobs(writer) == JOBS
        assert jobs(store) == ["./a"]
        assert store.lineage.filter()["count"] == len(list(store.lineage.iterate())) == 1
        assert len(store.changes.since().changes) == 1
        with pytest.raises(Exception, match="knows no train job"):
            store.job((base_dir, "./b")).scalars("loss")
        assert store.plan(base_dir).bytes_to_read == 0  # what looks at the disk asks the primary
        assert not [file for file in store.repair.verify() if file.differences or file.pending_bytes]
    replayed()
    assert jobs(store) == JOBS


def test_who_writes_sees_it_before_the_standby_does(
    store: LineageStore, standby_url: str, base_dir: Path, replayed: Callable[[], None]
) -> None:
    with paused(standby_url):
        store.job((base_dir, "./a")).annotate(remark="mine")
        assert remark(store) == "mine"
        store.ingest(train(base_dir, "b"))
        assert jobs(store) == JOBS
        assert store.opened.read_engine is store.engine
    replayed()
    assert remark(store) == "mine"
    assert store.opened.read_engine is not store.engine


def test_who_was_told_of_a_write_sees_it_too(
    store: LineageStore, writer: LineageStore, standby_url: str, base_dir: Path
) -> None:
    with paused(standby_url):
        writer.job((base_dir, "./a")).annotate(remark="of another")
        assert remark(store) is None
        store.opened.see_latest()
        assert remark(store) == "of another"


def test_a_function_reads_new_lineage_and_answers_with_it(
    store: LineageStore, standby_url: str, base_dir: Path
) -> None:
    with paused(standby_url):
        train(base_dir, "b")
        assert filter_summary_lineage(base_dir, store=store)["count"] == 2


def test_changes_go_on_when_the_primary_answered_in_between(
    store: LineageStore, writer: LineageStore, standby_url: str, base_dir: Path, replayed: Callable[[], None]
) -> None:
    with store.changes.follow() as follower:
        with paused(standby_url):
            store.job((base_dir, "./a")).annotate(label=1)
            told = store.changes.since(follower.since)
            writer.ingest(train(base_dir, "b"))
            told = store.changes.since(told.since)
            assert not store.changes.since(told.since).changes
        replayed()
        assert not store.changes.since(told.since).changes
        followed = [change for answer in follower.look() for change in answer.changes]
    assert [(change.train_id, change.kind) for change in followed] == [
        (job, ChangeKind.CHANGED) for job in JOBS
    ]


def test_a_question_that_the_standby_ended_is_asked_again(
    store: LineageStore, postgres_url: str, standby_url: str, base_dir: Path
) -> None:
    assert jobs(store) == ["./a"]
    with ThreadPoolExecutor() as threads, impatient(standby_url):
        with held_up(postgres_url, standby_url, "train_job"):
            asked = threads.submit(store.lineage.filter, base_dir=base_dir)
            end_what_reads(postgres_url, standby_url, "base_dir")
        assert asked.result()["count"] == 1


def test_a_statement_that_the_standby_ended_is_run_again(
    store: LineageStore, postgres_url: str, standby_url: str
) -> None:
    def select(opened: LineageStore, statement: str) -> list[Any]:
        with opened.sql(statement) as answer:
            return list(answer.rows)

    counts = "SELECT (SELECT count(*) FROM base_dir), (SELECT count(*) FROM train_job)"
    with plain_role(postgres_url) as asker, ThreadPoolExecutor() as threads, impatient(standby_url):
        wait_until_caught_up(postgres_url, standby_url)
        url = make_url(standby_url).set(username=make_url(asker).username).render_as_string(False)
        with LineageStore(postgres_url, settings=Settings(read_database_url=url)) as opened:
            # Opened and compared with the schema first, which would wait for the lock as well.
            assert select(opened, "SELECT 1") == [(1,)]
            with held_up(postgres_url, standby_url, "train_job"):
                asked = threads.submit(select, opened, counts)
                end_what_reads(postgres_url, standby_url, "base_dir")
            assert asked.result() == [(1, 1)]


def test_a_session_that_the_standby_ended_says_so_too(
    store: LineageStore, postgres_url: str, standby_url: str
) -> None:
    """One that rests in its transaction is ended as a whole."""
    assert jobs(store) == ["./a"]

    def rest() -> None:
        with reading(store.opened.read_engine) as session:
            session.change("SELECT count(*) FROM base_dir")
            execute(postgres_url, "BEGIN; LOCK TABLE base_dir IN ACCESS EXCLUSIVE MODE; COMMIT")
            wait_until_caught_up(postgres_url, standby_url)
            session.change("SELECT count(*) FROM base_dir")

    with impatient(standby_url), pytest.raises(DatabaseUnavailableError) as ended:
        rest()
    assert ended.value.cause == "conflict"
    assert jobs(store) == ["./a"]


def test_a_question_that_the_standby_ends_again_says_so(
    store: LineageStore, postgres_url: str, standby_url: str, base_dir: Path
) -> None:
    assert jobs(store) == ["./a"]
    with (
        ThreadPoolExecutor() as threads,
        impatient(standby_url),
        held_up(postgres_url, standby_url, "train_job"),
    ):
        asked = threads.submit(store.lineage.filter, base_dir=base_dir)
        for _ in range(2):
            end_what_reads(postgres_url, standby_url, "base_dir")
        failure = asked.exception()
    assert isinstance(failure, DatabaseUnavailableError)
    assert failure.cause == "conflict"
    assert "hot_standby_feedback" in str(failure)
    assert jobs(store) == ["./a"]


def test_how_far_the_standby_is_behind_is_told(
    store: LineageStore, writer: LineageStore, standby_url: str, base_dir: Path, replayed: Callable[[], None]
) -> None:
    def how() -> Replay:
        found = store.health.standby(within_s=0.0)
        assert found is not None
        return found

    wait_until(lambda: how().lag_s == how().lag_bytes == 0)
    assert how().is_up
    with paused(standby_url):
        writer.ingest(train(base_dir, "b"))
        assert how().lag_bytes
        assert how().lag_s
        assert [each.kind for each in store.health.findings(within_s=0.0)][-1] == "standby_behind"
        assert "pg_wal_replay_resume" in store.health.findings(within_s=0.0)[-1].remedy
        assert store.health.measures().standby is not None
        assert [row["finished_jobs"] for row in store.health.status().base_dirs] == [
            2
        ]  # as the primary has it
    replayed()
    assert writer.health.standby() is None


def test_while_the_primary_is_away_questions_go_on_and_remarks_are_refused(
    writer: LineageStore,
    postgres_url: str,
    standby_url: str,
    base_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings(read_database_url=standby_url)
    with ExitStack() as opened:
        proxy = opened.enter_context(cut_proxy(postgres_url, tmp_path_factory.mktemp("p")))
        before = opened.enter_context(LineageStore(proxy.url, settings=settings))
        before.job((base_dir, "./a")).annotate(label=1)
        proxy.cut_after(TO_SERVER)
        with caplog.at_level(logging.WARNING):
            since = opened.enter_context(LineageStore(proxy.url, settings=settings))
        assert "Questions are answered by" in caplog.text
        for store in (before, since):
            assert jobs(store) == ["./a"]
            assert filter_summary_lineage(base_dir, store=store)["count"] == 1
            assert store.health.status().base_dirs
            assert {each.kind for each in store.health.findings()} == {"database_down"}
            assert not store.health.measures().is_up
            with pytest.raises(DatabaseUnavailableError, match="questions are answered by") as refused:
                store.job((base_dir, "./a")).annotate(label=2)
            assert refused.value.cause == "down"
        proxy.cut_after()
        for store in (before, since):
            store.job((base_dir, "./a")).annotate(label=3)
            assert store.lineage.filter()["object"][0]["added_info"]["tag"] == 3


def test_while_the_standby_is_away_questions_fail_by_its_name(
    writer: LineageStore,
    postgres_url: str,
    standby_url: str,
    base_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        cut_proxy(standby_url, tmp_path_factory.mktemp("s")) as proxy,
        LineageStore(postgres_url, settings=Settings(read_database_url=proxy.url)) as store,
    ):
        assert jobs(store) == ["./a"]
        proxy.cut_after(TO_SERVER)
        with pytest.raises(DatabaseUnavailableError) as refused:
            jobs(store)
        assert refused.value.cause == "down"
        store.job((base_dir, "./a")).annotate(label=1)
        assert [each.kind for each in store.health.findings()] == ["standby_down"]
        proxy.cut_after()
        assert jobs(store) == ["./a"]


def test_a_standby_that_lacks_the_schema_is_waited_for(
    empty_postgres_url: str, standby_server: str, base_dir: Path, replayed: Callable[[], None]
) -> None:
    standby_url = on_standby(standby_server, empty_postgres_url)
    with paused(standby_url), LineageStore(empty_postgres_url, settings=Settings()) as writer:
        writer.ingest(base_dir)
        with LineageStore(empty_postgres_url, settings=Settings(read_database_url=standby_url)) as store:
            with pytest.raises(SchemaTooOldError, match="wait until it has replayed"):
                jobs(store)
            execute(standby_url, "SELECT pg_wal_replay_resume()")
            replayed()
            assert jobs(store) == ["./a"]


def test_what_is_no_standby_of_the_store_is_refused(
    store: LineageStore, postgres_url: str, empty_postgres_url: str, sqlite_url: str
) -> None:
    with (
        LineageStore(empty_postgres_url, settings=Settings(read_database_url=postgres_url)) as other,
        pytest.raises(ConfigError, match="is no standby of"),
    ):
        jobs(other)
    for urls in ((sqlite_url, postgres_url), (postgres_url, sqlite_url)):
        with pytest.raises(ConfigError, match="only PostgreSQL has standbys"):
            LineageStore(urls[0], settings=Settings(read_database_url=urls[1]))


def of_several(url: str, *hosts: str, wanted: str) -> str:
    several = {"host": ",".join(hosts), "target_session_attrs": wanted}
    return make_url(url).update_query_dict(several).render_as_string(hide_password=False)


@pytest.mark.skipif(
    tuple(map(int, version("psycopg").split(".")[:3])) < (3, 2, 6),
    reason="before 3.2.6, psycopg takes prefer-standby for any",
)
def test_libpq_chooses_among_several_servers(
    writer: LineageStore, postgres_url: str, standby_url: str, base_dir: Path
) -> None:
    """The primary answers where no standby does, if that is wanted; who writes finds the one that takes it."""
    primary, standby = (str(make_url(url).query["host"]) for url in (postgres_url, standby_url))
    for second, is_standby in ((standby, True), ("/nowhere", False)):
        asked = of_several(postgres_url, primary, second, wanted="prefer-standby")
        written = of_several(postgres_url, second, primary, wanted="read-write")
        with LineageStore(written, settings=Settings(read_database_url=asked)) as store:
            assert jobs(store) == ["./a"]
            with store.opened.read_engine.connect() as connection:
                assert connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar() is is_standby
            store.job((base_dir, "./a")).annotate(remark=second)
            assert remark(store) == second
            found = store.health.standby()
            assert found is not None
            assert (found.finding and found.finding.kind) == (None if is_standby else "standby_is_primary")


def test_a_standby_that_lacks_the_last_commits_and_takes_over_is_brought_up_to_date(
    postgres_url: str, base_dir: Path
) -> None:
    with LineageStore(postgres_url, settings=Settings()) as writer, hot_standby(postgres_url) as standby_url:
        writer.ingest(base_dir)
        writer.job((base_dir, "./a")).annotate(remark="kept")
        wait_until_caught_up(postgres_url, standby_url)
        with LineageStore(postgres_url, settings=Settings(read_database_url=standby_url)) as store:
            assert jobs(store) == ["./a"]
            cut_off(standby_url)
            Log().scalar(2, "loss", 0.25).write_summary(train(base_dir, "b") / "a", timestamp=1_900_000_000)
            writer.ingest(base_dir)
            promote(standby_url)
            assert jobs(store) == ["./a"]
            assert [each.kind for each in store.health.findings()] == ["standby_promoted"]
            store.job((base_dir, "./b")).annotate(label=1)
            assert jobs(store) == JOBS  # of the one that was written to
        with LineageStore(standby_url, settings=Settings()) as taken_over:
            assert taken_over.ingest(base_dir).complete
            assert jobs(taken_over) == JOBS
            assert taken_over.job((base_dir, "./a")).scalars("loss").values.tolist() == [0.5, 0.25]
            assert remark(taken_over) == "kept"
            files = list(taken_over.repair.verify())
            assert len(files) == 5
            assert not [file for file in files if file.differences or file.pending_bytes]
