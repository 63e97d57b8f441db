"""Shards: several ingesters lead parts of a base dir's jobs; each job belongs to one, and no other writes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text

from helpers.engines import opened
from helpers.ingesting import (
    column,
    ingest,
    ledger_is_closed,
    let_leases_expire,
    open_problems,
    rows,
    search_at_next_tick,
    tick_until,
)
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import LeaseHeldError, LeaseLostError
from lineage_store.ingest import commit
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.daemon.status_file import STANDBY
from lineage_store.ingest.lease import divide, hold_lease
from lineage_store.ingest.scan.discovery import scan
from lineage_store.operations import health, removal
from lineage_store.operations.repair import retry
from lineage_store.store import leases
from lineage_store.store.admin import planner_statistics
from lineage_store.store.catalog.retention import Rules
from lineage_store.store.database.db import reading, writing
from lineage_store.store.leases import ALL, Lease, Shards
from lineage_store.store.schema.tables import train_job
from lineage_store.store.writes.ingest_log import write_cycle
from lineage_store.texts import to_stored

EAGER: dict[str, Any] = {"poll_interval_s": 0.05, "discovery_interval_s": 0.05, "lease_s": 1.0}
JOBS = tuple(f"run_{number}" for number in range(8))
THREE = [Shards(3, number) for number in range(3)]
DAEMON = """
import sys
from lineage_store import LineageStore
from lineage_store.config import Settings
settings = Settings(poll_interval_s=0.1, discovery_interval_s=0.1, lease_s=1.0, shards=int(sys.argv[3]))
LineageStore(sys.argv[1], settings=settings).run_daemon([sys.argv[2]])
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def base_dir(base_dir: Path) -> Path:
    for name in JOBS:
        Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / name)
    return base_dir


@pytest.fixture
def base_dir_id(engine: Engine, base_dir: Path) -> int:
    """Of a base dir with three shards."""
    found = base_dirs.register(engine, base_dir)
    divide(engine, found, 3, 15.0)
    return found


@pytest.fixture
def followers(engine: Engine, base_dir: Path, base_dir_id: int) -> Iterator[list[Follower]]:
    """One for each shard, which looks below directories too."""
    settings = Settings(**{**EAGER, "lease_s": 600.0}, recursive=True)
    started = [Follower(engine, base_dir, settings, shard=shard) for shard in range(len(THREE))]
    yield started
    for follower in started:
        follower.close()


def search(*followers: Follower) -> None:
    """A search now, by each."""
    for follower in followers:
        search_at_next_tick(follower)
        follower.tick()


def lead(
    engine: Engine,
    base_dir_id: int,
    shard: int | None,
    holder: str = "me",
    mode: str = "daemon",
    lasts_s: float = 15.0,
) -> Lease:
    with writing(engine) as session:
        return leases.acquire(session, base_dir_id, holder, lasts_s, mode, shard=shard)


def of_shard(shards: Shards) -> set[str]:
    return {f"./{name}" for name in JOBS if shards.hold(f"./{name}")}


def read_by(engine: Engine) -> set[str]:
    """The jobs of which something was read."""
    read = "SELECT train_id FROM train_job JOIN log_file ON job_id = id WHERE event_count > 0"
    return set(column(engine, read))


# --- which job is in which shard ---


def test_every_job_is_in_one_shard_in_python_and_in_sql(
    engine: Engine, base_dir: Path, base_dir_id: int
) -> None:
    ingest(engine, base_dir)
    with reading(engine) as session:
        for count in (1, 2, 3, 4, 7):
            for number in range(count):
                these = Shards(count, number)
                mine = these.conditions(base_dir_id)
                found = session.column(select(train_job.c.train_id).where(*mine))
                assert set(found) == of_shard(these)
            parts = [of_shard(Shards(count, number)) for number in range(count)]
            assert sum(map(len, parts)) == len(set[str]().union(*parts)) == len(JOBS)
    assert all(map(of_shard, THREE)), "a shard of these tests has no job"


def test_all_of_them_hold_every_job() -> None:
    assert of_shard(Shards(4)) == of_shard(ALL) == {f"./{name}" for name in JOBS}
    assert list(Shards(4).numbers) == [0, 1, 2, 3]


@pytest.mark.parametrize("recursive", [False, True])
def test_a_search_finds_the_jobs_of_its_shard_and_the_shards_together_all_there_are(
    base_dir: Path, recursive: bool
) -> None:
    Log().version().write_summary(base_dir)
    Log().version().write_summary(base_dir / JOBS[0] / "below")
    (base_dir / "\udcff").mkdir()
    Log().version().write_summary(base_dir / "\udcff")
    found = [scan(base_dir, recursive=recursive, shards=each) for each in THREE]
    for each, shards in zip(found, THREE, strict=True):
        assert all(shards.hold(file.train_id) for file in each.files)
    whole = scan(base_dir, recursive=recursive)
    assert sorted(file.train_id for each in found for file in each.files) == [
        file.train_id for file in whole.files
    ]
    assert {to_stored("./\udcff"), "./"} < {file.train_id for file in whole.files}


def test_a_search_of_a_shard_lists_no_other_jobs_directory(base_dir: Path) -> None:
    for shards in THREE:
        assert set(scan(base_dir, shards=shards).directories) == {"./"} | of_shard(shards)


# --- who leads ---


def test_shards_are_led_at_once_by_several_who_read_their_own_jobs(
    engine: Engine, followers: list[Follower]
) -> None:
    expected = set[str]()
    for shards, follower in zip(THREE, followers, strict=True):
        assert read_by(engine) == expected
        expected |= of_shard(shards)
        tick_until(lambda expected=expected: read_by(engine) == expected, follower)  # type: ignore[misc]
    assert expected == of_shard(ALL)
    assert column(engine, "SELECT led_shards FROM v_base_dir") == [3]
    leaders = column(engine, "SELECT leader FROM v_shard ORDER BY shard")
    assert leaders == [follower.status.holder for follower in followers]
    for follower in followers:
        follower.close()
    assert column(engine, "SELECT leader FROM v_shard") == [None] * 3
    assert ledger_is_closed(engine)


def test_a_job_that_vanishes_is_missed_by_its_shard_alone(
    engine: Engine, base_dir: Path, followers: list[Follower], tmp_path: Path
) -> None:
    tick_until(lambda: read_by(engine) == of_shard(ALL), *followers)
    for name in JOBS:
        (base_dir / name).rename(tmp_path / name)
    expected = set[str]()
    for shards, follower in zip(THREE, followers, strict=True):
        assert missing(engine) == expected
        expected |= of_shard(shards)
        tick_until(lambda expected=expected: missing(engine) == expected, follower)  # type: ignore[misc]


def missing(engine: Engine) -> set[str]:
    return set(column(engine, "SELECT train_id FROM train_job WHERE state = 'missing'"))


def test_what_is_left_of_a_rewritten_file_goes_with_its_shard(
    engine: Engine, base_dir: Path, base_dir_id: int, followers: list[Follower]
) -> None:
    ingest(engine, base_dir)
    for name in JOBS:
        (path,) = (base_dir / name).iterdir()
        path.unlink()
        Log().version().scalar(7, "loss", 0.75).write_summary(base_dir / name)
    anew = "SELECT train_id FROM train_job JOIN log_file ON job_id = id GROUP BY train_id HAVING min(generation) = 2"
    expected = set[str]()
    for shards, follower in zip(THREE, followers, strict=True):
        expected |= of_shard(shards)
        tick_until(lambda expected=expected: set(column(engine, anew)) == expected, follower)  # type: ignore[misc]


def test_who_stands_by_keeps_no_reading_process(
    engine: Engine, base_dir: Path, base_dir_id: int, followers: list[Follower]
) -> None:
    follower = followers[1]
    tick_until(lambda: read_by(engine) == of_shard(THREE[1]), follower)
    assert follower._reader.is_running
    let_leases_expire(engine)
    lead(engine, base_dir_id, 1, "elsewhere:1:x", lasts_s=600.0)
    for name in JOBS:  # what it would write is refused
        Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / name, timestamp=1_700_000_001)
    tick_until(lambda: not follower._reader.is_running, follower)
    assert follower.status.state == STANDBY


def test_who_wants_the_whole_base_dir_is_refused_while_a_shard_is_led(
    engine: Engine, base_dir_id: int
) -> None:
    lead(engine, base_dir_id, 2, "elsewhere:1:x")
    with pytest.raises(LeaseHeldError, match="elsewhere:1:x"):
        lead(engine, base_dir_id, None, mode="once")
    with reading(engine) as session, pytest.raises(LeaseHeldError):
        leases.last(session, base_dir_id)
    lead(engine, base_dir_id, 1, "other:1:x")
    with pytest.raises(LeaseHeldError):
        lead(engine, base_dir_id, 2, "other:1:x")


def test_who_holds_the_whole_base_dir_keeps_every_shard_from_others(engine: Engine, base_dir_id: int) -> None:
    with hold_lease(engine, base_dir_id, 15.0, mode="once") as lease:
        for shard in range(len(THREE)):
            with pytest.raises(LeaseHeldError, match=f"{lease.holder} \\(once"):
                lead(engine, base_dir_id, shard)
        commit.heartbeat(engine, lease, searched=False)
    for shard in range(len(THREE)):
        lead(engine, base_dir_id, shard)


@pytest.mark.parametrize("operation", ["retry", "gc"])
def test_daemons_of_all_shards_give_way_to_who_wants_the_whole(
    engine: Engine, base_dir: Path, base_dir_id: int, operation: str
) -> None:
    daemons = [lead(engine, base_dir_id, shard, f"elsewhere:{shard}:x") for shard in range(len(THREE))]
    if operation == "retry":
        retry(engine, base_dir, base_dir_id, Settings(), None)
        assert read_by(engine) == of_shard(ALL)
    else:
        assert not list(removal.remove(engine, base_dir_id, Rules("test", missing=True), Settings()))
    for daemon in daemons:
        with pytest.raises(LeaseLostError):
            commit.heartbeat(engine, daemon, searched=False)
    lead(engine, base_dir_id, 2)


def test_one_shard_lost_is_the_whole_lost(engine: Engine, base_dir_id: int) -> None:
    whole = lead(engine, base_dir_id, None, mode="once")
    with writing(engine) as session:
        leases.release(session, whole)
    other = lead(engine, base_dir_id, 2, "other:1:x")
    assert other.epoch == whole.epoch + 1
    with pytest.raises(LeaseLostError):
        commit.heartbeat(engine, whole, searched=False)
    commit.heartbeat(engine, other, searched=False)


def test_a_base_dir_was_searched_when_all_of_its_shards_were(engine: Engine, base_dir_id: int) -> None:
    searched = "SELECT discovered_at FROM v_base_dir"
    for shard in range(len(THREE)):
        assert column(engine, searched) == [None]
        commit.heartbeat(engine, lead(engine, base_dir_id, shard), searched=True)
    (first,) = column(engine, searched)
    assert [first] == column(engine, "SELECT min(searched_at) FROM v_shard")
    divide(engine, base_dir_id, 2, 15.0)
    assert column(engine, searched) == [first]
    assert column(engine, "SELECT searched_at FROM v_shard") == [first] * 2


def test_a_shard_that_nobody_leads_is_told(engine: Engine, base_dir: Path, base_dir_id: int) -> None:
    ingest(engine, base_dir)
    lead(engine, base_dir_id, 0, "elsewhere:1:x")
    lead(engine, base_dir_id, 2, "elsewhere:1:y")
    assert not health.findings(engine, base_dir, [], within_s=60)
    (found,) = health.findings(engine, base_dir, [], within_s=0)
    assert found.what.startswith(
        "No ingester holds the lease of 1 of its 3 shards, and it was last searched "
    )


# --- what each shard tells ---


def test_paths_that_cannot_be_listed_are_told_once_whoever_meets_them(
    engine: Engine, base_dir: Path, followers: list[Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    denied, scandir = {JOBS[0], JOBS[1], f"{JOBS[2]}/below"}, os.scandir
    (base_dir / JOBS[2] / "below").mkdir()

    def refuse(of: int) -> Any:
        if os.readlink(f"/proc/self/fd/{of}").removeprefix(f"{base_dir}/") in denied:
            raise PermissionError(13, "Permission denied")
        return scandir(of)

    monkeypatch.setattr(os, "scandir", refuse)
    for _ in range(2):
        search(*followers)
        assert open_problems(engine) == [("unreadable_path", path) for path in sorted(denied)]
    assert column(engine, "SELECT count(*) FROM ingest_problem") == [len(denied)]
    denied.clear()
    search(*followers)
    assert open_problems(engine) == []
    tick_until(lambda: read_by(engine) == of_shard(ALL), *followers)


def test_a_base_dir_that_cannot_be_listed_is_told_once(
    engine: Engine, base_dir: Path, followers: list[Follower], tmp_path: Path
) -> None:
    search(*followers)
    base_dir.rename(tmp_path / "unmounted")
    search(*followers)
    assert open_problems(engine) == [("unlistable_base_dir", ".")]
    assert column(engine, "SELECT count(*) FROM ingest_problem") == [1]
    assert missing(engine) == set()


def test_who_leads_the_first_shard_gathers_statistics_for_all(
    sqlite_engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_statistics, "MANY_EVENTS", 1)
    gathered = "SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'"
    divide(sqlite_engine, base_dirs.register(sqlite_engine, base_dir), 2, 15.0)
    for shard, expected in ((1, 0), (0, 1)):
        follower = Follower(sqlite_engine, base_dir, Settings(**EAGER), shard=shard)
        tick_until(lambda shard=shard: of_shard(Shards(2, shard)) <= read_by(sqlite_engine), follower)  # type: ignore[misc]
        follower.close()
        assert column(sqlite_engine, gathered) == [expected]


def test_pipelines_that_several_store_are_stored_in_one_order(engine: Engine, base_dir: Path) -> None:
    for number, name in enumerate(JOBS):
        graph = {"op_type": "BatchDataset", "num_parallel_workers": number}
        Log().train(network="N").dataset_graph(graph).write_lineage(base_dir / name)
    ingest(engine, base_dir)
    digests = column(engine, "SELECT digest FROM dataset_graph ORDER BY id")
    assert digests == sorted(digests)
    assert len(digests) == len(JOBS)


def test_the_first_passes_of_two_shards_add_up(postgres_url: str, base_dir: Path) -> None:
    with opened(postgres_url) as engine:
        base_dir_id = base_dirs.register(engine, base_dir)
        counts = dict.fromkeys(("files_found", "files_read", "bytes_read", "events", "samples"), 1)
        row = {"base_dir_id": base_dir_id, "holder": "me", "pending_bytes": 0, "problems": 0, **counts}
        with writing(engine) as first:
            now = first.now()
            row |= {"started_at": now, "finished_at": now}
            write_cycle(first, row, 10, batches=1, batches_s=0.5)
            second = threading.Thread(target=write_later, args=(engine, row))
            second.start()
            tick_until(lambda: column(engine, "SELECT count(*) FROM pg_locks WHERE NOT granted") != [0])
        second.join()
        assert rows(engine, "SELECT cycles, events, batches_s FROM ingest_total") == [(2, 2, 1.0)]


def write_later(engine: Engine, row: dict[str, Any]) -> None:
    with writing(engine) as session:
        write_cycle(session, row, 10, batches=1, batches_s=0.5)


def test_whoever_takes_all_shards_and_whoever_lets_them_go_wait_for_each_other_in_one_order(
    postgres_url: str, postgres_engine: Engine, base_dir: Path
) -> None:
    base_dir_id = base_dirs.register(postgres_engine, base_dir)
    divide(postgres_engine, base_dir_id, 3, 15.0)
    whole = lead(postgres_engine, base_dir_id, None)
    with writing(postgres_engine) as session:  # the first shard's row is the last that a scan comes to
        session.change(text("UPDATE ingest_lease SET mode = mode WHERE shard = 0"))
    locked, waits = count(), text("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")

    def let_go() -> None:
        with writing(letting_go) as session:
            session.change(text("SET LOCAL enable_indexscan = off"))
            session.change(text("SET LOCAL enable_bitmapscan = off"))
            leases.release(session, whole)

    with (
        opened(postgres_url) as taking,
        opened(postgres_url) as letting_go,
        ThreadPoolExecutor(1) as pool,
        closing(postgres_engine.connect()) as watcher,
    ):
        watcher = watcher.execution_options(isolation_level="AUTOCOMMIT")

        def wait_once_the_first_is_locked(*execution: Any) -> None:
            if "FOR UPDATE" in execution[2] and next(locked) == 1:
                done.append(pool.submit(let_go))
                wait_until(lambda: watcher.execute(waits).scalar() or done[0].done())

        done = list["Future[None]"]()
        event.listen(taking, "before_cursor_execute", wait_once_the_first_is_locked)
        with writing(taking) as session:
            mine = leases.acquire(session, base_dir_id, "other:1:x", 15.0, "once", before_daemons=True)
        done[0].result(60)
    assert mine.epoch == whole.epoch + 1
    commit.heartbeat(postgres_engine, mine, searched=False)


def test_a_daemon_that_takes_over_in_the_last_moment_gives_way_like_the_one_before(
    postgres_url: str, postgres_engine: Engine, base_dir: Path
) -> None:
    base_dir_id = base_dirs.register(postgres_engine, base_dir)
    lead(postgres_engine, base_dir_id, None, "elsewhere:1:a")
    taken_over: list[int] = []

    def take_over_before_the_lock(*execution: Any) -> None:
        if "FOR UPDATE" in execution[2] and not taken_over:
            with writing(postgres_engine) as other:
                changed = (
                    "UPDATE ingest_lease SET holder = 'elsewhere:2:b', epoch = epoch + 1 RETURNING epoch"
                )
                taken_over.append(other.value(text(changed)))

    with opened(postgres_url) as taking:
        event.listen(taking, "before_cursor_execute", take_over_before_the_lock)
        with writing(taking) as session:
            mine = leases.acquire(session, base_dir_id, "me:1:x", 15.0, "once", before_daemons=True)
    assert taken_over == [mine.epoch - 1]
    commit.heartbeat(postgres_engine, mine, searched=False)


# --- changing their number ---


def test_who_led_before_the_number_changed_writes_nothing_any_more(
    engine: Engine, base_dir: Path, base_dir_id: int
) -> None:
    before = [lead(engine, base_dir_id, shard, f"elsewhere:{shard}:x") for shard in range(len(THREE))]
    divide(engine, base_dir_id, 2, 15.0)
    for lease in before:
        with pytest.raises(LeaseLostError):
            commit.heartbeat(engine, lease, searched=False)
    with pytest.raises(LeaseHeldError, match="no shard 2: the base dir has 2"):
        lead(engine, base_dir_id, 2)
    assert lead(engine, base_dir_id, 1).shards == Shards(2, 1)
    divide(engine, base_dir_id, 3, 15.0)
    with pytest.raises(LeaseLostError):
        commit.heartbeat(engine, before[2], searched=False)
    assert lead(engine, base_dir_id, 2).epoch > before[2].epoch


def test_the_number_is_not_changed_while_an_ingest_is_at_work(engine: Engine, base_dir_id: int) -> None:
    lead(engine, base_dir_id, None, "elsewhere:1:x", mode="once")
    with pytest.raises(LeaseHeldError):
        divide(engine, base_dir_id, 2, 15.0)
    divide(engine, base_dir_id, 3, 15.0)  # as it is


def test_who_leads_one_shard_does_not_change_their_number(engine: Engine, base_dir_id: int) -> None:
    lease = lead(engine, base_dir_id, 1)
    with writing(engine) as session, pytest.raises(ValueError, match="needs the lease of all 3"):
        leases.set_shard_count(session, lease, 2)
    assert column(engine, "SELECT shards FROM v_base_dir") == [3]


def test_a_follower_divides_once_and_leaves_it_to_later_ones(engine: Engine, base_dir: Path) -> None:
    first, later = (Follower(engine, base_dir, Settings(**EAGER, shards=count)) for count in (3, 2))
    tick_until(lambda: read_by(engine) == of_shard(THREE[0]), first)
    tick_until(lambda: later.shards == 2, later)
    tick_until(lambda: first.shards == 2, first)
    assert column(engine, "SELECT shards FROM v_base_dir") == [2]
    for follower in (first, later):
        follower.close()


# --- daemons ---


@pytest.fixture
def start(database_url: str, base_dir: Path) -> Iterator[Start]:
    """Starts daemons, each in a process of its own, and says how many shards there shall be; 0: as it is."""
    with ExitStack() as lifetime:

        def started(shards: int = 0) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-c", DAEMON, database_url, str(base_dir), str(shards)]
            process = lifetime.enter_context(subprocess.Popen(command))
            lifetime.callback(process.kill)
            return process

        yield started


def led(engine: Engine) -> dict[int, int]:
    """How many shards each process leads now."""
    holders = column(engine, "SELECT leader FROM v_shard WHERE leader IS NOT NULL")
    return dict(Counter(int(holder.split(":")[1]) for holder in holders))


@pytest.mark.slow
def test_shards_spread_over_daemons_and_those_of_a_dead_one_are_taken_over(
    engine: Engine, base_dir: Path, start: Start
) -> None:
    first = start(3)
    tick_until(lambda: led(engine) == {first.pid: 3})
    others = [start(), start()]
    tick_until(lambda: led(engine) == {each.pid: 1 for each in [first, *others]})
    first.kill()
    first.wait()
    tick_until(lambda: sum(led(engine).values()) == 3 and first.pid not in led(engine))
    for name in JOBS:
        (path,) = (base_dir / name).iterdir()
        Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25).write(path)
    tick_until(lambda: column(engine, "SELECT count(*) FROM scalar_sample") == [2 * len(JOBS)])
    assert ledger_is_closed(engine)
    fourth = start(5)
    tick_until(lambda: sum(led(engine).values()) == 5 and led(engine).get(fourth.pid))
    fourth.send_signal(signal.SIGTERM)
    assert fourth.wait(timeout=60) == 0
    tick_until(lambda: sum(led(engine).values()) == 5 and fourth.pid not in led(engine))


@pytest.mark.slow
def test_what_changes_is_told_once_though_several_write(
    database_url: str, base_dir: Path, start: Start
) -> None:
    told = dict[str, int]()
    with LineageStore(database_url, settings=Settings()) as store, store.changes.follow(None) as follower:

        def all_told() -> bool:
            """Whether what the follower was told is what the store says."""
            for change in (change for page in follower.look() for change in page.changes):
                assert change.train_id is not None
                assert change.revision is not None
                assert change.revision > told.get(change.train_id, 0), "told twice, or in the wrong order"
                told[change.train_id] = change.revision
            found = rows(store.engine, "SELECT train_id, revision FROM v_job")
            return told == {row.train_id: row.revision for row in found}

        start(3), start()
        logs = {name: Log().version().scalar(1, "loss", 0.5) for name in JOBS}
        for step in range(2, 12):
            for name, log in logs.items():
                (path,) = (base_dir / name).iterdir()
                log.scalar(step, "loss", 0.5).write(path)
            read = f"SELECT count(*) FROM series WHERE last_step = {step}"
            tick_until(lambda read=read: all_told() and column(store.engine, read) == [len(JOBS)])  # type: ignore[misc]
        tick_until(all_told)
