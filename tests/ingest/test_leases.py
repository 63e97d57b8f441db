"""Exactly once: leases, bookmarks, and commits whose result is unknown."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import IntegrityError

from helpers.contents import natural_contents
from helpers.engines import opened
from helpers.ingesting import column, ingest, let_leases_expire, rows, visible_scalars
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.errors import BookmarkMovedError, DatabaseUnavailableError, LeaseHeldError, LeaseLostError
from lineage_store.ingest import commit, pipeline
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.pipeline import Ingester
from lineage_store.ingest.read.batch import Batch, fill
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading, writing
from lineage_store.store.leases import Lease

LOG = Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25)


@pytest.fixture
def base_dir_id(engine: Engine, base_dir: Path) -> int:
    LOG.write_summary(base_dir / "job")
    Log().train(network="N").write_lineage(base_dir / "job")
    return base_dirs.register(engine, base_dir)


def acquire(engine: Engine, base_dir_id: int, holder: str) -> Lease:
    with writing(engine) as session:
        return leases.acquire(session, base_dir_id, holder, 15.0, "once")


def test_a_second_ingester_is_refused_while_the_first_leads(
    engine: Engine, base_dir: Path, base_dir_id: int
) -> None:
    with hold_lease(engine, base_dir_id, 15.0, mode="daemon") as lease:
        with pytest.raises(LeaseHeldError, match=f"{lease.holder} \\(daemon, since"):
            ingest(engine, base_dir)
        assert column(engine, "SELECT count(*) FROM log_file") == [0]
    ingest(engine, base_dir)


def test_leaders_of_different_base_dirs_do_not_mind_each_other(
    engine: Engine, base_dir: Path, base_dir_id: int, tmp_path: Path
) -> None:
    LOG.write_summary(tmp_path / "other" / "job")
    with hold_lease(engine, base_dir_id, 15.0, mode="daemon"):
        assert ingest(engine, tmp_path / "other").counts.events == 3


def test_of_many_who_reach_for_a_lease_at_once_one_gets_it(engine: Engine, base_dir_id: int) -> None:
    outcomes: list[object] = []
    together = threading.Barrier(4)

    def reach(holder: str) -> None:
        together.wait()
        try:
            outcomes.append(acquire(engine, base_dir_id, holder))
        except LeaseHeldError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=reach, args=(f"host:{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Lease"] + ["LeaseHeldError"] * 3


def test_an_expired_lease_is_taken_over_with_a_higher_epoch(engine: Engine, base_dir_id: int) -> None:
    first = acquire(engine, base_dir_id, "first")
    let_leases_expire(engine)
    second = acquire(engine, base_dir_id, "second")
    assert second.epoch == first.epoch + 1
    with reading(engine) as session:
        assert leases.leader(session, base_dir_id) == "second"


def test_a_lease_that_expired_but_was_not_taken_is_renewed(engine: Engine, base_dir_id: int) -> None:
    lease = acquire(engine, base_dir_id, "first")
    let_leases_expire(engine)
    commit.heartbeat(engine, lease, searched=True)
    with pytest.raises(LeaseHeldError):
        acquire(engine, base_dir_id, "second")


def test_the_writes_of_a_holder_that_was_away_are_refused(
    engine: Engine, base_dir: Path, base_dir_id: int
) -> None:
    stale = acquire(engine, base_dir_id, "stale")
    let_leases_expire(engine)
    acquire(engine, base_dir_id, "new")
    before = natural_contents(engine)
    this = Ingester(engine, base_dir, stale, Settings())
    with pytest.raises(LeaseLostError):
        pipeline.run_pass(this)
    assert natural_contents(engine) == before


def test_letting_go_of_a_lost_lease_leaves_the_new_holder_alone(engine: Engine, base_dir_id: int) -> None:
    stale = acquire(engine, base_dir_id, "stale")
    let_leases_expire(engine)
    acquire(engine, base_dir_id, "new")
    with writing(engine) as session:
        leases.release(session, stale)
        assert leases.leader(session, base_dir_id) == "new"


# --- bookmarks ---


def look_at_all(engine: Engine, base_dir: Path, base_dir_id: int) -> list[Batch]:
    """A look at each file, the lineage file's first."""
    with reading(engine) as session:
        known, now = registry.known_files(session, base_dir_id), session.now()
    looks = [fill(base_dir, [file], Settings(), now) for file in known]
    return sorted((seen for seen in looks if seen.advances), key=lambda seen: seen.advances[0].file.kind)


def write(engine: Engine, lease: Lease, *looks: Batch) -> None:
    advances = [advance for seen in looks for advance in seen.advances]
    batch = Batch(advances, [each for seen in looks for each in seen.samples])
    commit.write_batch(engine, lease, batch, Settings())


def test_a_batch_with_one_moved_bookmark_writes_nothing(
    engine: Engine, base_dir: Path, base_dir_id: int
) -> None:
    lease = acquire(engine, base_dir_id, "me")
    asked = iter([True])
    pipeline.run_pass(Ingester(engine, base_dir, lease, Settings(), should_stop=lambda: next(asked, True)))
    lineage, summary = look_at_all(engine, base_dir, base_dir_id)
    write(engine, lease, lineage)
    before = natural_contents(engine)
    with pytest.raises(BookmarkMovedError, match="1 of 2 bookmarks had changed"):
        write(engine, lease, summary, lineage)
    assert natural_contents(engine) == before
    assert pipeline.run_pass(Ingester(engine, base_dir, lease, Settings())).events == 3


def test_a_bookmark_that_somebody_moves_in_mid_pass_is_left_to_the_next_pass(
    engine: Engine, base_dir: Path, base_dir_id: int
) -> None:
    lease = acquire(engine, base_dir_id, "me")
    looked = pipeline.run_pass(
        Ingester(engine, base_dir, lease, Settings(), should_stop=lambda: True)
    ).files_found
    lineage, summary = look_at_all(engine, base_dir, base_dir_id)
    settings = Settings(batch_files=1)
    asked = iter([summary, lineage])  # as the pass reads them

    def interfere() -> bool:
        for seen in asked:
            write(engine, lease, seen)
            break
        return False

    outcome = pipeline.run_pass(Ingester(engine, base_dir, lease, settings, should_stop=interfere))
    assert (looked, outcome.events) == (2, 0)
    assert visible_scalars(engine) == {1: 0.5, 2: 0.25}


# --- commits that fail ---


@contextmanager
def answer_lost_at_commit(engine: Engine, number: int) -> Iterator[None]:
    """The database commits transaction `number`, but its answer never comes: the connection breaks."""
    do_commit, errors = engine.dialect.do_commit, {"sqlite": sqlite3, "postgresql": psycopg}
    commits = 0

    def commit_and_break(connection: Any) -> None:
        nonlocal commits
        do_commit(connection)
        commits += 1
        if commits == number:
            raise errors[engine.dialect.name].OperationalError("the connection was lost")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine.dialect, "do_commit", commit_and_break)
        yield


def test_a_commit_of_unknown_outcome_is_healed_by_the_next_pass(
    engine: Engine, database_url: str, base_dir: Path
) -> None:
    LOG.write_summary(base_dir / "job")
    Log().train(network="N").evaluation({"acc": 1.0}).write_lineage(base_dir / "job")
    failures = 0
    for number in range(1, 16):
        with opened(database_url) as unsure, answer_lost_at_commit(unsure, number):
            try:
                ingest(unsure, base_dir, batch_files=1)
            except DatabaseUnavailableError:
                failures += 1
        let_leases_expire(engine)
    ingest(engine, base_dir)
    assert failures > 5
    assert visible_scalars(engine) == {1: 0.5, 2: 0.25}
    assert column(engine, "SELECT event_count FROM log_file ORDER BY kind") == [2, 3]
    assert column(engine, "SELECT sample_count FROM series") == [2]
    assert column(engine, "SELECT count(*) FROM lineage_event") == [2]


def test_a_copy_that_the_database_refuses_writes_nothing(postgres_engine: Engine, base_dir: Path) -> None:
    LOG.write_summary(base_dir / "job")
    with postgres_engine.begin() as connection:
        connection.execute(text("ALTER TABLE scalar_sample ADD CONSTRAINT none_at_all CHECK (step < 0)"))
    try:
        with pytest.raises(IntegrityError, match="none_at_all"):
            ingest(postgres_engine, base_dir)
    finally:
        with postgres_engine.begin() as connection:
            connection.execute(text("ALTER TABLE scalar_sample DROP CONSTRAINT none_at_all"))
    assert rows(postgres_engine, "SELECT byte_offset, event_count FROM log_file") == [(0, 0)]
    assert column(postgres_engine, "SELECT count(*) FROM series") == [0]


def test_values_that_the_database_refuses_in_a_copy_write_nothing(
    postgres_engine: Engine, base_dir: Path
) -> None:
    Log().user_info(**{f"key {number}": number for number in range(1_000)}).write_lineage(base_dir / "job")
    with postgres_engine.begin() as connection:
        connection.execute(text("ALTER TABLE user_info ADD CONSTRAINT few CHECK (position < 500)"))
    try:
        with pytest.raises(IntegrityError, match="few"):
            ingest(postgres_engine, base_dir)
        assert rows(postgres_engine, "SELECT byte_offset, event_count FROM log_file") == [(0, 0)]
    finally:
        with postgres_engine.begin() as connection:
            connection.execute(text("ALTER TABLE user_info DROP CONSTRAINT few"))
    let_leases_expire(postgres_engine)
    ingest(postgres_engine, base_dir)
    assert column(postgres_engine, "SELECT count(*) FROM user_info WHERE value = position") == [1_000]


def test_a_session_that_the_server_ends_in_mid_transaction_writes_nothing(
    postgres_url: str, base_dir: Path
) -> None:
    LOG.write_summary(base_dir / "job")
    with opened(postgres_url) as engine, opened(postgres_url) as killer:
        base_dirs.register(engine, base_dir)

        def end_session(_: Any, cursor: Any, statement: str, *__: Any) -> None:
            if statement.startswith("INSERT INTO series"):
                with killer.begin() as connection:
                    pid = cursor.connection.info.backend_pid
                    connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})

        event.listen(engine, "before_cursor_execute", end_session)
        with pytest.raises(DatabaseUnavailableError, match="failed: "):
            ingest(engine, base_dir)
        event.remove(engine, "before_cursor_execute", end_session)
        assert rows(killer, "SELECT byte_offset, event_count FROM log_file") == [(0, 0)]
        assert column(killer, "SELECT count(*) FROM series") == [0]
        let_leases_expire(killer)
        ingest(engine, base_dir)
        assert visible_scalars(killer) == {1: 0.5, 2: 0.25}
