"""Every table, view and column is described: in the database, and in docs/schema.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from helpers.base_dirs import ROOT
from helpers.engines import opened
from lineage_store.store.database.db import reading
from lineage_store.store.schema.descriptions import relations

_COMMENTS = """
SELECT c.relname, a.attname, col_description(c.oid, a.attnum) FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = current_schema()::regnamespace
  AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition AND c.relname <> 'lineage_store_version'
UNION ALL
SELECT relname, NULL, obj_description(oid, 'pg_class') FROM pg_class
WHERE relnamespace = current_schema()::regnamespace
  AND relkind IN ('r', 'p', 'v') AND NOT relispartition AND relname <> 'lineage_store_version'
"""


def test_database_describes_every_relation_and_column(engine: Engine) -> None:
    described: dict[tuple[str, str | None], str] = {}
    for relation in relations():
        described[relation.name, None] = relation.meaning
        described.update(((relation.name, column.name), column.meaning) for column in relation.columns)
    sql = "SELECT table_name, column_name, description FROM schema_doc"
    with reading(engine) as session:
        rows = session.rows(text(sql if engine.dialect.name == "sqlite" else _COMMENTS))
        assert {(name, column): meaning for name, column, meaning in rows} == described
    assert all(described.values())


def test_schema_doc_gives_units(sqlite_url: str) -> None:
    with opened(sqlite_url) as engine, reading(engine) as session:
        rows = session.rows(
            text(
                "SELECT column_name, unit FROM schema_doc WHERE table_name = 'v_series' AND unit IS NOT NULL"
            )
        )
    instants = [(name, "UTC") for name in ("last_at", "earliest_at", "latest_at")]
    assert [tuple(row) for row in rows] == [("steps_per_s", "1/s"), *instants]


@pytest.mark.parametrize(
    ("tool", "page"),
    [("schema_docs.py", "docs/schema.md"), ("datasette_metadata.py", "config/datasette.json")],
)
def test_generated_documentation_is_up_to_date(tool: str, page: str, tmp_path: Path) -> None:
    written = tmp_path / "written"
    subprocess.run([sys.executable, ROOT / "tools" / tool, written], check=True)
    assert (ROOT / page).read_text("utf-8") == written.read_text("utf-8"), "run `make docs`"
