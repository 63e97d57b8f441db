"""Python modules that somebody left in a base dir are data: neither the program nor a reading process imports them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from helpers.log_writer import Log
from helpers.program import PROGRAM
from lineage_store.ingest.read.queue import MANY_FILES

OTHERS = ("alembic", "click", "google", "lineage_store", "numpy", "psycopg", "sitecustomize", "sqlalchemy")
HOSTILE = "open({ran!r}, 'a').write(__name__ + '\\n'); raise ImportError('hostile')\n"
LOG = Log().version().scalar(1, "loss", 0.5)


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """A base dir that holds a hostile module of every name that may be imported, and a job."""
    base_dir = tmp_path / "base"
    LOG.write_summary(base_dir / "job")
    for name in (*OTHERS, "usercustomize", *sys.stdlib_module_names):
        (base_dir / f"{name}.py").write_text(HOSTILE.format(ran=str(tmp_path / "ran")))
    return base_dir


@contextmanager
def started_in(base_dir: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program at work in the base dir, on an empty store; killed at the end if it still runs."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"LINEAGE_STORE_DATABASE_URL": f"sqlite:///{base_dir.parent}/store.db"}
    command, pipe = [str(PROGRAM), *arguments], subprocess.PIPE
    with subprocess.Popen(command, cwd=base_dir, env=environment, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def samples(base_dir: Path) -> int:
    with closing(sqlite3.connect(base_dir.parent / "store.db")) as store:
        return int(store.execute("SELECT count(*) FROM v_scalar").fetchone()[0])


@pytest.mark.slow
def test_an_ingest_of_many_files_runs_none(base_dir: Path) -> None:
    for number in range(MANY_FILES):
        LOG.write_summary(base_dir / f"job_{number}")
    with started_in(base_dir, "ingest", ".") as ingest:
        told = ingest.communicate()[1]
    assert ingest.returncode == 0
    assert "reading process unavailable" not in told
    assert samples(base_dir) == MANY_FILES + 1
    assert not (base_dir.parent / "ran").exists()


@pytest.mark.parametrize("verb", [["daemon"], ["serve", "--no-open", "--port", "0"]], ids=["daemon", "serve"])
@pytest.mark.slow
def test_a_daemon_runs_none(verb: list[str], base_dir: Path) -> None:
    if verb[0] == "serve":
        pytest.importorskip("uvicorn")
    with started_in(base_dir, *verb, ".") as daemon:
        assert daemon.stderr is not None
        assert any('"files read"' in line or "failed" in line for line in daemon.stderr)
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate()
    assert daemon.returncode == 0
    assert samples(base_dir) == 1
    assert not (base_dir.parent / "ran").exists()
