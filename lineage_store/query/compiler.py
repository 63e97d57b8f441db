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
    case,
    func,
    literal_column,
    null,
    select,
    true,
)

from lineage_store.query.condition import DEFAULT_LIMIT
from lineage_store.query.ordering import Stretch, stretches, whole
from lineage_store.query.predicates import holds
from lineage_store.query.tree import Leaf, Node, SortKey, mentions
from lineage_store.store.schema import annotation, base_dir, dataset_graph, lineage, train_job

BaseDirs = tuple[int, ...] | None
"""Ids of the base dirs asked for; None: all of them."""

_REMEMBERED = 64
LEAVING = 1_000_000
"""More base dirs than there are."""
_HAS_JOBS = select(train_job.c.id).where(train_job.c.base_dir_id == base_dir.c.id).exists()
# PostgreSQL looks a job up for each base dir; were this a WHERE, it might join them, and look for one job among all.
_COUNTS_FOR = case(
    (~_HAS_JOBS, literal_column("0")),
    (base_dir.c.leaving, literal_column(str(LEAVING))),
    else_=literal_column("1"),
)
_SCOPE = select(func.sum(_COUNTS_FOR)).select_from(base_dir).scalar_subquery()
_NARROW = "INDEXED BY ix_lineage_fields"
"""SQLite would rather take any index of one field, and then read each wide row; few jobs are found before."""


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
    base_dir: str = ""
    """Its path as stored; of a glance only, as is the next."""
    scope: int = 0
    """How many base dirs have jobs; LEAVING for each of those that is being removed."""


@lru_cache(_REMEMBERED)
def compile_stretches(
    where: Node,
    sort: tuple[SortKey, ...],
    base_dirs: BaseDirs,
    *,
    few: Leaf | None = None,
    shows_dataset: bool = True,
) -> tuple[StretchQuery, ...]:
    """The matching jobs in order, stretch by stretch.

    Where a comparison leaves `few` jobs, these are found first and sorted, all in one stretch: its outer join keeps
    SQLite from walking the index of the order instead.
    """
    return tuple(
        StretchQuery(
            _page(where, stretch, base_dirs, few, shows_dataset),
            _matching(func.count(), where=where, stretch=stretch, base_dirs=base_dirs, few=few),
        )
        for stretch in (stretches(sort, where) if few is None else (whole(sort),))
    )


@lru_cache(_REMEMBERED)
def compile_glance(
    where: Node, sort: tuple[SortKey, ...], *, few: Leaf | None = None, shows_dataset: bool = True
) -> Select[Any] | None:
    """The page of all base dirs, and how many these are, in one statement; None where it takes several."""
    (stretch, *others) = stretches(sort, where) if few is None else (whole(sort),)
    return None if others else _page(where, stretch, None, few, shows_dataset, with_scope=True)


@lru_cache(_REMEMBERED)
def compile_all(where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs) -> Select[Any]:
    """The ids of all matching jobs in order."""
    stretch = whole(sort)
    ids = _matching(lineage.c.job_id, where=where, stretch=stretch, base_dirs=base_dirs)
    return ids.order_by(*(rank.of(rank.by) for rank in stretch.order))


@lru_cache(_REMEMBERED)
def compile_count(where: Node, base_dirs: BaseDirs, few: Leaf | None = None) -> Select[Any]:
    """How many jobs match. A single pass over narrow rows, with a look at each named value by primary key."""
    jobs: FromClause = lineage
    if base_dirs is not None or mentions(where, "summary_dir"):
        jobs = lineage.join(train_job, train_job.c.id == lineage.c.job_id)
    return _matching(func.count(), where=where, stretch=Stretch(jobs, ()), base_dirs=base_dirs, few=few)


@lru_cache
def compile_rows(shows_dataset: bool) -> Select[Any]:
    """What answers show of the jobs `job_ids`, in no order; one `Found` each."""
    jobs = select(train_job.c.id.label("job_id"), train_job.c.base_dir_id, train_job.c.train_id)
    wanted = jobs.where(train_job.c.id.in_(bindparam("job_ids", expanding=True)))
    return _shown(wanted.subquery("page"), shows_dataset)


def _page(
    where: Node,
    stretch: Stretch,
    base_dirs: BaseDirs,
    few: Leaf | None,
    shows_dataset: bool,
    *,
    with_scope: bool = False,
) -> Select[Any]:
    """Narrow rows are sorted and cut to the page, then what is shown is read."""
    take, skip = bindparam("take", DEFAULT_LIMIT, Integer), bindparam("skip", 0, Integer)
    ranks = {f"rank_{number}": rank for number, rank in enumerate(stretch.order, 1)}
    narrow = (lineage.c.job_id, train_job.c.base_dir_id, train_job.c.train_id)
    keys = (rank.by.label(name) for name, rank in ranks.items())
    found = _matching(*narrow, *keys, where=where, stretch=stretch, base_dirs=base_dirs, few=few)
    cut = found.order_by(*(rank.of(rank.by) for rank in stretch.order)).limit(take).offset(skip)
    page = cut.subquery("page")
    shown = _shown(page, shows_dataset)
    if with_scope:
        path = select(base_dir.c.path).where(base_dir.c.id == page.c.base_dir_id).scalar_subquery()
        shown = shown.add_columns(path.label("base_dir"), _SCOPE.label("scope"))
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


def _shown(page: Subquery, shows_dataset: bool) -> Select[Any]:
    """What answers show, as `Found`, of the jobs of a page: `job_id`, `base_dir_id` and `train_id`.

    Each is looked up: joins of so many tables would take PostgreSQL longer to plan than to run.
    """
    same_job = annotation.c.base_dir_id == page.c.base_dir_id, annotation.c.train_id == page.c.train_id
    dataset = select(dataset_graph.c.content).where(dataset_graph.c.id == lineage.c.dataset_graph_id)
    return select(
        page.c.job_id,
        page.c.base_dir_id,
        page.c.train_id,
        lineage.c.model_lineage,
        (dataset.scalar_subquery() if shows_dataset else null()).label("dataset_graph"),
        select(annotation.c.tag).where(*same_job).scalar_subquery().label("tag"),
        select(annotation.c.remark).where(*same_job).scalar_subquery().label("remark"),
    ).select_from(page.join(lineage, lineage.c.job_id == page.c.job_id))


def _of(base_dirs: BaseDirs) -> ColumnElement[bool]:
    return true() if base_dirs is None else train_job.c.base_dir_id.in_(base_dirs)


def _among(few: Leaf | None) -> ColumnElement[bool]:
    """Whether a job is one of those few, found by the index of the field."""
    if few is None:
        return true()
    return lineage.c.job_id.in_(select(lineage.c.job_id).where(holds(few, {})).correlate(None))
