"""A condition becomes SQL: which jobs, in which order; how many; and what is shown of them.

In: the parts of a frozen `SearchCondition` and the ids of the base dirs asked for. Out: SQLAlchemy `Select`s, the same
expression for SQLite and PostgreSQL. Pure: no connection, no I/O; so what was compiled is kept for the next time.
Promises: the statements of a condition answer exactly what `predicates` and `ordering` say. Narrow rows are searched
and sorted; the wide rows that hold JSON are read only for the jobs that are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Subquery,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    true,
)

from lineage_store.query.search.condition import DEFAULT_LIMIT
from lineage_store.query.search.operators import NOT_GIVEN
from lineage_store.query.search.ordering import NEWEST_FIRST, Stretch, stretches, whole
from lineage_store.query.search.predicates import VALUED, holds, is_named, required_values
from lineage_store.query.search.tree import Leaf, Node, SortKey, Subject, mentions
from lineage_store.store.schema.tables import annotation, base_dir, dataset_graph, lineage, train_job

BaseDirs = tuple[int, ...] | Literal["asked"] | None
"""Ids of the base dirs asked for; "asked": the one with the `path_key` that is a parameter; None: all of them."""

_REMEMBERED = 64
LEAVING = 1_000_000
"""More base dirs than there are."""
_COUNTS_FOR = case((base_dir.c.leaving, literal_column(str(LEAVING))), else_=literal_column("1"))
_BASE_DIRS = select(func.sum(_COUNTS_FOR)).scalar_subquery().label("base_dirs")
_TAKE, _SKIP = bindparam("take", DEFAULT_LIMIT, Integer), bindparam("skip", 0, Integer)
_NARROW = "INDEXED BY ix_lineage_fields"
"""SQLite would rather take any index of one field, and then read each wide row; few jobs are found before."""
_NARROW_FIRST = f"{_NARROW} CROSS"
"""Before JOIN: SQLite keeps to the order of a CROSS JOIN. It would rather begin with the values, in their order."""
_LOOKED_UP = "NOT INDEXED"
"""By id, once its lineage is known to match: SQLite would rather walk the jobs of a base dir in order."""
_WALKED = "INDEXED BY ix_train_job_newest"
"""SQLite would rather go through all lineages, and sort them; it does not know that a page ends soon."""


class _Job(NamedTuple):
    """What names a job, wherever it was found."""

    job_id: ColumnElement[int]
    base_dir_id: ColumnElement[int]
    train_id: ColumnElement[str]


_SEARCHED = _Job(lineage.c.job_id, train_job.c.base_dir_id, train_job.c.train_id)


@dataclass(frozen=True, slots=True)
class StretchQuery:
    """Statements about the matching jobs of one stretch of the order."""

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
    base_dirs: int = 0
    """Of a glance at all base dirs only: how many the store knows; LEAVING for each of those that is being removed."""


@lru_cache(_REMEMBERED)
def compile_stretches(
    where: Node,
    sort: tuple[SortKey, ...],
    base_dirs: BaseDirs,
    *,
    few: Leaf | None = None,
    are_few: bool = False,
    shows_dataset: bool = True,
) -> tuple[StretchQuery, ...]:
    """The matching jobs in order, stretch by stretch.

    Where a comparison leaves `few` jobs, these are found first and sorted, all in one stretch: its outer join keeps
    SQLite from walking the index of the order instead. Newest jobs that `are_few` are found by a scan.
    """
    return tuple(
        StretchQuery(
            _page(where, stretch, base_dirs, few, shows_dataset, are_few=are_few),
            _matching(func.count(), where=where, stretch=stretch, base_dirs=base_dirs, few=few),
        )
        for stretch in (stretches(sort, where) if few is None else (whole(sort),))
    )


@lru_cache(_REMEMBERED)
def compile_glance(
    where: Node,
    sort: tuple[SortKey, ...],
    *,
    few: Leaf | None = None,
    of_one: bool = False,
    at_once: bool = False,
    shows_dataset: bool = True,
) -> Select[Any] | None:
    """The page of all base dirs, and how many of these there are, or the page `of_one`, in one statement.

    None where it takes several. `at_once`: it is the first page, and may be found and shown by a single SELECT.
    """
    base_dirs: BaseDirs = "asked" if of_one else None
    (stretch, *others) = stretches(sort, where) if few is None else (whole(sort),)
    if others:
        return None
    if at_once and few is None and stretch.from_index:
        return _first_page(where, stretch, base_dirs, shows_dataset)
    return _page(where, stretch, base_dirs, few, shows_dataset, counts_base_dirs=not of_one)


@lru_cache(_REMEMBERED)
def compile_all(where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs) -> Select[Any]:
    """The ids of all matching jobs in order."""
    stretch = whole(sort)
    ids = _matching(lineage.c.job_id, where=where, stretch=stretch, base_dirs=base_dirs)
    return _in_order(ids, stretch)


@lru_cache(_REMEMBERED)
def compile_listing(where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs) -> Select[Any]:
    """The ids of all matching jobs in order, each with what names the job: base dir and train id."""
    stretch = whole(sort)
    return _in_order(_matching(*_SEARCHED, where=where, stretch=stretch, base_dirs=base_dirs), stretch)


@lru_cache(_REMEMBERED)
def compile_count(where: Node, base_dirs: BaseDirs, few: Leaf | None = None) -> Select[Any]:
    """How many jobs match. On SQLite a single pass over narrow rows, with a look at each named value by primary key.

    The first value that a job must have is joined: a look takes SQLite an eighth less than with EXISTS.
    """
    jobs: FromClause = lineage
    values: dict[Subject, FromClause] = {}
    by_path = mentions(where, "summary_dir")
    subject = next(required_values(where), None)
    if subject and not (by_path and base_dirs is None):  # SQLite may begin with the jobs of such paths
        row = values[subject] = VALUED[subject.type].alias("required")
        jobs = jobs.join(row, is_named(row, subject.name))
    if base_dirs is not None or by_path:
        jobs = jobs.join(train_job, train_job.c.id == lineage.c.job_id)
    stretch = Stretch(jobs, (), values=values)
    found = _matching(func.count(), where=where, stretch=stretch, base_dirs=base_dirs, few=few)
    return found.with_hint(lineage, _NARROW_FIRST, "sqlite") if values else found


@lru_cache
def compile_rows(shows_dataset: bool) -> Select[Any]:
    """What answers show of the jobs `job_ids`, in no order; one `Found` each, but none of what is being removed."""
    jobs = select(train_job.c.id.label("job_id"), train_job.c.base_dir_id, train_job.c.train_id)
    stays = train_job.c.base_dir_id.not_in(select(base_dir.c.id).where(base_dir.c.leaving))
    wanted = jobs.where(train_job.c.id.in_(bindparam("job_ids", expanding=True)), stays)
    return _shown_of(wanted.subquery("page"), shows_dataset)


def _first_page(where: Node, stretch: Stretch, base_dirs: BaseDirs, shows_dataset: bool) -> Select[Any]:
    """The first page, in an order that an index gives: few jobs are read, so wide rows may be.

    PostgreSQL takes a tenth less time for a SELECT of one level; no hints for SQLite, which gains nothing.
    """
    columns = *_shown(_SEARCHED, shows_dataset), *([_BASE_DIRS] if base_dirs is None else ())
    found = _matching(*columns, where=where, stretch=stretch, base_dirs=base_dirs)
    return _in_order(found, stretch).limit(_TAKE)


def _page(
    where: Node,
    stretch: Stretch,
    base_dirs: BaseDirs,
    few: Leaf | None,
    shows_dataset: bool,
    *,
    are_few: bool = False,
    counts_base_dirs: bool = False,
) -> Select[Any]:
    """Narrow rows are sorted and cut to the page, then what is shown is read."""
    ranks = {f"rank_{number}": rank for number, rank in enumerate(stretch.order, 1)}
    keys = (rank.by.label(name) for name, rank in ranks.items())
    found = _matching(*_SEARCHED, *keys, where=where, stretch=stretch, base_dirs=base_dirs, few=few)
    hinted = _hinted(found, stretch, base_dirs, walks=few is None and not are_few)
    page = _in_order(hinted, stretch).limit(_TAKE).offset(_SKIP).subquery("page")
    shown = _shown_of(page, shows_dataset, counts_base_dirs=counts_base_dirs)
    return shown.order_by(*(rank.of(page.c[name]) for name, rank in ranks.items()))


def _matching(
    *columns: ColumnElement[Any],
    where: Node,
    stretch: Stretch,
    base_dirs: BaseDirs,
    few: Leaf | None = None,
) -> Select[Any]:
    matches = stretch.belongs, _of(base_dirs), _among(few), holds(where, stretch.values)
    return select(*columns).select_from(stretch.joined).where(*matches).with_hint(lineage, _NARROW, "sqlite")


def _hinted(found: Select[Any], stretch: Stretch, base_dirs: BaseDirs, *, walks: bool) -> Select[Any]:
    """With what SQLite must be told of how to come by jobs; `walks`: in the order asked for, until the page is full."""
    if walks and stretch.order is NEWEST_FIRST:  # of some base dirs it takes the right index by itself
        return found.with_hint(train_job, _WALKED, "sqlite") if base_dirs is None else found
    if walks and base_dirs != "asked":
        return found
    return found.with_hint(train_job, _LOOKED_UP, "sqlite")


def _in_order(found: Select[Any], stretch: Stretch) -> Select[Any]:
    return found.order_by(*(rank.of(rank.by) for rank in stretch.order))


def _shown_of(page: Subquery, shows_dataset: bool, *, counts_base_dirs: bool = False) -> Select[Any]:
    """What answers show of the jobs of a page."""
    job = _Job(page.c.job_id, page.c.base_dir_id, page.c.train_id)
    columns = *_shown(job, shows_dataset), *([_BASE_DIRS] if counts_base_dirs else ())
    return select(*columns).select_from(page.join(lineage, lineage.c.job_id == page.c.job_id))


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
    if base_dirs == "asked":
        is_asked = base_dir.c.path_key == bindparam("path_key", NOT_GIVEN)
        asked = select(base_dir.c.id).where(is_asked, ~base_dir.c.leaving)
        return train_job.c.base_dir_id == asked.correlate(None).scalar_subquery()
    return train_job.c.base_dir_id.in_(base_dirs)


def _among(few: Leaf | None) -> ColumnElement[bool]:
    """Whether a job is one of those few, found by the index of the field."""
    if few is None:
        return true()
    return lineage.c.job_id.in_(select(lineage.c.job_id).where(holds(few, {})).correlate(None))
