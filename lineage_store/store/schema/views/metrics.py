"""Views of metrics: of every evaluation, of the last one of each job, the extremes of each network.

Rows come from current log files only.
"""

from __future__ import annotations

from lineage_store.store.schema.views.model import (
    JOB,
    VALUE_KIND,
    View,
    bigint,
    boolean,
    double,
    instant,
    integer,
    join_job,
    text,
)

_RESULT = (
    *JOB,
    text("name", "m.name", "metric name"),
    double("value", "m.value", "number, infinity, or 1 and 0 for a bool; else NULL"),
    text("kind", "m.kind", VALUE_KIND),
    text("text", "m.text", "text, or canonical JSON of a list or object; else NULL"),
)

V_METRIC = View(
    "v_metric",
    "a row per metric of every evaluation; is_latest marks those of the job's lineage",
    (
        *_RESULT,
        instant("evaluated_at", "{instant:e.wall_time}", "when the evaluation was written"),
        bigint(
            "evaluation_no",
            "e.evaluation_no + l.evaluations_before",
            "number of the evaluation within the job, from 1, in the order of log files",
        ),
        boolean(
            "is_latest",
            """(
    m.byte_offset = l.eval_at AND e.evaluation_no = l.evaluations AND l.has_last_evaluation AND EXISTS (
      SELECT 1 FROM metric binding WHERE binding.job_id = m.job_id AND binding.name_key = m.name_key)
  )""",
            "whether it is the job's last evaluation, not outdated by a later training",
        ),
        bigint(
            "epoch", "e.epoch", "epoch of the training at the evaluation; NULL where the log file has none"
        ),
        bigint("step", "e.step", "step of the training at the evaluation; NULL where the log file has none"),
    ),
    f"""
FROM evaluation_metric m
JOIN lineage_event e
  ON e.job_id = m.job_id AND e.file_no = m.file_no AND e.byte_offset = m.byte_offset AND e.value_index = m.value_index
JOIN file_lineage l ON l.job_id = m.job_id AND l.file_no = m.file_no
JOIN log_file f ON f.job_id = m.job_id AND f.file_no = m.file_no AND f.current
{join_job("m")}
""",
)

V_METRIC_LATEST = View(
    "v_metric_latest",
    "a row per metric of a job's last evaluation: what is_latest marks in v_metric, found at once",
    (
        *_RESULT,
        double("first_value", "s.value", "number of the job's first evaluation that has the metric"),
        double(
            "best_value", "h.value", "best finite number of all its evaluations; less_is_better says which is"
        ),
        integer(
            "best_evaluation_no", "h.evaluation_no", "the first evaluation that has the best, as in v_metric"
        ),
    ),
    f"""
FROM metric m
LEFT JOIN metric_summary s ON s.job_id = m.job_id AND s.name_key = (m.name_key | 1)
LEFT JOIN metric_summary h ON h.job_id = m.job_id AND h.name_key = (m.name_key & -2)
{join_job("m")}
""",
)

V_METRIC_BEST = View(
    "v_metric_best",
    "the greatest and the least value of each metric per network; which of them is best is for the reader to say",
    (
        text("base_dir", "r.base_dir", "base dir of the jobs"),
        text("network", "r.network", "class name of the network; NULL when unknown"),
        text("name", "r.name", "metric name"),
        double("greatest_value", "max(r.value)", "greatest finite value among the jobs' latest evaluations"),
        text(
            "greatest_train_id",
            "max(CASE WHEN r.down = 1 THEN r.train_id END)",
            "job that has it; the first by id",
        ),
        double("least_value", "min(r.value)", "least finite value among the jobs' latest evaluations"),
        text(
            "least_train_id",
            "max(CASE WHEN r.up = 1 THEN r.train_id END)",
            "job that has it; the first by id",
        ),
    ),
    """
FROM (
  SELECT b.path AS base_dir, l.network, m.name, m.value, j.train_id,
         row_number() OVER (PARTITION BY b.id, l.network, m.name ORDER BY m.value DESC, j.train_id) AS down,
         row_number() OVER (PARTITION BY b.id, l.network, m.name ORDER BY m.value, j.train_id) AS up
  FROM metric m
  JOIN train_job j ON j.id = m.job_id
  JOIN base_dir b ON b.id = j.base_dir_id AND NOT b.leaving
  LEFT JOIN lineage l ON l.job_id = m.job_id
  WHERE m.kind IN ('int', 'float')
) r
GROUP BY r.base_dir, r.network, r.name
""",
)

METRIC_VIEWS = (V_METRIC, V_METRIC_LATEST, V_METRIC_BEST)
