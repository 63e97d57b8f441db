"""A killed ingester: a successor on the same host leads at once, on another host when the lease has expired."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.errors import LeaseHeldError, LeaseLostError
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest import pipeline
from lineage_store.ingest.pipeline import Ingester
from lineage_store.store import leases
from lineage_store.store.database.db import writing
from lineage_store.store.leases import Lease, holder_name, lives

ELSEWHERE = "elsewhere:1:abc"
_HOLD = """
import sys, time
from lineage_store.ingest.lease import hold_lease
from lineage_store.store.database.db import open_engine
with hold_lease(open_engine(sys.argv[1]), int(sys.argv[2]), 600, mode=sys.argv[3]):
    print("holds", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def base_dir_id(engine: Engine, base_dir: Path) -> int:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    return base_dirs.register(engine, base_dir)


@contextmanager
def holding(url: str, base_dir_id: int, mode: str = "once") -> Iterator[subprocess.Popen[str]]:
    """Another process holds the lease, for ten minutes."""
    command = [sys.executable, "-c", _HOLD, url, str(base_dir_id), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.kill()


def acquire(engine: Engine, base_dir_id: int, holder: str, lasts_s: float = 600) -> Lease:
    with writing(engine) as session:
        return leases.acquire(session, base_dir_id, holder, lasts_s, "once")


@pytest.mark.parametrize("mode", ["once", "daemon"])
@pytest.mark.parametrize("collected", [True, False])
@pytest.mark.slow
def test_one_that_was_killed_is_succeeded_at_once(
    engine: Engine, database_url: str, base_dir: Path, base_dir_id: int, mode: str, collected: bool
) -> None:
    with holding(database_url, base_dir_id, mode) as process:
        with pytest.raises(LeaseHeldError):
            ingest(engine, base_dir)
        process.kill()
        if collected:
            process.wait()
        while lives(column(engine, "SELECT holder FROM ingest_lease")[0]):
            time.sleep(0.01)  # until the system has ended it
        assert ingest(engine, base_dir).counts.events == 1


def test_of_many_who_succeed_one_leads(engine: Engine, base_dir_id: int) -> None:
    with subprocess.Popen(["true"]) as ended:
        acquire(engine, base_dir_id, named(pid=ended.pid))
    outcomes, together = list[str](), threading.Barrier(4)

    def reach() -> None:
        together.wait()
        with suppress(LeaseHeldError):
            outcomes.append(acquire(engine, base_dir_id, holder_name()).holder)

    threads = [threading.Thread(target=reach) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == column(engine, "SELECT holder FROM ingest_lease")
    assert column(engine, "SELECT epoch FROM ingest_lease") == [2]


def test_even_one_that_was_taken_for_gone_writes_nothing_more(
    engine: Engine, base_dir: Path, base_dir_id: int
) -> None:
    mistaken = acquire(engine, base_dir_id, named(begun=1))
    acquire(engine, base_dir_id, holder_name())
    with pytest.raises(LeaseLostError):
        pipeline.run_pass(Ingester(engine, base_dir, mistaken, Settings()))
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [0]


def named(**changed: object) -> str:
    """The name of this process with some parts changed."""
    host, pid, rest = holder_name().split(":")
    place, begun, nonce = rest.split("-")
    parts = {"host": host, "pid": pid, "place": place, "begun": begun, "nonce": nonce, **changed}
    return "{host}:{pid}:{place}-{begun}-{nonce}".format(**parts)


def test_a_process_is_told_from_a_later_one_and_from_those_of_other_places() -> None:
    assert lives(holder_name()) is True
    assert lives(named(begun=1)) is False
    assert lives(named(host="renamed")) is True
    assert lives(named(pid=1, begun=1)) is False
    for unseen in (
        named(place="01234567", begun=1),
        named(place="", begun=""),
        "host:1:a",
        "",
        named(pid=-1),
    ):
        assert lives(unseen) is None, unseen


def test_a_lead_elsewhere_is_waited_for(
    engine: Engine, base_dir: Path, base_dir_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    acquire(engine, base_dir_id, ELSEWHERE, lasts_s=1.0)
    assert ingest(engine, base_dir).counts.events == 1
    (said,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    assert re.search(rf"{ELSEWHERE} \(once.* waiting for a sign of life, or for 1 s", said.getMessage())


def test_a_leader_elsewhere_that_lives_is_not_waited_for_longer(
    engine: Engine, base_dir: Path, base_dir_id: int
) -> None:
    lease, ended = acquire(engine, base_dir_id, ELSEWHERE), threading.Event()

    def live() -> None:
        while not ended.wait(0.3):
            with suppress(LeaseHeldError), writing(engine) as session:
                leases.renew(session, lease)

    living = threading.Thread(target=live)
    living.start()
    try:
        with pytest.raises(LeaseHeldError, match=ELSEWHERE):
            ingest(engine, base_dir)
    finally:
        ended.set()
        living.join()


@pytest.mark.parametrize(
    "wait",
    [
        lambda engine, base_dir: pipeline.ingest(engine, base_dir, Settings(), should_stop=lambda: True),
        lambda engine, base_dir: pipeline.ingest(engine, base_dir, Settings(), waits=False),
    ],
    ids=["told to stop", "does not wait"],
)
def test_who_is_told_to_waits_no_longer(
    engine: Engine, base_dir: Path, base_dir_id: int, wait: Callable[[Engine, Path], object]
) -> None:
    acquire(engine, base_dir_id, ELSEWHERE)
    with pytest.raises(LeaseHeldError, match=ELSEWHERE):
        wait(engine, base_dir)
