"""MindInsight 2.3.1's own server, in an environment of its own, for the length of a block.

In: a base dir, and an empty directory that serves as its home. Out: a client. `make environments` makes the
environment.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from helpers.base_dirs import ROOT
from helpers.mindinsight_requests import BEGIN

PYTHON = ROOT / ".venv-mindinsight" / "bin" / "python"
_WITHIN_S = 120.0
_QUIET_LOOKS = 5


@contextmanager
def mindinsight(base_dir: Path, home: Path) -> Iterator[httpx.Client]:
    """Yield a client of a server that has read all jobs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {
        "HOME": str(home),
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore",
        "MINDINSIGHT_LOG_LEVEL": "4",
        "MINDINSIGHT_SUMMARY_BASE_DIR": str(base_dir),
    }
    command = [str(PYTHON), "-m", "gunicorn", "-b", address, "-w", "1", "--threads", "5"]
    with (home / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "mindinsight.backend.application:APP"], env=environment, stdout=log, stderr=log
        )
        try:
            with httpx.Client(base_url=f"http://{address}", timeout=60) as client:
                _wait_until_loaded(client, process)
                yield client
        finally:
            process.terminate()
            process.wait()


def open_job(client: httpx.Client, train_id: str) -> None:
    """Let the server read a job, and wait until it has: until then its answers are incomplete."""
    quiet, until = 0, time.monotonic() + _WITHIN_S
    while quiet < _QUIET_LOOKS and time.monotonic() < until:
        client.get(f"{BEGIN}datavisual/plugins", params={"train_id": train_id, "manual_update": "true"})
        (job,) = client.get(f"{BEGIN}datavisual/train-jobs", params={"train_id": train_id}).json()[
            "train_jobs"
        ]
        quiet = quiet + 1 if job["cache_status"] == "CACHED" or not job["summary_files"] else 0
        time.sleep(0.05)


def _wait_until_loaded(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _WITHIN_S
    while time.monotonic() < until:
        assert process.poll() is None, "MindInsight's server has ended"
        try:
            answer = client.get(f"{BEGIN}datavisual/train-jobs", params={"limit": 999}).json()
            if answer.get("load_status") == "loaded" and answer["total"]:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError("MindInsight's server does not load the jobs")
