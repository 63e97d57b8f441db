"""A condition becomes SQL: which jobs match and in which order, how many, and what is shown of them.

In: the parts of a frozen `SearchCondition` and the ids of the base dirs asked for. Out: SQLAlchemy `Select`s, the same
expression for SQLite and PostgreSQL. Pure: no connection, no I/O; therefore the statements are cached.
Promises: the statements select exactly the jobs of `predicates` in the order of `ordering`. They search and sort narrow
rows; the wide rows with JSON are read only for the jobs that are shown.
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
"""Ids of the base dirs asked for; None: all base dirs of the store."""

_REMEMBERED = 64
_TAKE, _SKIP = bindparam("take", DEFAULT_LIMIT, Integer), bindparam("skip", 0, Integer)
_NARROW = "INDEXED BY ix_lineage_fields"
"""Otherwise SQLite chooses an index of one field and reads each wide row: 2.2x as long for a count
(count-sqlite-100k), 1.6x for a page in the order of a field."""

_LOOKED_UP = "NOT INDEXED"
"""If few jobs match, SQLite must be told not to walk all jobs in order: a scan takes a tenth of the time."""


_JOB = (lineage.c.job_id, train_job.c.base_dir_id, train_job.c.train_id)
"""The columns that identify a job."""


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """The statements for the matching jobs of one range of the order."""

    page: Select[Any]
    """`Found` rows in order. Parameters: `skip` is the offset, `take` the limit."""
    count: Select[Any]


class Found(NamedTuple):
    """A row of the statements that show jobs."""

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
    """Return the statements for the matching jobs in order, range by range.

    Args:
        few: a comparison that few jobs satisfy. These jobs are found first and sorted, all in one range, whose outer
            join keeps SQLite from walking the index of the order instead.
        sparse: so few jobs match that a scan finds them faster than a walk in order.
        shows_dataset: whether the rows have the dataset graph.
    """
    return tuple(
        RangeQuery(
            _page(where, part, base_dirs, few, shows_dataset, sparse=sparse),
            _matching(func.count(), where=where, part=part, base_dirs=base_dirs, few=few),
        )
        for part in (sort_ranges(sort, where) if few is None else (whole(sort),))
    )


@lru_cache(_REMEMBERED)
def compile_all(
    where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs, *, names: bool = False
) -> Select[Any]:
    """Select the ids of all matching jobs in order; `names`: each with base dir id and train id."""
    part = whole(sort)
    columns = _JOB if names else _JOB[:1]
    return _in_order(_matching(*columns, where=where, part=part, base_dirs=base_dirs), part)


@lru_cache(_REMEMBERED)
def compile_columns(
    where: Node,
    sort: tuple[SortKey, ...],
    base_dirs: BaseDirs,
    columns: tuple[ColumnElement[Any], ...],
    *,
    every: bool,
) -> Select[Any]:
    """Select the ids of the first `most` matching jobs in order, each with these columns of `lineage` and `train_job`.

    `every`: also jobs without lineage, which only have user-defined values; ignored when `sort` has keys.
    """
    part = whole(sort)
    if not every or sort:
        found = _matching(train_job.c.id, *columns, where=where, part=part, base_dirs=base_dirs)
    else:
        jobs = train_job.outerjoin(lineage, lineage.c.job_id == train_job.c.id)
        matches = _in_base_dirs(base_dirs), replacement_traverse(holds(where, {}), {}, _job_for_lineage)
        found = select(train_job.c.id, *columns).select_from(jobs).where(*matches)
    return _in_order(found, part).limit(bindparam("most", DEFAULT_LIMIT, Integer))


@lru_cache(_REMEMBERED)
def compile_count(where: Node, base_dirs: BaseDirs, few: Leaf | None = None) -> Select[Any]:
    """Count the matching jobs. SQLite makes one pass over narrow rows and looks up named values by primary key."""
    jobs: FromClause = lineage
    if base_dirs is not None or beside_lineage(where):
        jobs = jobs.join(train_job, train_job.c.id == lineage.c.job_id)
    return _matching(func.count(), where=where, part=SortRange(jobs, ()), base_dirs=base_dirs, few=few)


@lru_cache(_REMEMBERED)
def compile_among(where: Node) -> Select[Any]:
    """Select which of the jobs `job_ids` match."""
    jobs = lineage.join(train_job, train_job.c.id == lineage.c.job_id)
    wanted = lineage.c.job_id.in_(bindparam("job_ids", expanding=True))
    return select(lineage.c.job_id).select_from(jobs).where(wanted, holds(where, {}))


@lru_cache
def compile_rows(shows_dataset: bool) -> Select[Any]:
    """Select a `Found` row for each of the jobs `job_ids`, in no order, without base dirs that are being removed."""
    jobs = select(train_job.c.id.label("job_id"), train_job.c.base_dir_id, train_job.c.train_id)
    stays = train_job.c.base_dir_id.not_in(select(base_dir.c.id).where(base_dir.c.leaving))
    wanted = jobs.where(train_job.c.id.in_(bindparam("job_ids", expanding=True)), stays)
    return _shown_of(wanted.subquery("page"), shows_dataset)


def _page(
    where: Node, part: SortRange, base_dirs: BaseDirs, few: Leaf | None, shows_dataset: bool, *, sparse: bool
) -> Select[Any]:
    """Select the page's jobs from narrow rows, then read what is shown of these jobs."""
    ranks = {f"rank_{number}": rank for number, rank in enumerate(part.order, 1)}
    keys = (rank.by.label(name) for name, rank in ranks.items())
    found = _matching(*_JOB, *keys, where=where, part=part, base_dirs=base_dirs, few=few)
    if sparse:
        found = found.with_hint(train_job, _LOOKED_UP, "sqlite")
    page = _in_order(found, part).limit(_TAKE).offset(_SKIP).subquery("page")
    shown = _shown_of(page, shows_dataset)
    return shown.order_by(*(rank.of(page.c[name]) for name, rank in ranks.items()))


def _matching(
    *columns: ColumnElement[Any], where: Node, part: SortRange, base_dirs: BaseDirs, few: Leaf | None = None
) -> Select[Any]:
    matches = part.belongs, _in_base_dirs(base_dirs), _among(few), holds(where, part.values)
    return select(*columns).select_from(part.joined).where(*matches).with_hint(lineage, _NARROW, "sqlite")


def _job_for_lineage(element: Any, **_: Any) -> Any:
    """Replace `lineage.job_id` by the job's id, by which jobs without lineage have their named values."""
    return train_job.c.id if element is lineage.c.job_id else None


def _in_order(found: Select[Any], part: SortRange) -> Select[Any]:
    return found.order_by(*(rank.of(rank.by) for rank in part.order))


def _shown_of(page: Subquery, shows_dataset: bool) -> Select[Any]:
    """Select the columns of `Found` for the jobs of a page.

    Subqueries look them up, because a join of so many tables takes PostgreSQL longer to plan than to run.
    """
    same_job = annotation.c.base_dir_id == page.c.base_dir_id, annotation.c.train_id == page.c.train_id
    tag, remark = (select(column).where(*same_job) for column in (annotation.c.tag, annotation.c.remark))
    dataset = select(dataset_graph.c.content).where(dataset_graph.c.id == lineage.c.dataset_graph_id)
    found = select(
        page.c.job_id,
        page.c.base_dir_id,
        page.c.train_id,
        lineage.c.model_lineage,
        (dataset.scalar_subquery() if shows_dataset else null()).label("dataset_graph"),
        tag.correlate_except(annotation).scalar_subquery().label("tag"),
        remark.correlate_except(annotation).scalar_subquery().label("remark"),
    )
    return found.select_from(page.join(lineage, lineage.c.job_id == page.c.job_id))


def _in_base_dirs(base_dirs: BaseDirs) -> ColumnElement[bool]:
    if base_dirs is None:
        return true()
    return train_job.c.base_dir_id.in_(base_dirs)


def _among(few: Leaf | None) -> ColumnElement[bool]:
    """Return the condition that a job satisfies the comparison `few`, which the index of its field answers."""
    if few is None:
        return true()
    return lineage.c.job_id.in_(jobs_of(few).correlate(None))


def jobs_of(leaf: Leaf) -> Select[Any]:
    """Select the ids of the jobs that satisfy a comparison of one field, by the index of the field."""
    if table_of(leaf.subject) == "lineage":
        return select(lineage.c.job_id).where(holds(leaf, {}))
    # The condition on base dirs is always true; the index on states begins with the base dir.
    return select(train_job.c.id).where(train_job.c.base_dir_id.in_(select(base_dir.c.id)), holds(leaf, {}))
