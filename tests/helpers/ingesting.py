"""Ingest in tests, and queries for its results."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Row, text, update

from helpers.waiting import wait_until
from lineage_store.config import Settings
from lineage_store.ingest import pipeline
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.report import IngestReport
from lineage_store.store.database.db import writing
from lineage_store.store.schema.tables import ingest_lease


def ingest(engine: Engine, base_dir: Path, **settings: Any) -> IngestReport:
    """Run one pass over a base dir, with default settings except the given ones."""
    return pipeline.ingest(engine, base_dir, Settings(**settings))


def rows(engine: Engine, query: str, **parameters: Any) -> list[Row[Any]]:
    """Return the rows of a query."""
    with engine.connect() as connection:
        return list(connection.execute(text(query), parameters))


def column(engine: Engine, query: str, **parameters: Any) -> list[Any]:
    """Return the first column of a query."""
    return [row[0] for row in rows(engine, query, **parameters)]


def open_problems(engine: Engine) -> list[tuple[str, str]]:
    """Return (kind, path) of every problem that is not resolved."""
    query = "SELECT kind, path FROM ingest_problem WHERE resolved_at IS NULL ORDER BY kind, path, range_start"
    return [(row.kind, row.path) for row in rows(engine, query)]


def visible_scalars(engine: Engine, tag: str = "loss") -> dict[int, float]:
    """Return step and value of a scalar in current files, of the only job that has it."""
    found = rows(
        engine,
        "SELECT step, value FROM scalar_sample JOIN series USING (job_id, series_no)"
        " JOIN log_file USING (job_id, file_no) WHERE tag = :tag AND current ORDER BY step",
        tag=tag,
    )
    assert len(found) == len({row.step for row in found}), "a step is there twice"
    return {row.step: row.value for row in found}


def let_leases_expire(engine: Engine) -> None:
    """Let all leases expire now, instead of waiting, as after an ingester was killed."""
    with writing(engine) as session:
        session.change(update(ingest_lease).values(expires_at=datetime(2000, 1, 1, tzinfo=UTC)))


def tick_until(condition: Callable[[], object], *followers: Follower) -> None:
    """Let followers tick until the condition is true."""
    wait_until(condition, *(follower.tick for follower in followers))


def search_at_next_tick(follower: Follower) -> None:
    """Let a follower search the base dir at its next tick, instead of waiting for `discovery_interval_s`.

    A follower that does not lead yet searches anyway.
    """
    if follower._passes is not None:
        follower._passes.discovery_due = 0.0


def ledger_is_closed(engine: Engine) -> bool:
    """Return whether every file's bytes are ingested, quarantined or pending, and none is counted twice."""
    ledger = rows(engine, "SELECT size_bytes, byte_offset, quarantined_bytes FROM log_file WHERE current")
    return all(0 <= row.quarantined_bytes <= row.byte_offset <= row.size_bytes for row in ledger)


def size_of(engine: Engine) -> int:
    """Return the bytes that the tables and indexes of a store take."""
    if engine.dialect.name == "sqlite":
        query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    else:
        query = (
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
    return int(column(engine, query)[0])
