"""Queries on a store with very many jobs, against SQL written by hand for this question and these tables.

Two fields and a metric are filtered, and the jobs sorted by the metric: `unselective` matches a quarter of the jobs,
`selective-field` one in 20,000 by a field, `selective-metric` one in 4,000 by the metric. The baseline is the faster
of two hand-written statements, with a cursor of the driver and its default settings; ours goes from the condition's
dict to the answer's dict. No question is asked twice: the minimum of the metric differs a little each time, on both
sides, so that no plan is made for the exact values. The question names the store's only base dir, as MindInsight's
users do; hand-written SQL that counts need not filter by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any

import psycopg

from benchmarks.databases import Database, plain
from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate, timed
from benchmarks.stored import BASE_DIR, store_of
from lineage_store import LineageStore, filter_summary_lineage, texts

Condition = dict[str, Any]
_FILTER: Condition = {
    "epoch": {"ge": 10},
    "optimizer": {"in": ["Adam", "SGD"]},
    "metric/Accuracy": {"gt": 0.5},
}
_ORDER: Condition = {"sorted_name": "metric/Accuracy", "sorted_type": "descending", "limit": 20, "offset": 0}
CONDITIONS: dict[str, Condition] = {
    "unselective": _FILTER | _ORDER,
    "selective-field": _FILTER | _ORDER | {"network": {"eq": "RareNet"}},
    "selective-metric": _FILTER | _ORDER | {"metric/Accuracy": {"gt": 0.9995}},
}
_MATCHES = {"selective-field": " AND l.network = 'RareNet'"}
_VALUE: dict[Database, str] = {"sqlite": "?", "postgresql": "%s"}
_FIELDS = "l.epoch >= 10 AND l.optimizer IN ('Adam', 'SGD')"
_SHOWN = "j.train_id, l.model_lineage, g.content, a.tag, a.remark"
# SQLite keeps the order of a CROSS JOIN; PostgreSQL chooses its own.
_BY_VALUE = "metric m CROSS JOIN lineage l CROSS JOIN train_job j"
_BY_JOB = "lineage l CROSS JOIN metric m CROSS JOIN train_job j"
_COUNTED = "lineage l CROSS JOIN metric m"
_WARM_AFTER = 12
"""Runs until psycopg has prepared a statement (five) and PostgreSQL has chosen a generic or custom plan (five more)."""
_COUNTED_NARROW = _COUNTED.replace("lineage l", "lineage l INDEXED BY ix_lineage_fields")


def first_page(store: LineageStore, condition: Condition) -> dict[str, Any]:
    return filter_summary_lineage(BASE_DIR, condition, store=store, refresh=False, count=False)


def page_and_count(store: LineageStore, condition: Condition) -> dict[str, Any]:
    return filter_summary_lineage(BASE_DIR, condition, store=store, refresh=False)


def asked_anew(condition: Condition) -> Iterator[Condition]:
    """Yield the question again and again, with a slightly greater minimum of the metric each time."""
    (least,) = condition["metric/Accuracy"].values()
    for number in count():
        yield condition | {"metric/Accuracy": {"gt": least + number * 1e-12}}


def _page_sql(joined: str, matches: str) -> str:
    return (
        f"SELECT {_SHOWN} FROM {joined} LEFT JOIN dataset_graph g ON g.id = l.dataset_graph_id"
        " LEFT JOIN annotation a ON a.base_dir_id = j.base_dir_id AND a.train_id = j.train_id"
        f" WHERE j.id = l.job_id AND j.base_dir_id = 1 AND {matches} ORDER BY m.value DESC LIMIT 20"
    )


def _count_sql(joined: str, matches: str) -> str:
    return f"SELECT count(*) FROM {joined} WHERE {matches}"


def _matches(kind: str, database: Database) -> str:
    joins = f"m.job_id = l.job_id AND m.name_key = {texts.key('Accuracy')}"
    return f"{joins} AND {_FIELDS} AND m.value > {_VALUE[database]}{_MATCHES.get(kind, '')}"


def _measure_page(database: Database, kind: str, many: bool, sizes: Sizes) -> Samples:
    store, matches = _store(database, many, sizes), _matches(kind, database)
    statements = [_page_sql(way, matches) for way in (_BY_VALUE, _BY_JOB)]
    with closing(_driver(store, database)) as connection:
        hand = _best(connection.cursor(), statements, CONDITIONS[kind])
        ours = _each(partial(first_page, store), CONDITIONS[kind])
        assert [each["summary_dir"] for each in ours()["object"]] == [row[0] for row in hand()], (
            "answers differ"
        )
        return _alternate(ours, hand, sizes)


def _measure_count(database: Database, many: bool, sizes: Sizes) -> Samples:
    store, condition = _store(database, many, sizes), CONDITIONS["unselective"]
    ways = [_COUNTED] if database == "postgresql" else [_COUNTED, _COUNTED_NARROW]
    statements = [_count_sql(way, _matches("unselective", database)) for way in ways]
    with closing(_driver(store, database)) as connection:
        hand = _best(connection.cursor(), statements, condition)
        ours = _each(partial(page_and_count, store), condition)
        found = ours()["count"]
        assert found == hand()[0][0], "the two ways do not count the same"
        samples = _alternate(ours, hand, sizes)
        return Samples(samples.ours, samples.baseline, f"{found:,} match")


def _each(ask: Callable[[Condition], Any], condition: Condition) -> Callable[[], Any]:
    questions = asked_anew(condition)
    return lambda: ask(next(questions))


def _driver(store: LineageStore, database: Database) -> Any:
    """Return a connection of the plain driver."""
    if database == "sqlite":
        return store.engine.raw_connection()
    return psycopg.connect(plain(store.engine.url))


def _store(database: Database, many: bool, sizes: Sizes) -> LineageStore:
    return store_of(database, sizes.many_stored_jobs if many else sizes.stored_jobs)


def _best(cursor: Any, statements: Sequence[str], condition: Condition) -> Callable[[], list[Any]]:
    """Warm up all statements; return a function that runs the fastest one."""

    def run(statement: str, asked: Condition) -> list[Any]:
        cursor.execute(statement, list(asked["metric/Accuracy"].values()))
        rows: list[Any] = cursor.fetchall()
        return rows

    ways = [_each(partial(run, statement), condition) for statement in statements]
    timed_ways = [[timed(way)() for _ in range(_WARM_AFTER + 3)][_WARM_AFTER:] for way in ways]
    return min(zip(map(min, timed_ways), ways, strict=True), key=itemgetter(0))[1]


def _alternate(ours: Callable[[], Any], hand: Callable[[], Any], sizes: Sizes) -> Samples:
    times = max(1, min(50, int(0.2 / timed(ours)())))
    return alternate(timed(ours, times), timed(hand, times), 2 * sizes.repetitions + 1)


def _rows(database: Database, many: bool) -> list[Row]:
    size, group = ("1m", "long") if many else ("100k", "default")
    pages = [
        Row(
            f"page-{kind}-{database}-{size}",
            f"first page, {kind}, {size} jobs, against the best SQL by hand",
            partial(_measure_page, database, kind, many),
            Bound(most_s=0.010),
            group=group,  # type: ignore[arg-type]
        )
        for kind in CONDITIONS
    ]
    counted = Row(
        f"count-{database}-{size}",
        f"page and count, unselective, {size} jobs, against one scan that counts",
        partial(_measure_count, database, many),
        Bound(1.2),
        Bound(0.3),
        group=group,  # type: ignore[arg-type]
    )
    return [*pages, counted]


_DATABASES: tuple[Database, ...] = ("sqlite", "postgresql")
ROWS = [row for many in (False, True) for database in _DATABASES for row in _rows(database, many)]
