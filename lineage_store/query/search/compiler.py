"""A condition becomes SQL: which jobs, in which order; how many; and what is shown of them.

In: the parts of a frozen `SearchCondition` and the ids of the base dirs asked for. Out: SQLAlchemy `Select`s, the same
expression for SQLite and PostgreSQL. Pure: no connection, no I/O; so what was compiled is kept for the next time.
Promises: the statements of a condition answer exactly what `predicates` and `ordering` say. Narrow rows are searched
and sorted; the wide rows that hold JSON are read only for the jobs that are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Subquery,
    bindparam,
    func,
    null,
    select,
    true,
)
from sqlalchemy.sql.visitors import replacement_traverse

from lineage_store.query.search.condition import DEFAULT_LIMIT
from lineage_store.query.search.ordering import SortRange, sort_ranges, whole
from lineage_store.query.search.predicates import beside_lineage, holds, table_of
from lineage_store.query.search.tree import Leaf, Node, SortKey
from lineage_store.store.schema.tables import annotation, base_dir, dataset_graph, lineage, train_job

BaseDirs = tuple[int, ...] | None
"""Ids of the base dirs asked for; None: all of them."""

_REMEMBERED = 64
_TAKE, _SKIP = bindparam("take", DEFAULT_LIMIT, Integer), bindparam("skip", 0, Integer)
_NARROW = "INDEXED BY ix_lineage_fields"
"""SQLite would rather take any index of one field, and then read each wide row: 2.2x as long for a count
(count-sqlite-100k), 1.6x for a page in the order of a field."""

_LOOKED_UP = "NOT INDEXED"
"""Where few of the newest match, SQLite must be told not to walk all jobs in order: a scan takes a tenth of that."""


class _Job(NamedTuple):
    """What names a job, wherever it was found."""

    job_id: ColumnElement[int]
    base_dir_id: ColumnElement[int]
    train_id: ColumnElement[str]


_SEARCHED = _Job(lineage.c.job_id, train_job.c.base_dir_id, train_job.c.train_id)


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """Statements about the matching jobs of one range of the order."""

    page: Select[Any]
    """What is shown of them, `Found` in order. Parameters: `skip` so many, then give `take`."""
    count: Select[Any]


class Found(NamedTuple):
    """What is shown of a job: a row of the statements that show some."""

    job_id: int
    base_dir_id: int
    train_id: str
    model_lineage: str
    """JSON."""
    dataset_graph: str | None
    """JSON."""
    tag: int | None
    remark: str | None


@lru_cache(_REMEMBERED)
def compile_ranges(
    where: Node,
    sort: tuple[SortKey, ...],
    base_dirs: BaseDirs,
    *,
    few: Leaf | None = None,
    sparse: bool = False,
    shows_dataset: bool = True,
) -> tuple[RangeQuery, ...]:
    """The matching jobs in order, range by range.

    Where a comparison leaves `few` jobs, these are found first and sorted, all in one range: its outer join keeps
    SQLite from walking the index of the order instead. `sparse`: so few match that a scan finds them faster than
    a walk.
    """
    return tuple(
        RangeQuery(
            _page(where, part, base_dirs, few, shows_dataset, sparse=sparse),
            _matching(func.count(), where=where, part=part, base_dirs=base_dirs, few=few),
        )
        for part in (sort_ranges(sort, where) if few is None else (whole(sort),))
    )


@lru_cache(_REMEMBERED)
def compile_all(where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs) -> Select[Any]:
    """The ids of all matching jobs in order."""
    part = whole(sort)
    return _in_order(_matching(lineage.c.job_id, where=where, part=part, base_dirs=base_dirs), part)


@lru_cache(_REMEMBERED)
def compile_listing(where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs) -> Select[Any]:
    """The ids of all matching jobs in order, each with what names the job: base dir and train id."""
    part = whole(sort)
    return _in_order(_matching(*_SEARCHED, where=where, part=part, base_dirs=base_dirs), part)


@lru_cache(_REMEMBERED)
def compile_columns(
    where: Node,
    sort: tuple[SortKey, ...],
    base_dirs: BaseDirs,
    columns: tuple[ColumnElement[Any], ...],
    *,
    every: bool,
) -> Select[Any]:
    """The ids of the first `most` matching jobs in order, each with these columns of `lineage` and `train_job`.

    `every`: with those that have no lineage, of whom all but user-defined values is missing; in the order of the newest
    alone.
    """
    part = whole(sort)
    if not every or sort:
        found = _matching(train_job.c.id, *columns, where=where, part=part, base_dirs=base_dirs)
    else:
        jobs = train_job.outerjoin(lineage, lineage.c.job_id == train_job.c.id)
        matches = _of(base_dirs), replacement_traverse(holds(where, {}), {}, _job_for_lineage)
        found = select(train_job.c.id, *columns).select_from(jobs).where(*matches)
    return _in_order(found, part).limit(bindparam("most", DEFAULT_LIMIT, Integer))


@lru_cache(_REMEMBERED)
def compile_count(where: Node, base_dirs: BaseDirs, few: Leaf | None = None) -> Select[Any]:
    """How many jobs match. On SQLite a single pass over narrow rows, with a look at each named value by primary key."""
    jobs: FromClause = lineage
    if base_dirs is not None or beside_lineage(where):
        jobs = jobs.join(train_job, train_job.c.id == lineage.c.job_id)
    return _matching(func.count(), where=where, part=SortRange(jobs, ()), base_dirs=base_dirs, few=few)


@lru_cache(_REMEMBERED)
def compile_among(where: Node) -> Select[Any]:
    """Those of the jobs `job_ids` that match."""
    jobs = lineage.join(train_job, train_job.c.id == lineage.c.job_id)
    wanted = lineage.c.job_id.in_(bindparam("job_ids", expanding=True))
    return select(lineage.c.job_id).select_from(jobs).where(wanted, holds(where, {}))


@lru_cache
def compile_rows(shows_dataset: bool) -> Select[Any]:
    """What answers show of the jobs `job_ids`, in no order; one `Found` each, but none of what is being removed."""
    jobs = select(train_job.c.id.label("job_id"), train_job.c.base_dir_id, train_job.c.train_id)
    stays = train_job.c.base_dir_id.not_in(select(base_dir.c.id).where(base_dir.c.leaving))
    wanted = jobs.where(train_job.c.id.in_(bindparam("job_ids", expanding=True)), stays)
    return _shown_of(wanted.subquery("page"), shows_dataset)


def _page(
    where: Node,
    part: SortRange,
    base_dirs: BaseDirs,
    few: Leaf | None,
    shows_dataset: bool,
    *,
    sparse: bool,
) -> Select[Any]:
    """Narrow rows are sorted and cut to the page, then what is shown is read."""
    ranks = {f"rank_{number}": rank for number, rank in enumerate(part.order, 1)}
    keys = (rank.by.label(name) for name, rank in ranks.items())
    found = _matching(*_SEARCHED, *keys, where=where, part=part, base_dirs=base_dirs, few=few)
    if sparse:
        found = found.with_hint(train_job, _LOOKED_UP, "sqlite")
    page = _in_order(found, part).limit(_TAKE).offset(_SKIP).subquery("page")
    shown = _shown_of(page, shows_dataset)
    return shown.order_by(*(rank.of(page.c[name]) for name, rank in ranks.items()))


def _matching(
    *columns: ColumnElement[Any],
    where: Node,
    part: SortRange,
    base_dirs: BaseDirs,
    few: Leaf | None = None,
) -> Select[Any]:
    matches = part.belongs, _of(base_dirs), _among(few), holds(where, part.values)
    return select(*columns).select_from(part.joined).where(*matches).with_hint(lineage, _NARROW, "sqlite")


def _job_for_lineage(element: Any, **_: Any) -> Any:
    """Of jobs without lineage, named values go by the job."""
    return train_job.c.id if element is lineage.c.job_id else None


def _in_order(found: Select[Any], part: SortRange) -> Select[Any]:
    return found.order_by(*(rank.of(rank.by) for rank in part.order))


def _shown_of(page: Subquery, shows_dataset: bool) -> Select[Any]:
    """What answers show of the jobs of a page."""
    job = _Job(page.c.job_id, page.c.base_dir_id, page.c.train_id)
    return select(*_shown(job, shows_dataset)).select_from(
        page.join(lineage, lineage.c.job_id == page.c.job_id)
    )


def _shown(job: _Job, shows_dataset: bool) -> tuple[ColumnElement[Any], ...]:
    """What answers show, as `Found`.

    Each is looked up: joins of so many tables would take PostgreSQL longer to plan than to run.
    """
    same_job = annotation.c.base_dir_id == job.base_dir_id, annotation.c.train_id == job.train_id
    tag, remark = (select(column).where(*same_job) for column in (annotation.c.tag, annotation.c.remark))
    dataset = select(dataset_graph.c.content).where(dataset_graph.c.id == lineage.c.dataset_graph_id)
    return (
        *job,
        lineage.c.model_lineage,
        (dataset.scalar_subquery() if shows_dataset else null()).label("dataset_graph"),
        tag.correlate_except(annotation).scalar_subquery().label("tag"),
        remark.correlate_except(annotation).scalar_subquery().label("remark"),
    )


def _of(base_dirs: BaseDirs) -> ColumnElement[bool]:
    if base_dirs is None:
        return true()
    return train_job.c.base_dir_id.in_(base_dirs)


def _among(few: Leaf | None) -> ColumnElement[bool]:
    """Whether a job is one of those few, found by the index of the field."""
    if few is None:
        return true()
    return lineage.c.job_id.in_(jobs_of(few).correlate(None))


def jobs_of(leaf: Leaf) -> Select[Any]:
    """The ids of the jobs that satisfy a comparison of one field, found by its index."""
    if table_of(leaf.subject) == "lineage":
        return select(lineage.c.job_id).where(holds(leaf, {}))
    # Of all base dirs: the index on states begins with them.
    return select(train_job.c.id).where(train_job.c.base_dir_id.in_(select(base_dir.c.id)), holds(leaf, {}))
