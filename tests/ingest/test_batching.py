"""Where a pass has its log files read makes no difference to what the store comes to hold."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.contents import natural_contents
from helpers.ingesting import ingest
from lineage_store.ingest import batching
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
