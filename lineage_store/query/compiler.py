"""A condition becomes SQL: one statement for the page, one for the count.

In: a frozen `SearchCondition` and the ids of the base dirs asked for. Out: SQLAlchemy `Select`s, the same
expression for SQLite and PostgreSQL. Pure: no connection, no I/O.
Promises: every leaf is true or false, never unknown, so that `not` inverts it; every value is bound, never
part of the text; the order is total (ties by update time, then id), so that pages neither overlap nor leave a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    False_,
    FromClause,
    Join,
    Select,
    Table,
    and_,
    case,
    exists,
    false,
    func,
    literal_column,
    not_,
    null,
    or_,
    select,
    true,
)

from lineage_store import texts
from lineage_store.fields import BY_NAME
from lineage_store.query.condition import AllOf, AnyOf, Leaf, Node, Not, SearchCondition, SortKey, Subject
from lineage_store.query.operators import Operand
from lineage_store.store.schema import annotation, dataset_graph, lineage, metric, train_job, user_info

_VALUED: dict[str, Table] = {"metric": metric, "user_defined": user_info}
_JOBS = train_job.join(lineage, lineage.c.job_id == train_job.c.id)
_ANNOTATED = and_(
    annotation.c.base_dir_id == train_job.c.base_dir_id, annotation.c.train_id == train_job.c.train_id
)


def compile_page(condition: SearchCondition, base_dir_ids: Sequence[int] | None) -> Select[Any]:
    """The asked page, in order: train_id, model_lineage, dataset_graph, tag, remark.

    `base_dir_ids` None means all of them. Without a page in the condition: every job that matches.
    """
    joined, order = _order(condition.sort)
    statement = (
        select(
            train_job.c.base_dir_id,
            train_job.c.train_id,
            lineage.c.model_lineage,
            (dataset_graph.c.content if condition.shows_dataset else null()).label("dataset_graph"),
            annotation.c.tag,
            annotation.c.remark,
        )
        .select_from(_with_dataset(joined) if condition.shows_dataset else joined)
        .where(_of_base_dirs(base_dir_ids), _holds(condition.where))
        .order_by(*order)
    )
    if condition.page is None:
        return statement
    return statement.limit(condition.page.limit).offset(condition.page.limit * condition.page.number)


def compile_count(condition: SearchCondition, base_dir_ids: Sequence[int] | None) -> Select[Any]:
    """How many jobs match, whatever the page."""
    matches = _of_base_dirs(base_dir_ids), _holds(condition.where)
    return select(func.count()).select_from(_JOBS).where(*matches)


def _of_base_dirs(base_dir_ids: Sequence[int] | None) -> ColumnElement[bool]:
    if base_dir_ids is None:
        return true()
    return train_job.c.base_dir_id.in_(base_dir_ids) if base_dir_ids else false()


# --- what holds ---


def _holds(node: Node) -> ColumnElement[bool]:
    match node:
        case Leaf():
            return _leaf(node)
        case Not(part):
            return not_(_holds(part))
        case AllOf(parts):
            return and_(true(), *map(_holds, parts))
        case AnyOf(parts):
            return or_(false(), *map(_holds, parts))


def _leaf(leaf: Leaf) -> ColumnElement[bool]:
    with_missing = leaf.operator.takes_missing(leaf.value)
    if leaf.subject.type in _VALUED:
        found = _valued_leaf(leaf, with_missing)
    else:
        operand = _field_operand(leaf.subject)
        found = _definite(leaf.operator.holds(operand, leaf.value))
        found = or_(found, operand.missing) if with_missing else found
    return not_(found) if leaf.operator.negated else found


def _definite(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """False where the predicate is unknown."""
    return predicate if isinstance(predicate, False_) else predicate.is_(true())


def _valued_leaf(leaf: Leaf, with_missing: bool) -> ColumnElement[bool]:
    """A metric or user-defined value: does the job have a row that satisfies it?"""
    table = _VALUED[leaf.subject.type]
    operand = _valued_operand(table)

    def has_row(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
        matches = _is_named(table, leaf.subject.name), predicate
        return exists(select(literal_column("1")).select_from(table).where(*matches).correlate(train_job))

    found = has_row(leaf.operator.holds(operand, leaf.value))
    return or_(found, not_(has_row(not_(operand.missing)))) if with_missing else found


def _is_named(table: FromClause, name: str) -> ColumnElement[bool]:
    # the key serves the index, the name makes it exact
    return and_(table.c.job_id == train_job.c.id, table.c.name_key == texts.key(name), table.c.name == name)


def _field_operand(subject: Subject) -> Operand:
    column = _field_column(subject)
    if subject.type == "text":
        return Operand(column.is_(None), text=column)
    if subject.type == "integer":
        return Operand(column.is_(None), number=column, integer=True)
    kind = _kind_column(subject)
    return Operand(kind.is_(None), number=column, kind=kind, words=True)


def _valued_operand(table: Table) -> Operand:
    kind, text = table.c.kind, table.c.text
    return Operand(
        missing=kind == "null",
        number=table.c.value,
        text=case((kind == "text", text)),
        document=case((kind == "json", text)),
        kind=kind,
    )


def _field_column(subject: Subject) -> ColumnElement[Any]:
    return train_job.c.train_id if subject.name == "summary_dir" else lineage.c[BY_NAME[subject.name].column]


def _kind_column(subject: Subject) -> ColumnElement[Any]:
    return lineage.c[f"{BY_NAME[subject.name].column}_kind"]


# --- in which order ---


def _order(keys: Sequence[SortKey]) -> tuple[Join, list[ColumnElement[Any]]]:
    """What to join for the sort keys, and the total order."""
    joined = _JOBS.outerjoin(annotation, _ANNOTATED)
    order: list[ColumnElement[Any]] = []
    for number, key in enumerate(keys, 1):
        if key.subject.type in _VALUED:
            row = _VALUED[key.subject.type].alias(f"sort_{number}")
            joined = joined.outerjoin(row, _is_named(row, key.subject.name))
            ranked = [_rank(row.c.kind), row.c.value, row.c.text]
        else:
            ranked = _field_order(key.subject)
        order.extend(_directed(column, key.descending) for column in ranked)
    return joined, [*order, train_job.c.update_time.desc(), train_job.c.train_id, train_job.c.base_dir_id]


def _directed(column: ColumnElement[Any], descending: bool) -> ColumnElement[Any]:
    """Missing is smallest, on both databases."""
    return column.desc().nulls_last() if descending else column.asc().nulls_first()


def _rank(kind: ColumnElement[Any]) -> ColumnElement[int]:
    """Missing, NaN, numbers, text, lists and objects; within a rank, value and text decide."""
    return case({"null": 0, "nan": 1, "text": 3, "json": 4}, value=func.coalesce(kind, "null"), else_=2)


def _field_order(subject: Subject) -> list[ColumnElement[Any]]:
    if subject.type == "label":
        return [annotation.c.tag]
    column = _field_column(subject)
    if subject.type != "float":
        return [column]
    kind = _kind_column(subject)
    return [_rank(kind), column]


def _with_dataset(joined: Join) -> Join:
    return joined.outerjoin(dataset_graph, dataset_graph.c.id == lineage.c.dataset_graph_id)
