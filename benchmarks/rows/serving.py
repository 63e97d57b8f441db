"""The server's overhead over the Python API, the savings of buckets over all samples, and the cost of followers.

A page is requested over one connection of http.client, which adds little time, from a server in a process of its own;
the baseline is `lineage.filter` with the same condition in this process. Buckets of one series with a million samples
are compared with `scalars` of the same series, both in this process. Followers read only the beginning of their
streams, while nobody writes to the store; their cost is the CPU time of the server's process.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from benchmarks import corpora
from benchmarks.databases import Database, fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate, cpu_seconds, timed
from benchmarks.rows.query import CONDITIONS
from benchmarks.stored import BASE_DIR, store_of
from lineage_store import LineageStore

FOLLOWERS = 500
_PROGRAM = Path(sys.executable).parent / "lineage-store"
_QUESTION = {
    name: value for name, value in CONDITIONS["unselective"].items() if name not in ("limit", "offset")
}


def _page(database: Database, sizes: Sizes) -> Samples:
    store = store_of(database, sizes.stored_jobs)
    path = "/api/v1/jobs?" + urlencode({"condition": json.dumps(_QUESTION), "limit": 20, "count": "false"})
    with (
        served(store.engine.url.render_as_string(hide_password=False)) as (_, address),
        closing(http.client.HTTPConnection(address)) as connection,
    ):

        def rest() -> object:
            connection.request("GET", path)
            answer = json.load(connection.getresponse())
            return [job["train_id"] for job in answer["jobs"]]

        def python() -> object:
            asked = {**_QUESTION, "limit": 20}
            answer = store.lineage.filter(asked, base_dir=BASE_DIR, count=False)
            return [job["summary_dir"] for job in answer["object"]]

        assert rest() == python(), "answers differ"
        both = alternate(timed(rest, 20), timed(python, 20), 2 * sizes.repetitions + 1)
    assert both.baseline is not None
    more = tuple(1000 * (ours - python) for ours, python in zip(both.ours, both.baseline, strict=True))
    return Samples(more, note=f"in Python {1000 * statistics.median(both.baseline):.2g} ms")


def _buckets(database: Database, sizes: Sizes) -> Samples:
    base_dir = corpora.c1(sizes.events)
    with fresh(database) as url, LineageStore(url) as store:
        store.ingest(base_dir)
        (job,) = (store.job(row) for row in store.lineage.jobs())
        tag = job.tags()["scalar"][0]
        ours, every = partial(store.buckets, [(job, tag)]), partial(job.scalars, tag)
        assert sum(ours()[0].columns["count"]) == len(every())
        note = f"{len(every()):,} samples"
        return alternate(timed(ours), timed(every), 2 * sizes.repetitions + 1, note)


def _following(database: Database, sizes: Sizes) -> Samples:
    seconds = sizes.idle_client_seconds / FOLLOWERS
    with fresh(database) as url, LineageStore(url) as store:
        store.ingest(corpora.jobs(300))
        with served(url) as (process, address), ExitStack() as streams:
            for _ in range(FOLLOWERS):
                _follow(streams.enter_context(closing(http.client.HTTPConnection(address))))
            began, before = time.monotonic(), cpu_seconds(process)
            time.sleep(seconds)
            share = (cpu_seconds(process) - before) / (time.monotonic() - began)
    return Samples((100 * share,), note=f"{FOLLOWERS} clients, {seconds:g} s")


def _follow(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/api/v1/events")
    answer = connection.getresponse()
    while b"event: begin" not in answer.readline():
        pass


@contextmanager
def served(url: str, *base_dirs: Path) -> Iterator[tuple[int, str]]:
    """Start a server with a daemon for the base dirs; yield its process id and address."""
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url}
    command = [str(_PROGRAM), "serve", "--port", "0", "--no-open", *map(str, base_dirs)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+/", line)))
        try:
            yield server.pid, urlsplit(address).netloc
        finally:
            server.terminate()


_DATABASES: tuple[Database, ...] = ("sqlite", "postgresql")
ROWS = [
    *(
        Row(
            f"rest-page-{database}",
            "first page by REST, unselective, 100k jobs, beyond the same in Python",
            partial(_page, database),
            Bound(3.0),
            shown="figure",
            unit="ms",
        )
        for database in _DATABASES
    ),
    *(
        Row(
            f"buckets-{database}",
            "a series in 1,000 buckets, against every sample of it",
            partial(_buckets, database),
            Bound(0.15),
            Bound(0.07),
        )
        for database in _DATABASES
    ),
    *(
        Row(
            f"following-idle-{database}",
            "a server's CPU for clients that follow while nothing changes, of one core",
            partial(_following, database),
            Bound(1.0),
            shown="figure",
            unit="%",
        )
        for database in _DATABASES
    ),
]
