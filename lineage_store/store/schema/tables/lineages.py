"""Tables of lineage: every lineage event, and the lineage of each job that its events are folded into.

In: the lineage fields (fields.py). Out: tables. Promises: every field of TRAINED in fields.py becomes a column here.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, Table, Text, text, true

from lineage_store.fields import BY_NAME, FLOAT_KINDS, SEARCHABLE, TRAINED, FieldType
from lineage_store.store.database.sql import Float64, Key, Name, UtcTime, prefix
from lineage_store.store.schema.tables.shared import (
    belongs_to,
    job_id_column,
    metadata,
    optional,
    owner,
    part_of_key,
    required,
    surrogate_key,
)

_COLUMN_TYPE: dict[FieldType, Any] = {"text": Name, "integer": BigInteger(), "float": Float64}


def _trained_columns() -> list[Column[Any]]:
    columns = [optional(field.column, _COLUMN_TYPE[field.type], field.meaning) for field in TRAINED]
    kinds = [field.kind_column for field in TRAINED if field.kind_column]
    return [*columns, *(optional(kind, Text, FLOAT_KINDS) for kind in kinds)]


lineage_event = Table(
    "lineage_event",
    metadata,
    job_id_column(),
    part_of_key("file_no", Integer, "its log file"),
    part_of_key("byte_offset", BigInteger, "where its frame begins"),
    part_of_key("value_index", Integer, "its place among the values of the frame"),
    required("kind", Text, "train, eval, dataset_graph or user_info"),
    optional("wall_time", Float64, "when it was written, unix s"),
    required("content", Text, "JSON"),
    optional("evaluation_no", Integer, "number of the evaluation within its log file, from 1"),
    optional("epoch", BigInteger, "epoch of the training at an evaluation; NULL where the file has none"),
    optional("step", BigInteger, "step of the training at an evaluation; NULL where the file has none"),
    belongs_to("log_file", "file_no"),
    comment="every lineage event that was read, with its place",
)


def _last(kind: str) -> Column[int]:
    return optional(f"{kind}_at", BigInteger, f"where the frame of its last {kind} event begins")


file_lineage = Table(
    "file_lineage",
    metadata,
    job_id_column(),
    part_of_key("file_no", Integer, "its log file"),
    required("events", Integer, "lineage events that were folded in"),
    required("evaluations", Integer, "evaluations among them"),
    required("user_values", BigInteger, "user-defined values, as often as written"),
    required("content_bytes", BigInteger, "bytes of its events as JSON"),
    *map(_last, ("train", "eval", "dataset_graph")),
    optional("end_at", BigInteger, "where the frame of its last train event or end/outcome begins"),
    optional("ended_at", Float64, "wall time of that event, unix s"),
    optional("end_read_at", UtcTime, "when that event was read"),
    required("user_info", Text, "its user-defined values, merged, as JSON"),
    required(
        "evaluations_before", BigInteger, "evaluations in older log files of the job", default=text("0")
    ),
    required("has_last_evaluation", Boolean, "whether the job's last evaluation is in it", default=true()),
    belongs_to("log_file", "file_no"),
    comment="what the lineage events of a log file add up to, from which further ones continue",
)

dataset_graph = Table(
    "dataset_graph",
    metadata,
    surrogate_key(),
    required("digest", Text, "SHA-256 of the canonical JSON", unique=True),
    required("mark", Text, "first 12 hex digits of the digest"),
    required("content", Text, "the pipeline as JSON, nested"),
    comment="a distinct dataset pipeline",
)

dataset_node = Table(
    "dataset_node",
    metadata,
    owner("dataset_graph", "its pipeline", primary_key=True),
    part_of_key("item_no", Integer, "row number within the pipeline"),
    required("node", Integer, "node number, from 0 at the output, parents first"),
    optional("parent", Integer, "node that consumes its output; NULL at the output"),
    optional("op_type", Name, "kind of the node, such as Batch or Map"),
    optional("operation", Name, "data operation inside the node, or NULL for the node's own parameters"),
    optional("operation_no", Integer, "position of the operation inside the node, from 0"),
    optional("parameter", Name, "parameter name; NULL when there is none"),
    optional("value", Name, "parameter value as JSON"),
    comment="the nodes of a dataset pipeline and their parameters, a row per parameter",
)

lineage = Table(
    "lineage",
    metadata,
    owner("train_job", "its job", primary_key=True),
    *_trained_columns(),
    required("dataset_mark", Name, BY_NAME["dataset_mark"].meaning),
    Column(
        "dataset_graph_id",
        Key,
        ForeignKey("dataset_graph.id"),
        index=True,
        comment="its dataset pipeline; NULL when none was written",
    ),
    required("model_lineage", Text, "MindInsight's model_lineage as JSON (NaN allowed)"),
    comment="what was trained: the fold of the job's lineage events",
)

# A count scans this index instead of the rows with their JSON, in the order of job ids, so that looking up the jobs'
# metrics reads neighbouring pages. On SQLite only: PostgreSQL refuses texts longer than a third of a page in an index,
# and scans the table in parallel.
_searched = [field for field in SEARCHABLE if field.table == "lineage"]
Index(
    "ix_lineage_fields",
    lineage.c.job_id,
    *(lineage.c[field.column] for field in _searched if not field.long),
    *(lineage.c[field.kind_column] for field in _searched if field.kind_column),
    info={"only_on": "sqlite"},
).ddl_if(dialect="sqlite")

# The jobs of one network may be few or many, and only an index of the field finds few of them quickly. On PostgreSQL it
# is an index of the texts' beginnings, because its B-trees refuse long texts.
for _field in _searched:
    if _field.type == "text":
        _name, _text = f"ix_lineage_{_field.column}", lineage.c[_field.column]
        Index(_name, _text, info={"only_on": "sqlite"}).ddl_if(dialect="sqlite")
        Index(f"{_name}_prefix", prefix(_text), info={"only_on": "postgresql"}).ddl_if(dialect="postgresql")


def _value_columns(names: str) -> list[Column[Any]]:
    """Return the columns of a named value of any JSON kind."""
    return [
        required("position", Integer, "place in the order in which they were written"),
        required("name", Name, names),
        required("kind", Text, "int, float, nan, +inf, -inf, text, bool, null or json"),
        optional("value", Float64, "number, infinity, or 1 and 0 for a bool; else NULL"),
        optional("text", Name, "text, or canonical JSON of a list or object; else NULL"),
    ]


def _name_key(comment: str = "64 bits of the name's SHA-256") -> Column[int]:
    return part_of_key("name_key", BigInteger, comment)


metric = Table(
    "metric",
    metadata,
    owner("train_job", "its job", primary_key=True),
    _name_key(),
    *_value_columns("metric name"),
    Index("ix_metric_name_value", "name_key", "value", "job_id"),
    comment="the binding evaluation's results",
    sqlite_with_rowid=False,
)

user_info = Table(
    "user_info",
    metadata,
    owner("train_job", "its job", primary_key=True),
    _name_key(),
    *_value_columns("user-defined key"),
    Index("ix_user_info_name_value", "name_key", "value", "job_id"),
    comment="what the user recorded",
    sqlite_with_rowid=False,
)

evaluation_metric = Table(
    "evaluation_metric",
    metadata,
    job_id_column(),
    part_of_key("file_no", Integer, "log file of the evaluation event"),
    part_of_key("byte_offset", BigInteger, "where its frame begins"),
    part_of_key("value_index", Integer, "its place among the values of the frame"),
    _name_key(),
    *_value_columns("metric name"),
    belongs_to("lineage_event", "file_no", "byte_offset", "value_index"),
    comment="the results of every evaluation, the binding one's included",
    sqlite_with_rowid=False,
)

metric_summary = Table(
    "metric_summary",
    metadata,
    owner("train_job", "its job", primary_key=True),
    _name_key("name_key of the metric, its last bit set for first/ and cleared for best/"),
    *_value_columns("metric name, behind first/ or best/"),
    required("evaluation_no", Integer, "the first evaluation of the job that has it, from 1"),
    Index("ix_metric_summary_name_value", "name_key", "value", "job_id"),
    comment="the first and the best result of each metric among all evaluations of a job",
    sqlite_with_rowid=False,
)
