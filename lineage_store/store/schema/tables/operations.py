"""Tables of the operation of ingest: its problems, its passes, leases, and notifications. Out: tables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint, text

from lineage_store.store.database.sql import Float64, Name, UtcTime
from lineage_store.store.schema.tables.shared import (
    belongs_to,
    metadata,
    optional,
    owner,
    part_of_key,
    required,
    surrogate_key,
)

_LASTING = text("resolved_at IS NULL")
"""Resolved problems stay in the table, but lists of problems leave them out."""

ingest_problem = Table(
    "ingest_problem",
    metadata,
    surrogate_key(),
    owner("base_dir", "its base dir", index=True),
    owner("train_job", "its job, if it concerns one", nullable=True),
    optional("train_id", Name, "the id that names that job"),
    optional("file_no", Integer, "its log file, if it concerns one"),
    required("path", Text, "file or directory, relative to the base dir"),
    required("kind", Text, "what sort of problem"),
    required(
        "problems",
        Integer,
        "problems that the row stands for: 1, or those of its job that have no row",
        default=text("1"),
    ),
    required("count", BigInteger, "places in the file that have it", default=text("1")),
    optional("bytes", BigInteger, "bytes that those places have together"),
    optional("range_start", BigInteger, "first byte concerned"),
    optional("first_range_end", BigInteger, "first byte behind the first place"),
    optional("last_range_start", BigInteger, "first byte of the last place"),
    optional("range_end", BigInteger, "first byte behind the last place"),
    required("reason", Text, "what is wrong, in the first place"),
    required("remedy", Text, "what to do"),
    required("first_seen_at", UtcTime, "since when"),
    required("last_seen_at", UtcTime, "when last seen"),
    optional("resolved_at", UtcTime, "when it was resolved; NULL while it is open"),
    belongs_to("log_file", "file_no"),
    UniqueConstraint("job_id", "file_no", "kind"),
    Index("ix_ingest_problem_newest", "first_seen_at"),
    Index("ix_ingest_problem_open", "first_seen_at", sqlite_where=_LASTING, postgresql_where=_LASTING),
    comment="what ingest could not do, and the remedy: a row per log file and kind, however often it is there",
)

ingest_cycle = Table(
    "ingest_cycle",
    metadata,
    surrogate_key(),
    owner("base_dir", "its base dir"),
    required("started_at", UtcTime, "start"),
    required("finished_at", UtcTime, "end"),
    required("holder", Text, "which ingester"),
    required("files_found", BigInteger, "log files found"),
    required("files_read", BigInteger, "log files read from"),
    required("bytes_read", BigInteger, "bytes the bookmarks moved"),
    required("events", BigInteger, "events ingested"),
    required("samples", BigInteger, "samples ingested"),
    required("pending_bytes", BigInteger, "bytes seen but not yet complete or not yet read"),
    required(
        "waiting_files", BigInteger, "log files found and not yet read to their ends", default=text("0")
    ),
    required("waiting_bytes", BigInteger, "bytes of those that are not yet read", default=text("0")),
    required("problems", BigInteger, "problems open at its end"),
    Index("ix_ingest_cycle_base_dir", "base_dir_id", "started_at"),
    comment="what one pass of an ingester over a base dir did",
)

ingest_total = Table(
    "ingest_total",
    metadata,
    owner("base_dir", "its base dir", primary_key=True),
    required("cycles", BigInteger, "passes that left a row in ingest_cycle"),
    required("cycles_s", Float64, "seconds that they took"),
    required("batches", BigInteger, "batches that they wrote"),
    required("batches_s", Float64, "seconds that writing those took"),
    required("bytes_read", Float64, "bytes the bookmarks moved; holes in files may go beyond 64 bits"),
    required("events", BigInteger, "events ingested"),
    required("samples", BigInteger, "samples ingested"),
    comment="what all passes over a base dir did together, those too whose rows are gone: for monitoring",
)

notifier = Table(
    "notifier",
    metadata,
    part_of_key("name", Name, "setting notify_name of the daemons that notify"),
    required("since", Text, "token of changes: later ones may not be notified yet"),
    required("looked_at", UtcTime, "when everything had been notified"),
    required("begun_at", UtcTime, "what happened before is no news"),
    required("holder", Text, "which daemon notifies: host:pid:nonce"),
    required("expires_at", UtcTime, "when another one may"),
    comment="which daemon notifies a webhook or command, and up to which change",
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
    part_of_key(
        "event_key", BigInteger, "64 bits of the SHA-256 of the notified event: its id in the message"
    ),
    required("told_at", UtcTime, "when; it is kept for a week"),
    comment="what was notified recently",
    sqlite_with_rowid=False,
)

ingest_lease = Table(
    "ingest_lease",
    metadata,
    owner("base_dir", "the base dir of the lease", primary_key=True),
    part_of_key("shard", Integer, "which of its shards, from 0", default=text("0")),
    required("holder", Text, "its holder: host:pid:nonce"),
    required("epoch", BigInteger, "grows by one with every new holder"),
    required("mode", Text, "daemon or once"),
    required("acquired_at", UtcTime, "since when"),
    required("expires_at", UtcTime, "free for another from then on, by the database's clock"),
    optional("searched_at", UtcTime, "when the shard was last searched for in full"),
    comment="who may write the rows of a base dir's shard",
)
