"""What conditions can name and compare with: the metrics and user-defined values that jobs have, and known values.

In: an open read transaction, subjects. Out: names and values, the most frequent first; or an error that shows the
closest names. Promises: each name is found by index.
`lineage.filter` does not check: a name that no job has is legal in a condition, and counts as missing in every job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, func, literal_column, or_, select

from lineage_store.errors import LineageParamValueError, LineageSearchConditionParamError
from lineage_store.fields import METRIC_PREFIX, PREFIXES, SUMMARY_PREFIXES, USER_PREFIX
from lineage_store.query.condition import Subject, SubjectType, containing
from lineage_store.query.job_sql import VALUED, field_column, name_key
from lineage_store.store.database.sql import Session, is_like
from lineage_store.store.schema.tables import train_job
from lineage_store.texts import from_stored, meant, shown, to_stored

_WORDS: dict[SubjectType, tuple[str, str]] = {
    "metric": (METRIC_PREFIX, "metric"),
    "metric_summary": ("metric_", "number of a metric"),
    "user_defined": (USER_PREFIX, "user-defined value"),
}
"""The prefix of the names, and what an error calls one of them."""
_MOST_NAMES, _SHOWN_NAMES = 10_000, 10
_COUNTED = 10_000
"""Counting jobs of a name stops here: the order of names that are more frequent does not matter."""


def require_known(
    session: Session, asked: Iterable[Subject], base_dir_ids: Sequence[int] | None = None
) -> None:
    """Raise LineageSearchConditionParamError for a metric or user-defined value that no job has; fields are skipped.

    `base_dir_ids`: only jobs of these base dirs count; None: all of the store, also those that are being removed.
    """
    for subject in dict.fromkeys(each for each in asked if each.type in VALUED):
        table = VALUED[subject.type]
        if not _any_has(session, table, subject, base_dir_ids):
            known = _names(session, table)
            if base_dir_ids is not None:
                known = [
                    each
                    for each in known
                    if _any_has(session, table, replace(subject, name=to_stored(each)), base_dir_ids)
                ]
            raise _refused(subject, known, "the store" if base_dir_ids is None else "these base dirs")


def _any_has(session: Session, table: Table, subject: Subject, base_dir_ids: Sequence[int] | None) -> bool:
    having = select(table.c.job_id).where(table.c.name_key == name_key(subject))
    if base_dir_ids is not None:
        having = having.join(train_job, train_job.c.id == table.c.job_id)
        having = having.where(train_job.c.base_dir_id.in_(base_dir_ids))
    return session.first(having.limit(1)) is not None


def all_names(session: Session) -> dict[str, list[str]]:
    """Return up to 10,000 names for each prefix (`metric`, `metric_best` …), the most frequent first."""
    names = {kind: _names(session, VALUED[kind]) for kind in PREFIXES}
    summaries = _names(session, VALUED["metric_summary"])
    for public, stored in SUMMARY_PREFIXES.items():
        found = [name.removeprefix(stored) for name in summaries if name.startswith(stored)]
        names[public.removesuffix("/")] = found
    return names


def _names(session: Session, table: Table) -> list[str]:
    """Return the names that jobs have in a table, the most frequent first."""
    found = session.rows(_stepped(table))
    counted = ((-count, from_stored(each)) for each, count in found)
    return [each for _, each in sorted(counted)]


def _stepped(table: Table) -> Select[Any]:
    """Return the statement that finds each name by one step in the index."""
    names = select(func.min(table.c.name_key).label("key")).cte("names", recursive=True)
    after = select(func.min(table.c.name_key)).where(table.c.name_key > names.c.key).scalar_subquery()
    names = names.union_all(select(after).where(names.c.key.is_not(None)))
    of_name = table.c.name_key == names.c.key
    name = select(table.c.name).where(of_name).limit(1).scalar_subquery()
    some: Select[Any] = select(literal_column("1")).where(of_name).select_from(table).limit(_COUNTED)
    jobs = select(func.count()).select_from(some.correlate(names).subquery()).scalar_subquery()
    return select(name, jobs).where(names.c.key.is_not(None)).limit(_MOST_NAMES)


def _refused(subject: Subject, known: list[str], whose: str) -> LineageSearchConditionParamError:
    name, (prefix, kind) = from_stored(subject.name), _WORDS[subject.type]
    shown = ", ".join(f"{prefix}{each}" for each in known[:_SHOWN_NAMES])
    more = f" and {len(known) - _SHOWN_NAMES:,} more" if len(known) > _SHOWN_NAMES else ""
    return LineageSearchConditionParamError(
        f"No job of {whose} has a {kind} {name!r}. {meant(name, known, prefix)}".rstrip(),
        hint=f"There are {shown}{more}." if known else f"No job has any {kind}.",
    )


# ---- The values that jobs have of a field, a metric or a user-defined value


_COMPARED = ("text", "int", "float", "+inf", "-inf")


def known_values(session: Session, subject: Subject, part: str, most: int) -> list[tuple[Any, int]]:
    """Return the `most` most frequent values, each with the number of jobs that have it, in one pass over that name.

    They are numbers, and texts that contain `part` (in any case of A to Z). Lists, objects, booleans, NaN and missing
    values are left out; so are times, because hardly two jobs have the same. Raises LineageParamValueError when `part`
    is too long.
    """
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
    rows = session.rows(found.order_by(jobs.desc(), *in_order).limit(most))
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
