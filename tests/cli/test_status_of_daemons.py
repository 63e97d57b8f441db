"""A daemon whose database fails: `status` says what is wrong, since when and what to do, and when it is over."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from helpers import faults, waiting
from helpers.following_daemon import following_here
from helpers.ingesting import ingest, let_leases_expire, visible_scalars
from helpers.log_writer import Log
from helpers.program import Finished, Run
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest.daemon import scheduler
from lineage_store.store.database import db

EAGER: dict[str, Any] = {"poll_interval_s": 0.2, "discovery_interval_s": 0.2, "lease_s": 1.5}
WELL = "All is well.\n"


wait_until = partial(waiting.wait_until, pause_s=0.2)
"""What is asked here takes its time, of which the daemon needs some."""


@pytest.fixture
def in_a_directory(on_each: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store that the program uses; the SQLite file is in a directory of its own."""
    if not on_each.startswith("sqlite"):
        return on_each
    (tmp_path / "store").mkdir()
    moved = shutil.move(on_each.removeprefix("sqlite:///"), tmp_path / "store")
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", f"sqlite:///{moved}")
    return f"sqlite:///{moved}"


@contextmanager
def following(url: str, base_dir: Path, **settings: Any) -> Iterator[Engine]:
    """A daemon at work; its engine."""
    with LineageStore(url, settings=Settings(**EAGER, **settings)) as store, following_here(store, base_dir):
        yield store.engine


@pytest.mark.parametrize(
    ("fault", "what", "code", "remedy"),
    [
        (faults.locked, ["database locked"], 1, ["holds its write lock", "Another session holds a lock"]),
        (faults.full, ["database full"], 1, ["Free some space"]),
        (faults.read_only, ["database read-only"], 1, ["read-only for this user", "only reads"]),
        (
            faults.down,
            ["database down", "database failed", "database gone"],
            5,
            ["Is the server up", "is not mounted", "Put it back"],
        ),
    ],
    ids=["locked", "full", "read-only", "down"],
)
@pytest.mark.slow
def test_what_keeps_a_daemon_from_writing_is_told_until_it_is_over(
    run: Run,
    in_a_directory: str,
    base_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[Engine], AbstractContextManager[None]],
    what: list[str],
    code: int,
    remedy: list[str],
) -> None:
    monkeypatch.setattr("lineage_store.store.database.connections.BUSY_TIMEOUT_S", 0.05)
    monkeypatch.setattr(scheduler, "LOOK_EVERY_S", 0.1)
    log = Log().scalar(0, "growing", 0.5)
    path = log.write_summary(base_dir / "growing")

    def all_read() -> bool:
        return len(visible_scalars(engine, "growing")) == len(log.spans)

    def daemons() -> Any:
        return json.loads(run("status", "--json").out)["daemons"]

    def state() -> str:
        """What keeps the daemon from reading, in few words."""
        (daemon,) = daemons()
        return str(daemon["finding"]["kind"]).replace("_", " ") if daemon["finding"] else str(daemon["state"])

    def told_and_checked() -> tuple[Any, Finished]:
        """The finding, and what a check says while it stands: what fails first may not be what fails later."""
        while True:
            told, checked = daemons()[0]["finding"], run("status", "--check")
            if told and told == daemons()[0]["finding"]:
                return told, checked

    with following(in_a_directory, base_dir) as engine:
        wait_until(all_read)
        wait_until(lambda: run("status", "--check").out == WELL)
        with fault(engine):
            for step in range(1, 3000):
                log.scalar(step, "growing", 0.5)
            log.write(path)
            wait_until(lambda: state() in what)
            told, checked = told_and_checked()
            assert (checked.code, json.loads(run("status", "--check", "--json").out)["well"]) == (code, False)
            since = f"(since {told['since'][:10]} {told['since'][11:19]} UTC)"
            named = f"{base_dir}: {daemons()[0]['holder']}: {state()}. {told['what']} {since}"
            assert named in checked.out
            assert any(words in told["remedy"] and words in checked.out for words in remedy)
            shown = run("status")
            assert shown.code == (5 if code == 5 else 0)
            assert state() in shown.out
        wait_until(all_read)
        wait_until(lambda: run("status", "--check").out == WELL)
        assert [(each["state"], each["finding"]) for each in daemons()] == [("active", None)]
    assert daemons() == []


def test_who_leads_the_shards_of_a_base_dir_is_told(run: Run, on_sqlite: str, base_dir: Path) -> None:
    def told() -> tuple[list[tuple[int, str]], list[tuple[int, str, str]]]:
        """Shards and their leaders; what daemons of this host say."""
        found = json.loads(run("status", "--json").out)
        daemons = [(each["shard"], each["holder"], each["state"]) for each in found["daemons"]]
        return [(row["shard"], row["leader"]) for row in found["shards"]], daemons

    def leads(shards: int) -> bool:
        led, daemons = told()
        return [(*each, "active") for each in led] == daemons and len(daemons) == shards

    with following(on_sqlite, base_dir, shards=2):
        wait_until(lambda: leads(2))
        shown = run("status").out
        assert all(holder in shown for _, holder in told()[0])
        assert "Shards" in shown
        assert run("status", "--check").out == WELL
        with following(on_sqlite, base_dir, shards=1):
            wait_until(lambda: len(told()[0]) == 1 and told()[0][0][1])
            assert "Shards" not in run("status").out
    assert run("status", "--check", "--within", "0s").out.startswith(
        f"{base_dir}: No ingester holds the lease of it"
    )


def test_who_has_locked_others_out_is_told(run: Run, postgres_url: str, base_dir: Path) -> None:
    database = ("--database", postgres_url)
    assert run(*database, "ingest", base_dir).code == 0
    engine, other = db.open_engine(postgres_url), db.open_engine(postgres_url)
    with db.writing(engine) as session:
        session.change(text("UPDATE base_dir SET discovered_at = '2020-01-01'"))
    with db.writing(engine) as session:
        session.change(text("LOCK TABLE ingest_lease IN EXCLUSIVE MODE"))
        (pid,) = session.one(text("SELECT pg_backend_pid()"))
        locked_out = threading.Thread(target=ingest, args=(other, base_dir))
        locked_out.start()
        expected = f"the store: It is locked. Session {pid} of role "
        wait_until(lambda: expected in run(*database, "status", "--check").out)
    locked_out.join()
    engine.dispose()
    other.dispose()
    assert f"SELECT pg_terminate_backend({pid})" not in run(*database, "status", "--check").out
    assert run(*database, "status", "--check").out == WELL


def test_a_server_that_only_reads_is_told(run: Run, postgres_url: str, base_dir: Path) -> None:
    engine = db.open_engine(postgres_url)
    database = ("--database", postgres_url)
    assert run(*database, "ingest", base_dir).code == 0
    with db.writing(engine) as session:
        session.change(text("UPDATE base_dir SET discovered_at = '2020-01-01'"))
    engine.dispose()
    with faults.read_only(engine):
        checked = run(*database, "status", "--check")
    assert checked.code == 1
    assert checked.out.startswith("the store: It is read-only. This server or role only reads")


# --- daemons that do not run any more ---

FOLLOWING = "import sys; from lineage_store.cli import main; sys.exit(main(['-q', 'daemon', sys.argv[1]]))"


@pytest.fixture
def daemon_process(run: Run, on_sqlite: str, base_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon at work, in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", FOLLOWING, str(base_dir)]) as process:
        wait_until(lambda: '"active"' in run("status", "--json").out and run("status", "--check").out == WELL)
        yield process
        process.kill()


def test_a_daemon_that_was_killed_is_told(
    run: Run, daemon_process: subprocess.Popen[bytes], base_dir: Path
) -> None:
    daemon_process.kill()
    daemon_process.wait()
    checked = run("status", "--check")
    assert checked.code == 1
    assert f"{base_dir}: The daemon that followed it, process {daemon_process.pid}, has ended" in checked.out
    assert "Restart it" in checked.out


def test_a_daemon_that_was_stopped_is_told(
    run: Run, daemon_process: subprocess.Popen[bytes], base_dir: Path
) -> None:
    daemon_process.send_signal(signal.SIGSTOP)
    wait_until(lambda: " T " in Path(f"/proc/{daemon_process.pid}/stat").read_text())
    checked = run("status", "--check")
    assert checked.code == 1
    assert f"{base_dir}: The daemon that follows it, process {daemon_process.pid}, is stopped." in checked.out
    assert f"kill -CONT {daemon_process.pid}" in checked.out
    assert "stopped" in run("status").out
    daemon_process.send_signal(signal.SIGCONT)
    wait_until(lambda: run("status", "--check").out == WELL)


def test_a_killed_daemon_is_well_where_ingest_reads_instead(
    run: Run, daemon_process: subprocess.Popen[bytes], base_dir: Path, on_sqlite: str
) -> None:
    daemon_process.kill()
    daemon_process.wait()
    engine = db.open_engine(on_sqlite)
    let_leases_expire(engine)
    engine.dispose()
    assert run("ingest", base_dir).code == 0
    assert run("status", "--check").out == WELL
    assert "ended" in run("status").out
