"""The lineage of the jobs that match a condition.

In: an open read transaction and a checked condition. Out: plain dicts in MindInsight's shapes.
Promises: page and count come from one snapshot.
Does not know how lineage gets into the store, nor whether it is up to date; `chooser` chooses the statements, `listing`
iterates over all matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any

from sqlalchemy import Connection, Select

from lineage_store.query.search.chooser import Plan, choose
from lineage_store.query.search.compiler import Found, compile_rows
from lineage_store.query.search.results import to_answer
from lineage_store.query.search.scope import scope_of
from lineage_store.query.search.tree import SearchCondition
from lineage_store.store.database.statements import run

_ROWS_AT_ONCE = 500


def filter_lineage(
    connection: Connection,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    *,
    count: bool = True,
) -> dict[str, Any]:
    """Return the page that the condition asks for, and the number of matching jobs.

    Args:
        base_dir_ids: None means all base dirs. When the answer covers several, each object names its base dir.
        count: False leaves the number None unless it follows from the page itself.
    """
    scope = scope_of(connection, base_dir_ids)
    plan = choose(connection, condition, scope.base_dirs, count=count)
    rows = _rows(connection, condition, plan)
    found = _count_by_page(condition, len(rows)) if plan.counted is None else plan.counted
    if found is None and plan.count is not None:
        found = _number(connection, plan.count, condition)
    return to_answer(rows, found, condition, scope.labels)


def rows_of_jobs(connection: Connection, job_ids: Sequence[int], condition: SearchCondition) -> list[Found]:
    """Return what is shown of jobs, in the order of `job_ids`, without jobs that no longer exist."""
    statement, found = compile_rows(condition.shows_dataset), list[Found]()
    for start in range(0, len(job_ids), _ROWS_AT_ONCE):
        wanted = list(job_ids[start : start + _ROWS_AT_ONCE])
        rows = connection.execute(statement, {"job_ids": wanted})
        by_id = {row.job_id: Found(*row) for row in rows}
        found += [by_id[job_id] for job_id in wanted if job_id in by_id]
    return found


def _rows(connection: Connection, condition: SearchCondition, plan: Plan) -> list[Found]:
    """Return what is shown of the page's jobs, in order; without a page, of all matching jobs."""
    if plan.everything is not None:
        ids = connection.execute(plan.everything, condition.values).scalars().all()
        return rows_of_jobs(connection, ids, condition)
    assert condition.page is not None
    take, skip = condition.page
    found: list[Found] = []
    if plan.counted is not None and skip >= plan.counted:
        return found
    for part in plan.ranges:
        rows = run(connection, part.page, **condition.values, take=take - len(found), skip=skip)
        found += starmap(Found, rows)
        if len(found) == take:
            break
        if found:
            skip = 0
        elif skip:
            skip -= _number(connection, part.count, condition)
    return found


def _count_by_page(condition: SearchCondition, shown: int) -> int | None:
    """Return the number of matching jobs if it follows from the page: the last one, or no page at all."""
    if condition.page is None:
        return shown
    take, skip = condition.page
    return skip + shown if 0 < shown < take or skip + shown == 0 else None


def _number(connection: Connection, statement: Select[Any], condition: SearchCondition) -> int:
    ((counted,),) = run(connection, statement, **condition.values)
    return int(counted)
