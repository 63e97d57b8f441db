"""A server under load: 50 clients at once on 10,000 jobs, while 100 more grow and the server's own daemon follows them.

The server is `lineage-store serve` with both base dirs. Each client sends requests without a pause, over a connection
of its own: a page of matching jobs, another one each time, and in turn MindInsight's page, the newest jobs, and the
curve of a growing job. Any status but 200 is an error, and ends the run. Lag is the time from the append of an event
until it is visible in SQL. Everything shares the machine's CPUs; the clients and the appending run in threads of this
process. Memory is the peak of a process.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from sqlalchemy.engine import make_url

from benchmarks import corpora
from benchmarks.databases import Database, fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes
from benchmarks.rows.live import append_and_ask, await_jobs, live_jobs, processes
from benchmarks.rows.serving import served
from lineage_store import LineageStore

CLIENTS = 50
_STORED_WITHIN_S = 600.0
_CONDITION = {
    "epoch": {"ge": 10},
    "optimizer": {"in": ["Adam", "SGD"]},
    "sorted_name": "metric/Accuracy",
    "sorted_type": "descending",
}
_PAGES = 50


@dataclass(frozen=True, slots=True)
class _Load:
    """The measurements of one run."""

    pages: Sequence[float]
    """Seconds of each page of each client."""
    others: int
    lags: Sequence[float]
    mebibytes: Sequence[int]
    """Peak memory of the server, its daemon, and the daemon's child processes."""
    log_mebibytes: float
    """Size of SQLite's write-ahead log at the end."""


def _page_spread(database: Database, sizes: Sizes) -> Samples:
    load = _load(database, sizes)
    median, last = statistics.median(load.pages), float(np.percentile(load.pages, 99))
    note = f"{CLIENTS} clients, {sizes.jobs:,} jobs, {sizes.growing_jobs} grow; {len(load.pages):,} pages in "
    note += f"{sizes.live_seconds} s, median {1000 * median:.0f} ms, p99 {1000 * last:.0f} ms; "
    return Samples((last / median,), note=f"{note}{load.others:,} other answers; no error")


def _lag(database: Database, sizes: Sizes) -> Samples:
    lags = _load(database, sizes).lags
    note = f"{len(lags):,} appends; median {statistics.median(lags):.2f} s, worst {max(lags):.2f} s"
    return Samples((float(np.percentile(lags, 99)),), note=note)


def _memory(database: Database, sizes: Sizes) -> Samples:
    load = _load(database, sizes)
    server, *others = load.mebibytes
    note = f"its daemon's processes {' and '.join(map(str, others))} MiB"
    note += f", write-ahead log {load.log_mebibytes:.0f} MiB" if database == "sqlite" else ""
    return Samples((server,), note=note)


@cache
def _load(database: Database, sizes: Sizes) -> _Load:
    finished = corpora.jobs(sizes.jobs)
    with (
        live_jobs("growing", sizes.growing_jobs) as paths,
        fresh(database) as url,
        LineageStore(url) as store,
        served(url, finished, paths[0].parents[1]) as (server, address),
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        number = sizes.jobs + len(paths)
        await_jobs(store.engine, number, partial(os.path.exists, f"/proc/{server}"), _STORED_WITHIN_S)
        while store.health.findings():  # until the daemon has read them, too
            time.sleep(0.5)
        end = time.monotonic() + sizes.live_seconds
        asked = [clients.submit(_ask, address, which, end, paths) for which in range(CLIENTS)]
        lags = append_and_ask(paths, store.engine, sizes.live_seconds)
        took = [each.result() for each in asked]
        pages = [seconds for pages, _ in took for seconds in pages]
        log = Path(f"{make_url(url).database}-wal")
        return _Load(
            pages,
            sum(others for _, others in took),
            lags,
            [_peak(process) for process in _family(server)],
            log.stat().st_size / 2**20 if log.exists() else 0.0,
        )


def _ask(address: str, client: int, end: float, growing: Sequence[Path]) -> tuple[list[float], int]:
    """Run one client; return the seconds of each page, and the number of other answers."""
    job = f"./{growing[client % len(growing)].parent.name}"
    others = [
        ("POST", "/v1/mindinsight/lineagemgr/lineages", json.dumps({**_CONDITION, "limit": 20})),
        ("GET", f"/api/v1/train-jobs?{urlencode({'limit': 20, 'page': client})}", None),
        (
            "GET",
            f"/v1/mindinsight/datavisual/scalars?{urlencode({'train_id': job, 'tag': 'loss/scalar'})}",
            None,
        ),
    ]
    pages = list[float]()
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        for number in count():
            if time.monotonic() >= end:
                return pages[1:], number  # without the first one, which includes connecting
            asked = {"condition": json.dumps(_CONDITION), "limit": 20, "page": (client + number) % _PAGES}
            pages.append(_answered(connection, "GET", f"/api/v1/jobs?{urlencode(asked)}", None))
            _answered(connection, *others[number % len(others)])
    raise AssertionError


def _answered(connection: http.client.HTTPConnection, method: str, path: str, body: str | None) -> float:
    """Send a request; return the seconds of the answer. Raises AssertionError for any status but 200."""
    began = time.perf_counter()
    connection.request(method, path, body)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 200, f"{path}: {answer.status} {content[:500]!r}"
    return time.perf_counter() - began


def _family(process: int) -> list[int]:
    return [process, *(each for child in processes(process)[1:] for each in _family(child))]


def _peak(process: int) -> int:
    """Return the peak memory of a process in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


_DATABASES: tuple[Database, ...] = ("sqlite", "postgresql")
ROWS = [
    row
    for database in _DATABASES
    for row in (
        Row(
            f"load-page-{database}",
            "p99 of a page under load, against its median",
            partial(_page_spread, database),
            Bound(10.0),
            shown="figure",
        ),
        Row(
            f"load-lag-{database}",
            "append → visible in SQL meanwhile, p99",
            partial(_lag, database),
            Bound(3.0),
            shown="figure",
            unit="s",
        ),
        Row(
            f"load-memory-{database}",
            "the most memory of the server meanwhile",
            partial(_memory, database),
            Bound(400.0),
            shown="figure",
            unit="MiB",
        ),
    )
]
