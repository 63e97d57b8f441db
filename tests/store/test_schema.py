"""The tables in the code are those that the migrations make, on both databases."""

from __future__ import annotations

import re

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from helpers.databases import DISTRIBUTED
from helpers.snapshots import assert_matches_snapshot
from lineage_store.fields import TRAINED
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema.tables import exists_on, lineage, metadata
from lineage_store.store.schema.upgrade import VERSION_TABLE, upgrade
from lineage_store.store.schema.views import VIEWS

# What a PostgreSQL database has, in PostgreSQL's own words.
_CATALOG = """
SELECT 'column', table_name, column_name, concat_ws(' ', data_type, is_nullable, column_default, collation_name)
FROM information_schema.columns WHERE table_schema = current_schema()
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
UNION ALL
SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()
UNION ALL
SELECT 'storage', relname, reloptions::text, '' FROM pg_class WHERE relkind = 'r' AND reloptions IS NOT NULL
"""


@pytest.mark.filterwarnings(
    "ignore:autogenerate skipping"
)  # SQLite's dialect is told of PostgreSQL's indexes too
@pytest.mark.skipif(DISTRIBUTED == "all", reason="which takes constraints away")
def test_migrations_make_the_tables_of_the_schema(engine: Engine) -> None:
    with reading(engine) as session:
        context = MigrationContext.configure(
            session.connection,
            opts={
                "include_name": _is_ours,
                "include_object": lambda item, *_: exists_on(session.kind, item),
                "version_table": VERSION_TABLE,
                "compare_server_default": True,
            },
        )
        assert compare_metadata(context, metadata) == []


def test_migrations_leave_the_catalog_that_create_all_leaves(
    empty_engine: Engine, empty_database_url: str
) -> None:
    with writing(empty_engine) as session:
        metadata.create_all(session.connection)
        created = _catalog(session)
        metadata.drop_all(session.connection)
    upgrade(empty_database_url)
    with reading(empty_engine) as session:
        assert _catalog(session) == created


def test_lineage_has_a_column_for_every_trained_field() -> None:
    names = [column.name for column in lineage.columns]
    assert [field.column for field in TRAINED] == names[1 : 1 + len(TRAINED)]


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_ddl_is_as_reviewed(name: str) -> None:
    dialect = {"sqlite": sqlite.dialect, "postgresql": postgresql.dialect}[name]()
    statements: list[str] = []
    for table in metadata.tables.values():
        found = (index for index in table.indexes if exists_on(name, index))
        indexes = sorted(found, key=lambda index: str(index.name))
        statements.append(str(CreateTable(table).compile(dialect=dialect)))
        statements += [str(CreateIndex(index).compile(dialect=dialect)) for index in indexes]
    statements += [f"CREATE VIEW {view.name} AS\n{view.select(name)}" for view in VIEWS]
    lines = ";\n\n".join(statement.strip() for statement in statements).replace("\t", "  ").splitlines()
    assert_matches_snapshot(f"schema_{name}.sql", "\n".join(line.rstrip() for line in lines) + ";\n")


def _is_ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or name in metadata.tables


def _catalog(session: Session) -> list[tuple[str, ...]]:
    """Everything that makes the tables, without order."""
    if session.kind == "postgresql":
        rows = session.rows(text(_CATALOG))
        return sorted(tuple(row) for row in rows if row[1] in metadata.tables)
    rows = session.rows(text("SELECT type, tbl_name, name, sql FROM sqlite_master WHERE type <> 'view'"))
    return sorted(
        (row[0], row[1], row[2], *_parts(row[3] or "")) for row in rows if row[1] in metadata.tables
    )


def _parts(sql: str) -> list[str]:
    """A CREATE TABLE cut into columns, constraints and options, whose order means nothing."""
    parts = re.split(r",\s*(?=CONSTRAINT)|(?=WITHOUT)", sql)
    return sorted(re.sub(r"\s+", " ", part).strip(" )") for part in parts)
