"""Sparse files of any size and time: they affect only themselves, are reported by name, and no sum overflows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, ledger_is_closed, open_problems, rows
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.api.reports import CleanUp
from lineage_store.config import Settings
from lineage_store.ingest.lease import register
from lineage_store.operations import verify
from lineage_store.store.schema.views import VIEWS

VAST = 2**63 - 1
NAME = "events.out.events.summary.{}.0.host_MS"
HONEST = Log().scalar(1, "loss", 0.5)


@pytest.fixture
def base_dir() -> Iterator[Path]:
    """An empty base dir where files may claim to be as large as can be said."""
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no filesystem for files of 2^63 - 1 bytes")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def vast(path: Path, begin: bytes = b"", size: int = VAST) -> Path:
    """A file of a hole behind these bytes."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(begin)
    os.truncate(path, size)
    return path


def answers(store: LineageStore, base_dir: Path) -> None:
    """Everybody's questions, none of which may fail."""
    for job in store.lineage.jobs(base_dir):
        store.job((base_dir, job.train_id)).report()
        store.repair.why(job.path)
    with store.engine.connect() as connection:
        for view in VIEWS:
            connection.exec_driver_sql(f"SELECT * FROM {view.name}").all()
    store.lineage.filter(base_dir=base_dir)
    store.health.findings(base_dir)
    store.repair.why(base_dir)
    list(store.removal.find(CleanUp(older_than_s=0.0), base_dir))


@pytest.mark.parametrize("grace_s", [600, 0])
def test_sizes_that_add_up_to_more_than_64_bits_fail_nobody(
    grace_s: float, database_url: str, base_dir: Path
) -> None:
    for job in ("a", "b"):
        for number in range(3):
            vast(base_dir / job / NAME.format(1_700_000_000 + number), HONEST.content)
    HONEST.write_summary(base_dir / "honest")
    with LineageStore(database_url, settings=Settings(suspect_grace_s=grace_s)) as store:
        for _ in range(2):
            store.ingest(base_dir)
            answers(store, base_dir)
        (stands,) = store.health.status(base_dir).base_dirs
        jobs = {job.train_id: job.log_bytes for job in store.lineage.jobs(base_dir)}
        ledger = rows(store.engine, "SELECT pending_bytes FROM ingest_cycle")
        kinds = {kind for kind, _ in open_problems(store.engine)}
    assert jobs == {"./a": VAST, "./b": VAST, "./honest": len(HONEST.content)}
    pending = VAST if grace_s else 6 * 11  # the last bytes of each may begin a header
    assert (stands["log_bytes"], stands["pending_bytes"]) == (VAST, pending)
    assert [row.pending_bytes for row in ledger] == [VAST, pending]
    assert kinds == {"damaged_bytes" if grace_s == 0 else "suspect_bytes"}


@pytest.mark.parametrize("closed", [False, True])
def test_a_hole_is_passed_over_without_being_read_and_what_lies_behind_it_is_read(
    closed: bool, engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(*given: Any, pread: Callable[..., bytes] = os.pread) -> bytes:
        read.append(content := pread(*given))
        return content

    read = list[bytes]()
    path = vast(base_dir / "a" / NAME.format(1_700_000_000), HONEST.content, 2**60)
    behind = Log().scalar(2, "loss", 0.25).content
    for position in (2**50 - 3, 2**59):
        with path.open("r+b") as file:
            file.seek(position)
            file.write(behind)
    path.chmod(0o400 if closed else 0o600)
    monkeypatch.setattr(os, "pread", counted)
    for _ in range(2):
        ingest(engine, base_dir, suspect_grace_s=0)
    assert column(engine, "SELECT step FROM scalar_sample ORDER BY step") == [1, 2]
    assert column(engine, "SELECT event_count FROM log_file") == [3]
    assert sum(map(len, read)) < 2**26
    assert ledger_is_closed(engine)
    verdicts = list(verify.verify(engine, base_dir, register(engine, base_dir), Settings()))
    assert [each.differences for each in verdicts] == [()]


@pytest.mark.parametrize("seconds", [VAST, -(2**33), -1, 2**32 + 1, 253_402_300_800])
def test_a_time_of_change_that_no_calendar_holds_fails_nobody(
    seconds: int, database_url: str, base_dir: Path
) -> None:
    path = HONEST.write_summary(base_dir / "a")
    Log().train(network="LeNet5").write_lineage(base_dir / "a")
    os.utime(path, ns=(seconds * 10**9, seconds * 10**9))
    HONEST.write_summary(base_dir / "honest")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
        answers(store, base_dir)
        assert column(store.engine, "SELECT count(*) FROM scalar_sample") == [2]
