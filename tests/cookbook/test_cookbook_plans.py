"""Query plans of the cookbook's questions in a store of many jobs below one base dir."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from helpers.cookbook import QUERIES
from helpers.stored_jobs import NOW, add_base_dir
from lineage_store.store.admin.planner_statistics import gather
from lineage_store.store.admin.roles import READING_LIMITS
from lineage_store.store.database.db import open_engine, reading, writing
from lineage_store.store.database.sql import Session

JOBS = 20_000
"""With fewer of them, SQLite finds good plans whatever it knows of base dirs."""
ALL_SAMPLES = {"sqlite": {"4"}, "postgresql": {"4", "5"}}
"""Questions that need them, for the series does not know what a histogram holds; and those of which PostgreSQL believes
that a third of the jobs trained on several devices, or were started again."""
BY_KEY = {
    "sqlite": "SEARCH s USING PRIMARY KEY (job_id=? AND series_no=?",
    "postgresql": "Index Scan using pk_scalar_sample on scalar_sample s",
}
_INSERTS = """
INSERT INTO train_job
  (id, base_dir_id, train_id, state, source_present, update_time, first_file_time, log_bytes, created_at)
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :jobs)
SELECT n, :base_dir, './run_' || n, 'finished', true, n, n, 1, :now FROM number;

INSERT INTO lineage (job_id, dataset_mark, model_lineage, network)
SELECT id, 'mark', '{}', 'network ' || (id % 8) FROM train_job;

INSERT INTO log_file
  (job_id, file_no, name, format, generation, current, kind, file_time, state, size_bytes, byte_offset,
   quarantined_bytes, event_count, modified_s, closed, fingerprint_bytes, anchor_bytes, failed_reads, created_at)
SELECT id, 1, 'events_MS', 'mindspore', 1, true, 'summary', id, 'closed', 1, 1, 0, 1, id, true, 0, 0, 0, created_at
FROM train_job;

INSERT INTO series
  (job_id, series_no, file_no, plugin, tag_key, tag, sample_count, first_step, last_step, nan_count, inf_count,
   earliest_wall_time, latest_wall_time, min_value, max_value)
SELECT id, n, 1, 'scalar', n, tag, 10, 1, 10,
       CASE WHEN tag = 'loss/auto' AND id % 100 = 0 THEN 1 ELSE 0 END, 0,
       1757000000 + id * 60, 1757000600 + id * 60, 0.001 * (id % 1000), 1.0
FROM train_job CROSS JOIN (
  SELECT 0 AS n, 'accuracy' AS tag UNION ALL SELECT 1, 'loss/auto' UNION ALL SELECT 2, 'learning_rate'
) tags;

INSERT INTO scalar_sample (job_id, series_no, step, wall_time, value)
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 10)
SELECT job_id, series_no, n, n,
       CASE WHEN n > nan_count THEN ((job_id * 3 + series_no) * 7919 + n * 104729) % 1000 / 1000.0 END
FROM series CROSS JOIN number
"""
"""Each job has a log file with three tags of ten steps; one loss in a hundred begins with NaN."""


@pytest.fixture(scope="module")
def engine(module_database_url: str) -> Iterator[Engine]:
    engine = open_engine(module_database_url)
    with writing(engine) as session:
        _fill(session)
    gather(engine)
    yield engine
    engine.dispose()


def _fill(session: Session) -> None:
    given = {"base_dir": add_base_dir(session), "now": NOW.isoformat(), "jobs": JOBS}
    for statement in _INSERTS.split(";"):
        used = {name: value for name, value in given.items() if f":{name}" in statement}
        session.change(text(statement), used)


@pytest.fixture(scope="module")
def plans(engine: Engine) -> dict[str, str]:
    """Of each question."""
    verb = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    with reading(engine) as session:
        if engine.dialect.name == "postgresql":
            for limit in ("join_collapse_limit", "from_collapse_limit"):
                session.change(f"SET LOCAL {limit} = {READING_LIMITS[limit]}")
        return {
            question: "\n".join(str(row[-1]) for row in session.rows(f"{verb} {query}"))
            for question, query in QUERIES.items()
        }


def test_no_question_reads_all_samples(engine: Engine, plans: dict[str, str]) -> None:
    for question in plans.keys() - ALL_SAMPLES[engine.dialect.name]:
        read = re.search(r"(?:Seq Scan on|SCAN) (?:scalar_sample|s)\b", plans[question])
        assert read is None, (question, plans[question])


def test_questions_about_some_samples_find_them_by_their_series(
    engine: Engine, plans: dict[str, str]
) -> None:
    for question in {"1", "3", "5", "6", "14", "17", "18"} - ALL_SAMPLES[engine.dialect.name]:
        assert BY_KEY[engine.dialect.name] in plans[question], (question, plans[question])


def test_no_question_goes_through_all_jobs_for_each_job(engine: Engine, plans: dict[str, str]) -> None:
    if engine.dialect.name == "postgresql":
        assert not re.search(r"Nested Loop Left Join.*\n.*Join Filter", plans["14"]), plans["14"]
        return
    for plan in (plans["1"], plans["3"]):
        assert set(re.findall(r"SCAN (\w+)", plan)) <= {"b", "ranked"}, plan
        assert "AUTOMATIC" not in plan, plan
