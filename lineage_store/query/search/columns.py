"""Matching jobs as columns, for tables and plots of very many jobs.

In: an open read transaction, a checked condition, subjects. Out: a list of values for each column, all in the order of
the jobs. Promises: one snapshot; the JSON of jobs is not read, which would take ten times as long; named values are
looked up only for matching jobs. NaN and infinities are floats, not words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, select

from lineage_store.extreme_numbers import NUMBER_BY_KIND
from lineage_store.query.search.compiler import compile_columns
from lineage_store.query.search.predicates import VALUED, field_column, kind_column, name_key, table_of
from lineage_store.query.search.scope import scope_of
from lineage_store.query.search.tree import NAMED, SearchCondition, Subject
from lineage_store.store.database.dialects import listed, one_of
from lineage_store.store.database.statements import run
from lineage_store.store.schema.tables import annotation, train_job
from lineage_store.texts import from_stored
from lineage_store.times import from_unix, instant

_SHOWN = ("base_dir_id", "train_id", "state", "outcome", "host")
_TIMES = ("update_time", "first_file_time", "last_file_time", "last_wall_time")
_ABOUT = tuple(train_job.c[name] for name in (*_SHOWN, *_TIMES))
_EVERY_JOB = 2**31 - 1
"""More than there can be: ids have 31 bits."""
_ANNOTATED = select(*(annotation.c[name] for name in ("base_dir_id", "train_id", "tag", "remark")))


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Columns of the matching jobs, each with an item per job: their own data, and the values asked for."""

    base_dir: list[str]
    train_id: list[str]
    state: list[str]
    outcome: list[str | None]
    host: list[str | None]
    updated_at: list[datetime]
    first_started_at: list[datetime | None]
    last_started_at: list[datetime | None]
    last_event_at: list[datetime | None]
    label: list[int | None]
    remark: list[str | None]
    values: Mapping[str, list[Any]]
    """Lists of values by name, in the order asked for; None is unknown."""

    def by_job(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the values by (base dir, train id), then by name."""
        jobs = zip(self.base_dir, self.train_id, strict=True)
        return {job: {name: each[row] for name, each in self.values.items()} for row, job in enumerate(jobs)}


def job_columns(
    connection: Connection,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    asked: Mapping[str, Subject],
    most: int | None,
    *,
    every: bool = False,
) -> JobColumns:
    """Return the first `most` matching jobs (None: all), with a column of values for each subject in `asked`.

    The condition's page is ignored. `every`: also jobs without lineage, unless the condition has an order.
    """
    scope = scope_of(connection, base_dir_ids)
    fields = [each for each in asked.values() if each.type not in NAMED and table_of(each) != "annotation"]
    columns = (*_ABOUT, *(column for field in fields for column in _columns_of(field)))
    statement = compile_columns(condition.where, condition.sort, scope.base_dirs, columns, every=every)
    limit = _EVERY_JOB if most is None else min(most, _EVERY_JOB)
    rows = run(connection, statement, **condition.values, most=limit)
    found = list(zip(*rows, strict=True)) or [()] * (1 + len(columns))
    ids, base_dirs, train_ids, states, outcomes, hosts, updated, first, last, event, *values = found
    next_values = iter(values)
    of_fields = {subject: _decoded(subject, next_values) for subject in fields}
    named = {subject: _named(connection, subject, ids) for subject in asked.values() if subject.type in NAMED}
    said = {(base, name): (tag, remark) for base, name, tag, remark in run(connection, _ANNOTATED)}
    annotations = [said.get(job, (None, None)) for job in zip(base_dirs, train_ids, strict=True)]
    labels, remarks = ([each[place] for each in annotations] for place in (0, 1))
    known = {Subject("integer", "tag"): labels, Subject("text", "remark"): remarks, **of_fields, **named}
    paths = {number: from_stored(path) for number, path in scope.paths.items()}
    return JobColumns(
        [paths[number] for number in base_dirs],
        list(map(from_stored, train_ids)),
        list(states),
        list(outcomes),
        [host and from_stored(host) for host in hosts],
        list(map(from_unix, updated)),
        list(map(instant, first)),
        list(map(instant, last)),
        list(map(instant, event)),
        labels,
        remarks,
        {name: known[subject] for name, subject in asked.items()},
    )


def _columns_of(field: Subject) -> list[ColumnElement[Any]]:
    column = field_column(field)
    return [column, kind_column(field)] if field.type == "float" else [column]


def _decoded(subject: Subject, columns: Any) -> list[Any]:
    """Take the next column from `columns` (for a float field two: value and kind) and decode its values."""
    values = next(columns)
    if subject.type == "float":
        kinds = next(columns)
        return [NUMBER_BY_KIND.get(kind, value) for value, kind in zip(values, kinds, strict=True)]
    if subject.type == "text":
        return [value and from_stored(value) for value in values]
    if subject.type == "time":
        return list(map(instant, values))
    return list(values)


def _named(connection: Connection, subject: Subject, ids: Sequence[int]) -> list[Any]:
    """Return a metric or user-defined value of each of the jobs."""
    dialect = connection.dialect.name
    wanted = {"wanted": listed(dialect, ids), "name_key": name_key(subject)}
    rows = run(connection, _values_of_jobs(dialect, subject.type), **wanted)
    found = {job: decoded(kind, value, text) for job, kind, value, text in rows}
    return [found.get(job) for job in ids]


@lru_cache
def _values_of_jobs(dialect_name: str, kind: str) -> Select[Any]:
    table = VALUED[kind]
    of_jobs = one_of(dialect_name, table.c.job_id, bindparam("wanted"))
    values = select(table.c.job_id, table.c.kind, table.c.value, table.c.text)
    return values.where(of_jobs, table.c.name_key == bindparam("name_key"))


def decoded(kind: str, value: float | None, text: str | None) -> Any:
    """Return a metric or user-defined value from the columns in which the store keeps it."""
    match kind:
        case "text":
            return from_stored(text or "")
        case "json":
            return json.loads(text or "null")
        case "bool":
            return bool(value)
        case "int":
            return int(value or 0)
        case _:
            return NUMBER_BY_KIND.get(kind, value)
