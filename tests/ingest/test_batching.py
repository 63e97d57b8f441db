"""Batches of files: where they are read, and when new ones are registered, makes no difference to what is stored."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.contents import natural_contents
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.ingest import batching, refresh
from lineage_store.ingest.collecting import uncollected
from lineage_store.ingest.report import Progress
from lineage_store.store.engine import open_engine


@pytest.fixture
def read_in_a_thread(tmp_path: Path, sqlite_template: Path, corpus: Path) -> dict[str, Any]:
    """The contents of a store that few files were read into."""
    shutil.copy(sqlite_template, tmp_path / "other.sqlite3")
    engine = open_engine(f"sqlite:///{tmp_path / 'other.sqlite3'}")
    ingest(engine, corpus)
    contents = natural_contents(engine)
    engine.dispose()
    return contents


def test_many_files_are_read_in_a_process(
    engine: Engine,
    corpus: Path,
    read_in_a_thread: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_here(*_: object) -> bytes:
        raise AssertionError("a log file was read in the process that writes")

    monkeypatch.setattr(batching, "MANY_FILES", 2)
    monkeypatch.setattr(os, "pread", read_here)
    ingest(engine, corpus, batch_files=5)
    assert natural_contents(engine) == read_in_a_thread


@pytest.mark.parametrize("no_python", ["/bin/false", "/nowhere/python"])
def test_many_files_are_read_in_a_thread_where_no_process_starts(
    no_python: str,
    sqlite_engine: Engine,
    corpus: Path,
    read_in_a_thread: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(batching, "MANY_FILES", 2)
    monkeypatch.setattr(sys, "executable", no_python)
    ingest(sqlite_engine, corpus)
    assert natural_contents(sqlite_engine) == read_in_a_thread
    assert "no reading process, files are read in a thread" in caplog.messages


def test_new_files_are_registered_part_by_part_and_all_are_read(engine: Engine, tmp_path: Path) -> None:
    base_dir, seen = tmp_path / "base", list[Progress]()
    for number in range(10):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"{number}")
    settings = Settings(batch_files=2)
    refresh.ingest(engine, base_dir, settings, progress=seen.append, should_stop=lambda: bool(seen))
    assert [progress.files_waiting for progress in seen] == [8]
    assert len(column(engine, "SELECT id FROM log_file")) == 8  # two more than were to be read next
    refresh.ingest(engine, base_dir, settings, progress=seen.append)
    assert [progress.files_waiting for progress in seen] == [8, 6, 4, 2, 0]
    assert len(column(engine, "SELECT value FROM scalar_sample")) == 10


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
