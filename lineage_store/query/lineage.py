"""The lineage of jobs, asked for by condition or one by one.

In: an open read transaction and a checked question. Out: plain dicts in the seeds' shapes.
Promises: page and count come from one snapshot; rows are streamed where all are asked for.
Does not know: how lineage gets into the store, nor whether it is up to date.
"""

from __future__ import annotations

import json
import os.path
from array import array
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any

from sqlalchemy import Connection, Select, select

from lineage_store import texts
from lineage_store.errors import (
    LineageFileNotFoundError,
    LineageParamTypeError,
    LineageParamValueError,
    TrainJobNotFoundError,
)
from lineage_store.fields import TRAINED
from lineage_store.query.compiler import (
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
from lineage_store.query.narrowing import Narrowed, few_by, narrow
from lineage_store.query.results import to_answer, to_object
from lineage_store.query.scope import scope_of
from lineage_store.query.statements import run
from lineage_store.query.tree import SearchCondition
from lineage_store.store import schema
from lineage_store.store.pooling import Pooled

SUMMARY_KEYS = (
    "hyper_parameters",
    "algorithm",
    "train_dataset",
    "valid_dataset",
    "model",
    "metric",
    "dataset_graph",
)
"""What `get_lineage` shows without keys; `user_defined` is shown when asked for."""

_ALLOWED_KEYS = (*SUMMARY_KEYS, "user_defined")
_WORD_BY_KIND = {"nan": "NaN", "+inf": "Infinity", "-inf": "-Infinity"}


_IDS_AT_ONCE, _ROWS_AT_ONCE = 10_000, 500


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
    select = compile_glance(
        condition.where,
        condition.sort,
        few=few,
        of_one=base_dir is not None,
        at_once=at_once,
        shows_dataset=condition.shows_dataset,
    )
    if select is None:
        return None
    asked = {} if base_dir is None else {"path_key": texts.key(base_dir)}
    rows = list(starmap(Found, run(connection, select, **condition.values, **asked, take=take, skip=skip)))
    if base_dir is not None:
        return to_answer(rows, _told_by_page(condition, len(rows)), condition, {}) if rows else None
    labels = _labels(connection, rows)
    return None if labels is None else to_answer(rows, _told_by_page(condition, len(rows)), condition, labels)


def _labels(connection: Pooled, rows: Sequence[Found]) -> dict[int, str] | None:
    """Paths of base dirs by id, where there are several; None where one of them is being removed."""
    if not rows or rows[0].base_dirs == 1:
        return {}
    if rows[0].base_dirs >= LEAVING:
        return None
    scope = scope_of(connection, None)
    stays = scope.base_dirs is None and all(row.base_dir_id in scope.paths for row in rows)
    return scope.labels if stays else None


def iter_lineage(
    connection: Connection,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    *,
    page_size: int = 500,
) -> Iterator[dict[str, Any]]:
    """Every job that matches, in order, whatever page the condition names.

    The ids of all are read at once, eight bytes each, and what is shown of them `page_size` jobs at a time.
    """
    scope = scope_of(connection, base_dir_ids)
    everything = compile_all(condition.where, condition.sort, scope.base_dirs)
    found = connection.execute(everything, condition.values, execution_options={"yield_per": _IDS_AT_ONCE})
    ids = array("q", found.scalars())
    for start in range(0, len(ids), page_size):
        for row in _rows(connection, ids[start : start + page_size], condition):
            yield to_object(row, json.loads(row.model_lineage), condition, scope.labels)


def rows_of_page(
    connection: Connection, condition: SearchCondition, base_dirs: BaseDirs, narrowed: Narrowed
) -> list[Found]:
    """What is shown of the page's jobs, in order; without a page, of all."""
    where, sort = condition.where, condition.sort
    if condition.page is None:
        ids = connection.execute(compile_all(where, sort, base_dirs), condition.values).scalars().all()
        return list(_rows(connection, ids, condition))
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


def _rows(connection: Connection, job_ids: Sequence[int], condition: SearchCondition) -> Iterator[Found]:
    """What is shown of jobs, in the order of their ids."""
    statement = compile_rows(condition.shows_dataset)
    for start in range(0, len(job_ids), _ROWS_AT_ONCE):
        wanted = list(job_ids[start : start + _ROWS_AT_ONCE])
        rows = connection.execute(statement, {"job_ids": wanted})
        by_id = {row.job_id: Found(*row) for row in rows}
        yield from (by_id[job_id] for job_id in wanted)


def read_keys(keys: Sequence[str] | None) -> tuple[str, ...]:
    """Which parts of a job's lineage are asked for.

    Raises:
        LineageParamTypeError: not a list of str.
        LineageParamValueError: an unknown name.
    """
    if keys is None:
        return SUMMARY_KEYS
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        raise LineageParamTypeError(f"keys must be a list of str or None, not {keys!r}.")
    for key in keys:
        if key not in _ALLOWED_KEYS:
            raise LineageParamValueError(f"keys: {key!r} is unknown: use {', '.join(_ALLOWED_KEYS)}.")
    return tuple(keys)


def get_lineage(
    connection: Connection,
    base_dir_path: str,
    base_dir_id: int,
    train_id: str,
    keys: Sequence[str] | None = None,
) -> dict[str, Any]:
    """One job's lineage in the shape of MindInsight 0.7, parameters that are unknown left out.

    Args:
        base_dir_path: absolute path, for `summary_dir` of the answer.
        train_id: `./name` below it.
        keys: parts to show beside `summary_dir`; None: all but `user_defined`.

    Raises:
        TrainJobNotFoundError: the store knows no such job.
        LineageFileNotFoundError: it knows the job, but no lineage of it.
    """
    wanted = read_keys(keys)
    job, lineage = schema.train_job, schema.lineage
    known = job.outerjoin(lineage, lineage.c.job_id == job.c.id).outerjoin(
        schema.dataset_graph, schema.dataset_graph.c.id == lineage.c.dataset_graph_id
    )
    row = connection.execute(
        select(lineage, schema.dataset_graph.c.content.label("dataset_graph"))
        .select_from(known)
        .where(job.c.base_dir_id == base_dir_id, job.c.train_id == texts.to_stored(train_id))
    ).one_or_none()
    path = os.path.normpath(os.path.join(base_dir_path, train_id))
    if row is None:
        raise TrainJobNotFoundError(f"The store knows no train job {train_id} below {base_dir_path}.")
    if row.model_lineage is None:
        raise LineageFileNotFoundError(f"The train job {path} has no lineage, only summary files.")
    shown = {name: _part(name, row) for name in wanted}
    return {"summary_dir": path, **shown}


def _part(name: str, row: Any) -> dict[str, Any]:
    if name == "dataset_graph":
        return dict(json.loads(row.dataset_graph or "{}"))
    if name in ("metric", "user_defined"):
        return dict(json.loads(row.model_lineage)[name])
    values = {field.key: _shown(row, field.column) for field in TRAINED if field.group == name}
    return {key: value for key, value in values.items() if key is not None and value is not None}


def _shown(row: Any, column: str) -> Any:
    value = getattr(row, column)
    kind = getattr(row, f"{column}_kind", None)
    if kind in _WORD_BY_KIND:
        return _WORD_BY_KIND[kind]
    return texts.from_stored(value) if isinstance(value, str) else value
