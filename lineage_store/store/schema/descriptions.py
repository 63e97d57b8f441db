"""The meaning of every table, view and column: one list, from the tables' comments and the views' columns.

In: tables/ and views/. Out: relations with their columns; stored as COMMENT ON each of them on PostgreSQL, and as rows
of a table `schema_doc` on SQLite, which has no comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import DDL, Column, text
from sqlalchemy.dialects import postgresql

from lineage_store.store.database.sql import Session
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


def store(session: Session) -> None:
    """Store every meaning in the database: as comments on PostgreSQL, in `schema_doc` on SQLite."""
    if session.kind == "sqlite":
        _fill_schema_doc(session)
        return
    for relation in relations():
        _comment(session, f"{relation.kind} {relation.name}", relation.meaning)
        for column in relation.columns:
            _comment(session, f'COLUMN {relation.name}."{column.name}"', column.meaning)


def _comment(session: Session, on: str, meaning: str) -> None:
    literal = meaning.replace("'", "''")
    session.change(DDL(f"COMMENT ON {on} IS '{literal}'".replace("%", "%%")))  # type: ignore[no-untyped-call]


def _fill_schema_doc(session: Session) -> None:
    session.change("DROP TABLE IF EXISTS schema_doc")
    session.change(CREATE_SCHEMA_DOC)
    rows: list[tuple[str | None, ...]] = []
    for relation in relations():
        rows.append((relation.name, None, relation.kind, relation.meaning, None))
        rows.extend((relation.name, c.name, c.type, c.meaning, c.unit) for c in relation.columns)
    session.change("INSERT INTO schema_doc VALUES (?, ?, ?, ?, ?)", rows)


def _described(column: Column[Any]) -> Described:
    type_ = column.type.compile(_POSTGRESQL).partition(" COLLATE")[0].lower()
    short = type_.replace("timestamp with time zone", "timestamptz")
    return Described(column.name, short, column.comment or "")


# ---- Create, replace and drop the views; find out whether they are this release's, and who may read them
# In: the session of a write transaction. Out: views, and the GRANT statements of dropped ones. A digest of all
# views and descriptions is stored with them, so that an upgrade leaves a database that is up to date alone.


NAMES = tuple(view.name for view in VIEWS)
_GRANTS = text(
    """
    SELECT format('GRANT %s ON %I TO %s', a.privilege_type, c.relname,
                  CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(:names) AND a.grantee <> c.relowner
    """
)
_STORED = text("SELECT obj_description(to_regclass(:table), 'pg_class')")


def create(session: Session) -> None:
    for view in VIEWS:
        session.change(f"CREATE VIEW {view.name} AS\n{view.select(session.kind)}")


def replace(session: Session, tables: Sequence[str]) -> None:
    """Make the views of `tables` read the tables that have these names now; comments and grants are kept."""
    for view in VIEWS:
        select = view.select(session.kind)
        if any(table in select for table in tables):
            session.change(f"CREATE OR REPLACE VIEW {view.name} AS\n{select}")


def drop(session: Session) -> None:
    for view in VIEWS:
        session.change(f"DROP VIEW IF EXISTS {view.name}")


def grants(session: Session, names: Sequence[str] = NAMES) -> list[str]:
    """Return the GRANT statements for the privileges of others on views or tables, to be run after making them anew."""
    if session.kind == "sqlite":
        return []
    return session.column(_GRANTS, {"names": list(names)})


def up_to_date(session: Session, version_table: str) -> bool:
    """Return whether the database's views and descriptions are this release's, by the digest stored with them."""
    if session.kind == "sqlite":
        stored = str(session.value("PRAGMA user_version"))
    else:
        stored = _marks(session, version_table)[0]
    return stored == str(_digest(session.kind))


def fingerprint(session: Session, version_table: str) -> str:
    """Return what `mark_up_to_date` stored of the definitions on PostgreSQL; empty: nothing."""
    return _marks(session, version_table)[1]


def mark_up_to_date(session: Session, version_table: str, fingerprint: str = "") -> None:
    """Store that the database's views and descriptions are this release's, on PostgreSQL with a fingerprint."""
    digest = _digest(session.kind)
    if session.kind == "sqlite":
        session.change(f"PRAGMA user_version = {digest}")
    else:
        session.change(f"COMMENT ON TABLE {version_table} IS '{digest} {fingerprint}'")


def _marks(session: Session, version_table: str) -> tuple[str, str]:
    digest, _, fingerprint = (session.value(_STORED, {"table": version_table}) or "").partition(" ")
    return digest, fingerprint


def _digest(dialect: str) -> int:
    """Return 31 bits of a digest of all views and descriptions."""
    everything = repr([relations(), [view.select(dialect) for view in VIEWS]])
    return int.from_bytes(sha256(everything.encode()).digest()[:4]) >> 1
