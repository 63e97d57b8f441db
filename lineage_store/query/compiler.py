"""A condition becomes SQL: which jobs, in which order; how many; and what is shown of them.

In: the parts of a frozen `SearchCondition` and the ids of the base dirs asked for. Out: SQLAlchemy `Select`s, the same
expression for SQLite and PostgreSQL. Pure: no connection, no I/O; so what was compiled is kept for the next time.
Promises: the statements of a condition answer exactly what `predicates` and `ordering` say. Ids are found first, over
narrow rows; the wide rows that hold JSON are read only for the jobs that are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Integer, Select, bindparam, func, null, select, true

from lineage_store.query.condition import Node, SortKey, mentions
from lineage_store.query.ordering import ANNOTATED, Stretch, stretches, whole
from lineage_store.query.predicates import holds
from lineage_store.store.schema import annotation, dataset_graph, lineage, train_job

BaseDirs = tuple[int, ...] | None
"""Ids of the base dirs asked for; None: all of them."""

_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class StretchQuery:
    """Statements about the matching jobs of one stretch of the order."""

    job_ids: Select[Any]
    """Their ids in order. Parameters: `skip` so many, then give `take`."""
    count: Select[Any]


@lru_cache(_REMEMBERED)
def compile_stretches(
    where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs
) -> tuple[StretchQuery, ...]:
    """The matching jobs in order, stretch by stretch."""
    return tuple(_stretch_query(where, stretch, base_dirs) for stretch in stretches(sort, where))


@lru_cache(_REMEMBERED)
def compile_all(where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs) -> Select[Any]:
    """The ids of all matching jobs in order."""
    return _job_ids(where, whole(sort), base_dirs)


@lru_cache(_REMEMBERED)
def compile_count(where: Node, base_dirs: BaseDirs) -> Select[Any]:
    """How many jobs match. A single pass over narrow rows, with a look at each named value by primary key."""
    jobs: FromClause = lineage
    if base_dirs is not None or mentions(where, "summary_dir"):
        jobs = lineage.join(train_job, train_job.c.id == lineage.c.job_id)
    return select(func.count()).select_from(jobs).where(_of(base_dirs), holds(where, {}))


@lru_cache
def compile_rows(shows_dataset: bool) -> Select[Any]:
    """What answers show of the jobs `job_ids`, in no order; one row each."""
    joined = train_job.join(lineage, lineage.c.job_id == train_job.c.id).outerjoin(annotation, ANNOTATED)
    if shows_dataset:
        joined = joined.outerjoin(dataset_graph, dataset_graph.c.id == lineage.c.dataset_graph_id)
    return (
        select(
            train_job.c.id,
            train_job.c.base_dir_id,
            train_job.c.train_id,
            lineage.c.model_lineage,
            (dataset_graph.c.content if shows_dataset else null()).label("dataset_graph"),
            annotation.c.tag,
            annotation.c.remark,
        )
        .select_from(joined)
        .where(train_job.c.id.in_(bindparam("job_ids", expanding=True)))
    )


def _stretch_query(where: Node, stretch: Stretch, base_dirs: BaseDirs) -> StretchQuery:
    take, skip = bindparam("take", type_=Integer), bindparam("skip", type_=Integer)
    matches = stretch.belongs, _of(base_dirs), holds(where, stretch.values)
    return StretchQuery(
        _job_ids(where, stretch, base_dirs).limit(take).offset(skip),
        select(func.count()).select_from(stretch.joined).where(*matches),
    )


def _job_ids(where: Node, stretch: Stretch, base_dirs: BaseDirs) -> Select[Any]:
    return (
        select(lineage.c.job_id)
        .select_from(stretch.joined)
        .where(stretch.belongs, _of(base_dirs), holds(where, stretch.values))
        .order_by(*stretch.order)
    )


def _of(base_dirs: BaseDirs) -> ColumnElement[bool]:
    return true() if base_dirs is None else train_job.c.base_dir_id.in_(base_dirs)
