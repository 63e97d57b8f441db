"""The daemon as a whole: several base dirs, signals, and what is left when it is stopped or killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.following_daemon import following_here
from helpers.ingesting import column, ingest, ledger_is_closed, rows, visible_scalars
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import ConfigError

EAGER: dict[str, Any] = {"poll_interval_s": 0.05, "discovery_interval_s": 0.05, "lease_s": 1.0}
DAEMON = """
import sys
from lineage_store import LineageStore
from lineage_store.config import Settings
settings = Settings(poll_interval_s=0.05, discovery_interval_s=0.05, lease_s=1.0, batch_rows=100, chunk_bytes=4096)
LineageStore(sys.argv[1], settings=settings).run_daemon(sys.argv[2:])
"""


@contextmanager
def running(url: str, *base_dirs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in a process of its own, killed at the end if it still runs."""
    process = subprocess.Popen([sys.executable, "-c", DAEMON, url, *map(str, base_dirs)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def long_log(steps: int) -> Log:
    log = Log().version()
    for step in range(steps):
        log.scalar(step, "loss", float(step))
    return log


def test_several_base_dirs_are_followed_until_it_is_told_to_stop(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    base_dirs = [tmp_path / name for name in ("one", "two", "gone")]
    logs = {base_dir: Log().scalar(1, base_dir.name, 0.5) for base_dir in base_dirs[:2]}
    paths = {base_dir: log.write_summary(base_dir / "job") for base_dir, log in logs.items()}
    settings = Settings(**EAGER)
    with LineageStore(database_url, settings=settings) as store, following_here(store, *base_dirs):
        for base_dir in paths:
            wait_until(lambda base_dir=base_dir: visible_scalars(engine, base_dir.name) == {1: 0.5})  # type: ignore[misc]
        for base_dir, log in logs.items():
            log.scalar(2, base_dir.name, 0.25).write(paths[base_dir])
            wait_until(
                lambda base_dir=base_dir: visible_scalars(engine, base_dir.name) == {1: 0.5, 2: 0.25}  # type: ignore[misc]
            )
    assert column(engine, "SELECT count(*) FROM ingest_lease WHERE expires_at > acquired_at") == [2]


def test_a_daemon_without_a_base_dir_is_refused(sqlite_url: str) -> None:
    with (
        LineageStore(sqlite_url, settings=Settings()) as store,
        pytest.raises(ConfigError, match="no base dir to follow"),
    ):
        store.run_daemon()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_a_signal_ends_it_with_the_batch_finished_and_the_lease_free(
    number: signal.Signals, sqlite_engine: Engine, sqlite_url: str, base_dir: Path
) -> None:
    engine = sqlite_engine
    long_log(5000).write_summary(base_dir / "job")
    with running(sqlite_url, base_dir) as process:
        wait_until(lambda: column(engine, "SELECT count(*) FROM scalar_sample")[0] > 0)
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
    read = column(engine, "SELECT event_count FROM log_file")[0]
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [read - 1]
    assert ledger_is_closed(engine)
    ingest(engine, base_dir)  # nobody leads any more
    assert len(visible_scalars(engine)) == 5000


@pytest.mark.slow
def test_another_daemon_goes_on_where_a_killed_one_stood(
    engine: Engine, database_url: str, base_dir: Path
) -> None:
    long_log(1500).write_summary(base_dir / "job")
    with running(database_url, base_dir) as process:
        wait_until(lambda: column(engine, "SELECT count(*) FROM scalar_sample")[0] > 0)
        process.kill()
        process.wait()
    with running(database_url, base_dir):
        wait_until(lambda: column(engine, "SELECT count(*) FROM scalar_sample")[0] == 1500)
        wait_until(lambda: column(engine, "SELECT size_bytes - byte_offset FROM log_file") == [0])
    assert rows(engine, "SELECT sample_count, last_value FROM series") == [(1500, 1499.0)]
    assert column(engine, "SELECT event_count FROM log_file") == [1501]
    assert column(engine, "SELECT epoch FROM ingest_lease") == [2]


def leads(engine: Engine) -> dict[int, int]:
    """How many base dirs each process leads now."""
    holders = column(engine, "SELECT leader FROM v_base_dir WHERE leader IS NOT NULL")
    return dict(Counter(int(holder.split(":")[1]) for holder in holders))


@pytest.mark.slow
def test_base_dirs_spread_over_daemons_and_come_back_when_one_dies(
    engine: Engine, database_url: str, tmp_path: Path
) -> None:
    base_dirs = [tmp_path / name for name in ("one", "two", "three", "four")]
    for base_dir in base_dirs:
        Log().scalar(1, base_dir.name, 0.5).write_summary(base_dir / "job")
    with running(database_url, *base_dirs) as first:
        wait_until(lambda: leads(engine) == {first.pid: 4})
        with running(database_url, *base_dirs) as second:
            wait_until(lambda: leads(engine) == {first.pid: 2, second.pid: 2})
        wait_until(lambda: leads(engine) == {first.pid: 4})
        for base_dir in base_dirs:  # a daemon may hold a lease for a while before it reads
            wait_until(partial(_is_read, engine, base_dir.name))


def _is_read(engine: Engine, tag: str) -> bool:
    return visible_scalars(engine, tag) == {1: 0.5}
