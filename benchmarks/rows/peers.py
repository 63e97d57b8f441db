"""Against MindInsight 2.3.1 and MLflow, which run in environments of their own, by their own clocks.

MindInsight's loader checks no CRC and keeps at most 1,000 samples per tag; ours stores all, in a database. Its time is
proportional to the events, so it loads only parts of the corpora. Both sides have loaded another job before, as a
running server or daemon has, so that our statements are compiled. Both sides must find the same jobs in the same order
before queries are timed. Servers get one request after the other from one client of http.client, over an open
connection. MLflow logs the same rows of scalars and results for each job, one batch per run.
"""

from __future__ import annotations

import http.client
import json
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks import corpora
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate, timed
from benchmarks.peers import ask
from benchmarks.rows.ingest import ingest
from benchmarks.rows.serving import served
from lineage_store import LineageStore, filter_summary_lineage

_CONDITION = {
    "epoch": {"ge": 10},
    "optimizer": {"in": ["Adam", "SGD"]},
    "metric/Accuracy": {"gt": 0.5},
    "sorted_name": "metric/Accuracy",
    "sorted_type": "descending",
    "limit": 20,
    "offset": 0,
}
_Request = tuple[str, str, str | None]
_CURVE_EVENTS = 2_000
_MOST_SERVED = 999
"""Maximum number of jobs that MindInsight's server shows."""
_MOST_LOADED = 15
"""Maximum number of jobs that it keeps in memory."""
_LABELS = cycle((1, 2))
_MLFLOW_RUNS = 100
_OTHER_EVENTS = 100


def _load(corpus: Callable[[Sizes], Path], sizes: Sizes) -> Samples:
    base_dir = corpus(sizes)
    (job_dir,) = base_dir.iterdir()
    peer = partial(ask, "mindinsight", "load", str(job_dir))
    ours = partial(ingest, base_dir, "sqlite", after=corpora.c1(_OTHER_EVENTS))
    return alternate(ours, lambda: peer()[0], min(3, sizes.repetitions))


def _query(warm: bool, refresh: bool | None, sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.peer_jobs)
    peer = partial(ask, "mindinsight", "query", str(base_dir), _CONDITION)
    if warm:
        ask("mindinsight", "warm", str(base_dir))
        peer = partial(ask, "mindinsight", "query_warm", _CONDITION)
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        ours = partial(filter_summary_lineage, base_dir, _CONDITION, store=store, refresh=refresh)
        answer = ours()
        found = [answer["count"], [job["summary_dir"] for job in answer["object"]]]
        assert peer()[1] == found, "the two do not answer the same"
        note = f"{sizes.peer_jobs:,} jobs, {answer['count']:,} match"
        return alternate(timed(ours), lambda: peer()[0], 3 if not warm else 2 * sizes.repetitions + 1, note)


def _rest_page(changes: bool, sizes: Sizes) -> Samples:
    request = "POST", "lineagemgr/lineages", json.dumps(_CONDITION)
    return _rest(corpora.jobs(min(sizes.peer_jobs, _MOST_SERVED)), request, changes, sizes)


def _rest_scalars(changes: bool, sizes: Sizes) -> Samples:
    """Request scalars of as many jobs as MindInsight's server keeps in memory, after it has loaded them."""
    base_dir = corpora.jobs(min(sizes.peer_jobs, _MOST_SERVED))
    named = [("train_id", f"./{path.name}") for path in sorted(base_dir.iterdir())[:_MOST_LOADED]]
    tags = [("tag", f"{tag}/scalar") for tag in corpora.TAGS]
    path = f"datavisual/scalars?{urlencode([*named, *tags])}"
    return _rest(base_dir, ("GET", path, None), changes, sizes, [train_id for _, train_id in named])


def _rest_curve(changes: bool, sizes: Sizes) -> Samples:
    path = "datavisual/scalar/metadata?train_id=./run&tag=loss/scalar"
    return _rest(corpora.c1(_CURVE_EVENTS), ("GET", path, None), changes, sizes, ["./run"])


def _rest(
    base_dir: Path, request: _Request, changes: bool, sizes: Sizes, loaded: Sequence[str] = ()
) -> Samples:
    """Send the same request to both servers; `changes`: after a change, so that ours has no cached answer."""
    theirs = ask("mindinsight", "serve", str(base_dir))[1]
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        first = store.lineage.jobs(limit=1)[0].train_id
        with served(url) as (_, address):
            _load_jobs(theirs, loaded)
            answer = _asked(address, request)
            assert _without_marks(answer) == _without_marks(_asked(theirs, request)), "answers differ"

            def ours() -> float:
                if changes:
                    store.job((base_dir, first)).annotate(label=next(_LABELS))
                return _seconds(address, request, 1 if changes else 5)

            peer = partial(_seconds, theirs, request, 5)
            note = f"{len(list(base_dir.iterdir())):,} jobs, {len(answer):,} bytes"
            return alternate(ours, peer, 4 * sizes.repetitions + 1, note)


def _seconds(address: str, request: _Request, times: int) -> float:
    """Return the seconds per request, sent one after the other over an open connection."""
    with closing(http.client.HTTPConnection(address)) as connection:
        connection.connect()
        return timed(lambda: _answer(connection, *request), times)()


def _asked(address: str, request: _Request) -> str:
    with closing(http.client.HTTPConnection(address)) as connection:
        return _answer(connection, *request)


def _answer(connection: http.client.HTTPConnection, method: str, path: str, body: str | None) -> str:
    connection.request(method, f"/v1/mindinsight/{path}", body, {"Content-Type": "application/json"})
    return connection.getresponse().read().decode()


def _load_jobs(address: str, train_ids: Sequence[str]) -> None:
    """Let MindInsight's server load these jobs, and wait until they are in memory."""
    request = "POST", "datavisual/train-job-caches", json.dumps({"train_ids": train_ids})
    while any(
        each["cache_status"] != "CACHED" for each in json.loads(_asked(address, request))["cache_result"]
    ):
        time.sleep(0.2)


def _without_marks(answer: str) -> Any:
    return json.loads(re.sub(r'"dataset_mark":"[^"]*"', '"dataset_mark":""', answer))


def _log(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)

    def peer() -> float:
        with tempfile.TemporaryDirectory(dir=corpora.CACHE) as directory:
            return ask("mlflow", "log", f"{directory}/mlflow.sqlite3", _MLFLOW_RUNS)[0] / _MLFLOW_RUNS

    samples = alternate(lambda: ingest(base_dir, "sqlite") / sizes.jobs, peer, min(3, sizes.repetitions))
    return Samples(samples.ours, samples.baseline, "a job of 202 rows")


def _load_row(name: str, corpus: Callable[[Sizes], Path], must: float, aim: float) -> Row:
    what = f"{name} → committed SQLite, against MindInsight's loader"
    return _speedup(f"mindinsight-{name}", what, partial(_load, corpus), must, aim)


def _query_row(name: str, what: str, warm: bool, refresh: bool | None, must: float, aim: float) -> Row:
    return _speedup(f"mindinsight-{name}", what, partial(_query, warm, refresh), must, aim)


def _speedup(name: str, what: str, measure: Callable[[Sizes], Samples], must: float, aim: float) -> Row:
    bounds = Bound(must, at_least=True), Bound(aim, at_least=True)
    return Row(name, what, measure, *bounds, shown="speedup", group="peers")


def _rest_rows(
    name: str, what: str, measure: Callable[[bool, Sizes], Samples], must: float = 3, aim: float = 10
) -> list[Row]:
    name, what = f"mindinsight-rest-{name}", f"{what} by its REST API, {{}}, against its server"
    changed, after = partial(measure, True), what.format("after a change")
    return [
        _speedup(name, what.format("asked again"), partial(measure, False), must, aim),
        Row(f"{name}-changed", after, changed, None, shown="speedup", group="peers"),
    ]


ROWS = [
    _load_row("c1", lambda sizes: corpora.c1(sizes.events // 50), 200, 500),
    _load_row("c2", lambda sizes: corpora.c2(sizes.scalar_events_of_ten // 20), 60, 150),
    _load_row("c6", lambda sizes: corpora.c6(sizes.histogram_events // 4), 60, 150),
    _load_row("c4", lambda sizes: corpora.c4(sizes.payload_events // 10), 15, 40),
    _query_row("page-warm", "page and count, no refresh, against its cache in memory", True, False, 30, 100),
    _query_row(
        "page-disk", "page and count, no refresh, against its reading of files", False, False, 1000, 1000
    ),
    _query_row("refresh-warm", "the same with the default refresh, nothing new", True, None, 1, 3),
    _query_row("refresh-disk", "the same with the default refresh, nothing new", False, None, 50, 150),
    *_rest_rows("page", "a page", _rest_page),
    *_rest_rows("scalars", "four curves of 15 jobs", _rest_scalars),
    *_rest_rows("curve", "one curve, 1,000 of 2,000 steps,", _rest_curve, must=1, aim=5),
    _speedup(
        "mlflow", "job dirs → committed SQLite, against MLflow's log_batch of the same rows", _log, 40, 40
    ),
]
