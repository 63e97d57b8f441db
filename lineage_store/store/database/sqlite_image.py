"""Columns of numbers as a SQLite database that numpy writes: SQLite reads them without a Python object for each value.

In: columns of int64 or float64 of equal length. Out: the bytes of a database for `sqlite3.Connection.deserialize`. Its
table `rows` has the columns as c0, c1, … in their order; its table `texts` (no, text) is empty.
Promises: SQLite's integrity check finds no error in it; SQLite reads NaN as NULL.
How: SQLite itself writes the header and the schema, this module the b-tree pages of `rows` in SQLite's file format
(sqlite.org/fileformat2.html, sections 1.6 and 2.1). Each value takes eight bytes and each rowid four, so that all
records are equally long and a page of them is one array.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
Bytes = NDArray[np.uint8]

MOST_ROWS = 16_384
"""Rows per image: a few MB. Larger images are no faster."""

_PAGE_BYTES = 1 << 16
_LEAF, _INTERIOR = b"\x0d", b"\x05"
_LEAF_HEADER_BYTES = 8
_POINTER_BYTES = 2
_INT64, _FLOAT64 = 6, 7
"""Serial types of the two kinds of values, which take eight bytes each."""
_PAGE_COUNT = slice(28, 32)
"""The bytes of a database's header that say how many pages it has."""
_ROWID_BYTES = 4
_FIRST_ROWID = 1 << 21
"""The least rowid that takes four bytes."""


def image(columns: Sequence[Numbers]) -> bytes:
    """Return a database with these columns: at least one, of equal lengths from 1 to MOST_ROWS."""
    schema, root = _schema(len(columns))
    cells = _cells(columns)
    per_leaf = (_PAGE_BYTES - _LEAF_HEADER_BYTES) // (cells.shape[1] + _POINTER_BYTES)
    leaves = [_page(_LEAF, cells[first : first + per_leaf]) for first in range(0, len(cells), per_leaf)]
    before, behind = schema[: (root - 1) * _PAGE_BYTES], schema[root * _PAGE_BYTES :]
    if len(leaves) == 1:
        pages = [before, leaves[0], behind]
    else:
        numbers = len(schema) // _PAGE_BYTES + 1 + np.arange(len(leaves))
        greatest = _FIRST_ROWID - 1 + per_leaf * (1 + np.arange(len(leaves) - 1))
        children = np.concatenate([_big_endian(numbers[:-1], ">u4"), _varints(greatest)], axis=1)
        pages = [before, _page(_INTERIOR, children, int(numbers[-1]).to_bytes(4, "big")), behind, *leaves]
    found = bytearray(b"".join(pages))
    found[_PAGE_COUNT] = (len(found) // _PAGE_BYTES).to_bytes(4, "big")
    return bytes(found)


@cache
def _schema(columns: int) -> tuple[bytes, int]:
    """Return a database in which both tables are empty, and the number of the root page of `rows`."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("CREATE TABLE texts (no INTEGER PRIMARY KEY, text TEXT)")
        connection.execute(f"CREATE TABLE rows ({', '.join(f'c{n}' for n in range(columns))})")
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rows'")
        return connection.serialize(), root


def _cells(columns: Sequence[Numbers]) -> Bytes:
    """Return (rows, bytes of a cell): a record's length and rowid, its header with the serial types, its values."""
    is_float = [column.dtype.kind == "f" for column in columns]
    header = [1 + len(columns), *(_FLOAT64 if each else _INT64 for each in is_float)]
    length = _varint(len(header) + 8 * len(columns))
    values = [(f"c{n}", ">f8" if each else ">i8") for n, each in enumerate(is_float)]
    parts = [
        ("length", "u1", (len(length),)),
        ("rowid", "u1", (_ROWID_BYTES,)),
        ("header", "u1", (len(header),)),
        *values,
    ]
    cells = np.empty(len(columns[0]), np.dtype(parts))
    cells["length"], cells["header"] = length, header
    cells["rowid"] = _varints(_FIRST_ROWID + np.arange(len(cells)))
    for (name, _), column in zip(values, columns, strict=True):
        cells[name] = column
    return cells.view(np.uint8).reshape(len(cells), -1)


def _page(kind: bytes, cells: Bytes, right_child: bytes = b"") -> bytes:
    """Return a page of a b-tree: its header, the offset of each cell, and the cells at the end of the page."""
    content = cells.tobytes()
    start = _PAGE_BYTES - len(content)
    places = _big_endian(start + cells.shape[1] * np.arange(len(cells)), ">u2").tobytes()
    header = (
        kind + bytes(2) + len(cells).to_bytes(2, "big") + start.to_bytes(2, "big") + bytes(1) + right_child
    )
    return (header + places).ljust(start, b"\0") + content


def _big_endian(numbers: Numbers, dtype: str) -> Bytes:
    return numbers.astype(dtype).view(np.uint8).reshape(len(numbers), -1)


def _varint(number: int) -> list[int]:
    """Return a number below 2^14 as SQLite's variable-length integer."""
    return [number] if number < 0x80 else [0x80 | number >> 7, number & 0x7F]


def _varints(rowids: NDArray[np.int64]) -> Bytes:
    """Return rowids of four bytes each."""
    return np.stack(
        [0x80 | rowids >> 21, 0x80 | rowids >> 14 & 0x7F, 0x80 | rowids >> 7 & 0x7F, rowids & 0x7F], axis=1
    ).astype(np.uint8)
