"""Convert measures to Prometheus metrics.

In: measures. Out: metric families; a collector for a registry. Promises: names and labels stay the same from release
to release; measuring takes at most 5 % of the time, however often metrics are scraped; if the database hangs, only
one thread waits for it, and other scrapes report after some seconds that it is not up. `metric_families` is pure.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from lineage_store.errors import ConfigError
from lineage_store.operations.health import Measures
from lineage_store.states import JobState

PREFIX = "lineage_store_"
SHARE = 0.05
"""Maximum share of the time spent measuring."""
LONGEST_WAIT_S = 5.0
"""How long to wait for another thread's measurement; Prometheus gives up after 10 s."""
_BASE_DIR = ["base_dir"]
_GAUGES = (
    ("lag_seconds", "lag_s", "Since the base dir was last searched in full."),
    ("log_files", "log_files", "Log files that are there."),
    ("log_bytes", "log_bytes", "Bytes of the log files that are there."),
    ("pending_bytes", "pending_bytes", "Bytes of log files that are not yet read, or not yet complete."),
    ("waiting_files", "waiting_files", "Log files that were found and are not yet read to their ends."),
    ("waiting_bytes", "waiting_bytes", "Bytes of those that are not yet read."),
    (
        "waiting_seconds",
        "waiting_s",
        "How long reading those takes at the present rate; none while it is unknown.",
    ),
    ("quarantined_bytes", "quarantined_bytes", "Bytes given up as damaged."),
    ("shards", "shards", "Shards that the base dir is divided into."),
    ("led_shards", "led_shards", "Shards of it whose lease an ingester holds."),
)
"""(name, column of v_base_dir, meaning)."""
_COUNTERS = (
    ("ingested_bytes", "bytes_read", "Bytes of log files that were read."),
    ("ingested_events", "events", "Events that were ingested."),
    ("ingested_samples", "samples", "Samples that were ingested."),
)
"""(name, column of ingest_total, meaning)."""
_SUMMARIES = (
    ("cycle_duration_seconds", "cycles", "What a pass over a base dir took, of those that left a record."),
    ("batch_duration_seconds", "batches", "What writing a batch took."),
)
"""(name, column of ingest_total, meaning); the column with the suffix `_s` has the seconds."""


def metric_families(measures: Measures) -> Iterator[Metric]:
    """Yield all metrics of a store."""
    rows = measures.base_dirs
    yield GaugeMetricFamily(f"{PREFIX}database_up", "Whether the database answers.", measures.is_up)
    findings = Counter((each.subject, each.kind, each.severity) for each in measures.findings)
    meaning = "What is wrong, as `lineage-store status --check` reports it."
    yield _gauge("findings", meaning, ["subject", "kind", "severity"], findings.items())
    for name, item, meaning in _GAUGES:
        yield _gauge(name, meaning, _BASE_DIR, (([row["base_dir"]], row[item]) for row in rows))
    jobs = (([row["base_dir"], state], row[f"{state}_jobs"]) for row in rows for state in JobState)
    yield _gauge("jobs", "Jobs by state.", [*_BASE_DIR, "state"], jobs)
    leaders = (([row["base_dir"], row["leader"] or ""], row["leader"] is not None) for row in rows)
    meaning = "Whether an ingester holds the lease of the base dir, and which."
    yield _gauge("leader", meaning, [*_BASE_DIR, "holder"], leaders)
    problems = (([base_dir, kind], count) for base_dir, kind, count in measures.problems)
    yield _gauge("problems", "Open problems of log files by kind.", [*_BASE_DIR, "kind"], problems)
    for name, item, meaning in _COUNTERS:
        counter = CounterMetricFamily(f"{PREFIX}{name}", meaning, labels=_BASE_DIR)
        for row in measures.totals:
            counter.add_metric([row["path"]], row[item])
        yield counter
    for name, item, meaning in _SUMMARIES:
        summary = SummaryMetricFamily(f"{PREFIX}{name}", meaning, labels=_BASE_DIR)
        for row in measures.totals:
            summary.add_metric([row["path"]], row[item], row[f"{item}_s"])
        yield summary
    for name, meaning, value in _of_servers(measures):
        if value is not None:
            yield GaugeMetricFamily(f"{PREFIX}{name}", meaning, value)


class StoreCollector(Collector):
    """Measures when it is scraped; shortly after that, it returns the same metrics again."""

    def __init__(self, measure: Callable[[], Measures]) -> None:
        self._measure, self._measuring = measure, threading.Lock()
        self._families, self._valid_until = list[Metric](), float("-inf")

    def collect(self) -> Iterable[Metric]:
        """Return the metric families, as the registry asks."""
        if not self._measuring.acquire(timeout=LONGEST_WAIT_S):
            return list(metric_families(Measures(is_up=False)))
        try:
            began = time.monotonic()
            if began >= self._valid_until:
                self._families = list(metric_families(self._measure()))
                ended = time.monotonic()
                self._valid_until = ended + (ended - began) * (1 / SHARE - 1)
            return self._families
        finally:
            self._measuring.release()


def _gauge(
    name: str, meaning: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float | None]]
) -> Metric:
    gauge = GaugeMetricFamily(f"{PREFIX}{name}", meaning, labels=labels)
    for of_labels, value in values:
        if value is not None:
            gauge.add_metric(of_labels, value)
    return gauge


def _of_servers(measures: Measures) -> Iterator[tuple[str, str, float | None]]:
    """Yield (name, meaning, value or None) of what is measured of the database and its standby, not of base dirs."""
    yield "store_bytes", "Size of the store.", measures.store_bytes
    if (disk := measures.disk) is not None:
        yield "disk_bytes", "Where a SQLite store lies: size.", disk.size_bytes
        yield "disk_free_bytes", "Where a SQLite store lies: free.", disk.free_bytes
    if (standby := measures.standby) is not None:
        yield "standby_up", "Whether the standby answers.", standby.is_up
        meaning = "Since the last commit that the standby shows; 0 where it shows all."
        yield "standby_lag_seconds", meaning, standby.lag_s
        meaning = "Write-ahead log that the standby has not replayed."
        yield "standby_lag_bytes", meaning, standby.lag_bytes


# ---- Serve the metrics of a process at a port of its own, for this host only
# In: a function that measures. Out: `GET /metrics` while a block runs. Promises: listens on the loopback address
# only; requests under another host name, such as a web page's by DNS rebinding, are refused.


HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")


class _Quiet(WSGIRequestHandler):
    timeout = 10.0
    """Seconds after which a silent client is disconnected."""

    def log_message(self, *_: object) -> None:
        """Log nothing for a scrape."""


@contextmanager
def exposed(port: int, measure: Callable[[], Measures]) -> Iterator[int]:
    """Answer scrapes while the block runs, and yield the port; port 0 takes any free one. Raises ConfigError."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(measure))
    ProcessCollector(registry=registry)
    try:
        server = make_server(HOST, port, _for_this_host(make_wsgi_app(registry)), ThreadingWSGIServer, _Quiet)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"Metrics cannot be served on port {port} of {HOST}: {error}.",
            hint="Choose another one with --metrics-port or the setting metrics_port.",
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _for_this_host(app: Any) -> Callable[..., Iterable[bytes]]:
    def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if str(environment.get("HTTP_HOST", "")).partition(":")[0] not in _NAMES:
            start("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"This server is not called so.\n"]
        answered: Iterable[bytes] = app(environment, start)
        return answered

    return answer
