"""Tables of the operation of ingest: its problems, its passes, leases, and notifications. Out: tables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, Text, text

from lineage_store.store.database.types import Float64, Name, UtcTime
from lineage_store.store.schema.tables.columns import belongs_to, file_no, metadata, owner, surrogate_key

_LASTING = text("resolved_at IS NULL")
"""Resolved problems stay in the table, but lists of problems leave them out."""

ingest_problem = Table(
    "ingest_problem",
    metadata,
    surrogate_key(),
    owner("base_dir", "its base dir", index=True),
    owner("train_job", "its job, if it concerns one", nullable=True),
    Column("train_id", Name, comment="the id that names that job"),
    file_no("its log file, if it concerns one", nullable=True),
    Column("path", Text, nullable=False, comment="file or directory, relative to the base dir"),
    Column("kind", Text, nullable=False, comment="what sort of problem"),
    Column("range_start", BigInteger, comment="first byte concerned"),
    Column("range_end", BigInteger, comment="first byte not concerned"),
    Column("reason", Text, nullable=False, comment="what is wrong"),
    Column("remedy", Text, nullable=False, comment="what to do"),
    Column("first_seen_at", UtcTime, nullable=False, comment="since when"),
    Column("last_seen_at", UtcTime, nullable=False, comment="when last seen"),
    Column("resolved_at", UtcTime, comment="when it went away; NULL while it lasts"),
    belongs_to("log_file", "file_no"),
    Index("ix_ingest_problem_file", "job_id", "file_no", "range_end"),
    Index("ix_ingest_problem_newest", "first_seen_at"),
    Index("ix_ingest_problem_open", "first_seen_at", sqlite_where=_LASTING, postgresql_where=_LASTING),
    comment="what ingest could not do, where, and the remedy",
)

ingest_cycle = Table(
    "ingest_cycle",
    metadata,
    surrogate_key(),
    owner("base_dir", "its base dir"),
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
    owner("base_dir", "its base dir", primary_key=True),
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
    owner("base_dir", "the base dir that is led", primary_key=True),
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
