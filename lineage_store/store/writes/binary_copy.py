"""PostgreSQL's binary COPY, fed from columns.

In: columns in the order of the table's. Out: rows. Per row the format has a count of fields, and per field its length
(-1 is NULL) and its bytes, big-endian. Rows without NULL and text are laid out by numpy in one go.
Promises: NaN becomes NULL. Does not know what the table means.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Connection, Integer, Table
from sqlalchemy.types import Float

from lineage_store.store.database.copying import copying
from lineage_store.store.records import Column

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = struct.pack(">h", -1)
_NULL = struct.pack(">i", -1)
_ROWS_AT_ONCE = 2048

Block = Sequence[Column | None]
"""Columns of equal length; None is a column of NULLs."""


def copy(connection: Connection, table: Table, block: Block) -> None:
    """Append rows; a key that exists already is an error. Raises SQLAlchemy's errors, as every statement does."""
    types = [_wire_type(column.type) for column in table.columns]
    with copying(connection, table, [column.name for column in table.columns], "BINARY") as sink:
        sink.write(_SIGNATURE)
        for some in _plain_and_others(block):
            for part in _parts(some):
                sink.write(_encoded(part, types))
        sink.write(_TRAILER)


def _plain_and_others(block: Block) -> Iterator[Block]:
    """The rows without NULL and those with, where that sets many free from being encoded one by one."""
    columns = [column for column in block if column is not None and column.dtype.kind in "if"]
    if len(columns) < len(block) or all(map(_is_plain, columns)):
        yield block
        return
    has_null = np.logical_or.reduce([np.isnan(column) for column in columns if column.dtype.kind == "f"])
    for which in (~has_null, has_null):
        if which.any():
            yield [column[which] for column in columns]


def _parts(block: Block) -> Iterator[Block]:
    """So many rows at a time that the server stores some while the next are encoded."""
    count = max(len(column) for column in block if column is not None)
    for start in range(0, count, _ROWS_AT_ONCE):
        end = start + _ROWS_AT_ONCE
        yield [None if column is None else column[start:end] for column in block]


def _encoded(block: Block, types: Sequence[str | None]) -> bytes:
    columns = [column for column in block if column is not None]
    if len(columns) == len(block) and all(_is_plain(column) for column in columns):
        return _plain_rows(columns, types)
    count = len(columns[0])
    head = struct.pack(">h", len(block))
    fields = [_fields(column, wire, count) for column, wire in zip(block, types, strict=True)]
    return b"".join(head + b"".join(row) for row in zip(*fields, strict=True))


def _plain_rows(columns: Sequence[Column], types: Sequence[str | None]) -> bytes:
    layout = [("fields", ">i2")]
    for number, wire in enumerate(types):
        layout += [(f"length_{number}", ">i4"), (f"value_{number}", str(wire))]
    rows = np.empty(len(columns[0]), np.dtype(layout))
    rows["fields"] = len(columns)
    for number, column in enumerate(columns):
        rows[f"length_{number}"] = rows.dtype[f"value_{number}"].itemsize
        rows[f"value_{number}"] = column
    return rows.tobytes()


def _fields(column: Column | None, wire: str | None, count: int) -> Iterable[bytes]:
    """The field of each row, with its length."""
    if column is None:
        return repeat(_NULL, count)
    if wire is None:
        texts = (None if text is None else text.encode() for text in column.tolist())
        return [_NULL if text is None else struct.pack(">i", len(text)) + text for text in texts]
    size = struct.pack(">i", np.dtype(wire).itemsize)
    values = column.astype(wire)
    encoded = values.view(f"V{values.itemsize}").tolist()
    missing = np.isnan(column) if column.dtype.kind == "f" else np.zeros(count, np.bool_)
    return [_NULL if null else size + value for value, null in zip(encoded, missing.tolist(), strict=True)]


def _is_plain(column: Column) -> bool:
    return column.dtype.kind == "i" or (column.dtype.kind == "f" and not bool(np.isnan(column).any()))


def _wire_type(of: Any) -> str | None:
    """How the format spells a number of this type; None for text."""
    if isinstance(of, Float):
        return ">f8"
    if isinstance(of, BigInteger):
        return ">i8"
    return ">i4" if isinstance(of, Integer) else None
