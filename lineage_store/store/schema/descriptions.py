"""The meaning of every table, view and column: one list, from the tables' comments and the views' columns.

In: tables/ and views/. Out: relations with their columns; stored as COMMENT ON each of them on PostgreSQL, and as rows
of a table `schema_doc` on SQLite, which has no comments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import DDL, Column, Connection
from sqlalchemy.dialects import postgresql

from lineage_store.store.schema.tables import metadata
from lineage_store.store.schema.views import VIEWS

SCHEMA_DOC = "schema_doc"
CREATE_SCHEMA_DOC = (
    f"CREATE TABLE {SCHEMA_DOC} (table_name TEXT NOT NULL, column_name TEXT, type TEXT NOT NULL,"
    " description TEXT NOT NULL, unit TEXT)"
)
_POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]
_UNITS = {
    "_per_s": "1/s",
    "_s": "s",
    "_at": "UTC",
    "_bytes": "bytes",
    "byte_offset": "bytes",
    "_time": "unix s",
}


@dataclass(frozen=True, slots=True)
class Described:
    """A column; `type` is PostgreSQL's name of the type."""

    name: str
    type: str
    meaning: str

    @property
    def unit(self) -> str | None:
        """The unit, by the end of the column's name; None if it says none."""
        return next((unit for ending, unit in _UNITS.items() if self.name.endswith(ending)), None)


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view."""

    kind: str
    name: str
    meaning: str
    columns: tuple[Described, ...]


def relations() -> tuple[Relation, ...]:
    """Return every table, then every view, in the order of their definition."""
    tables = (
        Relation("table", table.name, table.comment or "", tuple(map(_described, table.columns)))
        for table in metadata.tables.values()
    )
    views = (
        Relation(
            "view", view.name, view.meaning, tuple(Described(c.name, c.type, c.meaning) for c in view.columns)
        )
        for view in VIEWS
    )
    return (*tables, *views)


def store(connection: Connection) -> None:
    """Store every meaning in the database: as comments on PostgreSQL, in `schema_doc` on SQLite."""
    if connection.dialect.name == "sqlite":
        _fill_schema_doc(connection)
        return
    for relation in relations():
        _comment(connection, f"{relation.kind} {relation.name}", relation.meaning)
        for column in relation.columns:
            _comment(connection, f'COLUMN {relation.name}."{column.name}"', column.meaning)


def _comment(connection: Connection, on: str, meaning: str) -> None:
    literal = meaning.replace("'", "''")
    connection.execute(DDL(f"COMMENT ON {on} IS '{literal}'".replace("%", "%%")))  # type: ignore[no-untyped-call]


def _fill_schema_doc(connection: Connection) -> None:
    connection.exec_driver_sql("DROP TABLE IF EXISTS schema_doc")
    connection.exec_driver_sql(CREATE_SCHEMA_DOC)
    rows: list[tuple[str | None, ...]] = []
    for relation in relations():
        rows.append((relation.name, None, relation.kind, relation.meaning, None))
        rows.extend((relation.name, c.name, c.type, c.meaning, c.unit) for c in relation.columns)
    connection.exec_driver_sql("INSERT INTO schema_doc VALUES (?, ?, ?, ?, ?)", rows)


def _described(column: Column[Any]) -> Described:
    type_ = column.type.compile(_POSTGRESQL).partition(" COLLATE")[0].lower()
    short = type_.replace("timestamp with time zone", "timestamptz")
    return Described(column.name, short, column.comment or "")
