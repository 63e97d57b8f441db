"""`[keep]`: jobs are removed by age, number and size of the store, by a daemon or at once, as a dry run lists them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, update

from helpers.engines import url_of
from helpers.following_daemon import Daemon, daemon, write
from helpers.ingesting import column, ingest, rows, size_of
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import ConfigError, LeaseLostError
from lineage_store.ingest import retention
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.ingest.retention import policy_cause, take_out_of_sight
from lineage_store.operations import removal as policies
from lineage_store.operations.removal import expired_by, removing
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import writing
from lineage_store.store.records import NewFile
from lineage_store.store.schema.tables import train_job
from lineage_store.store.writes import removal

BEGUN = 1_700_000_000
NAMES = ("a", "b", "c", "d")
"""The oldest first."""


def train(base_dir: Path, name: str, begun: int, *, samples: int = 2, finished: bool = True) -> None:
    log = Log(wall_time=float(begun)).version()
    for step in range(samples):
        log.scalar(step, "loss", 0.5)
    lineage = Log(wall_time=float(begun))
    lineage = lineage.train(network="LeNet5") if finished else lineage
    paths = (
        log.write_summary(base_dir / name, timestamp=begun),
        lineage.evaluation({"accuracy": 0.5}).write_lineage(base_dir / name, begun),
    )
    for path in paths if finished else ():
        path.chmod(0o400)


@pytest.fixture
def four(engine: Engine, base_dir: Path) -> Path:
    """Four finished jobs in the store, a to d, each begun later than the one before."""
    for number, name in enumerate(NAMES):
        train(base_dir, name, BEGUN + number)
    ingest(engine, base_dir)
    return base_dir


def carry_out(engine: Engine, base_dir: Path | None = None, **keep: Any) -> list[str]:
    """Which jobs went: those that were listed before, and no others."""
    settings = Settings(**{f"keep_{name}": value for name, value in keep.items()})
    url = url_of(engine)
    with LineageStore(url, settings=settings) as store:
        before = set(jobs(engine))
        listed = [job.train_id for job in store.removal.expired(base_dir)]
        done = store.removal.remove_expired(base_dir)
        assert sorted(before.difference(jobs(engine))) == sorted(listed)
        assert done.jobs == len(listed)
        assert list(store.removal.expired(base_dir)) == []
        assert store.removal.remove_expired(base_dir).jobs == 0
    return [train_id.removeprefix("./") for train_id in listed]


def jobs(engine: Engine) -> list[str]:
    return column(engine, "SELECT train_id FROM v_job ORDER BY train_id")


def left_behind(engine: Engine) -> list[int]:
    """Rows of jobs that are not there: samples, series, and what holds jobs while they leave."""
    none = "(SELECT id FROM train_job)"
    tables = ("scalar_sample", "series", "log_file", "lineage_event")
    counts = [f"SELECT count(*) FROM {table} WHERE job_id NOT IN {none}" for table in tables]
    counts.append("SELECT count(*) FROM base_dir WHERE leaving")
    return [column(engine, query)[0] for query in counts]


def age(engine: Engine, days: float, *train_ids: str) -> None:
    with writing(engine) as session:
        at = session.now() - timedelta(days=days)
        for train_id in train_ids:
            this = update(train_job).where(train_job.c.train_id == f"./{train_id}")
            session.change(this.values(alive_at=at))


def test_the_newest_jobs_of_each_base_dir_stay(engine: Engine, four: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    train(other, "e", BEGUN)
    ingest(engine, other)
    assert carry_out(engine, jobs=2) == ["a", "b"]
    assert jobs(engine) == ["./c", "./d", "./e"]
    reasons = "SELECT DISTINCT reason FROM tombstone"
    assert column(engine, reasons) == ["policy keep_jobs = 2"]
    assert left_behind(engine) == [0, 0, 0, 0, 0]
    assert (four / "a").is_dir()


def test_what_is_older_than_so_many_days_goes(engine: Engine, four: Path) -> None:
    age(engine, 91, "a", "c")
    age(engine, 89, "b", "d")
    assert carry_out(engine, days=90) == ["a", "c"]


def test_the_oldest_go_until_the_rest_fits(engine: Engine, four: Path, tmp_path: Path) -> None:
    train(tmp_path / "other", "e", BEGUN - 1)
    ingest(engine, tmp_path / "other")
    with LineageStore(url_of(engine), settings=Settings(keep_store_bytes=1)) as store:
        size = {job.train_id: job.store_bytes for job in store.removal.expired()}
    assert len(size) == 5
    three = sum(size[f"./{name}"] for name in ("b", "c", "d"))
    assert carry_out(engine, store_bytes=three + size["./a"]) == ["e"]
    assert carry_out(engine, four, store_bytes=three + 1) == ["a"]
    assert jobs(engine) == ["./b", "./c", "./d"]


def test_of_another_base_dir_the_oldest_of_all_stay_until_it_is_its_turn(
    engine: Engine, four: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    train(other, "e", BEGUN - 1)
    ingest(engine, other)
    with LineageStore(url_of(engine), settings=Settings(keep_store_bytes=1)) as store:
        size = sum(job.store_bytes for job in store.removal.expired())
    assert carry_out(engine, four, store_bytes=size - 1) == []
    assert carry_out(engine, other, store_bytes=size - 1) == ["e"]


@pytest.mark.slow
def test_what_jobs_take_is_known_within_a_third(engine: Engine, base_dir: Path) -> None:
    before = size_of(engine)
    for number in range(12):
        log = Log().version()
        for tag in ("loss", "accuracy", "lr"):
            for step in range(2000):
                log.scalar(step, tag, step / 7)
        for step in range(300):
            log.histogram(step, "weights", [0.0, 1.0])
        log.write_summary(base_dir / f"job_{number}", timestamp=BEGUN + number)
    ingest(engine, base_dir)
    with LineageStore(url_of(engine), settings=Settings(keep_store_bytes=1)) as store:
        with writing(engine) as session:
            session.change(update(train_job).values(state="stalled"))
        told = sum(job.store_bytes for job in store.removal.expired())
    taken = size_of(engine) - before
    assert taken * 2 / 3 < told < taken * 3 / 2, f"{told} are told, {taken} are taken"


def test_labelled_jobs_stay_and_take_their_room(engine: Engine, four: Path) -> None:
    with LineageStore(url_of(engine)) as store:
        store.job((four, "./a")).annotate(label=3)
        store.job((four, "./b")).annotate(remark="the one of the paper")
        store.job((four, "./c")).annotate(label=0, remark="")  # says nothing
    assert carry_out(engine, jobs=1) == ["c"]
    assert jobs(engine) == ["./a", "./b", "./d"]
    assert carry_out(engine, store_bytes=1) == ["d"]
    assert carry_out(engine, jobs=1, labelled=False) == ["a"]


def test_live_jobs_stay(engine: Engine, four: Path) -> None:
    train(four, "runs", BEGUN - 1, finished=False)
    ingest(engine, four)
    assert carry_out(engine, jobs=1, store_bytes=1) == ["a", "b", "c", "d"]
    assert jobs(engine) == ["./runs"]


def test_what_was_not_read_yet_neither_goes_nor_counts(engine: Engine, four: Path) -> None:
    new = NewFile("./new", "events.out.events.summary.1.h_MS", "mindspore", "summary", 1, None, "h")
    base_dir_id = register(engine, four)
    with writing(engine) as session:
        registry.insert_files(session, base_dir_id, [new], session.now())
    assert carry_out(engine, jobs=4, store_bytes=10**9) == []
    assert carry_out(engine, store_bytes=1) == list(NAMES)
    assert jobs(engine) == ["./new"]


def test_a_job_of_which_anything_changes_after_it_was_named_stays(engine: Engine, four: Path) -> None:
    settings, base_dir_id = Settings(keep_jobs=1), register(engine, four)
    named = list(expired_by(engine, base_dir_id, settings))
    with LineageStore(url_of(engine)) as store:
        store.job((four, "./b")).annotate(label=1)
    with removing(engine, base_dir_id, settings) as (lead, leaving):
        gone, number = take_out_of_sight(engine, lead, leaving, named, policy_cause(named))
        assert [job.train_id for job in gone] == ["./a", "./c"]
        assert take_out_of_sight(engine, lead, leaving, named, policy_cause(named), number) == ([], number)
    assert jobs(engine) == ["./b", "./d"]


def test_jobs_are_asked_for_page_by_page(
    engine: Engine, four: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "NAMED_AT_A_TIME", 1)
    train(four, "same", BEGUN + 1)  # begun when b was
    ingest(engine, four)
    assert sorted(carry_out(engine, jobs=1)) == ["a", "b", "c", "same"]


def test_a_follower_asks_again_at_once_where_there_are_more(
    engine: Engine, four: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "NAMED_AT_A_TIME", 2)
    settings = Settings(keep_jobs=1, keep_every_s=1e6, lease_s=5, poll_interval_s=0.05)
    follower = Follower(engine, four, settings)

    def is_done() -> bool:
        follower.tick()
        return jobs(engine) == ["./d"] and not any(left_behind(engine))

    wait_until(is_done)
    follower.close()


def test_gc_takes_over_what_a_daemon_is_removing(engine: Engine, four: Path) -> None:
    base_dir_id = register(engine, four)
    with writing(engine) as session:
        leaving = removal.ensure_leaving(session, base_dir_id, session.now())
    with writing(engine) as session:
        lease = leases.acquire(session, leaving, "daemon", 60, "daemon")
    assert carry_out(engine, jobs=1) == ["a", "b", "c"]
    with pytest.raises(LeaseLostError), writing(engine) as session:
        leases.confirm(session, lease)


def test_ingest_leaves_them_alone_until_somebody_trains_there_again_or_asks_for_them(
    engine: Engine, four: Path
) -> None:
    carry_out(engine, jobs=1)
    ingest(engine, four)
    assert jobs(engine) == ["./d"]
    train(four, "a", BEGUN + 10)
    with LineageStore(url_of(engine)) as store:
        store.removal.restore(four, "./b")
        store.job((four, "./c"), removed=True).reingest()
    ingest(engine, four)
    assert jobs(engine) == ["./a", "./b", "./c", "./d"]
    assert carry_out(engine, jobs=1) == ["b", "c", "d"]


def test_without_a_policy_nothing_can_be_carried_out(sqlite_engine: Engine) -> None:
    url = url_of(sqlite_engine)
    keep = Settings(keep_labelled=False)
    with LineageStore(url, settings=keep) as store, pytest.raises(ConfigError) as refused:
        store.removal.remove_expired()
    assert "keep_days, keep_jobs, keep_store_bytes or keep_every_step_days" in str(refused.value)


# --- by the daemon -------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Six finished jobs, not in the store yet."""
    base_dir = tmp_path / "place"
    for number in range(6):
        train(base_dir, f"job_{number}", BEGUN + number, samples=200)
    return base_dir


@contextmanager
def keeping(url: str, base_dir: Path, *arguments: object, **keep: Any) -> Iterator[Daemon]:
    file = base_dir.parent / "lineage_store.toml"
    write(file, **told(base_dir, **keep))
    with daemon(file, url, *arguments) as running:
        yield running


def told(base_dir: Path, **keep: Any) -> dict[str, Any]:
    wanted = {f"keep_{name}": value for name, value in keep.items()}
    return {"base_dirs": [str(base_dir)], "batch_rows": 10, "lease_s": 2, "keep_every_s": 1, **wanted}


def numbered(*numbers: int) -> list[str]:
    return [f"./job_{number}" for number in numbers]


@pytest.mark.slow
def test_a_daemon_carries_them_out_and_reads_on(engine: Engine, database_url: str, place: Path) -> None:
    with keeping(database_url, place) as running:
        wait_until(lambda: jobs(engine) == numbered(0, 1, 2, 3, 4, 5))
        with LineageStore(database_url) as by_hand:
            by_hand.job((place, "./job_0")).annotate(label=1)
        running.reload("settings reloaded", **told(place, jobs=2))
        wait_until(lambda: jobs(engine) == numbered(0, 4, 5) and not any(left_behind(engine)))
        (said,) = running.says("jobs removed")
        assert (said["jobs"], said["by"]) == (3, {"keep_jobs = 2": 3})
        train(place, "job_6", BEGUN + 6)
        wait_until(lambda: jobs(engine) == numbered(0, 5, 6))
        train(place, "job_1", BEGUN + 7)  # somebody trains there again
        wait_until(lambda: jobs(engine) == numbered(0, 1, 6))
        running.reload("settings reloaded", **told(place, jobs=0))
        for number in (7, 8, 9):
            train(place, f"job_{number}", BEGUN + number)
        wait_until(lambda: jobs(engine) == numbered(0, 1, 6, 7, 8, 9))
    with LineageStore(database_url) as asked:
        (row,) = asked.health.status().removed_by_policy
    assert (row["base_dir"], row["policy"], row["jobs"]) == (str(place), "keep_jobs = 2", 4)


@pytest.mark.slow
def test_one_that_is_killed_in_between_loses_and_doubles_nothing(
    engine: Engine, database_url: str, place: Path
) -> None:
    with keeping(database_url, place, jobs=1) as running:
        wait_until(lambda: column(engine, "SELECT count(*) FROM tombstone")[0] > 0)
        running.kill()
    assert jobs(engine) == numbered(5)
    with keeping(database_url, place, jobs=1):
        wait_until(lambda: not any(left_behind(engine)))
        train(place, "job_6", BEGUN + 6)
        wait_until(lambda: jobs(engine) == numbered(6) and not any(left_behind(engine)))
    stones = rows(engine, "SELECT train_id, reason FROM tombstone ORDER BY train_id")
    assert [tuple(row) for row in stones] == [
        (name, "policy keep_jobs = 1") for name in numbered(0, 1, 2, 3, 4, 5)
    ]


@pytest.mark.slow
def test_while_another_removal_is_at_work_a_daemon_reads_on_and_waits(
    engine: Engine, database_url: str, place: Path
) -> None:
    ingest(engine, place)
    base_dir_id = register(engine, place)
    with writing(engine) as session:
        leaving = removal.ensure_leaving(session, base_dir_id, session.now())
    with hold_lease(engine, leaving, 600, mode="once"), keeping(database_url, place, jobs=1):
        for number in (6, 7):
            train(place, f"job_{number}", BEGUN + number)
            wait_until(lambda number=number: f"./job_{number}" in jobs(engine))  # type: ignore[misc]
        assert jobs(engine) == numbered(*range(8))
    with keeping(database_url, place, jobs=1):
        wait_until(lambda: jobs(engine) == numbered(7) and not any(left_behind(engine)))


@pytest.mark.slow
def test_each_shard_loses_its_own_jobs(engine: Engine, database_url: str, place: Path) -> None:
    with keeping(database_url, place, "--shards", 3, jobs=2):
        wait_until(lambda: jobs(engine) == numbered(4, 5) and not any(left_behind(engine)))


@pytest.mark.slow
def test_what_a_killed_removal_has_left_goes_when_nothing_else_does(
    engine: Engine, database_url: str, place: Path
) -> None:
    ingest(engine, place)
    base_dir_id, settings = register(engine, place), Settings(keep_jobs=3)
    named = list(expired_by(engine, base_dir_id, settings))
    with suppress(KeyboardInterrupt), removing(engine, base_dir_id, settings) as (lead, leaving):
        take_out_of_sight(engine, lead, leaving, named, policy_cause(named))
        raise KeyboardInterrupt
    assert any(left_behind(engine))
    with keeping(database_url, place, jobs=3):
        wait_until(lambda: not any(left_behind(engine)))
    assert jobs(engine) == numbered(3, 4, 5)
