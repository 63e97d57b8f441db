"""Against MindInsight 2.3.1 and MLflow, which run in environments of their own, by their own clocks.

MindInsight's loader checks no CRC and keeps at most 1,000 samples of a tag; ours keeps all, in a database. Its cost
grows with the events, so parts of the corpora stand for them. Its process has loaded before, as a
server's has, and our store has ingested before, as a daemon's has: another job, so its statements are compiled. Both
sides must find the same jobs in the same order before queries are timed. MLflow logs the same rows of scalars and
results for each job, a batch a run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import corpora
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate, timed
from benchmarks.peers import ask
from benchmarks.rows.ingest import ingest
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
        "mlflow", "job dirs → committed SQLite, against MLflow's log_batch of the same rows", _log, 40, 40
    ),
]
