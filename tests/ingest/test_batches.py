"""Batches of files: where they are read, and when new files are registered, does not change what is stored."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.contents import natural_contents
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.ingest import pipeline
from lineage_store.ingest.read import queue
from lineage_store.ingest.report import Progress
from lineage_store.program import uncollected
from lineage_store.store.database.db import open_engine


@pytest.fixture
def read_in_a_thread(tmp_path: Path, sqlite_template: Path, corpus: Path) -> dict[str, Any]:
    """The contents of a store that few files were read into."""
    shutil.copy(sqlite_template, tmp_path / "other.sqlite3")
    engine = open_engine(f"sqlite:///{tmp_path / 'other.sqlite3'}")
    ingest(engine, corpus)
    contents = natural_contents(engine)
    engine.dispose()
    return contents


def _tags(log: Log) -> Log:
    return log.scalars(1, {f"tag {number}": 0.5 for number in range(100)})


def _values(log: Log) -> Log:
    return log.user_info(**{f"key {number}": number for number in range(100)})


def _metrics(log: Log) -> Log:
    return log.evaluation({f"metric {number}": number for number in range(100)})


@pytest.mark.parametrize("names", [_tags, _values, _metrics])
def test_a_transaction_takes_few_files_that_bring_many_names(
    names: Callable[[Log], Log], engine: Engine, base_dir: Path
) -> None:
    for number in range(36):
        job = base_dir / f"job_{number:02}"
        log = names(Log())
        (log.write_summary if names is _tags else log.write_lineage)(job)
    written: list[int] = []

    def note(report: Progress) -> None:
        written.append(report.files_waiting)

    pipeline.ingest(engine, base_dir, Settings(batch_rows=2_000, chunk_bytes=4096), progress=note)
    assert len(written) >= 3, "few transactions stored many names"
    assert column(engine, "SELECT count(*) FROM log_file WHERE byte_offset > 0") == [36]


@pytest.mark.slow
def test_many_files_are_read_in_a_process(
    engine: Engine, corpus: Path, read_in_a_thread: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_here(*_: object) -> bytes:
        raise AssertionError("a log file was read in the process that writes")

    monkeypatch.setattr(queue, "MANY_FILES", 2)
    monkeypatch.setattr(os, "pread", read_here)
    ingest(engine, corpus, batch_files=5)
    assert natural_contents(engine) == read_in_a_thread


@pytest.mark.parametrize("no_python", ["/bin/false", "/nowhere/python"])
@pytest.mark.slow
def test_many_files_are_read_in_a_thread_where_no_process_starts(
    no_python: str,
    sqlite_engine: Engine,
    corpus: Path,
    read_in_a_thread: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(queue, "MANY_FILES", 2)
    monkeypatch.setattr(sys, "executable", no_python)
    ingest(sqlite_engine, corpus)
    assert natural_contents(sqlite_engine) == read_in_a_thread
    assert "reading process unavailable, files are read in a thread" in caplog.messages


def test_new_files_are_registered_before_any_is_read_and_all_are_read(engine: Engine, tmp_path: Path) -> None:
    base_dir, seen = tmp_path / "base", list[Progress]()
    for number in range(10):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"{number}")
    settings = Settings(batch_files=2)
    pipeline.ingest(engine, base_dir, settings, progress=seen.append, should_stop=lambda: bool(seen))
    assert [progress.files_waiting for progress in seen] == [8]
    sizes = "SELECT size_bytes - byte_offset FROM log_file"
    assert [pending > 0 for pending in column(engine, sizes)].count(True) == 8
    pipeline.ingest(engine, base_dir, settings, progress=seen.append)
    assert [progress.files_waiting for progress in seen] == [8, 6, 4, 2, 0]
    assert len(column(engine, "SELECT value FROM scalar_sample")) == 10


def _write_jobs(base_dir: Path, count: int) -> None:
    for number in range(count):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"{number}")


def test_a_batch_of_slow_files_ends_early_and_all_are_read(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_slowly(*arguments: Any, read: Callable[..., bytes] = os.pread) -> bytes:
        time.sleep(0.06)
        return read(*arguments)

    _write_jobs(base_dir, 4)
    seen = list[Progress]()
    monkeypatch.setattr(os, "pread", read_slowly)
    pipeline.ingest(engine, base_dir, Settings(reading_deadline_s=0.5), progress=seen.append)
    assert [progress.files_waiting for progress in seen] == [3, 2, 1, 0]
    assert len(column(engine, "SELECT value FROM scalar_sample")) == 4


def test_files_that_fail_slowly_end_a_batch_too(
    sqlite_engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_slowly(*_: object) -> bytes:
        time.sleep(0.06)
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    _write_jobs(base_dir, 3)
    seen = list[Progress]()
    monkeypatch.setattr(os, "pread", fail_slowly)
    pipeline.ingest(sqlite_engine, base_dir, Settings(reading_deadline_s=0.5), progress=seen.append)
    assert [progress.files_waiting for progress in seen] == [2, 1, 0]
    monkeypatch.undo()
    ingest(sqlite_engine, base_dir)
    assert len(column(sqlite_engine, "SELECT value FROM scalar_sample")) == 3


def test_many_slow_files_together_do_not_fail_the_process_that_reads_them(
    sqlite_engine: Engine, base_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "import os, time\nread = os.pread\nos.pread = lambda *given: (time.sleep(0.11), read(*given))[1]\n"
    (tmp_path / "sitecustomize.py").write_text(slow)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    monkeypatch.setattr(queue, "MANY_FILES", 2)
    _write_jobs(base_dir, 20)
    seen = list[Progress]()
    pipeline.ingest(sqlite_engine, base_dir, Settings(reading_deadline_s=2.0), progress=seen.append)
    assert seen[0].files_waiting < 20  # else the deadline ended the process, and none had been taken
    assert [progress.files_waiting for progress in seen][-1] == 0
    assert len(column(sqlite_engine, "SELECT value FROM scalar_sample")) == 20


def test_the_garbage_collector_rests_during_a_block_and_is_left_as_it_was() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="in the block"), uncollected():
        raise ValueError("in the block")
    assert gc.isenabled()
