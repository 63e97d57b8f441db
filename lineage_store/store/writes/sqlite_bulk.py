"""Insert many rows into SQLite from columns: staged as a database in memory, then inserted by one statement per block.

In: columns in the order of the table's columns. Out: rows; they replace rows with the same key.
Promises: NaN becomes NULL; the same rows are inserted if this build of SQLite cannot stage, for want of
`sqlite3.Connection.deserialize`. Why: binding a value to a statement takes Python as long as storing it takes SQLite,
and holds the GIL, so that no other thread reads log files meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import count, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Table

from lineage_store.store.database.sql import Session
from lineage_store.store.records import Block, Column

CAN_STAGE = hasattr(sqlite3.Connection, "deserialize")
STAGED = "staged"
"""The name of the attached database. The rows staged last, a few MB, stay in it until the connection closes."""
ATTACH = "ATTACH ':memory:' AS staged"
INSERT_TEXTS = "INSERT INTO staged.texts (text, no) VALUES (?, ?)"


@dataclass(frozen=True, slots=True)
class Stage:
    """What inserts some rows: an image to attach as `staged`, texts for its second table, and the statement."""

    image: bytes
    texts: list[tuple[str | None, int]]
    insert: str


def insert(session: Session, table: Table, block: Block) -> None:
    """Insert rows, or replace rows with the same key. This is fastest in the order of the keys.

    Args:
        block: at least one column that is not None.
    """
    if not CAN_STAGE:
        _insert_values(session, table, block)
        return
    if STAGED not in session.connection.info:
        session.change(ATTACH)
        session.connection.info[STAGED] = True
    driver: Any = session.connection.connection.driver_connection
    for stage in stages(table, block):
        driver.deserialize(stage.image, name=STAGED)
        if stage.texts:
            session.change(INSERT_TEXTS, stage.texts)
        session.change(stage.insert)


def stages(table: Table, block: Block) -> Iterator[Stage]:
    """Stage rows part by part."""
    kinds = tuple(None if column is None else _is_text(column) for column in block)
    columns = [column for column in block if column is not None]
    for first in range(0, len(columns[0]), MOST_ROWS):
        part = [column[first : first + MOST_ROWS] for column in columns]
        texts = _Texts()
        numbers = [texts.numbers(column) if _is_text(column) else column for column in part]
        yield Stage(image(numbers), list(texts.items()), _insert_staged(table, kinds))


def _is_text(column: Column) -> bool:
    return column.dtype.kind == "O"


class _Texts(dict[str | None, int]):
    """The number of each distinct text, assigned when the text is first looked up."""

    def __missing__(self, text: str | None) -> int:
        self[text] = number = len(self)
        return number

    def numbers(self, column: Column) -> NDArray[np.int64]:
        """Return the numbers of the texts in a column."""
        return np.array(list(map(self.__getitem__, column.tolist())), np.int64)


@cache
def _insert_staged(table: Table, kinds: Sequence[bool | None]) -> str:
    """Return the INSERT for columns with texts (True), numbers (False) or nothing but NULL (None)."""
    staged, values, source = count(), list[str](), "staged.rows"
    for is_text in kinds:
        value = "NULL" if is_text is None else f"c{next(staged)}"
        if is_text:
            source += f" LEFT JOIN staged.texts AS {value}_text ON {value}_text.no = {value}"
            value = f"{value}_text.text"
        values.append(value)
    select = f"SELECT {', '.join(values)} FROM {source} WHERE true"  # noqa: S608 - names of columns
    return _upsert(table, select)


def _insert_values(session: Session, table: Table, block: Block) -> None:
    """Insert the same rows without staging, value by value."""
    columns: list[Iterable[Any]] = [repeat(None) if column is None else column.tolist() for column in block]
    insert = _upsert(table, f"VALUES ({', '.join('?' * len(columns))})")
    session.change(insert, list(zip(*columns)))  # noqa: B905 - the columns of NULLs are endless


def _upsert(table: Table, source: str) -> str:
    names = [f'"{column.name}"' for column in table.columns]
    key = [f'"{column.name}"' for column in table.primary_key.columns]
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key)
    into = f"INSERT INTO {table.name} ({', '.join(names)})"
    return f"{into} {source} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


# ---- A database that numpy writes, for `deserialize`: its table `rows` has the columns as c0, c1, …; `texts` is empty
# SQLite itself writes the header and the schema, this module the b-tree pages of `rows` in SQLite's file format
# (sqlite.org/fileformat2.html, sections 1.6 and 2.1), in which SQLite's integrity check finds no error. Each value
# takes eight bytes and each rowid four, so that all records are equally long and a page of them is one array.

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
