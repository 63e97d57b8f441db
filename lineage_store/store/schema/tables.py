"""The tables, written to be read: every column says what it means, in the words of the glossary.

In: nothing. Out: one SQLAlchemy `MetaData`, from which migrations, documentation and statements are made.
Promises: whatever hangs on a job has keys that begin with the job, and is unique by nothing else, so that it can be
partitioned or distributed by job; log files and series are numbered within their job. The sample tables have no foreign
key (they are written in bulk). Readers see rows of current files.
Does not know: views (views/), how rows come (ingest) or are asked for (query).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    and_,
    event,
    false,
    text,
)
from sqlalchemy.schema import SchemaItem

from lineage_store.fields import BY_NAME, FLOAT_KINDS, SEARCHABLE, TRAINED, FieldType
from lineage_store.plugins import BY_NAME as PLUGIN_BY_NAME
from lineage_store.states import UNSETTLED, FileState, JobState, Outcome, sql_list
from lineage_store.store.database.prefix import prefix
from lineage_store.store.database.types import Float64, Key, Name, UtcTime
from lineage_store.texts import either

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

_COLUMN_TYPE: dict[FieldType, Any] = {"text": Name, "integer": BigInteger(), "float": Float64}


def _id() -> Column[int]:
    return Column("id", Key, primary_key=True, autoincrement=True, comment="surrogate key")


def _of(
    table: str, comment: str, *, primary_key: bool = False, nullable: bool = False, index: bool = False
) -> Column[int]:
    """A reference that goes when its owner goes."""
    return Column(
        f"{table.removeprefix('train_').removeprefix('ingest_')}_id",
        Key,
        ForeignKey(f"{table}.id", ondelete="CASCADE"),
        primary_key=primary_key,
        autoincrement=False,
        nullable=nullable,
        index=index,
        comment=comment,
    )


def _file_no(comment: str, *, primary_key: bool = False, nullable: bool = False) -> Column[int]:
    return Column(
        "file_no", Integer, primary_key=primary_key, autoincrement=False, nullable=nullable, comment=comment
    )


def _series_no(comment: str) -> Column[int]:
    return Column("series_no", Integer, primary_key=True, autoincrement=False, comment=comment)


def _job_id() -> Column[int]:
    """The first part of a key; what it belongs to says that the job exists."""
    return Column("job_id", Key, primary_key=True, autoincrement=False, comment="its job")


def _belongs_to(owner: str, *columns: str) -> ForeignKeyConstraint:
    """A row of a job goes when the row of the same job goes to which it belongs."""
    key = ["job_id", *columns]
    return ForeignKeyConstraint(key, [f"{owner}.{name}" for name in key], ondelete="CASCADE")


def _revision(comment: str) -> Column[int]:
    return Column("revision", BigInteger, nullable=False, server_default=text("0"), comment=comment)


def _trained_columns() -> list[Column[Any]]:
    columns = [Column(field.column, _COLUMN_TYPE[field.type], comment=field.meaning) for field in TRAINED]
    kinds = [field.kind_column for field in TRAINED if field.kind_column]
    return [*columns, *(Column(kind, Text, comment=FLOAT_KINDS) for kind in kinds)]


_UNSETTLED = text(f"state IN {sql_list(UNSETTLED)}")
_PARTIAL: dict[str, Any] = {"sqlite_where": _UNSETTLED, "postgresql_where": _UNSETTLED}
"""Few files are ever in these states, and every pass asks for them."""
_PENDING = text("size_bytes - byte_offset > 0")
_PARTIAL_PENDING: dict[str, Any] = {"sqlite_where": _PENDING, "postgresql_where": _PENDING}
"""Few files have bytes pending, and the history of passes sums them up."""

_LASTING = text("resolved_at IS NULL")
"""Problems that went away stay in the table, and lists of problems leave them out."""
_ANALYSED_WHEN_SMALL = DDL("ALTER TABLE %(table)s SET (autovacuum_analyze_threshold = 0)")  # type: ignore[no-untyped-call]
"""PostgreSQL gathers no statistics of a table with fewer than 50 rows, and then believes that it has some hundreds."""

_PENDING_COUNTED = DDL(  # type: ignore[no-untyped-call]
    "CREATE STATISTICS st_log_file_pending ON (size_bytes - byte_offset) FROM %(table)s"
)
"""By itself PostgreSQL takes a third of all files for pending, and goes through all of them."""

base_dir = Table(
    "base_dir",
    metadata,
    _id(),
    Column("path", Text, nullable=False, comment="absolute path of the directory of job directories"),
    Column("path_key", BigInteger, nullable=False, unique=True, comment="64 bits of the path's SHA-256"),
    Column("created_at", UtcTime, nullable=False, comment="when the store first saw it"),
    Column("discovered_at", UtcTime, comment="when it was last searched for jobs in full"),
    _revision("grows with every transaction that changes its jobs: unix ms, or the next number"),
    Column(
        "leaving",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="holds what is being removed: readers and ingest do not see it",
    ),
    Column(
        "shards",
        Integer,
        nullable=False,
        server_default=text("1"),
        comment="into how many parts its jobs are divided, each with a leader of its own",
    ),
    Column(
        "moved_from", Text, comment="paths that it had before, as a JSON list; NULL for one that never moved"
    ),
    comment="a directory that holds job directories",
)
event.listen(base_dir, "after_create", _ANALYSED_WHEN_SMALL.execute_if(dialect="postgresql"))

train_job = Table(
    "train_job",
    metadata,
    _id(),
    _of("base_dir", "its base dir"),
    Column("train_id", Name, nullable=False, comment="./name below the base dir"),
    Column(
        "train_key",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="64 bits of the train id's SHA-256: which shard it is in",
    ),
    Column("state", Text, nullable=False, comment=either(JobState)),
    Column("outcome", Text, comment=f"{either(Outcome)}; NULL while it is live, or unknown"),
    Column("source_present", Boolean, nullable=False, comment="false when no log file of it is left on disk"),
    Column("host", Text, comment="host in the name of the newest log file"),
    Column(
        "update_time",
        BigInteger,
        nullable=False,
        comment="greatest modification time of its log files, unix s",
    ),
    Column("first_file_time", BigInteger, comment="least timestamp in the names of its log files, unix s"),
    Column("last_file_time", BigInteger, comment="greatest timestamp in the names of its log files, unix s"),
    Column("last_wall_time", Float64, comment="greatest wall time of its events, unix s"),
    Column("last_grown_at", UtcTime, comment="when a log file of it was last seen to grow"),
    Column("log_bytes", BigInteger, nullable=False, comment="bytes of its log files"),
    Column("created_at", UtcTime, nullable=False, comment="when the store first saw it"),
    _revision("revision of its base dir when it, or what hangs on it, last changed"),
    UniqueConstraint("base_dir_id", "train_id"),
    Index("ix_train_job_update_time", "base_dir_id", "update_time", "train_id"),
    Index("ix_train_job_newest", "update_time", "train_id", "base_dir_id"),
    Index("ix_train_job_state", "base_dir_id", "state"),
    Index("ix_train_job_outcome", "base_dir_id", "outcome"),
    Index("ix_train_job_host", "base_dir_id", "host"),
    Index("ix_train_job_revision", "base_dir_id", "revision"),
    comment="a train job: one directory of log files",
)

log_file = Table(
    "log_file",
    metadata,
    _of("train_job", "its job", primary_key=True),
    _file_no("number of the file within its job", primary_key=True),
    Column("name", Name, nullable=False, comment="file name"),
    Column("generation", Integer, nullable=False, comment="1, and one more each time the file was rewritten"),
    Column("current", Boolean, nullable=False, comment="whether readers see the rows of this generation"),
    Column("format", Text, nullable=False, comment="log format, such as mindspore"),
    Column("kind", Text, nullable=False, comment="summary or lineage"),
    Column("file_time", BigInteger, nullable=False, comment="timestamp in the name, unix s"),
    Column("device", BigInteger, comment="device number in the name"),
    Column("host", Text, comment="host in the name"),
    Column(
        "state",
        Text,
        nullable=False,
        comment=", ".join(FileState),
    ),
    Column("size_bytes", BigInteger, nullable=False, comment="size when last looked at"),
    Column(
        "byte_offset",
        BigInteger,
        nullable=False,
        comment="bookmark: ingest has dealt with the bytes before it",
    ),
    Column(
        "quarantined_bytes",
        BigInteger,
        nullable=False,
        comment="bytes before the bookmark that were given up",
    ),
    Column("event_count", BigInteger, nullable=False, comment="events ingested"),
    Column("modified_s", BigInteger, nullable=False, comment="modification time, unix s"),
    Column("last_wall_time", Float64, comment="greatest wall time of its events, unix s"),
    Column(
        "closed",
        Boolean,
        nullable=False,
        comment="the writer has finished, as its format tells (MindSpore: mode 0400)",
    ),
    Column(
        "stat_stamp", Text, comment="inode, size and times when last looked at: a hint that nothing changed"
    ),
    Column("fingerprint", Text, comment="digest of the first frame: what makes it this file"),
    Column("fingerprint_bytes", Integer, nullable=False, comment="bytes that the fingerprint covers"),
    Column("anchor", Text, comment="digest of the bytes just before the bookmark"),
    Column("anchor_bytes", Integer, nullable=False, comment="bytes that the anchor covers"),
    Column("suspect_since", UtcTime, comment="since when the bytes at the bookmark make no frame"),
    Column("suspect_size", BigInteger, comment="size of the file when that was first seen"),
    Column(
        "failed_reads",
        Integer,
        nullable=False,
        comment="how many times in a row reading it failed the reader",
    ),
    Column("last_problem", Text, comment="what is wrong with it now"),
    Column("grown_at", UtcTime, comment="when it was last seen to grow"),
    Column("created_at", UtcTime, nullable=False, comment="when the store first saw it"),
    Column(
        "thinned",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="samples of it were thinned out: when it grows it is read again from its first byte",
    ),
    UniqueConstraint("job_id", "name", "generation"),
    Index("ix_log_file_unsettled", "state", **_PARTIAL),
    Index("ix_log_file_pending", "job_id", **_PARTIAL_PENDING),
    comment="a log file, one row per generation of its content",
    sqlite_with_rowid=False,
)

event.listen(log_file, "after_create", _PENDING_COUNTED.execute_if(dialect="postgresql"))

lineage_event = Table(
    "lineage_event",
    metadata,
    _job_id(),
    _file_no("its log file", primary_key=True),
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
    _belongs_to("log_file", "file_no"),
    comment="every lineage event that was read, with its place",
)


def _last(kind: str) -> Column[int]:
    return Column(f"{kind}_at", BigInteger, comment=f"where the frame of its last {kind} event begins")


file_lineage = Table(
    "file_lineage",
    metadata,
    _job_id(),
    _file_no("its log file", primary_key=True),
    Column("events", Integer, nullable=False, comment="lineage events that were taken in"),
    Column("evaluations", Integer, nullable=False, comment="evaluations among them"),
    Column("user_values", BigInteger, nullable=False, comment="user-defined values, as often as written"),
    Column("content_bytes", BigInteger, nullable=False, comment="bytes of its events as JSON"),
    *map(_last, ("train", "eval", "dataset_graph")),
    Column("user_info", Text, nullable=False, comment="its user-defined values, merged, as JSON"),
    _belongs_to("log_file", "file_no"),
    comment="what the lineage events of a log file have come to, from which further ones go on",
)

dataset_graph = Table(
    "dataset_graph",
    metadata,
    _id(),
    Column("digest", Text, nullable=False, unique=True, comment="SHA-256 of the canonical JSON"),
    Column("mark", Text, nullable=False, comment="first 12 hex digits of the digest"),
    Column("content", Text, nullable=False, comment="the pipeline as JSON, nested"),
    comment="a distinct dataset pipeline",
)

dataset_node = Table(
    "dataset_node",
    metadata,
    _of("dataset_graph", "its pipeline", primary_key=True),
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
    _of("train_job", "its job", primary_key=True),
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

# A count scans it in place of the rows with their JSON, in the order of the jobs, so that looking up metrics stays
# local. SQLite alone: PostgreSQL refuses texts longer than a third of a page in an index, and scans with all cores.
_searched = [field for field in SEARCHABLE if field.table == "lineage"]
Index(
    "ix_lineage_fields",
    lineage.c.job_id,
    *(lineage.c[field.column] for field in _searched if not field.long),
    *(lineage.c[field.kind_column] for field in _searched if field.kind_column),
    info={"only_on": "sqlite"},
).ddl_if(dialect="sqlite")

# Jobs of one network are few or many, and only an index of their own tells. PostgreSQL's B-trees refuse long texts.
for _field in _searched:
    if _field.type == "text":
        _name, _text = f"ix_lineage_{_field.column}", lineage.c[_field.column]
        Index(_name, _text, info={"only_on": "sqlite"}).ddl_if(dialect="sqlite")
        Index(f"{_name}_prefix", prefix(_text), info={"only_on": "postgresql"}).ddl_if(dialect="postgresql")


def _value_columns(names: str) -> list[Column[Any]]:
    """A name and a value of any JSON kind."""
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
    _of("train_job", "its job", primary_key=True),
    _name_key(),
    *_value_columns("metric name"),
    Index("ix_metric_name_value", "name_key", "value", "job_id"),
    comment="the binding evaluation's results",
    sqlite_with_rowid=False,
)

user_info = Table(
    "user_info",
    metadata,
    _of("train_job", "its job", primary_key=True),
    _name_key(),
    *_value_columns("user-defined key"),
    Index("ix_user_info_name_value", "name_key", "value", "job_id"),
    comment="what the user recorded",
    sqlite_with_rowid=False,
)

evaluation_metric = Table(
    "evaluation_metric",
    metadata,
    _job_id(),
    _file_no("log file of the evaluation event", primary_key=True),
    Column(
        "byte_offset", BigInteger, primary_key=True, autoincrement=False, comment="where its frame begins"
    ),
    _name_key(),
    *_value_columns("metric name"),
    _belongs_to("lineage_event", "file_no", "byte_offset"),
    comment="the results of every evaluation, the binding one's included",
    sqlite_with_rowid=False,
)

metric_summary = Table(
    "metric_summary",
    metadata,
    _of("train_job", "its job", primary_key=True),
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

annotation = Table(
    "annotation",
    metadata,
    _of("base_dir", "base dir of the job", primary_key=True),
    Column("train_id", Name, primary_key=True, comment="id of the job; it need not be in the store now"),
    Column("tag", Integer, comment="label, 0 to 10"),
    Column("remark", Text, comment="up to 128 characters"),
    Column("updated_at", UtcTime, nullable=False, comment="when it was last changed"),
    comment="labels and remarks that people put on jobs",
)

tombstone = Table(
    "tombstone",
    metadata,
    _of("base_dir", "base dir of the job", primary_key=True),
    Column("train_id", Name, primary_key=True, comment="id of the job that was removed"),
    Column("removed_at", UtcTime, nullable=False, comment="when"),
    Column("reason", Text, nullable=False, comment="by which rule"),
    Column(
        "last_file_time",
        BigInteger,
        nullable=False,
        comment="greatest timestamp in the names of its log files, unix s: a newer one brings the job back",
    ),
    Column(
        "lifted",
        Boolean,
        nullable=False,
        server_default=false(),
        comment="the job may come back; until it does, this tells who follows the base dir that it was removed",
    ),
    _revision("revision of the base dir when the job was removed, or this lifted"),
    Index("ix_tombstone_revision", "base_dir_id", "revision"),
    Index("ix_tombstone_newest", "removed_at", "train_id"),
    Index("ix_tombstone_base_dir_newest", "base_dir_id", "removed_at", "train_id"),
    comment="jobs that were removed on purpose: ingest leaves their log files alone",
)

HALF_OF_IDS = 2**30
"""Ids and numbers have 31 bits."""
HALF_USED = text(f"series_no >= {HALF_OF_IDS}")
"""No series, for all that is foreseen: the index on it is empty, and asking it takes nothing."""
_REWRITTEN = text("superseded_from <= last_step")
"""Whether a series has superseded samples; few have, and views look for them."""

series = Table(
    "series",
    metadata,
    _job_id(),
    _series_no("number of the series within its job"),
    _file_no("the log file that holds it"),
    Column("plugin", Text, nullable=False, comment=either(PLUGIN_BY_NAME)),
    Column("tag_key", BigInteger, nullable=False, comment="64 bits of the tag's SHA-256"),
    Column("tag", Name, nullable=False, comment="name of the value"),
    Column("device", BigInteger, comment="device number of the log file"),
    Column("sample_count", BigInteger, nullable=False, comment="samples"),
    Column("first_step", BigInteger, nullable=False, comment="lowest step"),
    Column("first_wall_time", Float64, comment="wall time at the lowest step, unix s"),
    Column("first_value", Float64, comment="value at the lowest step; NULL for NaN"),
    Column("last_step", BigInteger, nullable=False, comment="highest step"),
    Column("last_wall_time", Float64, comment="wall time at the highest step, unix s"),
    Column("last_value", Float64, comment="value at the highest step; NULL for NaN"),
    Column("earliest_wall_time", Float64, comment="least wall time, unix s"),
    Column("latest_wall_time", Float64, comment="greatest wall time, unix s"),
    Column("min_value", Float64, comment="least finite value"),
    Column("min_step", BigInteger, comment="lowest step that has it"),
    Column("max_value", Float64, comment="greatest finite value"),
    Column("max_step", BigInteger, comment="lowest step that has it"),
    Column("nan_count", BigInteger, nullable=False, comment="samples that are NaN"),
    Column("inf_count", BigInteger, nullable=False, comment="samples that are infinite"),
    Column(
        "superseded_from",
        BigInteger,
        comment="samples from this step on were written again by a newer file; NULL when none",
    ),
    Column(
        "superseded_count",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="samples that were written again by a newer file",
    ),
    Column(
        "thinned_count",
        BigInteger,
        nullable=False,
        server_default=text("0"),
        comment="samples that were thinned out: the statistics count them, scalar_bucket tells of them",
    ),
    UniqueConstraint("job_id", "plugin", "tag_key", "file_no"),
    _belongs_to("log_file", "file_no"),
    Index("ix_series_superseded", "job_id", sqlite_where=_REWRITTEN, postgresql_where=_REWRITTEN),
    Index("ix_series_half_used", "series_no", sqlite_where=HALF_USED, postgresql_where=HALF_USED),
    comment="one tag of one plugin in one log file",
)

scalar_sample = Table(
    "scalar_sample",
    metadata,
    _job_id(),
    _series_no("its series"),
    Column("step", BigInteger, primary_key=True, autoincrement=False, comment="training step"),
    Column("wall_time", Float64, comment="when it was written, unix s; NULL when not a time"),
    Column("value", Float64, comment="the value; NULL is NaN"),
    comment="a scalar at a step",
    sqlite_with_rowid=False,
)

scalar_bucket = Table(
    "scalar_bucket",
    metadata,
    _job_id(),
    _series_no("its series"),
    Column(
        "first_step", BigInteger, primary_key=True, autoincrement=False, comment="lowest step of its samples"
    ),
    Column("last_step", BigInteger, nullable=False, comment="highest step of its samples"),
    Column("count", BigInteger, nullable=False, comment="samples that were written"),
    Column("nan_count", BigInteger, nullable=False, comment="samples that are NaN"),
    Column("inf_count", BigInteger, nullable=False, comment="samples that are infinite"),
    Column("min", Float64, comment="least finite value"),
    Column("max", Float64, comment="greatest finite value"),
    Column("mean", Float64, comment="mean of the finite values"),
    comment="neighbouring samples of a series that was thinned: of each bucket few are left in scalar_sample",
    sqlite_with_rowid=False,
)

payload_sample = Table(
    "payload_sample",
    metadata,
    _job_id(),
    _series_no("its series"),
    Column("step", BigInteger, primary_key=True, autoincrement=False, comment="training step"),
    Column("wall_time", Float64, comment="when it was written, unix s; NULL when not a time"),
    Column("frame_offset", BigInteger, nullable=False, comment="where its frame begins in the log file"),
    Column("frame_length", BigInteger, nullable=False, comment="bytes of the frame"),
    Column("value_index", Integer, nullable=False, comment="its place among the values of the event"),
    Column("checksum", BigInteger, nullable=False, comment="the frame's masked CRC-32C"),
    Column("dtype", Text, comment="element type, or png"),
    Column("shape", Text, comment="JSON list of dimensions"),
    Column("size_bytes", BigInteger, nullable=False, comment="bytes of the encoded value"),
    Column("count", BigInteger, comment="histogram: values counted, NaN and infinities included"),
    Column("nan_count", BigInteger, comment="histogram: NaN"),
    Column("pos_inf_count", BigInteger, comment="histogram: +infinity"),
    Column("neg_inf_count", BigInteger, comment="histogram: -infinity"),
    Column("min", Float64, comment="histogram: least finite value"),
    Column("max", Float64, comment="histogram: greatest finite value"),
    Column("sum", Float64, comment="histogram: sum of the finite values"),
    comment="a histogram, image, tensor, graph or landscape at a step: where its bytes are",
    sqlite_with_rowid=False,
)

ingest_problem = Table(
    "ingest_problem",
    metadata,
    _id(),
    _of("base_dir", "its base dir", index=True),
    _of("train_job", "its job, if it concerns one", nullable=True),
    Column("train_id", Name, comment="the id that names that job"),
    _file_no("its log file, if it concerns one", nullable=True),
    Column("path", Text, nullable=False, comment="file or directory, relative to the base dir"),
    Column("kind", Text, nullable=False, comment="what sort of problem"),
    Column("range_start", BigInteger, comment="first byte concerned"),
    Column("range_end", BigInteger, comment="first byte not concerned"),
    Column("reason", Text, nullable=False, comment="what is wrong"),
    Column("remedy", Text, nullable=False, comment="what to do"),
    Column("first_seen_at", UtcTime, nullable=False, comment="since when"),
    Column("last_seen_at", UtcTime, nullable=False, comment="when last seen"),
    Column("resolved_at", UtcTime, comment="when it went away; NULL while it lasts"),
    _belongs_to("log_file", "file_no"),
    Index("ix_ingest_problem_file", "job_id", "file_no", "range_end"),
    Index("ix_ingest_problem_newest", "first_seen_at"),
    Index("ix_ingest_problem_open", "first_seen_at", sqlite_where=_LASTING, postgresql_where=_LASTING),
    comment="what ingest could not do, where, and the remedy",
)

ingest_cycle = Table(
    "ingest_cycle",
    metadata,
    _id(),
    _of("base_dir", "its base dir"),
    Column("started_at", UtcTime, nullable=False, comment="start"),
    Column("finished_at", UtcTime, nullable=False, comment="end"),
    Column("holder", Text, nullable=False, comment="which ingester"),
    Column("files_found", BigInteger, nullable=False, comment="log files found"),
    Column("files_read", BigInteger, nullable=False, comment="log files read from"),
    Column("bytes_read", BigInteger, nullable=False, comment="bytes the bookmarks moved"),
    Column("events", BigInteger, nullable=False, comment="events ingested"),
    Column("samples", BigInteger, nullable=False, comment="samples ingested"),
    Column(
        "pending_bytes", BigInteger, nullable=False, comment="bytes seen but not yet complete or not yet read"
    ),
    Column("problems", BigInteger, nullable=False, comment="problems open at its end"),
    Index("ix_ingest_cycle_base_dir", "base_dir_id", "started_at"),
    comment="what one pass of an ingester over a base dir did",
)

ingest_total = Table(
    "ingest_total",
    metadata,
    _of("base_dir", "its base dir", primary_key=True),
    Column("cycles", BigInteger, nullable=False, comment="passes that left a row in ingest_cycle"),
    Column("cycles_s", Float64, nullable=False, comment="seconds that they took"),
    Column("batches", BigInteger, nullable=False, comment="batches that they wrote"),
    Column("batches_s", Float64, nullable=False, comment="seconds that writing those took"),
    Column(
        "bytes_read",
        Float64,
        nullable=False,
        comment="bytes the bookmarks moved; holes in files may go beyond 64 bits",
    ),
    Column("events", BigInteger, nullable=False, comment="events ingested"),
    Column("samples", BigInteger, nullable=False, comment="samples ingested"),
    comment="what all passes over a base dir did together, those too whose rows are gone: for monitoring",
)

notifier = Table(
    "notifier",
    metadata,
    Column("name", Name, primary_key=True, comment="setting notify_name of the daemons that tell"),
    Column("since", Text, nullable=False, comment="token of changes: what is behind it may not be told yet"),
    Column("looked_at", UtcTime, nullable=False, comment="when everything had been told"),
    Column("begun_at", UtcTime, nullable=False, comment="what happened before is no news"),
    Column("holder", Text, nullable=False, comment="who tells"),
    Column("expires_at", UtcTime, nullable=False, comment="when another one may"),
    comment="who tells a webhook or command what happens, and how far that is",
)

notified = Table(
    "notified",
    metadata,
    Column(
        "notifier",
        Name,
        ForeignKey("notifier.name", ondelete="CASCADE"),
        primary_key=True,
        comment="its name",
    ),
    Column(
        "event_key",
        BigInteger,
        primary_key=True,
        autoincrement=False,
        comment="64 bits of the SHA-256 of what was told: its id in the message",
    ),
    Column("told_at", UtcTime, nullable=False, comment="when; it is kept for a week"),
    comment="what was told lately",
    sqlite_with_rowid=False,
)

ingest_lease = Table(
    "ingest_lease",
    metadata,
    _of("base_dir", "the base dir that is led", primary_key=True),
    Column(
        "shard",
        Integer,
        primary_key=True,
        autoincrement=False,
        server_default=text("0"),
        comment="which of its shards, from 0",
    ),
    Column("holder", Text, nullable=False, comment="who leads: host:pid:nonce"),
    Column("epoch", BigInteger, nullable=False, comment="grows by one with every new holder"),
    Column("mode", Text, nullable=False, comment="daemon or once"),
    Column("acquired_at", UtcTime, nullable=False, comment="since when"),
    Column(
        "expires_at",
        UtcTime,
        nullable=False,
        comment="free for another from then on, by the database's clock",
    ),
    Column("searched_at", UtcTime, comment="when the shard was last searched for in full"),
    comment="who may write the rows of a base dir's shard",
)


def exists_on(dialect: str, item: SchemaItem) -> bool:
    """Whether databases of that kind have a table, column or index of the schema."""
    only_on: str = item.info.get("only_on", dialect)
    return only_on == dialect


def samples_of(plugin: str) -> Table:
    """The table of a plugin's samples."""
    return metadata.tables[PLUGIN_BY_NAME[plugin].table]


CURRENT_FILE = log_file.c.current
"""The condition every reader puts on log files."""


def of_file(table: Table) -> ColumnElement[bool]:
    """The condition by which a table of what log files hold is joined to `log_file`."""
    return and_(log_file.c.job_id == table.c.job_id, log_file.c.file_no == table.c.file_no)


__all__ = [name for name, value in globals().items() if isinstance(value, Table)] + [
    "CURRENT_FILE",
    "HALF_OF_IDS",
    "HALF_USED",
    "exists_on",
    "metadata",
    "of_file",
    "samples_of",
]
