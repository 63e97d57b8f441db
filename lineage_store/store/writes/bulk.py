"""Many samples at once, the way each database takes them fastest.

In: columns of samples of known series, steps ascending. Out: rows, in the place of those with the same key.
SQLite gets INSERTs of many VALUES with an upsert, in key order; PostgreSQL gets one binary COPY, after the rows that
are written again were deleted. Promises: the same rows on both; NaN becomes NULL. Does not know statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, repeat
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Connection, Table, any_, delete, literal
from sqlalchemy.dialects.postgresql import ARRAY

from lineage_store.store.batch import Column, SampleColumns
from lineage_store.store.writes import binary_copy

_KEY = ("job_id", "series_id", "step")
_PARAMETERS = 8_000
"""Of one statement: a quarter of what SQLite takes; larger statements are no faster."""


@dataclass(frozen=True, slots=True)
class SeriesSamples:
    """Samples of one series."""

    job_id: int
    series_id: int
    samples: SampleColumns
    rewrites: bool
    """Whether some of the steps may be stored already."""

    def column(self, name: str) -> Column | None:
        """A column of the table; None where the plugin has none."""
        match name:
            case "job_id" | "series_id":
                return np.broadcast_to(np.int64(getattr(self, name)), self.samples.steps.shape)
            case "step":
                return self.samples.steps
        return self.samples.columns.get(name)


def write(connection: Connection, table: Table, parts: Sequence[SeriesSamples]) -> None:
    """Store samples."""
    ordered = sorted(parts, key=lambda part: (part.job_id, part.series_id))
    if not ordered:
        return
    if connection.dialect.name == "sqlite":
        _insert_values(connection, table, ordered)
        return
    for part in ordered:
        if part.rewrites:
            _delete_steps(connection, table, part)
    names = [column.name for column in table.columns]
    blocks = ([part.column(name) for name in names] for part in ordered)
    binary_copy.copy(connection, table, blocks)


def _insert_values(connection: Connection, table: Table, parts: Iterable[SeriesSamples]) -> None:
    width = len(table.columns)
    most = _PARAMETERS // width * width
    parameters = tuple(chain.from_iterable(chain.from_iterable(_rows(table, part) for part in parts)))
    for start in range(0, len(parameters), most):
        some = parameters[start : start + most]
        connection.exec_driver_sql(_upsert_sql(table, len(some) // width), some)


def _rows(table: Table, part: SeriesSamples) -> Iterator[tuple[Any, ...]]:
    """Rows in the order of the table's columns; SQLite itself makes NULL of NaN."""
    columns = (part.column(column.name) for column in table.columns)
    # a column of NULLs has no end of its own; the steps end the rows
    return zip(*(repeat(None) if column is None else column.tolist() for column in columns), strict=False)


@cache
def _upsert_sql(table: Table, rows: int) -> str:
    names = [column.name for column in table.columns]
    place = f"({','.join('?' * len(names))})"
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name not in _KEY)
    quoted = ", ".join(f'"{name}"' for name in names)
    return (
        f"INSERT INTO {table.name} ({quoted}) VALUES {','.join([place] * rows)} "  # noqa: S608 - names of the schema
        f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {changes}"
    )


def _delete_steps(connection: Connection, table: Table, part: SeriesSamples) -> None:
    mine = (table.c.job_id == part.job_id) & (table.c.series_id == part.series_id)
    steps = literal(part.samples.steps.tolist(), ARRAY(BigInteger))
    connection.execute(delete(table).where(mine, table.c.step == any_(steps)))
