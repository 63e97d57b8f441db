"""Against MindInsight 2.3.1 and MLflow, which run in environments of their own, by their own clocks.

MindInsight's loader checks no CRC and keeps at most 1,000 samples of a tag; ours keeps all, in a database. Its cost
grows with the events, so parts of the corpora stand for them. Its process has loaded before, as a
server's has, and our store has ingested before, as a daemon's has: another job, so its statements are compiled. Both
sides must find the same jobs in the same order before queries are timed. MLflow logs the same rows of scalars and
results for each job, a batch a run.
"""

from __future__ import annotations

import http.client
import json
import re
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

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
"""More jobs MindInsight's server does not show."""
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


def _rest_page(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(min(sizes.peer_jobs, _MOST_SERVED))
    return _rest(base_dir, lambda store: [("POST", "lineagemgr/lineages", json.dumps(_CONDITION))], sizes)


def _rest_curves(sizes: Sizes) -> Samples:
    base_dir = corpora.c1(_CURVE_EVENTS)

    def requests(store: LineageStore) -> list[_Request]:
        (job,) = store.train_jobs(base_dir)
        path = f"datavisual/scalar/metadata?train_id={job.train_id}&tag="
        return [("GET", f"{path}{tag}/scalar", None) for tag in store.tags(base_dir, job.train_id)["scalar"]]

    return _rest(base_dir, requests, sizes)


def _rest(base_dir: Path, requests_of: Callable[[LineageStore], list[_Request]], sizes: Sizes) -> Samples:
    jobs = ask("mindinsight", "serve", str(base_dir))[1]
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        requests = requests_of(store)
        with served(url) as (_, address), closing(http.client.HTTPConnection(address)) as connection:

            def answer(method: str, path: str, body: str | None) -> str:
                connection.request(method, f"/v1/mindinsight/{path}", body)
                return connection.getresponse().read().decode()

            def peer() -> float:
                return sum(ask("mindinsight", "ask", *request)[0] for request in requests)

            theirs = [_without_marks(ask("mindinsight", "ask", *request)[1]) for request in requests]
            assert [_without_marks(answer(*request)) for request in requests] == theirs, "answers differ"
            ours = timed(lambda: [answer(*request) for request in requests], 5)
            return alternate(
                ours, peer, 4 * sizes.repetitions + 1, f"{jobs:,} jobs, {len(requests)} requests"
            )


def _without_marks(answer: str) -> str:
    return re.sub(r'"dataset_mark":"[^"]*"', "", answer)


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
    _speedup(
        "mindinsight-rest-page",
        "a page by its REST API, asked again, against its server",
        _rest_page,
        3,
        10,
    ),
    _speedup(
        "mindinsight-rest-scalars",
        "a job's curves by its REST API, 1,000 of 2,000 steps, asked again, against its server",
        _rest_curves,
        1,
        5,
    ),
    _speedup(
        "mlflow", "job dirs → committed SQLite, against MLflow's log_batch of the same rows", _log, 40, 40
    ),
]
