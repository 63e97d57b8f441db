"""Tables about jobs: jobs that match a condition, evaluations of one job, a comparison of several, curves.

In: an open read transaction, and a checked condition or jobs. Out: a `Table`. Promises: a column or metric that no job
has is refused with the closest name; times are datetimes in UTC. Does not know which libraries read the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import select

from lineage_store.errors import (
    LineageFileNotFoundError,
    LineageParamValueError,
    LineageSearchConditionParamError,
    SampleNotFoundError,
)
from lineage_store.fields import BY_NAME, METRIC_PREFIX, MINDINSIGHTS, PREFIXES, USER_PREFIX
from lineage_store.query.condition import SearchCondition, Subject, names_asked
from lineage_store.query.condition_dict import read_subject
from lineage_store.query.job_sql import Want
from lineage_store.query.jobs import JobRow, jobs_of_ids, value_of
from lineage_store.query.jobs import columns as job_columns
from lineage_store.query.samples.scalars import Scalars, joined
from lineage_store.query.status import VIEW_COLUMNS, read_evaluations
from lineage_store.query.table import Column, Kind, Table, column_of, instants
from lineage_store.query.vocabulary import all_names, require_known
from lineage_store.store.database.sql import Session
from lineage_store.store.schema.tables import user_info
from lineage_store.texts import from_stored, meant

ABOUT: Mapping[str, Kind] = {
    "base_dir": "text",
    "summary_dir": "text",
    "state": "text",
    "outcome": "text",
    "tag": "integer",
    "remark": "text",
    "host": "text",
    "first_started_at": "time",
    "last_started_at": "time",
    "last_event_at": "time",
    "updated_at": "time",
}
"""The columns that every job has, whatever was trained, with their kinds; they come first."""
MOST_NAMES = 100
"""The most metrics, and the most user-defined values, that become columns when the caller names no columns."""
_ATTRIBUTES = {"summary_dir": "train_id", "tag": "label"}
"""Attributes of `Columns` that are not named like the column."""
_IDENTITY, _NOTES = {"base_dir", "summary_dir"}, {"tag", "remark"}
_KINDS: Mapping[str, Kind] = {"text": "text", "integer": "integer", "float": "float", "time": "time"}
"""Kinds of fields by field type. Metrics and user-defined values have no fixed type: their values decide."""


def job_table(
    session: Session,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    columns: Sequence[str] | None,
    limit: int | None,
) -> Table:
    """Return the first `limit` matching jobs (None: all) as a table.

    Args:
        columns: names of the columns; None: all fields, and the most frequent metrics and user-defined values that
            any of these jobs has.

    Raises:
        LineageParamValueError: there is no such column.
        LineageSearchConditionParamError: no job has such a metric or user-defined value.
    """
    names = all_names(session)
    asked = list(dict.fromkeys(_everything(names) if columns is None else columns))
    subjects = {name: _subject(name, names) for name in asked if name not in ABOUT}
    require_known(session, [*names_asked(condition), *subjects.values()])
    about = ABOUT.keys() & asked
    own, notes = bool(about - _IDENTITY - _NOTES), bool(about & _NOTES)
    want = Want(own=own, notes=notes, names=tuple(subjects.items()))
    found = job_columns(session, condition, want, base_dir_ids, most=limit, every=True)
    shown = {}
    for name in asked:
        if name in ABOUT:
            shown[name] = column_of(getattr(found, _ATTRIBUTES.get(name, name)), ABOUT[name])
        elif (type_ := subjects[name].type) in _KINDS:
            shown[name] = column_of(found.values[name], _KINDS[type_])
        elif (has_any := any(value is not None for value in found.values[name])) or columns is not None:
            kind: Kind | None = None if has_any or type_ == "user_defined" else "float"
            shown[name] = column_of(found.values[name], kind)
    return Table(shown)


def evaluation_table(session: Session, job_id: int, train_id: str, metric: str | None) -> Table:
    """Return the results of every evaluation of a job, of one metric or of all.

    Raises SampleNotFoundError when the job has no such metric.
    """
    rows = read_evaluations(session, job_id)
    names = [from_stored(row["name"]) for row in rows]
    wanted = None if metric is None else metric.removeprefix(METRIC_PREFIX)
    if wanted is not None and wanted not in names:
        raise SampleNotFoundError(
            f"The job {train_id} has no metric {wanted!r}. {meant(wanted, names)}".rstrip(),
            hint=f"There are {', '.join(dict.fromkeys(names))}." if names else "It was never evaluated.",
        )
    chosen = [(name, row) for name, row in zip(names, rows, strict=True) if wanted in (None, name)]
    about = {
        column: column_of([row[column] for _, row in chosen], _KIND_OF_TYPE[type_])
        for column, type_ in _ABOUT_EVALUATIONS.items()
    }
    values = [value_of(row["kind"], row["value"], row["text"]) for _, row in chosen]
    value = column_of(values, None if values else "float")
    return Table({"metric": column_of([name for name, _ in chosen], "text"), **about, "value": value})


def comparison(session: Session, job_ids: Sequence[int], *, alike: bool) -> Table:
    """Compare jobs: a row for each field, metric and user-defined value that differs, a column for each job.

    Args:
        alike: also show rows in which all jobs are equal.

    Raises LineageFileNotFoundError for a job that has neither lineage nor user-defined values.
    """
    jobs = jobs_of_ids(session, job_ids, Want(notes=False, lineage=True))
    lineages = [_lineage(session, job) for job in jobs]
    rows = {name: [found.get(name) for found in lineages] for found in lineages for name in found}
    shown = {name: row for name, row in rows.items() if alike or len(set(map(repr, row))) > 1}
    columns = list(zip(*shown.values(), strict=True)) or [()] * len(jobs)
    titled = zip(_titles(jobs), columns, strict=True)
    return Table(
        {"name": Column("text", list(shown)), **{title: Column("json", values) for title, values in titled}}
    )


def curve_table(found: Sequence[tuple[tuple[str, str], Scalars]]) -> Table:
    """Return the scalars of several jobs, each with its (base dir, train id), as one long table."""
    steps, wall_times, values = joined((each.steps, each.wall_times, each.values) for _, each in found)
    counts = np.array([len(each) for _, each in found], np.int64)
    base_dirs, ids = (np.array([place[i] for place, _ in found], object).repeat(counts) for i in (0, 1))
    return Table(
        {
            "base_dir": Column("text", base_dirs),
            "summary_dir": Column("text", ids),
            "step": Column("integer", steps),
            "wall_at": instants(wall_times),
            "value": Column("float", values),
        },
        note=_left_out(
            sum(each.thinned_count for _, each in found), sum(each.replaced_count for _, each in found)
        ),
    )


def _left_out(thinned: int, replaced: int) -> str:
    """Return the note of a table of curves: how many samples are left out, and where to find them."""
    notes = []
    if thinned:
        notes.append(f"Thinned: {thinned:,} more samples were written; v_scalar_bucket has them.")
    if replaced:
        notes.append(
            f"Several devices wrote the same steps: {replaced:,} samples are left out: of each step the later log "
            "file's is shown; --device (device=) chooses one."
        )
    return " ".join(notes)


_KIND_OF_TYPE: Mapping[str, Kind] = {
    "text": "text",
    "bigint": "integer",
    "integer": "integer",
    "double precision": "float",
    "boolean": "bool",
    "timestamptz": "time",
}
_ABOUT_EVALUATIONS = {
    column: type_
    for column, type_ in VIEW_COLUMNS["v_metric"].items()
    if column not in ("job_id", "base_dir", "train_id", "name", "kind", "value", "text")
}


def _lineage(session: Session, job: JobRow) -> dict[str, Any]:
    """Return the fields, metrics and user-defined values of a job by public name."""
    if job.model_lineage is not None:
        return dict(_flat(job.model_lineage))
    columns = (user_info.c[name] for name in ("name", "kind", "value", "text"))
    query = select(*columns).where(user_info.c.job_id == job.job_id).order_by(user_info.c.position)
    rows = session.rows(query)
    found = {f"{USER_PREFIX}{from_stored(name)}": value_of(*value) for name, *value in rows}
    if not found:
        raise LineageFileNotFoundError(f"The job {job.train_id} has no lineage.")
    return found


def _flat(lineage: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in lineage.items():
        if name not in PREFIXES:
            is_word = BY_NAME[name].type == "float" and isinstance(value, str)  # NaN or an infinity
            yield name, float(value) if is_word else value
    for group, prefix in PREFIXES.items():
        yield from ((f"{prefix}{name}", value) for name, value in lineage[group].items())


def _titles(jobs: Sequence[JobRow]) -> list[str]:
    """Return the column titles of jobs: train ids, with the base dir where several jobs have the same id."""
    ids = [job.train_id for job in jobs]
    return [
        f"{job.base_dir}/{each[2:]}" if ids.count(each) > 1 else each
        for job, each in zip(jobs, ids, strict=True)
    ]


def _everything(names: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the default columns: of metrics and user-defined values, the names that most jobs have."""
    # A value whose name is empty gets no column, as no condition can name it.
    named = [f"{PREFIXES[group]}{name}" for group in PREFIXES for name in names[group][:MOST_NAMES] if name]
    return [*ABOUT, *(field.name for field in MINDINSIGHTS if field.name not in ABOUT), *named]


def _subject(column: str, names: Mapping[str, Sequence[str]]) -> Subject:
    try:
        return read_subject(column)
    except LineageSearchConditionParamError as error:
        raise LineageParamValueError(
            f"columns: {column!r} is no column. {meant(str(column), _everything(names))}".rstrip(),
            hint=f"There are {', '.join(_everything(dict.fromkeys(PREFIXES, ())))}, metric/NAME, "
            "metric_best/NAME, metric_first/NAME and user_defined/NAME.",
        ) from error
