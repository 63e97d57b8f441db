"""Tables of base dirs, jobs and log files, and of what stays when a job is removed: remarks and tombstones.

Out: tables, and the condition that joins a table of log file content to its log files.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
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
    true,
)

from lineage_store.fields import LARGEST_LABEL
from lineage_store.states import UNSETTLED, FileState, JobState, Outcome, sql_list
from lineage_store.store.database.sql import Float64, Name, UtcTime
from lineage_store.store.schema.tables.shared import (
    metadata,
    optional,
    owner,
    part_of_key,
    required,
    revision_column,
    surrogate_key,
)
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
    required("path", Text, "absolute path of the directory of job directories"),
    required("path_key", BigInteger, "64 bits of the path's SHA-256", unique=True),
    required("created_at", UtcTime, "when the store first saw it"),
    optional("discovered_at", UtcTime, "when it was last searched for jobs in full"),
    revision_column("grows with every transaction that changes its jobs: unix ms, or the next number"),
    required(
        "leaving", Boolean, "holds what is being removed: readers and ingest do not see it", default=false()
    ),
    required(
        "shards",
        Integer,
        "into how many parts its jobs are divided, each with a leader of its own",
        default=text("1"),
    ),
    optional("moved_from", Text, "paths that it had before, as a JSON list; NULL for one that never moved"),
    optional(
        "clock_at", UtcTime, "when the store last took the clock for right: policies measure it by this"
    ),
    optional(
        "clock_off_s", Float64, "how far the clock was from that when policies rested; NULL: they trust it"
    ),
    required("jobs_waiting", Integer, "jobs that go only when a person confirms it", default=text("0")),
    optional("waits_since", UtcTime, "since when retention is delayed, or jobs wait for confirmation"),
    comment="a directory that holds job directories",
)
event.listen(base_dir, "after_create", _ANALYSED_WHEN_SMALL.execute_if(dialect="postgresql"))

train_job = Table(
    "train_job",
    metadata,
    surrogate_key(),
    owner("base_dir", "its base dir"),
    required("train_id", Name, "./name below the base dir"),
    required(
        "train_key", BigInteger, "64 bits of the train id's SHA-256: which shard it is in", default=text("0")
    ),
    optional("owner_uid", BigInteger, "user id that owns its directory; NULL if unknown"),
    required("state", Text, either(JobState)),
    optional("outcome", Text, f"{either(Outcome)}; NULL while it is live, or unknown"),
    required("source_present", Boolean, "false when no log file of it is left on disk"),
    optional("host", Text, "host in the name of the newest log file"),
    required("update_time", BigInteger, "greatest modification time of its log files, unix s"),
    optional("first_file_time", BigInteger, "least timestamp in the names of its log files, unix s"),
    optional("last_file_time", BigInteger, "greatest timestamp in the names of its log files, unix s"),
    optional("last_wall_time", Float64, "greatest wall time of its events, unix s"),
    optional("last_grown_at", UtcTime, "when a log file of it was last seen to grow"),
    optional(
        "begun_at",
        UtcTime,
        "when its newest log file was begun, as recorded there, but not after it was first seen",
    ),
    optional(
        "alive_at", UtcTime, "its last event as recorded, but not after it was read, or its last growth"
    ),
    required("log_bytes", BigInteger, "bytes of its log files"),
    required("created_at", UtcTime, "when the store first saw it"),
    revision_column("revision of its base dir when it, or what hangs on it, last changed"),
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
    part_of_key("file_no", Integer, "number of the file within its job"),
    required("name", Name, "file name"),
    required("generation", Integer, "1, and one more each time the file was rewritten"),
    required("current", Boolean, "whether readers see the rows of this generation"),
    required("format", Text, "log format, such as mindspore"),
    required("kind", Text, "summary or lineage"),
    required("file_time", BigInteger, "timestamp in the name, unix s"),
    optional("device", BigInteger, "device number in the name"),
    optional("host", Text, "host in the name"),
    required("state", Text, ", ".join(FileState)),
    required("size_bytes", BigInteger, "size at the last check, also before anything is read of it"),
    required("byte_offset", BigInteger, "bookmark: ingest has dealt with the bytes before it"),
    required("quarantined_bytes", BigInteger, "bytes before the bookmark that were given up"),
    required("event_count", BigInteger, "events ingested"),
    required("modified_s", BigInteger, "modification time, unix s"),
    optional("first_wall_time", Float64, "least wall time of its events from 2000 on, unix s"),
    optional("last_wall_time", Float64, "greatest wall time of its events, unix s"),
    required("closed", Boolean, "the writer has finished, as its format defines (MindSpore: mode 0400)"),
    optional("stat_stamp", Text, "inode, size and times at the last check: a hint that nothing changed"),
    optional("fingerprint", Text, "digest of the first frame: what makes it this file"),
    required("fingerprint_bytes", Integer, "bytes that the fingerprint covers"),
    optional("anchor", Text, "digest of the bytes just before the bookmark"),
    required("anchor_bytes", Integer, "bytes that the anchor covers"),
    optional("suspect_since", UtcTime, "since when the bytes at the bookmark make no frame"),
    optional("suspect_size", BigInteger, "size of the file when that was first seen"),
    required("failed_reads", Integer, "how many times in a row reading it failed the reader"),
    optional("last_problem", Text, "what is wrong with it now"),
    optional(
        "unlisted", Text, "kinds of its problems that have no row in ingest_problem: its job has too many"
    ),
    optional("grown_at", UtcTime, "when it was last seen to grow"),
    optional("growth_seen_at", UtcTime, "the same, but NULL until it has grown since the first check"),
    required("created_at", UtcTime, "when the store first saw it"),
    required(
        "thinned",
        Boolean,
        "samples of it were thinned out: when it grows it is read again from its first byte",
        default=false(),
    ),
    optional(
        "likeness", BigInteger, "64 bits of a digest of kind, time, device and first bytes: copies share it"
    ),
    optional(
        "copy_of",
        Integer,
        "file_no of the log file whose bytes it has: that one counts, and this one has no rows; NULL for others",
    ),
    required(
        "compared_upto",
        Integer,
        "greatest file_no of those that begin as it does, and of which it is no copy",
        default=text("0"),
    ),
    required("unread", Boolean, "it has not been read to its end yet, not once", default=true()),
    UniqueConstraint("job_id", "name", "generation"),
    Index("ix_log_file_unsettled", "state", **_PARTIAL),
    Index("ix_log_file_likeness", "job_id", "likeness"),
    Index("ix_log_file_pending", "job_id", **_PARTIAL_PENDING),
    comment="a log file, one row per generation of its content",
    sqlite_with_rowid=False,
)

event.listen(log_file, "after_create", _PENDING_COUNTED.execute_if(dialect="postgresql"))

annotation = Table(
    "annotation",
    metadata,
    owner("base_dir", "base dir of the job", primary_key=True),
    part_of_key("train_id", Name, "id of the job; it need not be in the store now"),
    optional("tag", Integer, f"label, 0 to {LARGEST_LABEL}"),
    optional("remark", Text, "up to 128 characters"),
    required("updated_at", UtcTime, "when it was last changed"),
    comment="labels and remarks that people put on jobs",
)

removal = Table(
    "removal",
    metadata,
    surrogate_key(),
    owner("base_dir", "base dir of the jobs", index=True),
    required("removed_at", UtcTime, "when it began"),
    required(
        "by_policy",
        Boolean,
        "by the policies of the settings, by themselves: counted against what these may remove",
    ),
    required("confirmed", Boolean, "a person allowed policies to remove more than that"),
    required("reason", Text, "by which rule; several policies are separated by commas"),
    required("holder", Text, "who removed: host:pid:nonce"),
    required("jobs", Integer, "how many jobs it removed"),
    comment="removals of jobs: what one call, or policies at one time, removed of a base dir",
)

tombstone = Table(
    "tombstone",
    metadata,
    owner("base_dir", "base dir of the job", primary_key=True),
    part_of_key("train_id", Name, "id of the job that was removed"),
    required("removed_at", UtcTime, "when"),
    required("reason", Text, "by which rule"),
    optional("removal_id", Integer, "the removal that it was part of"),
    optional("first_seen_at", UtcTime, "when the store first saw the job: it stays so if the job comes back"),
    required(
        "last_file_time",
        BigInteger,
        "greatest timestamp in the names of its log files, unix s: a newer one brings the job back",
    ),
    required(
        "lifted",
        Boolean,
        "the job may come back; until it does, this shows followers of the base dir that it was removed",
        default=false(),
    ),
    revision_column("revision of the base dir when the job was removed, or this lifted"),
    Index("ix_tombstone_revision", "base_dir_id", "revision"),
    Index("ix_tombstone_removal", "removal_id"),
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
