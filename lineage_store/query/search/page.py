"""The lineage of jobs, asked for by condition.

In: an open read transaction and a checked question. Out: plain dicts in the seeds' shapes.
Promises: page and count come from one snapshot.
Does not know: how lineage gets into the store, nor whether it is up to date; how all are gone through (`everything`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any

from sqlalchemy import Connection, Select

from lineage_store import texts
from lineage_store.query.search.compiler import (
    LEAVING,
    BaseDirs,
    Found,
    StretchQuery,
    compile_all,
    compile_count,
    compile_glance,
    compile_rows,
    compile_stretches,
)
from lineage_store.query.search.narrowing import Narrowed, few_by, narrow
from lineage_store.query.search.results import to_answer
from lineage_store.query.search.scope import scope_of
from lineage_store.query.search.statements import run
from lineage_store.query.search.tree import SearchCondition
from lineage_store.store.database.pool import Pooled

_ROWS_AT_ONCE = 500


def filter_lineage(
    connection: Connection,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    *,
    count: bool = True,
) -> dict[str, Any]:
    """The page that the condition asks for, and how many jobs match.

    `base_dir_ids` None means all base dirs; where that is more than one, each object says which is its own.
    Without `count`, how many match is None where the page does not tell it.
    """
    scope = scope_of(connection, base_dir_ids)
    narrowed = narrow(connection, condition, scope.base_dirs, count=count)
    rows = rows_of_page(connection, condition, scope.base_dirs, narrowed)
    found = _told_by_page(condition, len(rows)) if narrowed.count is None else narrowed.count
    if found is None and count:
        counting = compile_count(condition.where, scope.base_dirs, narrowed.few)
        found = _number(connection, counting, condition)
    return to_answer(rows, found, condition, scope.labels)


def glance(
    connection: Pooled, condition: SearchCondition, base_dir: str | None = None
) -> dict[str, Any] | None:
    """A page without its count, outside of a transaction: one round trip instead of four.

    Where all base dirs are asked for and there are several, another one tells which they are. None where that does not
    do: the order has several stretches, a base dir is being removed, or nothing is found in the one asked for, which
    may not be known.

    Args:
        base_dir: the path of one, as stored; None for all.
    """
    if condition.page is None:
        return None
    few = few_by(connection, condition)
    take, skip = condition.page.limit, condition.page.limit * condition.page.number
    at_once = not skip and connection.dialect.name == "postgresql"  # SQLite gains nothing by it
    page = compile_glance(
        condition.where,
        condition.sort,
        few=few,
        of_one=base_dir is not None,
        at_once=at_once,
        shows_dataset=condition.shows_dataset,
    )
    if page is None:
        return None
    asked = {} if base_dir is None else {"path_key": texts.key(base_dir)}
    rows = list(starmap(Found, run(connection, page, **condition.values, **asked, take=take, skip=skip)))
    labels = _labels(connection, rows, of_one=base_dir is not None)
    return None if labels is None else to_answer(rows, _told_by_page(condition, len(rows)), condition, labels)


def _labels(connection: Pooled, rows: Sequence[Found], *, of_one: bool) -> dict[int, str] | None:
    """Paths of base dirs by id, where there are several; None where the rows do not tell all that is to be known."""
    if of_one:
        return {} if rows else None
    if not rows or rows[0].base_dirs == 1:
        return {}
    if rows[0].base_dirs >= LEAVING:
        return None
    scope = scope_of(connection, None)
    stays = scope.base_dirs is None and all(row.base_dir_id in scope.paths for row in rows)
    return scope.labels if stays else None


def rows_of_page(
    connection: Connection, condition: SearchCondition, base_dirs: BaseDirs, narrowed: Narrowed
) -> list[Found]:
    """What is shown of the page's jobs, in order; without a page, of all."""
    where, sort = condition.where, condition.sort
    if condition.page is None:
        ids = connection.execute(compile_all(where, sort, base_dirs), condition.values).scalars().all()
        return rows_of_jobs(connection, ids, condition)
    take, skip = condition.page.limit, condition.page.limit * condition.page.number
    found: list[Found] = []
    if narrowed.count is not None and skip >= narrowed.count:
        return found
    few, are_few, shows_dataset = narrowed.few, narrowed.are_few, condition.shows_dataset
    for stretch in compile_stretches(
        where, sort, base_dirs, few=few, are_few=are_few, shows_dataset=shows_dataset
    ):
        found += _page_of(connection, stretch, condition, take - len(found), skip)
        if len(found) == take:
            break
        if found:
            skip = 0
        elif skip:
            skip -= _number(connection, stretch.count, condition)
    return found


def rows_of_jobs(connection: Connection, job_ids: Sequence[int], condition: SearchCondition) -> list[Found]:
    """What is shown of jobs, in the order of their ids; nothing of those that are gone."""
    statement, found = compile_rows(condition.shows_dataset), list[Found]()
    for start in range(0, len(job_ids), _ROWS_AT_ONCE):
        wanted = list(job_ids[start : start + _ROWS_AT_ONCE])
        rows = connection.execute(statement, {"job_ids": wanted})
        by_id = {row.job_id: Found(*row) for row in rows}
        found += [by_id[job_id] for job_id in wanted if job_id in by_id]
    return found


def _page_of(
    connection: Connection, stretch: StretchQuery, condition: SearchCondition, take: int, skip: int
) -> list[Found]:
    rows = run(connection, stretch.page, **condition.values, take=take, skip=skip)
    return list(starmap(Found, rows))


def _told_by_page(condition: SearchCondition, shown: int) -> int | None:
    """How many jobs match, if a page that shows so many is the last one."""
    if condition.page is None:
        return shown
    before = condition.page.limit * condition.page.number
    return before + shown if 0 < shown < condition.page.limit or before + shown == 0 else None


def _number(connection: Connection, statement: Select[Any], condition: SearchCondition) -> int:
    """What a statement counts."""
    ((counted,),) = run(connection, statement, **condition.values)
    return int(counted)
