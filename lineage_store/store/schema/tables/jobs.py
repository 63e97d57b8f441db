"""Tables of base dirs, jobs and log files, and of what stays when a job is removed: remarks and tombstones.

Out: tables, and the condition that joins a table of log file content to its log files.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    and_,
    event,
    false,
    or_,
    text,
)

from lineage_store.fields import LARGEST_LABEL
from lineage_store.states import UNSETTLED, FileState, JobState, Outcome, sql_list
from lineage_store.store.database.types import Float64, Name, UtcTime
from lineage_store.store.schema.tables.columns import file_no, metadata, owner, revision, surrogate_key
from lineage_store.texts import either

_UNSETTLED = text(f"state IN {sql_list(UNSETTLED)}")
_PARTIAL: dict[str, Any] = {"sqlite_where": _UNSETTLED, "postgresql_where": _UNSETTLED}
"""Few files are ever in these states, and every pass of ingest queries them."""
_PENDING = text("size_bytes - byte_offset > 0")
_PARTIAL_PENDING: dict[str, Any] = {"sqlite_where": _PENDING, "postgresql_where": _PENDING}
"""Few files have pending bytes, and every pass of ingest sums them up for its history."""
_ANALYSED_WHEN_SMALL = DDL("ALTER TABLE %(table)s SET (autovacuum_analyze_threshold = 0)")  # type: ignore[no-untyped-call]
"""By default PostgreSQL gathers no statistics of a table with fewer than 50 rows, and then assumes hundreds of rows."""

STATISTICS = "st_log_file_pending"
_PENDING_COUNTED = DDL(  # type: ignore[no-untyped-call]
    f"CREATE STATISTICS {STATISTICS} ON (size_bytes - byte_offset) FROM %(table)s"
)
"""Without them PostgreSQL assumes that a third of all files are pending, and scans all of them."""

base_dir = Table(
    "base_dir",
    metadata,
    surrogate_key(),
    Column("path", Text, nullable=False, comment="absolute path of the directory of job directories"),
    Column("path_key", BigInteger, nullable=False, unique=True, comment="64 bits of the path's SHA-256"),
    Column("created_at", UtcTime, nullable=False, comment="when the store first saw it"),
    Column("discovered_at", UtcTime, comment="when it was last searched for jobs in full"),
    revision("grows with every transaction that changes its jobs: unix ms, or the next number"),
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
    surrogate_key(),
    owner("base_dir", "its base dir"),
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
    revision("revision of its base dir when it, or what hangs on it, last changed"),
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
    owner("train_job", "its job", primary_key=True),
    file_no("number of the file within its job", primary_key=True),
    Column("name", Name, nullable=False, comment="file name"),
    Column("generation", Integer, nullable=False, comment="1, and one more each time the file was rewritten"),
    Column("current", Boolean, nullable=False, comment="whether readers see the rows of this generation"),
    Column("format", Text, nullable=False, comment="log format, such as mindspore"),
    Column("kind", Text, nullable=False, comment="summary or lineage"),
    Column("file_time", BigInteger, nullable=False, comment="timestamp in the name, unix s"),
    Column("device", BigInteger, comment="device number in the name"),
    Column("host", Text, comment="host in the name"),
    Column("state", Text, nullable=False, comment=", ".join(FileState)),
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

annotation = Table(
    "annotation",
    metadata,
    owner("base_dir", "base dir of the job", primary_key=True),
    Column("train_id", Name, primary_key=True, comment="id of the job; it need not be in the store now"),
    Column("tag", Integer, comment=f"label, 0 to {LARGEST_LABEL}"),
    Column("remark", Text, comment="up to 128 characters"),
    Column("updated_at", UtcTime, nullable=False, comment="when it was last changed"),
    comment="labels and remarks that people put on jobs",
)

tombstone = Table(
    "tombstone",
    metadata,
    owner("base_dir", "base dir of the job", primary_key=True),
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
    revision("revision of the base dir when the job was removed, or this lifted"),
    Index("ix_tombstone_revision", "base_dir_id", "revision"),
    Index("ix_tombstone_newest", "removed_at", "train_id"),
    Index("ix_tombstone_base_dir_newest", "base_dir_id", "removed_at", "train_id"),
    comment="jobs that were removed on purpose: ingest leaves their log files alone",
)

CURRENT_FILE = log_file.c.current
"""The condition on log files in every reader's query."""

ANNOTATED = and_(
    annotation.c.base_dir_id == train_job.c.base_dir_id, annotation.c.train_id == train_job.c.train_id
)
"""The condition that joins a job with its label and remark."""
SAID = or_(annotation.c.tag != 0, annotation.c.remark != "")
"""The condition that a label or remark was not taken back."""


def of_file(table: Table) -> ColumnElement[bool]:
    """Return the condition that joins a table of log file content to `log_file`."""
    return and_(log_file.c.job_id == table.c.job_id, log_file.c.file_no == table.c.file_no)
