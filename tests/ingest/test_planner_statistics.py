"""Statistics for the planner: gathered after much was read, by one pass or by several, and not after little."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from benchmarks.many_rows import add_jobs
from helpers.databases import needs_databases
from helpers.fake_citus import distributed
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from helpers.stored_jobs import add_base_dir
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.store.admin import planner_statistics
from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.database.sql import Session


def analysed(engine: Engine) -> bool:
    """Whether the database has statistics of the samples."""
    gathered = {
        "sqlite": "SELECT count(*) FROM sqlite_stat1 WHERE tbl = 'scalar_sample'",
        "postgresql": "SELECT count(last_analyze) FROM pg_stat_user_tables WHERE relname LIKE 'scalar\\_sample%'",
    }
    with engine.connect() as connection:
        tables = "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'"
        if engine.dialect.name == "sqlite" and not connection.execute(text(tables)).scalar():
            return False
        return bool(connection.execute(text(gathered[engine.dialect.name])).scalar())


def jobs_analysed(engine: Engine) -> int:
    """Of how many jobs SQLite's statistics are."""
    if not analysed(engine):
        return 0
    (jobs,) = column(engine, "SELECT max(CAST(stat AS INTEGER)) FROM sqlite_stat1 WHERE tbl = 'train_job'")
    return int(jobs)


def write_job(base_dir: Path, number: int) -> None:
    """A job with one series."""
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"{number}")


def test_a_large_pass_gathers_statistics_and_a_small_one_does_not(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_statistics, "MANY_EVENTS", 10)
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


def test_small_passes_of_many_processes_gather_statistics_when_the_store_has_doubled(
    sqlite_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_statistics, "LEAST_ROWS", 6)
    of_jobs = []
    for number in range(1, 13):
        write_job(base_dir, number)
        engine = open_engine(sqlite_url)
        ingest(engine, base_dir)
        of_jobs.append(jobs_analysed(engine))
        engine.dispose()
    assert of_jobs == [0, 0, 3, 3, 3, 6, 6, 6, 6, 6, 6, 12]


def test_statistics_that_an_older_release_gathered_are_renewed(
    sqlite_engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_statistics, "LEAST_ROWS", 4)
    write_job(base_dir, 1)
    ingest(sqlite_engine, base_dir)
    with sqlite_engine.begin() as connection:
        connection.execute(text("ANALYZE"))
    write_job(base_dir, 2)
    ingest(sqlite_engine, base_dir)
    assert jobs_analysed(sqlite_engine) == 2


def test_a_daemon_gathers_statistics_and_a_look_that_finds_nothing_does_not_ask_for_them(
    sqlite_engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_statistics, "LEAST_ROWS", 4)
    asked = list[str]()
    event.listen(sqlite_engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    follower = Follower(sqlite_engine, base_dir, Settings(discovery_interval_s=0.05))
    write_job(base_dir, 1)
    write_job(base_dir, 2)
    follower.tick()
    assert jobs_analysed(sqlite_engine) == 2
    asked.clear()
    follower.tick()
    assert asked
    assert not [statement for statement in asked if "max(id)" in statement or "ANALYZE" in statement]
    follower.close()


def test_postgresql_is_left_to_its_own_autovacuum_after_small_passes(
    postgres_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_statistics, "LEAST_ROWS", 1)
    write_job(base_dir, 1)
    engine, asked = open_engine(postgres_url), list[str]()
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    ingest(engine, base_dir)
    engine.dispose()
    assert not [statement for statement in asked if statement.startswith("ANALYZE")]


def leave_to_us(session: Session, *tables: str) -> None:
    """Keep the server's own autovacuum from gathering these tables' statistics meanwhile."""
    for table in tables:
        session.change(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")


def test_a_pass_that_adds_little_to_large_tables_leaves_their_statistics_alone(
    postgres_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_statistics, "MANY_EVENTS", 10)
    engine = open_engine(postgres_url)
    with writing(engine) as session:
        leave_to_us(session, "train_job", "log_file", "series", "scalar_sample")
        base_dir_id = add_base_dir(session)  # another one
        add_jobs(session, base_dir_id, 2_000, series=2, steps=5)
    planner_statistics.gather(engine)
    log = Log()
    for step in range(20):
        log.scalar(step, "loss", 1.0 / (step + 1))
    log.write_summary(base_dir / "large")
    asked = list[str]()
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    ingest(engine, base_dir)
    analysed_now = {each.split()[1] for each in asked if each.startswith("ANALYZE")}
    assert not analysed_now & {"train_job", "log_file", "series", "scalar_sample"}
    with writing(engine) as session:
        add_jobs(session, base_dir_id, 3_000, series=2, steps=5)
    asked.clear()
    planner_statistics.gather(engine)
    analysed_now = {each.split()[1] for each in asked if each.startswith("ANALYZE")}
    assert analysed_now >= {"train_job", "log_file", "series", "scalar_sample"}
    engine.dispose()


_FILL = """
INSERT INTO scalar_sample_{shard} (job_id, series_no, step, wall_time, value)
SELECT 1, 1, n, 0, 0 FROM generate_series(1, {rows}) n
"""


def test_samples_on_workers_are_analysed_when_their_shards_have_doubled(
    postgres_server: str, postgres_url: str
) -> None:
    needs_databases(postgres_server)
    engine, asked = open_engine(postgres_url), list[str]()
    with writing(engine) as session:
        for shard in ("scalar_sample_1", "scalar_sample_2"):
            session.change(f"CREATE TABLE {shard} (LIKE scalar_sample)")
        leave_to_us(session, "scalar_sample", "scalar_sample_1", "scalar_sample_2")
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))

    def samples_analysed() -> bool:
        asked.clear()
        planner_statistics.gather(engine)
        return "ANALYZE scalar_sample" in asked

    def add(shard: int, rows: int) -> None:
        with writing(engine) as session:
            session.change(_FILL.format(shard=shard, rows=rows))

    with distributed(postgres_url):
        assert not samples_analysed(), "there is no sample"
        add(1, 10_000)
        assert samples_analysed()
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(
                "ANALYZE scalar_sample_1, scalar_sample_2"
            )  # as Citus does for the table
        assert not samples_analysed()
        add(2, 5_000)
        assert not samples_analysed(), "one shard is new, but the table has grown by half"
        add(2, 6_000)
        assert samples_analysed()
    engine.dispose()
