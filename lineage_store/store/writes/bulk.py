"""Many samples at once, the way each database takes them fastest.

In: columns of samples of known series, steps ascending. Out: rows, in the place of those with the same key.
SQLite gets INSERTs of many VALUES with an upsert, in key order, in which a value that all rows share is bound once;
PostgreSQL gets one binary COPY, after the rows that are written again were deleted. Promises: the same rows on both;
NaN becomes NULL. Does not know statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, count, pairwise

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, delete, func, literal
from sqlalchemy.dialects.postgresql import ARRAY

from lineage_store.store.records import Column, SampleColumns
from lineage_store.store.writes import binary_copy

Integers = NDArray[np.int64]

_KEY = ("job_id", "series_no", "step")
_PARAMETERS = 8_000
"""Of one statement: a quarter of what SQLite takes; larger statements are no faster."""
_ROWS = (1024, 256, 64, 16, 4, 1)
"""Rows of one statement: few sizes, so that each statement is prepared once."""
_LONG = 512
"""A series with so many samples has statements of its own, which share more values."""


def write(
    connection: Connection,
    table: Table,
    samples: SampleColumns,
    series_nos: Integers,
    rewritten: Sequence[int],
) -> None:
    """Store samples.

    Args:
        series_nos: the series' numbers within their jobs, by their number among the samples.
        rewritten: numbers of the series of which some steps may be stored already.
    """
    job_ids = np.array([name.file.job_id for name in samples.series])
    known = {
        "job_id": job_ids[samples.number],
        "series_no": series_nos[samples.number],
        "step": samples.steps,
    }
    found = {**samples.columns, **known}
    columns = [found.get(column.name) for column in table.columns]
    if connection.dialect.name == "sqlite":
        by_key = np.lexsort((series_nos, job_ids))
        rank = np.argsort(by_key)[samples.number]
        if (np.diff(rank) < 0).any():
            order = np.argsort(rank, kind="stable")
            columns = _of_each(columns, order)
        for rows, is_long in _spans(np.bincount(samples.number)[by_key]):
            _insert_values(connection, table, _of_each(columns, rows), share=is_long)
        return
    if rewritten:
        again = np.isin(samples.number, rewritten)
        _delete(connection, table, {name: keys[again] for name, keys in known.items()})
    binary_copy.copy(connection, table, columns)


def _of_each(columns: Sequence[Column | None], rows: slice | Integers) -> list[Column | None]:
    return [None if column is None else column[rows] for column in columns]


def _spans(counts: Integers) -> Iterator[tuple[slice, bool]]:
    """Cut the rows of series of these lengths before and behind each long one; and whether a span is a long one."""
    is_long = counts >= _LONG
    last = np.append(np.flatnonzero(is_long[1:] | is_long[:-1]), len(counts) - 1)
    ends = np.cumsum(counts)[last].tolist()
    for (start, end), series in zip(pairwise([0, *ends]), last.tolist(), strict=True):
        yield slice(start, end), bool(is_long[series])


def _insert_values(
    connection: Connection, table: Table, columns: Sequence[Column | None], *, share: bool
) -> None:
    """Insert rows; `share` looks for what all have in common. What short series share by chance would need a statement
    that is prepared for this once."""
    varies = tuple(
        column is not None and not (share and bool((column == column[:1]).all())) for column in columns
    )
    both = list(zip(columns, varies, strict=True))
    shared = tuple(None if column is None else column[:1].tolist()[0] for column, own in both if not own)
    own = [column.tolist() for column, own in both if own and column is not None]
    parameters = tuple(chain.from_iterable(zip(*own, strict=True)))
    start, rows, width = 0, len(own[0]), len(own)
    for size in _ROWS:
        while rows >= size and size * width <= _PARAMETERS:
            statement = _upsert_sql(table, varies, size)
            connection.exec_driver_sql(statement, shared + parameters[start : start + size * width])
            start += size * width
            rows -= size


@cache
def _upsert_sql(table: Table, varies: tuple[bool, ...], rows: int) -> str:
    """Shared values come first among the parameters, in the order of the columns.

    The first row says the numbers of its parameters, the others' own follow by themselves: SQLite keeps a list of those
    that have a number in the text, and looks each up in it when a statement is prepared, Python 3.12 when it is run.
    """
    names = [column.name for column in table.columns]
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name not in _KEY)
    quoted = ", ".join(f'"{name}"' for name in names)
    shared, own = count(1), count(1 + varies.count(False))
    first = [f"?{next(own if varied else shared)}" for varied in varies]
    others = ["?" if varied else place for varied, place in zip(varies, first, strict=True)]
    places = ",".join([f"({','.join(first)})", *[f"({','.join(others)})"] * (rows - 1)])
    return (
        f"INSERT INTO {table.name} ({quoted}) VALUES {places} "  # noqa: S608 - names of the schema
        f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {changes}"
    )


def _delete(connection: Connection, table: Table, keys: Mapping[str, Integers]) -> None:
    """Delete the rows with these keys, where they are there, by one statement however many series they are of."""
    columns = [table.c[name] for name in keys]
    lists = (literal(keys[column.name].tolist(), ARRAY(column.type)) for column in columns)
    again = func.unnest(*lists).table_valued(*keys, name="again").render_derived()
    connection.execute(delete(table).where(*(column == again.c[column.name] for column in columns)))
