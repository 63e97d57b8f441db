"""PostgreSQL's binary COPY, from columns of values.

In: columns in the order of the table's columns. Out: rows in the table; or digests of a table's rows of numbers, as
they are stored and as they should be. The format has, per row, the number of fields and, per field, its length (-1 is
NULL) and its bytes, big-endian. numpy encodes blocks of rows without NULL and text at once.
Promises: NaN becomes NULL; equal digests mean that all rows are equal, bit by bit. Does not know what the table means.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, repeat
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, ColumnElement, Integer, Table, func, literal_column, select
from sqlalchemy.types import Float

from lineage_store.store.database.sql import Session, copied, copying
from lineage_store.store.records import Block, Column

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = struct.pack(">h", -1)
_NULL = struct.pack(">i", -1)
_ROWS_AT_ONCE = 2048
_NAN: ColumnElement[float] = literal_column("float8 'NaN'")


def copy(session: Session, table: Table, block: Block) -> None:
    """Append rows. Raises SQLAlchemy's errors, an IntegrityError for a key that exists already."""
    with appending(session, table) as append:
        append(block)


@contextmanager
def appending(session: Session, table: Table) -> Iterator[Callable[[Block], None]]:
    """Append block after block, by the function that the `with` block is given.

    The server stores one block while the next is made.
    """
    types = _wire_types(table)
    with copying(session, table, [column.name for column in table.columns], "BINARY") as sink:

        def append(block: Block) -> None:
            for some in _plain_and_others(block):
                for part in _parts(some):
                    sink.write(_encoded(part, types))

        sink.write(_SIGNATURE)
        yield append
        sink.write(_TRAILER)


class Digest:
    """A digest of the rows of numbers that a table should have, in the order of its primary key.

    Equal to `digest_of_stored` when the table has them.
    """

    def __init__(self, table: Table) -> None:
        self._types, self._found = _wire_types(table), hashlib.blake2b(_SIGNATURE)
        self.rows = 0

    def add(self, columns: Sequence[Column]) -> None:
        """Add the next rows; NaN stands for NULL."""
        self._found.update(_plain_rows(columns, self._types))
        self.rows += len(columns[0])

    def digest(self) -> bytes:
        found = self._found.copy()
        found.update(_TRAILER)
        return found.digest()


def digest_of_stored(session: Session, table: Table) -> bytes:
    """Return the digest of all rows that a table of numbers has in the database."""
    values = (func.coalesce(each, _NAN) if isinstance(each.type, Float) else each for each in table.columns)
    rows = select(*values).order_by(*table.primary_key.columns)
    query = rows.compile(dialect=session.connection.dialect, compile_kwargs={"literal_binds": True})
    found = hashlib.blake2b()
    with copied(session, f"COPY ({query}) TO STDOUT (FORMAT BINARY)") as messages:
        while some := b"".join(islice(messages, _ROWS_AT_ONCE)):
            found.update(some)
    return found.digest()


def _plain_and_others(block: Block) -> Iterator[Block]:
    """Separate the rows without NULL, which are encoded at once, from those with, where the columns allow it."""
    columns = [column for column in block if column is not None and column.dtype.kind in "if"]
    if len(columns) < len(block) or all(map(_is_plain, columns)):
        yield block
        return
    has_null = np.logical_or.reduce([np.isnan(column) for column in columns if column.dtype.kind == "f"])
    for which in (~has_null, has_null):
        if which.any():
            yield [column[which] for column in columns]


def _parts(block: Block) -> Iterator[Block]:
    """Divide a block, so that the server stores some rows while the next are encoded."""
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
    """Encode a column: one field for each row, with its length."""
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


def _wire_types(table: Table) -> list[str | None]:
    return [_wire_type(column.type) for column in table.columns]


def _wire_type(of: Any) -> str | None:
    """The numpy type by which the format encodes a number of this SQL type; None for text."""
    if isinstance(of, Float):
        return ">f8"
    if isinstance(of, BigInteger):
        return ">i8"
    return ">i4" if isinstance(of, Integer) else None
