"""Tables of lineage: every lineage event, and the lineage of each job that its events are folded into.

In: the lineage fields (fields.py). Out: tables. Promises: every field of TRAINED in fields.py becomes a column here.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from lineage_store.fields import BY_NAME, FLOAT_KINDS, SEARCHABLE, TRAINED, FieldType
from lineage_store.store.database.types import Float64, Key, Name, prefix
from lineage_store.store.schema.tables.columns import (
    belongs_to,
    file_no,
    job_id,
    metadata,
    owner,
    surrogate_key,
)

_COLUMN_TYPE: dict[FieldType, Any] = {"text": Name, "integer": BigInteger(), "float": Float64}


def _trained_columns() -> list[Column[Any]]:
    columns = [Column(field.column, _COLUMN_TYPE[field.type], comment=field.meaning) for field in TRAINED]
    kinds = [field.kind_column for field in TRAINED if field.kind_column]
    return [*columns, *(Column(kind, Text, comment=FLOAT_KINDS) for kind in kinds)]


lineage_event = Table(
    "lineage_event",
    metadata,
    job_id(),
    file_no("its log file", primary_key=True),
    Column(
        "byte_offset", BigInteger, primary_key=True, autoincrement=False, comment="where its frame begins"
    ),
    Column("kind", Text, nullable=False, comment="train, eval, dataset_graph or user_info"),
    Column("wall_time", Float64, comment="when it was written, unix s"),
    Column("content", Text, nullable=False, comment="JSON"),
    Column("evaluation_no", Integer, comment="number of the evaluation within its log file, from 1"),
    Column(
        "epoch", BigInteger, comment="epoch of the training at an evaluation; NULL where the file tells none"
    ),
    Column(
        "step", BigInteger, comment="step of the training at an evaluation; NULL where the file tells none"
    ),
    belongs_to("log_file", "file_no"),
    comment="every lineage event that was read, with its place",
)


def _last(kind: str) -> Column[int]:
    return Column(f"{kind}_at", BigInteger, comment=f"where the frame of its last {kind} event begins")


file_lineage = Table(
    "file_lineage",
    metadata,
    job_id(),
    file_no("its log file", primary_key=True),
    Column("events", Integer, nullable=False, comment="lineage events that were taken in"),
    Column("evaluations", Integer, nullable=False, comment="evaluations among them"),
    Column("user_values", BigInteger, nullable=False, comment="user-defined values, as often as written"),
    Column("content_bytes", BigInteger, nullable=False, comment="bytes of its events as JSON"),
    *map(_last, ("train", "eval", "dataset_graph")),
    Column("user_info", Text, nullable=False, comment="its user-defined values, merged, as JSON"),
    belongs_to("log_file", "file_no"),
    comment="what the lineage events of a log file have come to, from which further ones go on",
)

dataset_graph = Table(
    "dataset_graph",
    metadata,
    surrogate_key(),
    Column("digest", Text, nullable=False, unique=True, comment="SHA-256 of the canonical JSON"),
    Column("mark", Text, nullable=False, comment="first 12 hex digits of the digest"),
    Column("content", Text, nullable=False, comment="the pipeline as JSON, nested"),
    comment="a distinct dataset pipeline",
)

dataset_node = Table(
    "dataset_node",
    metadata,
    owner("dataset_graph", "its pipeline", primary_key=True),
    Column(
        "item_no", Integer, primary_key=True, autoincrement=False, comment="row number within the pipeline"
    ),
    Column("node", Integer, nullable=False, comment="node number, from 0 at the output, parents first"),
    Column("parent", Integer, comment="node that consumes its output; NULL at the output"),
    Column("op_type", Name, comment="kind of the node, such as Batch or Map"),
    Column(
        "operation", Name, comment="data operation inside the node, or NULL for the node's own parameters"
    ),
    Column("operation_no", Integer, comment="position of the operation inside the node, from 0"),
    Column("parameter", Name, comment="parameter name; NULL when there is none"),
    Column("value", Name, comment="parameter value as JSON"),
    comment="the nodes of a dataset pipeline and their parameters, a row per parameter",
)

lineage = Table(
    "lineage",
    metadata,
    owner("train_job", "its job", primary_key=True),
    *_trained_columns(),
    Column("dataset_mark", Name, nullable=False, comment=BY_NAME["dataset_mark"].meaning),
    Column(
        "dataset_graph_id",
        Key,
        ForeignKey("dataset_graph.id"),
        index=True,
        comment="its dataset pipeline; NULL when none was written",
    ),
    Column(
        "model_lineage", Text, nullable=False, comment="MindInsight's model_lineage as JSON (NaN allowed)"
    ),
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
        Column("position", Integer, nullable=False, comment="place in the order in which they were written"),
        Column("name", Name, nullable=False, comment=names),
        Column("kind", Text, nullable=False, comment="int, float, nan, +inf, -inf, text, bool, null or json"),
        Column("value", Float64, comment="number, infinity, or 1 and 0 for a bool; else NULL"),
        Column("text", Name, comment="text, or canonical JSON of a list or object; else NULL"),
    ]


def _name_key() -> Column[int]:
    comment = "64 bits of the name's SHA-256"
    return Column("name_key", BigInteger, primary_key=True, autoincrement=False, comment=comment)


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
    job_id(),
    file_no("log file of the evaluation event", primary_key=True),
    Column(
        "byte_offset", BigInteger, primary_key=True, autoincrement=False, comment="where its frame begins"
    ),
    _name_key(),
    *_value_columns("metric name"),
    belongs_to("lineage_event", "file_no", "byte_offset"),
    comment="the results of every evaluation, the binding one's included",
    sqlite_with_rowid=False,
)

metric_summary = Table(
    "metric_summary",
    metadata,
    owner("train_job", "its job", primary_key=True),
    _name_key(),
    *_value_columns("metric name, behind first/ or best/"),
    Column(
        "evaluation_no",
        Integer,
        nullable=False,
        comment="the first evaluation of the job that has it, from 1",
    ),
    Index("ix_metric_summary_name_value", "name_key", "value", "job_id"),
    comment="the first and the best result of each metric among all evaluations of a job",
    sqlite_with_rowid=False,
)
