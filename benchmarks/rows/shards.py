"""The cost of many live jobs if several daemons share them, by shards, against one daemon for all.

Daemons of the command line run with default settings on PostgreSQL, while this process appends to every job once a
second. Measured is the CPU time of the daemons and their reading processes per log file that a pass reads from, because
all share the machine's few CPUs, and passes become rarer when these are busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import text

from benchmarks import events
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes
from benchmarks.rows.live import cpu_of_daemon, live_jobs
from lineage_store import LineageStore

DAEMONS = 4
_WARM_UP_S = 5
_LONGEST_S = 600.0


def _live_shards_cpu(sizes: Sizes) -> Samples:
    one, four = (_cpu_a_change(sizes, daemons) for daemons in (1, DAEMONS))
    note = f"{sizes.sharded_jobs:,} jobs, {sizes.live_seconds} s: {1e6 * one:.0f} and {1e6 * four:.0f} µs"
    return Samples((four,), (one,), note=note)


def _cpu_a_change(sizes: Sizes, daemons: int) -> float:
    """Return the CPU seconds of all daemons per log file that a pass read from."""
    with (
        live_jobs("shared", sizes.sharded_jobs) as paths,
        fresh("postgresql") as url,
        LineageStore(url) as store,
        _daemons(url, paths[0].parents[1], daemons) as processes,
    ):

        def number(query: str) -> int:
            with store.engine.connect() as connection:
                return int(connection.execute(text(query)).scalar_one() or 0)

        def spent() -> tuple[float, int]:
            return sum(map(cpu_of_daemon, processes)), number("SELECT sum(files_read) FROM ingest_cycle")

        shared = "SELECT count(DISTINCT split_part(leader, ':', 2)) FROM v_shard"
        _await(lambda: number(shared) == daemons)
        _await(lambda: number("SELECT sum(event_count) FROM log_file") == len(paths))
        _append(paths, 1, _WARM_UP_S)
        cpu_s, changes = spent()
        _append(paths, _WARM_UP_S + 1, sizes.live_seconds)
        later_s, later = spent()
        return (later_s - cpu_s) / (later - changes)


def _append(paths: list[Path], first_step: int, seconds: int) -> None:
    """Append an event to each log file once a second."""
    for step in range(first_step, first_step + seconds):
        began, frame = time.monotonic(), events.summary(step, [events.scalar("loss", 1 / step)])
        for path in paths:
            with path.open("ab", buffering=0) as stream:
                stream.write(frame)
        time.sleep(max(0.0, began + 1 - time.monotonic()))


@contextmanager
def _daemons(url: str, base_dir: Path, count: int) -> Iterator[list[int]]:
    """Start `count` daemons on as many shards; yield their process ids."""
    environment = os.environ | {"LINEAGE_STORE_DATABASE_URL": url}
    script = "from lineage_store.cli import main; main()"
    command = [sys.executable, "-W", "ignore", "-c", script, "daemon", "--shards", str(count), str(base_dir)]
    with ExitStack() as lifetime:
        processes = []
        for _ in range(count):
            started = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
            processes.append(lifetime.enter_context(started))
            lifetime.callback(started.terminate)
        yield [each.pid for each in processes]


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"The daemons are not there after {_LONGEST_S:.0f} s.")
        time.sleep(0.25)


ROWS = [
    Row(
        "live-shards-cpu",
        "CPU a change of a live job costs four daemons on four shards, against one daemon",
        _live_shards_cpu,
        Bound(1.2),
        Bound(1.0),
    ),
]
