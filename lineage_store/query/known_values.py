"""The values that jobs have of a field, a metric or a user-defined value: what a condition may compare it with.

In: an open read transaction, a subject, part of a text. Out: values, each with the number of jobs that have it, the
most frequent first. Lists, objects, booleans, NaN and missing values are left out; so are times, because hardly two
jobs have the same. Takes one pass over the values of that name. A part
that is too long raises LineageParamValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from lineage_store.errors import LineageParamValueError
from lineage_store.query.search.literals import containing
from lineage_store.query.search.predicates import VALUED, field_column, name_key
from lineage_store.query.search.tree import Subject
from lineage_store.store.database.patterns import is_like
from lineage_store.texts import from_stored, shown

_COMPARED = ("text", "int", "float", "+inf", "-inf")


def known_values(connection: Connection, subject: Subject, part: str, most: int) -> list[tuple[Any, int]]:
    """Return the `most` most frequent values: texts that contain `part` (in any case of A to Z), and all numbers."""
    if subject.type == "time":
        return []
    jobs = func.count().label("jobs")
    values, given = _values_of(subject)
    try:
        pattern = containing(part)
    except ValueError as error:
        raise LineageParamValueError(f"part = {shown(part)} must be {error}.") from None
    found: Select[Any] = select(*values, jobs).where(*given).group_by(*values)
    if part and subject.type not in ("integer", "float"):
        contains = is_like(values[0], pattern)
        found = found.where(or_(values[0].is_(None), contains))
    in_order = (value.nulls_first() for value in values)  # by default the databases differ in where NULL goes
    rows = connection.execute(found.order_by(jobs.desc(), *in_order).limit(most))
    return [(_first(known), count) for *known, count in rows]


def _values_of(subject: Subject) -> tuple[list[ColumnElement[Any]], list[ColumnElement[bool]]]:
    """Return the columns, one of which holds the value, and the conditions for rows that have a value."""
    if subject.type in VALUED:
        row = VALUED[subject.type].c
        return [row.text, row.value], [row.name_key == name_key(subject), row.kind.in_(_COMPARED)]
    column = field_column(subject)
    return [column], [column.is_not(None)]


def _first(known: Sequence[Any]) -> Any:
    value = next(each for each in known if each is not None)
    return from_stored(value) if isinstance(value, str) else value
