"""What a monitor should report: base dirs that nobody reads, log files that cannot be read, ids that run out.

In: an open read transaction. Out: findings; none when all is well. Text is in its stored form.
Does not know anything outside the store: a daemon that cannot write to the store looks like one that does not lead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Integer, Text, column, func, select, table

from lineage_store.finding_kinds import KINDS, Severity
from lineage_store.findings import THE_STORE, Finding, finding
from lineage_store.query.backlog import read_backlogs
from lineage_store.query.status import problem_of
from lineage_store.query.views import view_rows
from lineage_store.store.catalog import policies, registry
from lineage_store.store.database.engine import database_time
from lineage_store.store.database.paging import Page
from lineage_store.store.schema.tables import HALF_OF_IDS, HALF_USED, metadata, series

LONGEST_SEARCH_S = 900.0
"""How old the last search of a led base dir may be: very many directories on a slow disk take minutes to search."""


def read_findings(connection: Connection, base_dir: str | None, within_s: float) -> list[Finding]:
    """Return what is wrong with one base dir (stored path; None: with all).

    A base dir without a leader is reported when its last search is more than `within_s` seconds ago.
    """
    here = {} if base_dir is None else {"base_dir": base_dir}
    base_dirs = view_rows(connection, "v_base_dir", here, "base_dir")
    if not base_dirs:
        return [finding("no_base_dir", THE_STORE)]
    found = [each for row in base_dirs for each in _of_leading(connection, row, within_s)]
    only = None if base_dir is None else registry.base_dir_id(connection, base_dir)
    found += policies.waiting(connection, only)
    found += [each.finding for each in read_backlogs(connection, base_dirs)]
    return [*found, *_of_ids(connection), *_of_problems(connection, here)]


def _of_leading(connection: Connection, row: Mapping[str, Any], within_s: float) -> Iterator[Finding]:
    subject, leader, searched_at = row["base_dir"], row["leader"], row["discovered_at"]
    unled = row["shards"] - row["led_shards"]
    which = "it" if row["shards"] == 1 else f"{unled} of its {row['shards']} shards"
    age_s = None if searched_at is None else (database_time(connection) - searched_at).total_seconds()
    if unled and (age_s is None or age_s > within_s):
        searched = "never searched in full" if age_s is None else f"last searched {age_s:,.0f} s ago"
        yield finding("unattended_base_dir", subject, which=which, searched=searched)
    elif not unled and age_s is not None and age_s > max(within_s, LONGEST_SEARCH_S):
        yield finding("unsearched_base_dir", subject, leader=leader, age_s=age_s)


def _of_ids(connection: Connection) -> Iterator[Finding]:
    """Yield a finding for each kind of number of which half is used up; an index finds the greatest quickly."""
    with_ids = [each for each in metadata.sorted_tables if "id" in each.c]
    given = {f"rows of {each.name}": select(func.max(each.c.id)) for each in with_ids}
    given["series of a job"] = select(func.max(series.c.series_no)).where(HALF_USED)
    for numbered, greatest in given.items():
        used = connection.execute(greatest).scalar() or 0
        if used >= HALF_OF_IDS:
            yield finding("half_of_ids_used", THE_STORE, numbered=numbered, used=used, most=2 * HALF_OF_IDS)


def _of_problems(connection: Connection, here: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each base dir and kind of open problem worse than a note: their count and the newest."""
    base_dir, kind = column("base_dir", Text()), column("kind", Text())
    worse = Severity.SOME_FILES, Severity.STANDSTILL
    wrong = [each.name for each in KINDS.values() if each.severity in worse]
    problems = func.sum(column("problems", Integer())).label("problems")
    counted = select(base_dir, kind, problems).select_from(table("v_ingest_problem"))
    counted = counted.where(column("resolved_at").is_(None), kind.in_(wrong))
    for name, value in here.items():
        counted = counted.where(column(name) == value)
    for row in connection.execute(counted.group_by(base_dir, kind).order_by(base_dir, kind)).all():
        these = {"base_dir": row.base_dir, "kind": row.kind, "resolved_at": None}
        newest = view_rows(connection, "v_ingest_problem", these, "-first_seen_at", "path", page=Page(1))[0]
        found = replace(problem_of(newest), subject=row.base_dir)
        if newest["path"] != ".":
            what = f"{found.title}: {row.problems:,}, such as {newest['path']}: {found.what}"
            found = replace(found, what=what)
        yield found
