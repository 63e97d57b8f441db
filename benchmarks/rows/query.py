"""Questions to a store of very many jobs, against SQL written by hand for just this question and these tables.

Two fields and a metric are filtered, and the jobs ordered by the metric: `unselective` matches a quarter of the jobs,
`selective-field` one in 20,000 by a field, `selective-metric` one in 4,000 by the metric. The best of two ways to write
the SQL is the baseline, with a cursor of the driver; ours starts from the dict and ends with the dict that is answered.
The first page alone is what `filter_lineage` does without its count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from benchmarks.databases import Database
from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate, timed
from benchmarks.stored import store_of
from lineage_store import LineageStore, texts
from lineage_store.query.condition import parse
from lineage_store.query.lineage import rows_of_page
from lineage_store.query.narrowing import few_by
from lineage_store.query.results import to_answer
from lineage_store.store.engine import reading

Condition = dict[str, Any]
_FILTER: Condition = {
    "epoch": {"ge": 10},
    "optimizer": {"in": ["Adam", "SGD"]},
    "metric/Accuracy": {"gt": 0.5},
}
_ORDER: Condition = {"sorted_name": "metric/Accuracy", "sorted_type": "descending", "limit": 20, "offset": 0}
CONDITIONS: dict[str, tuple[Condition, str]] = {
    "unselective": (_FILTER | _ORDER, "m.value > 0.5"),
    "selective-field": (
        _FILTER | _ORDER | {"network": {"eq": "RareNet"}},
        "m.value > 0.5 AND l.network = 'RareNet'",
    ),
    "selective-metric": (_FILTER | _ORDER | {"metric/Accuracy": {"gt": 0.9995}}, "m.value > 0.9995"),
}
_FIELDS = "l.epoch >= 10 AND l.optimizer IN ('Adam', 'SGD')"
_SHOWN = "j.train_id, l.model_lineage, g.content, a.tag, a.remark"
# SQLite keeps to the order of a CROSS JOIN; PostgreSQL finds its own.
_BY_VALUE = "metric m CROSS JOIN lineage l CROSS JOIN train_job j"
_BY_JOB = "lineage l CROSS JOIN metric m CROSS JOIN train_job j"
_BY_NARROW_JOB = _BY_JOB.replace("lineage l", "lineage l INDEXED BY ix_lineage_fields")


def first_page(store: LineageStore, condition: Condition) -> dict[str, Any]:
    wanted = parse(condition)
    with reading(store.engine) as connection:
        rows = rows_of_page(connection, wanted, None, few_by(connection, wanted.where))
        return to_answer(rows, len(rows), wanted, {})


def page_and_count(store: LineageStore, condition: Condition) -> dict[str, Any]:
    return store.filter_lineage(condition)


def _page_sql(joined: str, matches: str) -> str:
    return (
        f"SELECT {_SHOWN} FROM {joined} LEFT JOIN dataset_graph g ON g.id = l.dataset_graph_id"
        " LEFT JOIN annotation a ON a.base_dir_id = j.base_dir_id AND a.train_id = j.train_id"
        f" WHERE {_joined(matches)} ORDER BY m.value DESC LIMIT 20"
    )


def _count_sql(joined: str, matches: str) -> str:
    return f"SELECT count(*) FROM {joined} WHERE {_joined(matches)}"


def _joined(matches: str) -> str:
    key = texts.key("Accuracy")
    joins = f"m.job_id = l.job_id AND j.id = l.job_id AND j.base_dir_id = 1 AND m.name_key = {key}"
    return f"{joins} AND {_FIELDS} AND {matches}"


def _measure_page(database: Database, kind: str, many: bool, sizes: Sizes) -> Samples:
    store, (condition, matches) = _store(database, many, sizes), CONDITIONS[kind]
    with closing(store.engine.raw_connection()) as connection:
        hand = _best(connection.cursor(), [_page_sql(way, matches) for way in (_BY_VALUE, _BY_JOB)])
        ours = [each["summary_dir"] for each in first_page(store, condition)["object"]]
        assert ours == [row[0] for row in hand()], "the two ways do not answer the same"
        return _alternate(partial(first_page, store, condition), hand, sizes)


def _measure_count(database: Database, many: bool, sizes: Sizes) -> Samples:
    store, (condition, matches) = _store(database, many, sizes), CONDITIONS["unselective"]
    with closing(store.engine.raw_connection()) as connection:
        ways = [_BY_JOB] if database == "postgresql" else [_BY_JOB, _BY_NARROW_JOB]
        hand = _best(connection.cursor(), [_count_sql(way, matches) for way in ways])
        count = page_and_count(store, condition)["count"]
        assert count == hand()[0][0], "the two ways do not count the same"
        samples = _alternate(partial(page_and_count, store, condition), hand, sizes)
        return Samples(samples.ours, samples.baseline, f"{count:,} match")


def _store(database: Database, many: bool, sizes: Sizes) -> LineageStore:
    return store_of(database, sizes.many_stored_jobs if many else sizes.stored_jobs)


def _best(cursor: Any, statements: Sequence[str]) -> Callable[[], list[Any]]:
    """The fastest of the ways; a connection of the driver, warm."""

    def run(statement: str) -> list[Any]:
        cursor.execute(statement)
        rows: list[Any] = cursor.fetchall()
        return rows

    seconds = {statement: min(timed(partial(run, statement))() for _ in range(3)) for statement in statements}
    return partial(run, min(statements, key=seconds.__getitem__))


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
            Bound(2.0, extra_s=0.001, most_s=0.010),
            Bound(1.3, extra_s=0.0005),
            group=group,  # type: ignore[arg-type]
        )
        for kind in CONDITIONS
    ]
    count = Row(
        f"count-{database}-{size}",
        f"page and count, unselective, {size} jobs, against one scan that counts",
        partial(_measure_count, database, many),
        Bound(1.2),
        Bound(0.3),
        group=group,  # type: ignore[arg-type]
    )
    return [*pages, count]


_DATABASES: tuple[Database, ...] = ("sqlite", "postgresql")
ROWS = [row for many in (False, True) for database in _DATABASES for row in _rows(database, many)]
