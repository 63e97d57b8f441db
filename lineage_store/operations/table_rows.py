"""Read the rows of a store's tables in batches by ascending key, and append rows to them.

In: a connection, a table, an optional key to start behind. Out: rows as plain values; appended rows. Promises: memory
is bounded by a batch; both databases return the same rows in the same order; samples, which are very many, bypass
SQLAlchemy for speed. Does not know what the rows are used for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, exists, literal, select, tuple_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import Float

from lineage_store.store.database.copying import copying
from lineage_store.store.database.dialects import insert_plain
from lineage_store.store.database.statements import Statement, statement_of
from lineage_store.store.records import Column
from lineage_store.store.schema.tables import SAMPLE_TABLES, ingest_lease, metadata, scalar_sample
from lineage_store.store.writes import binary_copy

_OTHERS = [each for each in metadata.sorted_tables if each not in (ingest_lease, *SAMPLE_TABLES)]
TABLES = [*_OTHERS, *SAMPLE_TABLES]
"""All tables but ingest_lease, which is each store's own; referenced tables before those that refer to them."""
SAMPLES_AT_A_TIME = 2_000
ROWS_AT_A_TIME = 500
"""Batch size of the other tables, whose rows may have long texts."""

Rows = list[tuple[Any, ...]]


def batches(
    connection: Connection, table: Table, after: Sequence[Any] | None = None
) -> Generator[Rows, None, None]:
    """Yield the rows behind the key `after`, by ascending key; the order is the same on both databases."""
    key = list(table.primary_key.columns)
    query = select(*table.columns).order_by(*key)
    if after:
        last = [literal(value, column.type) for value, column in zip(after, key, strict=True)]
        query = query.where(tuple_(*key) > tuple_(*last))
    if table in SAMPLE_TABLES:
        yield from _samples(connection, statement_of(query, connection.dialect))
        return
    with connection.execute(query, execution_options={"yield_per": ROWS_AT_A_TIME}) as found:
        for rows in found.partitions():
            yield [tuple(row) for row in rows]


def _samples(connection: Connection, query: Statement) -> Iterator[Rows]:
    """Yield rows as the driver returns them; numbers and texts need no conversion by SQLAlchemy."""
    failure, is_sqlite = connection.dialect.loaded_dbapi.Error, connection.dialect.name == "sqlite"
    opened: Any = connection.connection.cursor() if is_sqlite else connection.connection.cursor("copied")
    try:
        with closing(opened) as cursor:
            cursor.execute(query.text, query.arguments({}))
            while rows := cursor.fetchmany(SAMPLES_AT_A_TIME):
                yield rows
    except failure as error:
        raise DBAPIError.instance(query.text, None, error, failure, dialect=connection.dialect) from error


def any_row(connection: Connection, table: Table) -> bool:
    """Return whether the table has a row."""
    return bool(connection.execute(select(exists().select_from(table))).scalar())


def key_of(table: Table, row: Sequence[Any]) -> list[Any]:
    return [value for value, column in zip(row, table.columns, strict=True) if column.primary_key]


def append(
    connection: Connection, table: Table, several: Iterable[Rows], digest: binary_copy.Digest
) -> Iterator[Rows]:
    """Append the batches and yield each of them; all are appended once the iterator is exhausted.

    Scalars for PostgreSQL are added to `digest`; PostgreSQL stores a batch while the next one is read.
    """
    names = [column.name for column in table.columns]
    if table not in SAMPLE_TABLES:
        for rows in several:
            insert_plain(connection, table, [dict(zip(names, row, strict=True)) for row in rows])
            yield rows
    elif connection.dialect.name == "sqlite":
        into = str(table.insert().compile(dialect=connection.dialect))
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
