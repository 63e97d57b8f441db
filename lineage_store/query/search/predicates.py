"""The tree of a condition becomes a SQL predicate about one row of `lineage`.

In: the condition's tree, and the rows of named values that the statement has already joined. Out: one expression for
SQLite and PostgreSQL, fit for WHERE; `train_job` must be joined if the condition compares something `beside_lineage`.
Promises: unknown counts as false. A comparison is unknown when a value is missing; `and`, `or` and WHERE treat that
like false, and every negation is written `IS NOT true`. So comparisons need no wrapping, and indexes can answer them.
Every value is a parameter, never part of the SQL text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    FromClause,
    Select,
    Table,
    and_,
    case,
    exists,
    false,
    literal_column,
    not_,
    or_,
    select,
    true,
    type_coerce,
)

from lineage_store import texts
from lineage_store.fields import BY_NAME
from lineage_store.fields import Table as FieldTable
from lineage_store.query.search.operators import Operand
from lineage_store.query.search.tree import NAMED, AllOf, AnyOf, Leaf, Node, Not, Subject, subjects
from lineage_store.store.database.types import prefix
from lineage_store.store.schema.tables import (
    ANNOTATED,
    annotation,
    lineage,
    metric,
    metric_summary,
    summary_key,
    train_job,
    user_info,
)

VALUED: dict[str, Table] = {"metric": metric, "metric_summary": metric_summary, "user_defined": user_info}
"""The tables of named values by the subject's type."""

_TABLES: dict[FieldTable, Table] = {"lineage": lineage, "train_job": train_job, "annotation": annotation}

Joined = Mapping[Subject, FromClause]
"""The rows of named values that the statement has inner-joined, by subject."""


def beside_lineage(node: Node) -> bool:
    """Whether the condition compares fields outside of `lineage` and of the tables of named values."""
    return any(table_of(each) != "lineage" for each in subjects(node))


def table_of(subject: Subject) -> FieldTable:
    """Return the table of a field; named values count as lineage."""
    return "lineage" if subject.type in NAMED else BY_NAME[subject.name].table


def holds(node: Node, joined: Joined) -> ColumnElement[bool]:
    """Return the predicate that a job satisfies the condition."""
    match node:
        case Leaf():
            return _leaf(node, joined)
        case Not(part):
            return _negation(holds(part, joined))
        case AllOf(parts):
            return and_(true(), *(holds(part, joined) for part in parts))
        case AnyOf(parts):
            return or_(false(), *(holds(part, joined) for part in parts))


def _negation(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return a predicate that is true when the given one is false or unknown."""
    return predicate.is_not(true())


def _leaf(leaf: Leaf, joined: Joined) -> ColumnElement[bool]:
    subject, table = leaf.subject, VALUED.get(leaf.subject.type)
    has_row: Callable[[ColumnElement[bool]], ColumnElement[bool]]
    if table is None:
        operand = _field_operand(subject)
        has_row = _is_annotated if table_of(subject) == "annotation" else _in_this_row
    else:
        operand = _valued_operand(joined.get(subject, table))
        has_row = _in_this_row if subject in joined else partial(_has_value, table, subject)
    found = has_row(leaf.operator.holds(operand, leaf.value))
    if leaf.operator.takes_missing(leaf.value):
        found = or_(found, not_(has_row(not_(operand.missing))))
    return _negation(found) if leaf.operator.negated else found


def _in_this_row(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the predicate as it is: the statement has joined the row."""
    return predicate


def _has_value(table: Table, subject: Subject, predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the predicate that the job has a metric or user-defined value that satisfies the comparison."""
    matches = is_named(table, subject), predicate
    found: Select[Any] = select(literal_column("1")).select_from(table).where(*matches)
    return exists(found.correlate(lineage, train_job))


def _is_annotated(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the predicate for a label or remark. Few jobs have one, so a subquery finds the matching jobs first."""
    jobs = select(train_job.c.id).select_from(annotation.join(train_job, ANNOTATED)).where(predicate)
    return train_job.c.id.in_(jobs.correlate(None))


def name_key(subject: Subject) -> int:
    """Return the key by which tables of named values find a subject's rows."""
    return (summary_key if subject.type == "metric_summary" else texts.key)(subject.name)


def is_named(row: FromClause, subject: Subject) -> ColumnElement[bool]:
    """Return the predicate that a row is the job's value of that name."""
    # compares only the key, which is in an index; comparing the name would have to read the row
    return and_(row.c.job_id == lineage.c.job_id, row.c.name_key == name_key(subject))


def _field_operand(subject: Subject) -> Operand:
    column = field_column(subject)
    if subject.type == "text":
        indexed = prefix(column) if column.table is lineage else None
        return Operand(column.is_(None), text=column, prefix=indexed)
    if subject.type in ("integer", "time"):
        # The column of labels is narrower than the numbers with which they are compared.
        return Operand(column.is_(None), number=type_coerce(column, BigInteger))
    kind = kind_column(subject)
    return Operand(kind.is_(None), number=column, kind=kind)


def _valued_operand(row: FromClause) -> Operand:
    kind, text = row.c.kind, row.c.text
    return Operand(
        missing=kind == "null",
        number=row.c.value,
        text=case((kind == "text", text)),
        document=case((kind == "json", text)),
        kind=kind,
    )


def field_column(subject: Subject) -> Column[Any]:
    """Return the column of a field."""
    return _TABLES[table_of(subject)].c[BY_NAME[subject.name].column]


def kind_column(subject: Subject) -> ColumnElement[Any]:
    """Return the column that says whether a float field is finite."""
    return lineage.c[f"{BY_NAME[subject.name].kind_column}"]
