"""`[keep]`: neither a neighbour's files nor a wrong clock empties a store, and what went can be brought back."""

from __future__ import annotations

import math
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, update

from helpers.engines import url_of
from helpers.following_daemon import daemon, write
from helpers.ingesting import column, ingest, rows
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.api import administration
from lineage_store.api.reports import CleanUp
from lineage_store.config import Settings
from lineage_store.errors import ClockDisagreesError, LineageParamSummaryPathError, TrainJobNotFoundError
from lineage_store.ingest import commit
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.operations.delivery import PROBLEM, Plan
from lineage_store.operations.notifications import NotifierPlace, read_news
from lineage_store.query.changes import encode
from lineage_store.store.database.db import reading, writing
from lineage_store.store.schema import tables
from proofs.children import shared_library

BEGUN = 1_700_000_000
DAY_S = 86_400
FAR_NAME = 9_999_999_999
FILES = tables.train_job, tables.log_file
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


def train(
    base_dir: Path, name: str, begun: float, *, named: int | None = None, owner: int | None = None
) -> Path:
    """A finished job whose log file says that it was begun at `begun`, and in its name `named`."""
    log = Log(wall_time=begun).version(wall_time=begun).scalar(1, "loss", 0.5).scalar(2, "loss", 0.25)
    named = (int(begun) if 0 < begun < FAR_NAME else BEGUN) if named is None else named
    path = log.write_summary(base_dir / name, timestamp=named)
    path.chmod(0o400)
    if owner is not None:
        os.chown(base_dir / name, owner, owner)
    return path


def train_many(base_dir: Path, count: int, begun: int = BEGUN, **more: Any) -> list[str]:
    names = [f"job_{number:03}" for number in range(count)]
    for number, name in enumerate(names):
        train(base_dir, name, begun + number, **more)
    return names


def junk(base_dir: Path, count: int) -> None:
    """Files of 30 bytes whose names say that they were begun in the year 2286."""
    for number in range(count):
        directory = base_dir / f"junk_{number}"
        directory.mkdir(parents=True)
        path = directory / f"a.out.events.summary.{FAR_NAME}.h_MS"
        path.write_bytes(b"x" * 30)
        path.chmod(0o400)


def opened(engine: Engine, **keep: Any) -> LineageStore:
    return LineageStore(
        url_of(engine), settings=Settings(**{f"keep_{name}": value for name, value in keep.items()})
    )


def named(engine: Engine, **keep: Any) -> list[str]:
    """The jobs that policies name, the oldest first."""
    with opened(engine, **keep) as store:
        return [job.train_id.removeprefix("./") for job in store.removal.expired()]


def jobs(engine: Engine) -> list[str]:
    return [
        name.removeprefix("./") for name in column(engine, "SELECT train_id FROM v_job ORDER BY train_id")
    ]


def change(engine: Engine, table: str, **values: object) -> None:
    with writing(engine) as session:
        session.change(update(tables.metadata.tables[table]).values(**values))


def set_clock_ahead(engine: Engine, days: float) -> None:
    """Let the clock be so far ahead of what the store wrote down: the same as if all was written so long ago."""
    with writing(engine) as session:
        now = session.now()
        session.change(update(tables.base_dir).values(clock_at=now - timedelta(days=days)))


def found(engine: Engine) -> list[str]:
    """The kinds of findings about policies, as `status --check` tells them."""
    with LineageStore(url_of(engine)) as store:
        kinds = [each.kind for each in store.health.findings()]
    return [kind for kind in kinds if kind in ("jobs_wait", "clock_disagrees")]


# --- age and order -----------------------------------------------------------------------------------------------


def test_an_archive_that_is_read_at_once_keeps_its_newest_whatever_names_and_times_its_files_have(
    engine: Engine, base_dir: Path
) -> None:
    for number, name in enumerate("abcd"):
        path = train(base_dir, name, BEGUN + number, named=FAR_NAME - number)
        os.utime(path, (2_000_000_000 - number, 2_000_000_000 - number))
    ingest(engine, base_dir)
    assert named(engine, jobs=2) == ["a", "b"]
    assert named(engine, store_bytes=1) == ["a", "b", "c", "d"]


def test_files_of_which_nothing_can_be_read_take_nobodys_place(engine: Engine, base_dir: Path) -> None:
    train_many(base_dir, 3)
    junk(base_dir, 10)
    ingest(engine, base_dir)
    assert named(engine, jobs=3) == []
    assert named(engine, store_bytes=30_000) == []
    with writing(engine) as session:
        yesterday = session.now() - timedelta(days=1, minutes=1)
        junk_only = tables.train_job.c.train_id.startswith("./junk")
        session.change(update(tables.train_job).where(junk_only).values(alive_at=yesterday))
    assert named(engine, jobs=3) == [f"junk_{number}" for number in range(10)]


@pytest.mark.parametrize("begun", [0.0, -1.0, -math.inf, 1e12, 1e300, math.inf, math.nan, 9.0e8])
def test_a_begin_that_cannot_be_counts_as_when_the_store_first_saw_it(
    engine: Engine, base_dir: Path, begun: float
) -> None:
    train(base_dir, "first", begun, named=FAR_NAME)
    ingest(engine, base_dir)
    with reading(engine) as session:
        seen = session.now().timestamp()
    train(base_dir, "second", seen)
    train(base_dir, "old", BEGUN)
    ingest(engine, base_dir)
    assert named(engine, jobs=1) == ["old", "first"]
    with opened(engine, jobs=1) as store:
        first = [job for job in store.removal.expired() if job.train_id == "./first"]
    assert abs(first[0].begun - seen) < 60
    assert named(engine, days=1) == ["old"]


def test_by_age_old_jobs_go_whose_files_look_new(engine: Engine, base_dir: Path) -> None:
    train(base_dir, "old", BEGUN, named=FAR_NAME)
    train(base_dir, "young", datetime.now(UTC).timestamp() - 10 * DAY_S, named=1)
    ingest(engine, base_dir)
    assert named(engine, days=90) == ["old"]
    with opened(engine) as store:
        assert [job.train_id for job in store.removal.find(CleanUp(older_than_s=90 * DAY_S))] == ["./old"]


def test_a_job_that_the_store_sees_grow_is_alive_whatever_its_events_say(
    engine: Engine, base_dir: Path
) -> None:
    log = Log(wall_time=float(BEGUN)).version().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "grows", timestamp=BEGUN)
    ingest(engine, base_dir)
    path.write_bytes(log.scalar(2, "loss", 0.25).content)
    path.chmod(0o400)
    ingest(engine, base_dir)
    assert named(engine, days=1) == []


def test_a_job_that_trains_on_is_newer(engine: Engine, base_dir: Path) -> None:
    train_many(base_dir, 3)
    ingest(engine, base_dir)
    train(base_dir, "job_000", BEGUN + 100)
    ingest(engine, base_dir)
    assert named(engine, jobs=1) == ["job_001", "job_002"]


def test_a_job_that_comes_back_is_as_old_as_before(engine: Engine, base_dir: Path) -> None:
    train(base_dir, "job", math.nan)
    ingest(engine, base_dir)
    seen_at = datetime(2024, 1, 1, tzinfo=UTC)
    for table in ("train_job", "log_file"):
        change(engine, table, created_at=seen_at)
    with opened(engine) as store:
        (number,) = store.removal.remove(CleanUp(older_than_s=0)).removals
        store.removal.undo(number)
    ingest(engine, base_dir)
    with reading(engine) as session:
        job, file = tables.train_job.c, tables.log_file.c
        (times,) = session.rows(select(job.created_at, job.begun_at, file.created_at).join_from(*FILES))
    assert set(times) == {seen_at}


# --- whose jobs --------------------------------------------------------------------------------------------------


@as_root
def test_who_floods_a_base_dir_loses_his_own_jobs_first(engine: Engine, base_dir: Path) -> None:
    honest = [f"honest_{number}" for number in range(3)]
    for number, name in enumerate(honest):
        train(base_dir, name, BEGUN + number, owner=1001)
    for number in range(20):
        train(base_dir, f"flood_{number:02}", BEGUN + 1000 + number, owner=1002)
    ingest(engine, base_dir)
    gone = named(engine, jobs=10)
    assert gone == [f"flood_{number:02}" for number in range(13)]
    with opened(engine, store_bytes=1) as store:
        sizes = [job.store_bytes for job in store.removal.expired()]
    assert not set(honest) & set(named(engine, store_bytes=sum(sizes) // 2))


@as_root
def test_shares_are_equal_and_what_one_does_not_use_is_the_others(engine: Engine, base_dir: Path) -> None:
    for owner, count in ((1001, 1), (1002, 5), (1003, 9)):
        for number in range(count):
            train(base_dir, f"of_{owner}_{number}", BEGUN + number, owner=owner)
    ingest(engine, base_dir)
    gone = named(engine, jobs=9)
    assert sorted(gone) == ["of_1002_0", *(f"of_1003_{number}" for number in range(5))]
    with opened(engine, jobs=9) as store:
        assert store.removal.remove_expired().jobs == 6
    assert named(engine, jobs=9) == []


@as_root
def test_a_directory_that_gets_another_owner_counts_as_his(engine: Engine, base_dir: Path) -> None:
    train_many(base_dir, 2, owner=1001)
    ingest(engine, base_dir)
    os.chown(base_dir / "job_001", 1002, 1002)
    ingest(engine, base_dir)
    owners = column(engine, "SELECT owner_uid FROM train_job ORDER BY train_id")
    assert owners == [1001, 1002]


@as_root
def test_jobs_behind_a_link_are_those_of_who_made_the_link(engine: Engine, base_dir: Path) -> None:
    train(base_dir, "job", BEGUN, owner=1001)
    link = base_dir / "again"
    link.symlink_to("job")
    os.chown(link, 1002, 1002, follow_symlinks=False)
    ingest(engine, base_dir, follow_symlinks=True)
    assert column(engine, "SELECT owner_uid FROM train_job ORDER BY train_id") == [1002, 1001]


# --- the clock ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "days", [800, -9, *(pytest.param(days, marks=pytest.mark.slow) for days in (-800, 9))]
)
def test_a_clock_that_disagrees_with_what_the_store_wrote_stops_what_goes_by_age(
    engine: Engine, base_dir: Path, days: float
) -> None:
    train_many(base_dir, 3)
    ingest(engine, base_dir)
    set_clock_ahead(engine, days)
    ingest(engine, base_dir)
    follower = Follower(engine, base_dir, Settings(keep_days=1, keep_jobs=1, keep_every_s=1, lease_s=2))
    wait_until(lambda: follower.tick() or bool(found(engine)))  # type: ignore[func-returns-value]
    with hold_lease(engine, register(engine, base_dir), 60, mode="once", before_daemons=True) as lease:
        commit.heartbeat(engine, lease, searched=True)
    follower.close()
    assert found(engine) == ["clock_disagrees"]
    with opened(engine, days=1, every_step_days=1) as store:
        assert [job.waits for job in store.removal.expired()] == [True] * len(named(engine, days=1))
        for refused in (
            store.removal.remove_expired,
            store.removal.thin,
            lambda: store.removal.remove(CleanUp(older_than_s=1)),
        ):
            with pytest.raises(ClockDisagreesError, match=r"days (ahead of|behind)"):
                refused()
    assert len(jobs(engine)) == 3
    with opened(engine, days=1) as store:
        assert store.removal.remove_expired(confirm=True).jobs == 3
    assert found(engine) == []
    assert jobs(engine) == []


def test_who_works_once_a_week_is_not_stopped(engine: Engine, base_dir: Path) -> None:
    train_many(base_dir, 3)
    ingest(engine, base_dir)
    set_clock_ahead(engine, 7.9)
    with opened(engine, jobs=1) as store:
        assert store.removal.remove_expired().jobs == 2
    with reading(engine) as session:
        now = session.now()
        (at,) = session.column(select(tables.base_dir.c.clock_at))
    assert now - at < timedelta(hours=1)


def test_a_job_found_while_the_clock_was_behind_is_as_new_as_what_was_written_before(
    engine: Engine, base_dir: Path
) -> None:
    register(engine, base_dir)
    set_clock_ahead(engine, -800)  # the clock is 800 days behind
    train(base_dir, "job", math.nan)
    ingest(engine, base_dir)
    with reading(engine) as session:
        now = session.now()
        seen_at = session.value(select(tables.train_job.c.created_at))
    assert seen_at - now > timedelta(days=799)


@pytest.mark.slow
@pytest.mark.parametrize("days", [800, -800])
def test_a_host_whose_clock_is_set_while_a_daemon_runs_keeps_its_sqlite_store(
    sqlite_engine: Engine, base_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    now = datetime.now(UTC).timestamp()
    train_many(base_dir, 5, begun=int(now) - DAY_S)
    url, shift = url_of(sqlite_engine), tmp_path / "shift"
    shift.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(shared_library("wall_clock.c", tmp_path)))
    monkeypatch.setenv("WALL_CLOCK_SHIFT", str(shift))
    file = tmp_path / "lineage_store.toml"
    write(file, base_dirs=[str(base_dir)], keep_days=90, keep_every_s=1, lease_s=2)
    with daemon(file, url) as running:
        wait_until(lambda: len(jobs(sqlite_engine)) == 5)
        shift.write_text(str(days * DAY_S))
        wait_until(lambda: running.says("retention delayed: clock disagrees with the store"))
    with daemon(file, url) as running:  # a restart does not make the clock right
        wait_until(lambda: running.says("retention delayed: clock disagrees with the store"))
    assert len(jobs(sqlite_engine)) == 5


# --- the brake ---------------------------------------------------------------------------------------------------


def test_policies_remove_ten_jobs_a_day_and_the_others_wait_for_a_person(
    engine: Engine, base_dir: Path
) -> None:
    names = train_many(base_dir, 25)
    ingest(engine, base_dir)
    with opened(engine, jobs=1) as store:
        assert [job.waits for job in store.removal.expired()] == [False] * 10 + [True] * 14
        assert store.removal.remove_expired().jobs == 10
        assert jobs(engine) == names[10:]
        assert store.removal.remove_expired().jobs == 0
        assert found(engine) == ["jobs_wait"]
        change(engine, "removal", removed_at=datetime.now(UTC) - timedelta(hours=23))
        assert store.removal.remove_expired().jobs == 0
        change(engine, "removal", removed_at=datetime.now(UTC) - timedelta(hours=25))
        assert store.removal.remove_expired().jobs == 10
        done = store.removal.remove_expired(confirm=True)
        assert (done.jobs, jobs(engine), found(engine)) == (4, names[-1:], [])
        by = [(each.by, each.jobs) for each in store.removal.history()]
    assert sorted(by) == [("policies", 4), ("policies", 10), ("policies", 10)]


def test_of_many_jobs_a_tenth_goes_a_day_counted_from_what_there_was(engine: Engine, base_dir: Path) -> None:
    train_many(base_dir, 130)
    ingest(engine, base_dir)
    with opened(engine, jobs=1) as store:
        assert store.removal.remove_expired().jobs == 13
        assert store.removal.remove_expired().jobs == 0
    with opened(engine, days=1) as store:  # another policy has no day of its own
        assert store.removal.remove_expired().jobs == 0
        store.removal.undo(store.removal.history()[0].number)
        ingest(engine, base_dir)
        assert store.removal.remove_expired().jobs == 0


def test_what_a_person_asks_for_by_rule_is_not_held_back_and_does_not_count(
    engine: Engine, base_dir: Path
) -> None:
    train_many(base_dir, 30)
    ingest(engine, base_dir)
    with opened(engine, jobs=1) as store:
        cutoff = datetime.now(UTC).timestamp() - BEGUN - 14.5
        assert store.removal.remove(CleanUp(older_than_s=cutoff)).jobs in range(10, 16)
        assert store.removal.remove_expired().jobs == 10


@pytest.mark.slow
def test_daemons_and_their_restarts_share_one_day(engine: Engine, database_url: str, base_dir: Path) -> None:
    names = train_many(base_dir, 25)
    file = base_dir.parent / "lineage_store.toml"
    write(file, base_dirs=[str(base_dir)], keep_jobs=1, keep_every_s=1, lease_s=2)
    ingest(engine, base_dir)
    for arguments in ((), ("--shards", 3)):
        with daemon(file, database_url, *arguments) as running:
            wait_until(lambda: running.says("retention delayed: removals need confirmation"))
            wait_until(lambda: len(jobs(engine)) == 15)
            assert len(running.says("retention delayed: removals need confirmation")) >= 1
    assert len(jobs(engine)) == 15
    assert names[-1] in jobs(engine)
    write(file, base_dirs=[str(base_dir)], keep_jobs=0, lease_s=2)
    assert found(engine) == ["jobs_wait"]
    with daemon(file, database_url):  # without policies nothing waits
        wait_until(lambda: not found(engine))


def test_what_waits_is_told_wherever_findings_are(engine: Engine, base_dir: Path) -> None:
    train_many(base_dir, 12)
    ingest(engine, base_dir)
    with opened(engine, jobs=1) as store:
        store.removal.remove_expired()
        (told,) = store.health.status(base_dir).policies_wait
        assert (told.kind, told.subject, told.since is not None) == ("jobs_wait", str(base_dir), True)
        assert f"--confirm {base_dir}" in told.remedy
    settings = Settings(database_url=url_of(engine))
    assert "jobs_wait" in {each.kind for each in administration.doctor(settings, [])}
    with reading(engine) as session:
        now = session.now()
        plan, place = Plan("", None, (), frozenset({PROBLEM}), 0.0, ()), NotifierPlace(encode({}), now, now)
        events = list(read_news(session, plan, place, now)[0])
    assert [event.details["problem"] for event in events] == ["jobs_wait"]


# --- bringing back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_policy", [True, False])
def test_a_removal_is_brought_back_whole_with_labels_and_remarks(
    engine: Engine, base_dir: Path, by_policy: bool
) -> None:
    names = train_many(base_dir, 5)
    ingest(engine, base_dir)
    with opened(engine, jobs=1, labelled=False) as store:
        store.job((base_dir, "./job_000")).annotate(label=3, remark="the one of the paper")
        removed = (
            store.removal.remove_expired() if by_policy else store.removal.remove(CleanUp(older_than_s=DAY_S))
        )
        (number,) = removed.removals
        (listed,) = store.removal.history(base_dir)
        assert (listed.number, listed.jobs, listed.restorable) == (number, removed.jobs, removed.jobs)
        assert {each.removal for each in store.removal.removed()} == {number}
        shutil.rmtree(base_dir / "job_001")
        restored = store.removal.undo(number)
        assert (restored.jobs, restored.gone) == (removed.jobs - 1, ["./job_001"])
        assert [each.train_id for each in store.removal.removed()] == ["./job_001"]
        ingest(engine, base_dir)
        assert jobs(engine) == [name for name in names if name != "job_001"]
        (note,) = rows(engine, "SELECT label, remark FROM v_job WHERE train_id = './job_000'")
        assert tuple(note) == (3, "the one of the paper")
        assert store.removal.undo(number).jobs == 0


def test_what_was_never_removed_or_is_not_mounted_cannot_be_brought_back(
    engine: Engine, base_dir: Path
) -> None:
    train_many(base_dir, 2)
    ingest(engine, base_dir)
    with opened(engine, jobs=1) as store:
        (number,) = store.removal.remove_expired().removals
        with pytest.raises(TrainJobNotFoundError, match="no removal"):
            store.removal.undo(number + 1)
        base_dir.rename(base_dir.with_name("elsewhere"))
        with pytest.raises(LineageParamSummaryPathError):
            store.removal.undo(number)
    assert column(engine, "SELECT count(*) FROM tombstone WHERE lifted") == [0]
