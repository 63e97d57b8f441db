"""The questions of docs/cookbook.md to a store with very many samples, as an analyst asks them.

Each is asked once, with warm caches; the slowest counts. The other rows compare the questions that views could make
slow with the best hand-written SQL on the tables; the worst ratio counts. PostgreSQL has the limits of `db grant
--analyst`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.analysed import store_of
from benchmarks.databases import Database
from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate, timed
from lineage_store.store.database.sql import Session

_PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
_SECTION = re.compile(r"^## (\d+)\. .*?^```sql\n(.*?);\n```", re.MULTILINE | re.DOTALL)
_CURRENT = "JOIN log_file f ON f.job_id = r.job_id AND f.file_no = r.file_no AND f.current"
_JOB = "JOIN train_job j ON j.id = {}.job_id AND j.base_dir_id NOT IN (SELECT id FROM base_dir WHERE leaving)"
_OF_LOSS = "r.plugin = 'scalar' AND r.tag = 'loss/auto'"
_OF_ACCURACY = "r.plugin = 'scalar' AND r.tag = 'accuracy'"
BY_HAND = {
    "1": f"""
WITH best AS (
  SELECT r.job_id, r.max_value AS value, r.max_step AS step FROM series r {_CURRENT}
  WHERE {_OF_ACCURACY} AND r.superseded_from IS NULL AND r.max_value IS NOT NULL
  UNION ALL
  SELECT r.job_id, s.value, s.step FROM series r {_CURRENT} JOIN scalar_sample s
    ON s.job_id = r.job_id AND s.series_no = r.series_no AND s.step < r.superseded_from AND s.value <= r.max_value
  WHERE {_OF_ACCURACY} AND r.superseded_from IS NOT NULL
)
SELECT network, value, step, train_id FROM (
  SELECT l.network, b.value, b.step, j.train_id,
         row_number() OVER (PARTITION BY l.network ORDER BY b.value DESC, b.step, j.train_id) AS place
  FROM best b {_JOB.format("b")} LEFT JOIN lineage l ON l.job_id = j.id
) ranked WHERE place = 1 ORDER BY network""",
    "2": f"""
SELECT l.optimizer, l.learning_rate, count(*), avg(m.value), max(m.value)
FROM metric m {_JOB.format("m")} LEFT JOIN lineage l ON l.job_id = m.job_id
WHERE m.name = 'accuracy' AND m.kind IN ('int', 'float')
GROUP BY l.optimizer, l.learning_rate ORDER BY l.optimizer, l.learning_rate""",
    "3": f"""
SELECT j.train_id, min(s.step) FROM series r {_CURRENT} {_JOB.format("r")} JOIN scalar_sample s
  ON s.job_id = r.job_id AND s.series_no = r.series_no
WHERE {_OF_LOSS} AND r.nan_count > 0 AND s.value IS NULL AND s.step < coalesce(r.superseded_from, s.step + 1)
GROUP BY j.id, j.train_id ORDER BY j.train_id""",
    "10": f"""
SELECT l.network, avg((r.last_step - r.first_step) / (r.last_wall_time - r.first_wall_time))
FROM series r {_CURRENT} {_JOB.format("r")} LEFT JOIN lineage l ON l.job_id = r.job_id
WHERE {_OF_LOSS} AND r.last_wall_time >= 1756684800 AND r.last_wall_time < 1757894400
GROUP BY l.network ORDER BY l.network""",
    "12": f"""
SELECT u.text, j.first_file_time / 2592000, sum((j.last_wall_time - j.first_file_time) * coalesce(l.device_num, 1))
FROM user_info u {_JOB.format("u")} LEFT JOIN lineage l ON l.job_id = j.id
WHERE u.name = 'team' GROUP BY u.text, j.first_file_time / 2592000 ORDER BY 2, 1""",
    "13": f"""
SELECT l.network, l.optimizer, l.learning_rate, l.epoch, l.batch_size, count(*), max(m.value) - min(m.value)
FROM metric m {_JOB.format("m")} LEFT JOIN lineage l ON l.job_id = m.job_id
WHERE m.name = 'accuracy' AND m.kind IN ('int', 'float')
GROUP BY l.network, l.optimizer, l.learning_rate, l.epoch, l.batch_size HAVING count(*) > 1 ORDER BY 7 DESC, 1""",
    "14": f"""
SELECT j.train_id, f.step, f.wall_time - j.first_file_time FROM train_job j
LEFT JOIN (
  SELECT r.job_id, min(s.step) AS step, min(s.wall_time) AS wall_time
  FROM series r {_CURRENT} JOIN scalar_sample s ON s.job_id = r.job_id AND s.series_no = r.series_no
  WHERE {_OF_LOSS} AND r.min_value < 0.1 AND s.value < 0.1 AND s.step < coalesce(r.superseded_from, s.step + 1)
  GROUP BY r.job_id
) f ON f.job_id = j.id
WHERE j.base_dir_id NOT IN (SELECT id FROM base_dir WHERE leaving)
ORDER BY f.wall_time IS NULL, 3, j.train_id""",
}


def _slowest(database: Database, many: bool, sizes: Sizes) -> Samples:
    with _asking(database, many, sizes) as ask:
        ask(_QUESTIONS["16"])  # reads all series, so that they are in memory
        took = {number: timed(partial(ask, question))() for number, question in _QUESTIONS.items()}
    return Samples((max(took.values()),), note=", ".join(f"{n}: {s:.2g} s" for n, s in took.items()))


def _worst(database: Database, many: bool, sizes: Sizes) -> Samples:
    found: dict[str, Samples] = {}
    with _asking(database, many, sizes) as ask:
        for number, by_hand in BY_HAND.items():
            ours, hand = (timed(partial(ask, sql)) for sql in (_QUESTIONS[number], by_hand))
            found[number] = alternate(ours, hand, min(3, sizes.repetitions))
    ratio = {number: min(samples.figures("ratio")) for number, samples in found.items()}
    worst = max(ratio, key=lambda number: ratio[number])
    note = ", ".join(f"{number}: {times:.2g} x" for number, times in ratio.items())
    return Samples(found[worst].ours, found[worst].baseline, f"question {worst}; {note}")


@contextmanager
def _asking(database: Database, many: bool, sizes: Sizes) -> Iterator[Callable[[str], object]]:
    steps = sizes.many_analysed_steps if many else sizes.analysed_steps
    store = store_of(database, sizes.many_stored_jobs if many else sizes.analysed_jobs, steps)
    with store.engine.connect() as connection:
        if database == "postgresql":
            for limit in ("join_collapse_limit", "from_collapse_limit"):
                connection.exec_driver_sql(f"SET {limit} = 16")
            connection.exec_driver_sql("SET enable_mergejoin = on")
        yield partial(_rows, Session(connection))


def _rows(session: Session, query: str) -> list[Any]:
    return list(session.rows(query))


_QUESTIONS = dict(_SECTION.findall(_PAGE.read_text("utf-8")))


def _of(database: Database, many: bool) -> list[Row]:
    size, group = ("1m", "long") if many else ("20k", "default")
    told = "1m jobs, 100m samples" if many else "20k jobs, 10m samples"
    return [
        Row(
            f"cookbook-{database}-{size}",
            f"the slowest question of the cookbook, {told}",
            partial(_slowest, database, many),
            Bound(10.0 if many else 1.0),
            shown="figure",
            unit="s",
            group=group,  # type: ignore[arg-type]
        ),
        Row(
            f"cookbook-by-hand-{database}-{size}",
            f"the question of the cookbook that is worst against SQL by hand, {told}",
            partial(_worst, database, many),
            Bound(3.0),
            group=group,  # type: ignore[arg-type]
        ),
    ]


_DATABASES: tuple[Database, ...] = ("sqlite", "postgresql")
ROWS = [row for many in (False, True) for database in _DATABASES for row in _of(database, many)]
