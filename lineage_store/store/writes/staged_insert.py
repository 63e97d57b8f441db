"""Insert many rows into SQLite from columns: staged as a database in memory, then inserted by one statement per block.

In: columns in the order of the table's columns. Out: rows; they replace rows with the same key.
Promises: NaN becomes NULL; the same rows are inserted if this build of SQLite cannot stage, for want of
`sqlite3.Connection.deserialize`. Why: binding a value to a statement takes Python as long as storing it takes SQLite,
and holds the GIL, so that no other thread reads log files meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table

from lineage_store.store.database import sqlite_image
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


def insert(connection: Connection, table: Table, block: Block) -> None:
    """Insert rows, or replace rows with the same key. This is fastest in the order of the keys.

    Args:
        block: at least one column that is not None.
    """
    if not CAN_STAGE:
        _insert_values(connection, table, block)
        return
    if STAGED not in connection.info:
        connection.exec_driver_sql(ATTACH)
        connection.info[STAGED] = True
    driver: Any = connection.connection.driver_connection
    for stage in stages(table, block):
        driver.deserialize(stage.image, name=STAGED)
        if stage.texts:
            connection.exec_driver_sql(INSERT_TEXTS, stage.texts)
        connection.exec_driver_sql(stage.insert)


def stages(table: Table, block: Block) -> Iterator[Stage]:
    """Stage rows part by part."""
    kinds = tuple(None if column is None else _is_text(column) for column in block)
    columns = [column for column in block if column is not None]
    for first in range(0, len(columns[0]), sqlite_image.MOST_ROWS):
        part = [column[first : first + sqlite_image.MOST_ROWS] for column in columns]
        texts = _Texts()
        numbers = [texts.numbers(column) if _is_text(column) else column for column in part]
        yield Stage(sqlite_image.image(numbers), list(texts.items()), _insert_staged(table, kinds))


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


def _insert_values(connection: Connection, table: Table, block: Block) -> None:
    """Insert the same rows without staging, value by value."""
    columns: list[Iterable[Any]] = [repeat(None) if column is None else column.tolist() for column in block]
    insert = _upsert(table, f"VALUES ({', '.join('?' * len(columns))})")
    connection.exec_driver_sql(insert, list(zip(*columns)))  # noqa: B905 - the columns of NULLs are endless


def _upsert(table: Table, source: str) -> str:
    names = [f'"{column.name}"' for column in table.columns]
    key = [f'"{column.name}"' for column in table.primary_key.columns]
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key)
    into = f"INSERT INTO {table.name} ({', '.join(names)})"
    return f"{into} {source} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"
