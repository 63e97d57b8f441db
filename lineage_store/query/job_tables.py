"""Tables about jobs, for notebooks.

In: an open read transaction, a checked condition. Out: a `Table`. Promises: a column that no job has is refused
with the closest; times are points in time. Does not know which libraries take the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from lineage_store.errors import LineageParamValueError, LineageSearchConditionParamError
from lineage_store.fields import BY_NAME, PREFIXES, SEARCHABLE
from lineage_store.query.names import all_names, named_by, require
from lineage_store.query.search.columns import job_columns
from lineage_store.query.search.condition import read_subject
from lineage_store.query.search.tree import SearchCondition, Subject
from lineage_store.query.table import Kind, Table, column_of
from lineage_store.texts import closest

ABOUT: Mapping[str, Kind] = {
    "base_dir": "text",
    "summary_dir": "text",
    "state": "text",
    "tag": "integer",
    "remark": "text",
    "host": "text",
    "first_started_at": "time",
    "last_started_at": "time",
    "last_event_at": "time",
    "updated_at": "time",
}
"""What is known of every job, whatever was trained: the first columns, and their kinds."""
MOST_NAMES = 100
"""Of metrics, and of user-defined values, that are columns where nobody says which."""
_ATTRIBUTES = {"summary_dir": "train_id", "tag": "label"}
_EVERY_JOB = 2**31 - 1


def job_table(
    connection: Connection,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    columns: Sequence[str] | None,
    limit: int | None,
) -> Table:
    """The first `limit` jobs that match (None: all) with these columns; None: with all that any of them has."""
    names = all_names(connection)
    asked = list(dict.fromkeys(_everything(names) if columns is None else columns))
    subjects = {name: _subject(name, names) for name in asked if name not in ABOUT}
    require(connection, [*named_by(condition), *subjects.values()])
    most = min(limit or _EVERY_JOB, _EVERY_JOB)
    found = job_columns(connection, condition, base_dir_ids, subjects, most, every=True)
    shown = {}
    for name in asked:
        if name in ABOUT:
            shown[name] = column_of(getattr(found, _ATTRIBUTES.get(name, name)), ABOUT[name])
        elif name in BY_NAME:
            shown[name] = column_of(found.values[name], BY_NAME[name].type)
        elif columns is not None or any(value is not None for value in found.values[name]):
            shown[name] = column_of(found.values[name])
    return Table(shown)


def _everything(names: Mapping[str, Sequence[str]]) -> list[str]:
    """Every column, of names those that most jobs have."""
    named = [f"{PREFIXES[group]}{name}" for group in PREFIXES for name in names[group][:MOST_NAMES]]
    return [*ABOUT, *(field.name for field in SEARCHABLE if field.name not in ABOUT), *named]


def _subject(column: str, names: Mapping[str, Sequence[str]]) -> Subject:
    try:
        return read_subject(column)
    except LineageSearchConditionParamError as error:
        close = closest(str(column), _everything(names))
        raise LineageParamValueError(
            f"columns: {column!r} is no column." + (f" Did you mean {close}?" if close else ""),
            hint=f"There are {', '.join(_everything(dict.fromkeys(PREFIXES, ())))}, metric/NAME and "
            "user_defined/NAME.",
        ) from error
