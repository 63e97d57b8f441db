"""A training and the daemon side by side: the loss is in SQL while the training runs; and a training that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from helpers.log_contents import log_files, told
from helpers.waiting import wait_until
from lineage_store import LineageStore

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
LAST_STEP = text("SELECT max(step) FROM v_scalar WHERE train_id = './live' AND tag = 'loss/auto'")


def test_the_loss_is_in_sql_while_the_training_runs(tmp_path: Path, sqlite_url: str) -> None:
    base_dir, stop = tmp_path / "summaries", tmp_path / "stop"
    base_dir.mkdir()
    training = [sys.executable, str(HERE / "train_until.py"), str(base_dir / "live"), str(stop)]
    daemon = [
        str(Path(sys.executable).with_name("lineage-store")),
        "--database",
        sqlite_url,
        "daemon",
        str(base_dir),
    ]
    with (
        LineageStore(sqlite_url) as store,
        running(daemon, signal.SIGTERM),
        running(training, signal.SIGKILL) as trained,
    ):

        def last_step() -> int:
            with store.engine.connect() as connection:
                return connection.execute(LAST_STEP).scalar() or 0

        wait_until(lambda: last_step() > 0)
        assert trained.poll() is None, "the training still runs"
        seen = last_step()
        wait_until(lambda: last_step() > seen)
        assert trained.poll() is None, "and goes on"
        stop.touch()
        output, _ = trained.communicate()
        wait_until(lambda: last_step() == int(output.split()[-1]))


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_training_that_is_killed_loses_its_last_record_at_most_and_is_finished(
    kill: signal.Signals, tmp_path: Path, sqlite_url: str
) -> None:
    directory = tmp_path / "summaries" / "killed"
    training = [sys.executable, str(HERE / "train_until.py"), str(directory), str(tmp_path / "stop")]
    with running(training, signal.SIGKILL) as trained:
        assert trained.stdout is not None
        assert any(line == "20\n" for line in trained.stdout)
        trained.send_signal(kill)
        last = max([20, *(int(line) for line in trained.stdout if line.strip().isdecimal())])
    wait_until(lambda: {path.stat().st_mode & 0o777 for path in log_files(directory)} == {0o400})
    steps = [event.step for event in told(directory, "summary") if event.what == "summary"]
    assert steps in (list(range(1, last)), list(range(1, last + 1)), list(range(1, last + 2)))
    with LineageStore(sqlite_url) as store:
        store.ingest(directory.parent)
        assert [job.state for job in store.lineage.jobs(directory.parent)] == ["finished"]


@contextmanager
def running(command: list[str], end: signal.Signals) -> Iterator[subprocess.Popen[str]]:
    """The process, ended at the end of the block."""
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(end)
