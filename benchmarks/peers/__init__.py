"""Peers: other products, each in a process and an environment of its own.

In: the name of a peer and requests. Out: the seconds by the peer's own clock, and its result. Promises: a peer's
process is started at the first request and runs until the benchmark ends, so that imports are never measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

from benchmarks.corpora import CACHE, ROOT
from benchmarks.databases import LIFETIME

Peer = Literal["mindinsight", "mindspore", "mlflow", "tensorboard"]


def ask(peer: Peer, *request: object) -> tuple[float, Any]:
    """Send a request; return the seconds and the result. Raises RuntimeError if the peer has ended."""
    process = _process(peer)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"{peer} has ended; see build/bench/{peer}.log.")
    seconds, found = json.loads(answer)
    return seconds, found


@cache
def _process(peer: Peer) -> subprocess.Popen[str]:
    return LIFETIME.enter_context(_running(peer))


@contextmanager
def _running(peer: Peer) -> Iterator[subprocess.Popen[str]]:
    python = ROOT / f".venv-{peer}" / "bin" / "python"
    if not python.exists():
        sys.exit(f"{peer} is not installed: run make bench-peers, or make bench ARGS=page.")
    script = Path(__file__).parent / f"{peer}_side.py"
    environment = os.environ | {"HOME": str(CACHE), "PYTHONWARNINGS": "ignore"}  # peers write files into HOME
    if peer == "mindspore":
        environment["PYTHONPATH"] = str(ROOT)  # that peer also runs this checkout's collectors
    with (CACHE / f"{peer}.log").open("w") as log:
        process = subprocess.Popen(
            [python, script],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
