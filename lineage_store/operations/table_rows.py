"""The rows of a store's tables, one database's as the other's: read in batches in the order of keys, and appended.

In: a connection, a table, perhaps the key behind which to begin. Out: rows as plain values; rows that are there.
Promises: memory is bounded by a batch; both databases give the same rows in the same order; samples, of which there
are very many, go past SQLAlchemy. Does not know what the rows are read for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, literal, select, tuple_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import Float

from lineage_store.store.database.copying import copying
from lineage_store.store.database.dialects import insert_plain
from lineage_store.store.database.statements import Statement, statement_of
from lineage_store.store.records import Column
from lineage_store.store.schema import partitions
from lineage_store.store.schema.tables import ingest_lease, metadata, scalar_sample
from lineage_store.store.writes import binary_copy

SAMPLES = [metadata.tables[name] for name in partitions.SAMPLE_TABLES]
TABLES = [table for table in metadata.sorted_tables if table not in (ingest_lease, *SAMPLES)] + SAMPLES
"""Owners before what belongs to them, samples after the jobs. Who leads is a matter of each store."""
SAMPLES_AT_A_TIME = 2_000
ROWS_AT_A_TIME = 500
"""Of other tables, whose rows may hold long texts."""

Rows = list[tuple[Any, ...]]


def batches(
    connection: Connection, table: Table, after: Sequence[Any] | None = None
) -> Generator[Rows, None, None]:
    """The rows behind a key, in the order of keys, which is the same on both databases."""
    key = list(table.primary_key.columns)
    query = select(*table.columns).order_by(*key)
    if after:
        last = [literal(value, column.type) for value, column in zip(after, key, strict=True)]
        query = query.where(tuple_(*key) > tuple_(*last))
    size = SAMPLES_AT_A_TIME if table in SAMPLES else ROWS_AT_A_TIME
    if table in SAMPLES:
        yield from _plain_rows(connection, statement_of(query, connection.dialect), size)
        return
    with connection.execute(query, execution_options={"yield_per": size}) as found:
        for rows in found.partitions():
            yield [tuple(row) for row in rows]


def _plain_rows(connection: Connection, query: Statement, size: int) -> Iterator[Rows]:
    """Rows as the driver reads them, which is all that numbers and texts need."""
    failure, is_sqlite = connection.dialect.loaded_dbapi.Error, connection.dialect.name == "sqlite"
    opened: Any = connection.connection.cursor() if is_sqlite else connection.connection.cursor("copied")
    try:
        with closing(opened) as cursor:
            cursor.execute(query.text, query.arguments({}))
            while rows := cursor.fetchmany(size):
                yield rows
    except failure as error:
        raise DBAPIError.instance(query.text, None, error, failure, dialect=connection.dialect) from error


def key_of(table: Table, row: Sequence[Any]) -> list[Any]:
    return [value for value, column in zip(row, table.columns, strict=True) if column.primary_key]


def append(
    connection: Connection, table: Table, several: Iterable[Rows], digest: binary_copy.Digest
) -> Iterator[Rows]:
    """Append batch after batch, and give each back: all are there when the last was asked for.

    The digest is of scalars that go into PostgreSQL, which stores some while the next are read.
    """
    names = [column.name for column in table.columns]
    if table not in SAMPLES:
        for rows in several:
            insert_plain(connection, table, [dict(zip(names, row, strict=True)) for row in rows])
            yield rows
    elif connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(names))
        into = f"INSERT INTO {table.name} ({', '.join(map(_quoted, names))}) VALUES ({places})"  # noqa: S608 - ours
        for rows in several:
            connection.exec_driver_sql(into, rows)
            yield rows
    elif table is scalar_sample:
        with binary_copy.appending(connection, table) as append_block:
            for rows in several:
                columns = _columns(table, rows)
                append_block(columns)
                digest.add(columns)
                yield rows
    else:
        with copying(connection, table, names) as sink:
            for rows in several:
                for row in rows:
                    sink.write_row(row)
                yield rows


def _columns(table: Table, rows: Rows) -> list[Column]:
    kinds: list[Any] = [
        np.float64 if isinstance(column.type, Float) else np.int64 for column in table.columns
    ]
    return [np.array(of, kind) for of, kind in zip(zip(*rows, strict=True), kinds, strict=True)]


def _quoted(name: str) -> str:
    return f'"{name}"'
