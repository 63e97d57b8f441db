"""Is all well? What a monitor should hear of: base dirs that nobody reads, log files that cannot be read.

In: an open read transaction. Out: concerns, a sentence each; none when all is well. Text is in its stored form.
Knows only what is in the store: a daemon that cannot write there shows as one that does not lead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Text, column, func, select, table

from lineage_store.query.views import view_rows
from lineage_store.store.database.engine import database_time

_OF_FILES = {
    "suspect_bytes": "Files with bytes that make no frame",
    "poisonous_file": "Files whose reading failed the reader",
    "torn_file": "Files that end in the middle of a frame",
    "unreadable_file": "Unreadable files",
    "unreadable_path": "Unreadable directories or entries",
}
_UNLISTABLE = "unlistable_base_dir"
_START = "Is the daemon running? Its log tells what it waits for; `lineage-store ingest` reads once."

_LOOK = "The log of that ingester tells what it does; does the disk answer?"
LONGEST_SEARCH_S = 900.0
"""A base dir with very many directories on a slow disk takes minutes to be searched, and rests between two searches."""


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that is not well."""

    subject: str
    """A base dir, or the store."""
    standstill: bool
    """Whether nothing is read there; else some log files have problems, and the others go on."""
    reason: str
    remedy: str


def read_concerns(connection: Connection, base_dir: str | None, within_s: float) -> list[Concern]:
    """What is not well in one base dir (stored path), or in all; a base dir should have been led `within_s` ago."""
    here = {} if base_dir is None else {"base_dir": base_dir}
    base_dirs = view_rows(connection, "v_base_dir", here, "base_dir")
    if not base_dirs:
        return [Concern("the store", True, "It holds no base dir.", _START)]
    concerns = [found for row in base_dirs for found in _of_leading(connection, row, within_s)]
    return concerns + list(_of_problems(connection, here))


def _of_leading(connection: Connection, row: Mapping[str, Any], within_s: float) -> Iterator[Concern]:
    led, searched_at = row["leader"] is not None, row["discovered_at"]
    if searched_at is None:
        if not led:
            reason = "No ingester leads it, and it was never searched in full."
            yield Concern(row["base_dir"], True, reason, _START)
        return
    age_s = (database_time(connection) - searched_at).total_seconds()
    if not led and age_s > within_s:
        reason = f"No ingester leads it, and it was last searched {age_s:,.0f} s ago."
        yield Concern(row["base_dir"], True, reason, _START)
    elif led and age_s > max(within_s, LONGEST_SEARCH_S):
        reason = f"{row['leader']} leads it, but it was last searched {age_s:,.0f} s ago."
        yield Concern(row["base_dir"], True, reason, _LOOK)


def _of_problems(connection: Connection, here: Mapping[str, str]) -> Iterator[Concern]:
    base_dir, kind = column("base_dir", Text()), column("kind", Text())
    counted = select(base_dir, kind, func.count().label("problems")).select_from(table("v_ingest_problem"))
    counted = counted.where(column("resolved_at").is_(None), kind.in_([_UNLISTABLE, *_OF_FILES]))
    for name, value in here.items():
        counted = counted.where(column(name) == value)
    for row in connection.execute(counted.group_by(base_dir, kind).order_by(base_dir, kind)).all():
        these = {"base_dir": row.base_dir, "kind": row.kind, "resolved_at": None}
        example = view_rows(connection, "v_ingest_problem", these, "-first_seen_at", "path", limit=1)[0]
        since = f"(since {example['first_seen_at']:%Y-%m-%d %H:%M:%S} UTC)"
        if row.kind == _UNLISTABLE:
            reason = f"It cannot be listed: {example['reason']} {since}"
        else:
            what = f"{_OF_FILES[row.kind]}: {row.problems:,}"
            reason = f"{what}, such as {example['path']}: {example['reason']} {since}"
        yield Concern(row.base_dir, row.kind == _UNLISTABLE, reason, example["remedy"])
