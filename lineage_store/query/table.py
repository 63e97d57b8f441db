"""An answer for a notebook: named columns of equal length, which convert to pandas, polars and Arrow.

In: columns of plain values or numpy arrays, each of one kind. Out: a frozen `Table`. Promises: these libraries are
imported on first use, and the error for a missing one says what to install; times are instants in UTC; missing values,
NaN and infinities stay distinct, except for floats in pandas, which has one mark for NaN and missing; invalid Unicode
in texts and in names of columns is escaped for these libraries, and names stay distinct; HTML is escaped and bounded.
Does not know where the values come from.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lineage_store.errors import LineageStoreError
from lineage_store.plain_values import (
    CALENDAR_BEGIN,
    CALENDAR_END,
    LARGEST_INTEGER,
    LEAST_INTEGER,
    for_json,
    iso,
    spelled,
)
from lineage_store.texts import escaped, to_stored

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


Kind = Literal["text", "integer", "float", "bool", "time", "json"]
SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_CHARACTERS = 20, 30, 80
"""The most that a notebook shows of a table: rows, columns, and characters of a cell."""
_KINDS: dict[type, Kind] = {bool: "bool", int: "integer", float: "float", str: "text", datetime: "time"}
_GREATEST_FLOAT = int(np.finfo(np.float64).max)
"""An integer beyond this, which a metric may be, fits into no float."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of one kind. `json` is for mixed types, lists and dicts, which Arrow and polars get as JSON text."""

    kind: Kind
    values: Sequence[Any] | NDArray[Any]
    """Plain values, None for a missing one, or a numpy array. Times are an array of datetime64[us] in UTC."""

    def plain(self, most: int | None = None) -> list[Any]:
        """Return the first `most` values (None: all) as Python objects; times are aware datetimes."""
        some = self.values[:most]
        found = some.tolist() if isinstance(some, np.ndarray) else list(some)
        return [each and each.replace(tzinfo=UTC) for each in found] if self.kind == "time" else found

    def portable(self) -> Sequence[Any] | NDArray[Any]:
        """Return the values as Arrow and polars accept them: invalid Unicode in texts is escaped as in the store."""
        match self.kind:
            case "text":
                return [text if text is None or text.isascii() else _unicode(text) for text in self.values]
            case "json":
                return [None if each is None else json.dumps(for_json(each)) for each in self.values]
            case _:
                return self.values


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """The rows of an answer, stored by column. A notebook shows the first ones."""

    by_name: Mapping[str, Column]
    note: str = ""
    """A remark about the rows, such as how many samples are left out."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.by_name)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as plain values: None for a missing one, aware datetimes for times."""
        return self._first(None)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.by_name.values())).values) if self.by_name else 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __getitem__(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return self.by_name[name].plain()

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame; integers and bools have the dtypes of pandas that allow missing values."""
        library = imported("pandas", "lineage-store[pandas]")
        series = {name: _series(library, column) for name, column in self._portable().items()}
        return library.DataFrame(series, copy=False)

    def to_arrow(self) -> pyarrow.Table:
        """Return an Arrow table."""
        library = imported("pyarrow", "lineage-store[arrow]")
        types = {"integer": library.int64(), "float": library.float64(), "bool": library.bool_()}
        types["time"] = library.timestamp("us", tz="UTC")
        return library.table(
            {
                name: library.array(column.portable(), types.get(column.kind, library.string()))
                for name, column in self._portable().items()
            }
        )

    def to_polars(self) -> polars.DataFrame:
        """Return a DataFrame of polars."""
        library = imported("polars", "polars")
        types = {"integer": library.Int64, "float": library.Float64, "bool": library.Boolean}
        types["time"] = library.Datetime("us")
        columns = self._portable()
        series = {
            name: library.Series(name, column.portable(), dtype=types.get(column.kind, library.String))
            for name, column in columns.items()
        }
        return library.DataFrame(
            [
                each.dt.replace_time_zone("UTC") if columns[name].kind == "time" else each
                for name, each in series.items()
            ]
        )

    def _portable(self) -> Mapping[str, Column]:
        """Return the columns under names without invalid Unicode: train ids and names of metrics may have it."""
        found = {_unicode(name): column for name, column in self.by_name.items()}
        if len(found) < len(self.by_name):  # one is like another name once escaped; as stored, all differ
            found = {to_stored(name): column for name, column in self.by_name.items()}
        return found

    def __repr__(self) -> str:
        names = [escaped(name) for name in self.columns]
        more = f", … {len(names) - SHOWN_COLUMNS:,} more" if len(names) > SHOWN_COLUMNS else ""
        return f"<Table of {len(self):,} rows: {', '.join(names[:SHOWN_COLUMNS])}{more}>"

    def _repr_html_(self) -> str:
        """Return the first rows and columns as HTML, for a notebook."""
        head = "".join(f"<th>{_cell(name)}</th>" for name in self.columns[:SHOWN_COLUMNS])
        rows = ("".join(f"<td>{_cell(value)}</td>" for value in row) for row in self._first(SHOWN_ROWS))
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        size = f"{len(self):,} rows, {len(self.by_name):,} columns"
        is_cut = len(self) > SHOWN_ROWS or len(self.by_name) > SHOWN_COLUMNS
        caption = f"{size}; shown are the first {SHOWN_ROWS} and {SHOWN_COLUMNS}" if is_cut else size
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{caption}</p>"

    def _first(self, most: int | None) -> list[tuple[Any, ...]]:
        columns = list(self.by_name.values())[: None if most is None else SHOWN_COLUMNS]
        return list(zip(*(column.plain(most) for column in columns), strict=True))


def column_of(values: Sequence[Any], kind: Kind | None = None) -> Column:
    """Return a column of plain values, of the given kind, or else of the kind that fits them all."""
    fitting = kind or _kind_of(values)
    if fitting == "time":
        instants = (each and each.astimezone(UTC).replace(tzinfo=None) for each in values)
        return Column("time", np.array(list(instants), "datetime64[us]"))
    if fitting == "float":
        return Column("float", [None if each is None else float(each) for each in values])
    return Column(fitting, values)


def instants(seconds: NDArray[np.float64]) -> Column:
    """Return a column of times from unix seconds; times before the year 1 or after 9999 are missing."""
    found = np.full(len(seconds), "NaT", "datetime64[us]")
    valid = (seconds >= CALENDAR_BEGIN) & (seconds <= CALENDAR_END)
    found[valid] = np.rint(seconds[valid] * 1e6).astype(np.int64).view("datetime64[us]")
    return Column("time", found)


def imported(package: str, requirement: str) -> ModuleType:
    """Import an optional package. Raises LineageStoreError, which says what to install, when it is missing."""
    try:
        return import_module(package)
    except ImportError as error:
        raise LineageStoreError(
            f"The package {package} cannot be imported: {error}.", hint=f"Run: pip install '{requirement}'"
        ) from error


def _kind_of(values: Iterable[Any]) -> Kind:
    given = [value for value in values if value is not None]
    kinds = set(map(type, given))
    if kinds == {int} and all(LEAST_INTEGER <= value <= LARGEST_INTEGER for value in given):
        return "integer"
    if kinds and kinds <= {int, float}:
        fits = all(abs(value) <= _GREATEST_FLOAT for value in given if type(value) is int)
        return "float" if fits else "json"
    if not kinds:
        return "text"
    return _KINDS.get(kinds.pop(), "json") if len(kinds) == 1 else "json"


def _series(library: Any, column: Column) -> Any:
    types = {"integer": "Int64", "float": "float64", "bool": "boolean", "json": "object"}
    if column.kind == "time":
        return library.Series(column.values).dt.tz_localize("UTC")
    if isinstance(column.values, np.ndarray) and column.kind != "text":
        return library.Series(column.values)
    values = column.portable() if column.kind == "text" else column.values
    return library.Series(values, dtype=types.get(column.kind, None if len(values) else "object"))


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return to_stored(text)
    return text


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case float():
            return spelled(value) or f"{value:.6g}"
        case datetime():
            return iso(value.replace(microsecond=0))
        case _:
            text = escaped(str(value))
            return html.escape(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…")
