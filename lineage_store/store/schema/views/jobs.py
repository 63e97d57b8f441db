"""Views of jobs and their lineage. Only current log files count."""

from __future__ import annotations

from collections.abc import Iterator

from lineage_store.fields import BY_NAME, FLOAT_KINDS, VIEWED, FieldType, LineageField
from lineage_store.store.schema.views.model import (
    JOB,
    JOIN_BASE_DIR,
    VALUE_KIND,
    ColumnType,
    View,
    ViewColumn,
    bigint,
    boolean,
    double,
    instant,
    integer,
    join_job,
    text,
)

_TYPE: dict[FieldType, ColumnType] = {"text": "text", "integer": "bigint", "float": "double precision"}


def _columns(field: LineageField) -> Iterator[ViewColumn]:
    yield ViewColumn(_TYPE[field.type], f"{field.view_column}", f"l.{field.column}", field.meaning)
    if field.kind_column:
        yield text(field.kind_column, f"l.{field.kind_column}", FLOAT_KINDS)


# Most jobs have no superseded series, so the series of the others are not read.
_RESTARTS = """CASE WHEN EXISTS (
    SELECT 1 FROM series older WHERE older.job_id = j.id AND older.superseded_from <= older.last_step
  ) THEN coalesce((
    SELECT count(DISTINCT again.file_no)
    FROM (
      SELECT s.job_id, s.file_no, s.first_step, max(s.last_step) OVER (
               PARTITION BY s.job_id, s.plugin, s.tag_key, s.device ORDER BY f.file_time
               RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
             ) AS reached
      FROM series s JOIN log_file f ON f.job_id = s.job_id AND f.file_no = s.file_no
      WHERE s.job_id = j.id AND f.current
    ) again
    WHERE again.job_id = j.id AND again.first_step <= again.reached
    GROUP BY again.job_id
  ), 0) ELSE 0 END"""

_OPEN_PROBLEMS = """coalesce((
    SELECT sum(p.problems) FROM ingest_problem p WHERE p.job_id = j.id AND p.resolved_at IS NULL GROUP BY p.job_id
  ), 0)"""

V_JOB = View(
    "v_job",
    "a row per job: what was trained, when, and how its log files stand",
    (
        *JOB,
        *(column for field in VIEWED for column in _columns(field)),
        text(
            "state",
            "j.state",
            "reading (found, not all read yet), live (grew recently), stalled (unfinished and quiet), finished or "
            "missing",
        ),
        text(
            "outcome",
            "j.outcome",
            "completed, failed (it raised) or interrupted (closed without a training's end); NULL: live or unknown",
        ),
        instant("first_started_at", "{instant:j.first_file_time}", "when its first log file was begun"),
        instant("last_started_at", "{instant:j.last_file_time}", "when its last log file was begun"),
        instant("last_event_at", "{instant:j.last_wall_time}", "greatest wall time of its events"),
        instant("updated_at", "{instant:j.update_time}", "greatest modification time of its log files"),
        double(
            "duration_s", "j.last_wall_time - j.first_file_time", "from first_started_at to last_event_at"
        ),
        double("quiet_s", "{age_s:j.last_grown_at}", "since a log file of it was last seen to grow, now"),
        bigint(
            "restart_count",
            _RESTARTS,
            "log files that wrote steps again which an older file of the device holds",
        ),
        text("host", "j.host", BY_NAME["host"].meaning),
        bigint("log_bytes", "j.log_bytes", "bytes of its log files"),
        boolean("source_present", "j.source_present", "whether any log file of it is left on disk"),
        bigint("problem_count", _OPEN_PROBLEMS, "unresolved ingest problems"),
        integer("label", "a.tag", BY_NAME["tag"].meaning),
        text("remark", "a.remark", BY_NAME["remark"].meaning),
        bigint(
            "revision",
            "j.revision",
            "revision of its base dir when the job, or what is known of it, last changed",
        ),
    ),
    f"""
FROM train_job j
{JOIN_BASE_DIR}
LEFT JOIN lineage l ON l.job_id = j.id
LEFT JOIN annotation a ON a.base_dir_id = j.base_dir_id AND a.train_id = j.train_id
""",
)

V_DATASET = View(
    "v_dataset",
    "the data that a job trained on and was evaluated on",
    (
        *JOB,
        text("role", "r.role", "train or test"),
        text(
            "mark",
            "CASE r.role WHEN 'train' THEN l.dataset_mark END",
            "equal for equal pipelines; NULL for test",
        ),
        text(
            "path",
            "CASE r.role WHEN 'train' THEN l.train_dataset_path ELSE l.test_dataset_path END",
            "directory of the samples",
        ),
        bigint(
            "count",
            "CASE r.role WHEN 'train' THEN l.train_dataset_count ELSE l.test_dataset_count END",
            "number of samples",
        ),
        text(
            "graph",
            "CASE r.role WHEN 'train' THEN g.content END",
            "the pipeline as JSON, nested; NULL for test",
        ),
    ),
    f"""
FROM lineage l
CROSS JOIN (SELECT 'train' AS role UNION ALL SELECT 'test') r
LEFT JOIN dataset_graph g ON g.id = l.dataset_graph_id
{join_job("l")}
WHERE CASE r.role
  WHEN 'train' THEN coalesce(l.train_dataset_path, CAST(l.train_dataset_count AS text), g.mark)
  ELSE coalesce(l.test_dataset_path, CAST(l.test_dataset_count AS text))
END IS NOT NULL
""",
)

V_DATASET_NODE = View(
    "v_dataset_node",
    "a job's dataset pipeline, a row per parameter of each node",
    (
        *JOB,
        integer("node", "n.node", "node number, from 0 at the output, parents first"),
        integer("parent", "n.parent", "node that consumes its output; NULL at the output"),
        text("op_type", "n.op_type", "kind of the node, such as Batch or Map"),
        text(
            "operation", "n.operation", "data operation inside the node; NULL for the node's own parameters"
        ),
        integer("operation_no", "n.operation_no", "position of the operation inside the node, from 0"),
        text("parameter", "n.parameter", "parameter name; NULL when there is none"),
        text("value", "n.value", "parameter value as JSON"),
    ),
    f"""
FROM dataset_node n
JOIN lineage l ON l.dataset_graph_id = n.dataset_graph_id
{join_job("l")}
""",
)

V_USER_INFO = View(
    "v_user_info",
    "what the user recorded with a job, a row per key",
    (
        *JOB,
        text("key", "u.name", "the user's key"),
        double("value", "u.value", "number, infinity, or 1 and 0 for a bool; else NULL"),
        text("text", "u.text", "text, or canonical JSON of a list or object; else NULL"),
        text("kind", "u.kind", VALUE_KIND),
    ),
    f"FROM user_info u {join_job('u')}",
)

V_LINEAGE_EVENT = View(
    "v_lineage_event",
    "every lineage event as it was written, with its place",
    (
        *JOB,
        text("log_file", "f.name", "log file that holds it"),
        bigint("byte_offset", "e.byte_offset", "where its frame begins"),
        integer("value_index", "e.value_index", "its place among the values of the frame"),
        instant("wall_at", "{instant:e.wall_time}", "when it was written"),
        text("kind", "e.kind", "train, eval, dataset_graph or user_info"),
        text("content", "e.content", "JSON"),
    ),
    f"""
FROM lineage_event e
JOIN log_file f ON f.job_id = e.job_id AND f.file_no = e.file_no AND f.current
{join_job("e")}
""",
)

JOB_VIEWS = (V_JOB, V_DATASET, V_DATASET_NODE, V_USER_INFO, V_LINEAGE_EVENT)
