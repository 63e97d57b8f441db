"""The program under test, run in this process, and a small base dir for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.log_writer import Log
from helpers.program import Finished, Run, logging_kept
from lineage_store.cli import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """`run("jobs", "--json")`: away from anybody's settings, on the store of the fixture that the test takes."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LINEAGE_STORE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)

    def run_program(*arguments: Any) -> Finished:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Finished(code, captured.out, captured.err)

    with logging_kept():
        yield run_program


@pytest.fixture
def on_sqlite(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program uses an empty SQLite store."""
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", sqlite_url)
    return sqlite_url


@pytest.fixture
def on_each(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program uses an empty store, once on each kind of database."""
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", database_url)
    return database_url


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """Two jobs: `good` (accuracy 0.9, four steps of loss, one of them NaN) and `poor` (accuracy 0.5)."""
    base_dir = tmp_path / "base"
    loss = Log().version().scalar(1, "loss", 4.0).scalar(2, "loss", 2.0).scalar(3, "loss", float("nan"))
    loss.scalar(4, "loss", 1.0).write_summary(base_dir / "good")
    good = Log().train(network="LeNet5", optimizer="Adam", learning_rate=0.5, epoch=3, loss=1.0)
    good.evaluation({"accuracy": 0.9}).user_info(team="vision").write_lineage(base_dir / "good")
    poor = Log().train(network="LeNet5", optimizer="SGD", learning_rate=0.5, epoch=5, loss=2.0)
    poor.evaluation({"accuracy": 0.5}).write_lineage(base_dir / "poor")
    return base_dir


@pytest.fixture
def stored(on_sqlite: str, base_dir: Path, run: Run) -> Path:
    """The base dir, ingested into the SQLite store that the program uses."""
    assert run("ingest", base_dir).code == 0
    return base_dir
