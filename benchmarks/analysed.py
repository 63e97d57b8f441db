"""Stores with very many samples and no log files, for questions in SQL; generated inside the database, then ANALYZE.

In: a database, a number of jobs and of steps. Out: an open store. Each job has a log file of three scalars, recorded
at every step (200 at most), a minute apart, and ends a minute after the previous job. It has lineage, an evaluation,
an owner, a team, one of eight pipelines. One job in fifty was restarted, one loss in a hundred begins with NaN, one
job in a thousand trained on two devices. Promises: the same numbers give the same rows. Stores exist until the
benchmark ends.
"""

from __future__ import annotations

from functools import cache

from sqlalchemy import text

from benchmarks.databases import LIFETIME, Database, fresh, gather_statistics
from lineage_store import LineageStore, texts

BEGAN = 1_756_684_800
"""1 September 2025, UTC: some questions of the cookbook are about the days after it."""
TAGS = ("accuracy", "loss/auto", "learning_rate")

_STATEMENTS = """
INSERT INTO base_dir (id, path, path_key, created_at) VALUES (1, '/logs', 1, '2025-09-01T00:00:00.000000Z');

INSERT INTO train_job
  (id, base_dir_id, train_id, state, source_present, update_time, first_file_time, last_file_time, last_wall_time,
   last_grown_at, log_bytes, created_at)
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :jobs)
SELECT n, 1, './run_' || n, CASE WHEN n % 1000 = 7 THEN 'stalled' ELSE 'finished' END, true, :began + 60 * n,
       :began + 60 * n - 60 * :steps, :began + 60 * n - 60 * :steps, :began + 60 * n,
       '2025-09-01T00:00:00.000000Z', 1000, '2025-09-01T00:00:00.000000Z'
FROM number;

INSERT INTO dataset_graph (id, digest, mark, content)
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 8)
SELECT n, 'digest ' || n, 'mark ' || n, '{{}}' FROM number;

INSERT INTO dataset_node (dataset_graph_id, item_no, node, op_type, parameter, value)
SELECT id, 0, 0, 'Batch', 'batch_size', CAST(id AS text) FROM dataset_graph;

INSERT INTO lineage
  (job_id, dataset_mark, dataset_graph_id, model_lineage, network, optimizer, learning_rate, epoch, batch_size,
   device_num, train_dataset_path)
SELECT id, 'mark ' || (id % 8 + 1), id % 8 + 1, '{{}}', 'network ' || (id % 8), 'optimizer ' || (id % 4),
       0.001 * (id % 10), id % 40, 32, 8, '/data/' || (id % 100)
FROM train_job;

INSERT INTO metric (job_id, name_key, position, name, kind, value)
SELECT id, :accuracy, 0, 'accuracy', 'float', (CAST(id AS bigint) * 7919 % 10007) / 10007.0 FROM train_job;

INSERT INTO user_info (job_id, name_key, position, name, kind, text)
SELECT id, :team, 0, 'team', 'text', 'team ' || (id % 50) FROM train_job
UNION ALL SELECT id, :owner, 1, 'owner', 'text', 'owner ' || (id % 500) FROM train_job;

INSERT INTO log_file
  (job_id, file_no, name, format, generation, current, kind, file_time, device, state, size_bytes, byte_offset,
   quarantined_bytes, event_count, modified_s, closed, fingerprint_bytes, anchor_bytes, failed_reads, created_at)
SELECT id, n, 'events.' || n || CASE kind WHEN 'summary' THEN '_MS' ELSE '_lineage' END, 'mindspore', 1, true, kind,
       first_file_time + n, CASE WHEN id % 1000 = 0 THEN n % 2 ELSE 0 END, 'closed', 500, 500, 0, 1, update_time, true,
       0, 0, 0, created_at
FROM train_job
JOIN (SELECT 1 AS n, 'summary' AS kind UNION ALL SELECT 2, 'lineage' UNION ALL SELECT 3, 'summary') files
  ON n < 3 OR id % 50 = 0;

INSERT INTO lineage_event (job_id, file_no, byte_offset, value_index, kind, wall_time, content, evaluation_no)
SELECT id, 2, 0, 0, 'eval', last_wall_time, '{{}}', 1 FROM train_job;

INSERT INTO file_lineage (job_id, file_no, events, evaluations, user_values, content_bytes, eval_at, user_info)
SELECT id, 2, 1, 1, 2, 2, 0, '{{}}' FROM train_job;

INSERT INTO evaluation_metric (job_id, file_no, byte_offset, value_index, name_key, position, name, kind, value)
SELECT job_id, 2, 0, 0, name_key, position, name, kind, value FROM metric;

INSERT INTO series
  (job_id, series_no, file_no, plugin, tag_key, tag, device, sample_count, first_step, first_wall_time, first_value,
   last_step, last_wall_time, last_value, earliest_wall_time, latest_wall_time, min_value, min_step, max_value,
   max_step, nan_count, inf_count, superseded_from, superseded_count)
SELECT f.job_id, 3 * (f.file_no / 2) + t.n, f.file_no, 'scalar', t.tag_key, t.tag, f.device, :steps, 1,
       j.first_file_time + 60, (f.job_id % 1800 + 1) / 2000.0, :steps, j.last_wall_time,
       (f.job_id % 1800 + :steps) / 2000.0, j.first_file_time + 60, j.last_wall_time,
       (f.job_id % 1800 + 2) / 2000.0, 2, (f.job_id % 1800 + :steps) / 2000.0, :steps,
       CASE WHEN t.n = 1 AND f.job_id % 100 = 0 THEN 1 ELSE 0 END, 0,
       CASE WHEN f.file_no = 1 AND f.job_id % 50 = 0 AND f.job_id % 1000 <> 0 THEN 1 END,
       CASE WHEN f.file_no = 1 AND f.job_id % 50 = 0 AND f.job_id % 1000 <> 0 THEN :steps ELSE 0 END
FROM log_file f
JOIN train_job j ON j.id = f.job_id
CROSS JOIN (
  SELECT 0 AS n, 'accuracy' AS tag, :accuracy AS tag_key
  UNION ALL SELECT 1, 'loss/auto', :loss UNION ALL SELECT 2, 'learning_rate', :rate
) t
WHERE f.kind = 'summary';

INSERT INTO scalar_sample (job_id, series_no, step, wall_time, value)
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :steps)
SELECT job_id, series_no, n, first_wall_time + 60.0 * (n - 1),
       CASE WHEN n > nan_count THEN (job_id % 1800 + n) / 2000.0 END
FROM series CROSS JOIN {number}
"""
_NUMBER = {"sqlite": "number", "postgresql": "LATERAL generate_series(1, :steps) AS each_of (n)"}
"""Rows are inserted series by series, as ingest does, because PostgreSQL's plans depend on their physical order."""


@cache
def store_of(database: Database, jobs: int, steps: int) -> LineageStore:
    """Return a store of `jobs` jobs with three scalars of `steps` steps each."""
    print(f"storing {jobs:,} jobs and {3 * jobs * steps:,} samples in {database} …", flush=True)
    store = LIFETIME.enter_context(LineageStore(LIFETIME.enter_context(fresh(database))))
    keys = zip(("accuracy", "loss", "rate"), map(texts.key, TAGS), strict=True)
    given = {"jobs": jobs, "steps": steps, "began": BEGAN, **dict(keys)}
    given |= {name: texts.key(name) for name in ("team", "owner")}
    with store.engine.begin() as connection:
        for statement in _STATEMENTS.format(number=_NUMBER[database]).split(";"):
            for name, number in given.items():
                statement = statement.replace(f":{name}", str(number))
            connection.execute(text(statement))
    gather_statistics(store.engine)
    return store
