"""TensorBoard's side of `make bench ARGS=page`; runs in an environment of its own, so it imports nothing of ours.

In: one request per line, as JSON: ["serve", directory, path of an .npy file]. The file has one run of a scalar per row;
runs are written as event files into the directory, unless they exist already, and served. Out: a line of JSON: the
seconds until all are loaded, and the server's address.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-not-found]
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-not-found]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-not-found]

_START = 1_700_000_000.0


def write(directory: Path, values: np.ndarray) -> None:
    """Write one event file per run."""
    for run, row in enumerate(values):
        path = directory / f"run_{run:02d}" / f"events.out.tfevents.{int(_START)}.host"
        path.parent.mkdir(parents=True)
        with path.open("wb") as stream:
            writer = RecordWriter(stream)
            writer.write(Event(wall_time=_START, file_version="brain.Event:2").SerializeToString())
            for step, value in enumerate(row.tolist(), 1):
                summary = Summary(value=[Summary.Value(tag="loss", simple_value=value)])
                event = Event(wall_time=_START + 0.1 * step, step=step, summary=summary)
                writer.write(event.SerializeToString())


def serve(directory: str, values: str) -> tuple[float, str]:
    """Start TensorBoard's server in a process that ends with this one; return the seconds and its address."""
    runs = np.load(values)
    if not Path(directory).exists():
        write(Path(directory), runs)
    began = time.perf_counter()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([*command, "--logdir", directory], stdout=sys.stderr)
    atexit.register(server.terminate)
    address = f"http://127.0.0.1:{port}/"
    while _loaded(address) < len(runs):
        time.sleep(0.5)
    return time.perf_counter() - began, address


def _loaded(address: str) -> int:
    """Return the number of runs that are loaded to their last step."""
    try:
        with urllib.request.urlopen(f"{address}data/plugin/scalars/tags") as answer:
            return len(json.load(answer))
    except OSError:
        return 0


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that its server ends, too
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the libraries' output out of the answers
    for line in sys.stdin:
        _, directory, values = json.loads(line)
        print(json.dumps(serve(directory, values)), file=answers, flush=True)


if __name__ == "__main__":
    main()
