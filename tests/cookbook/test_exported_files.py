"""The cookbook asked of exported files in DuckDB, without the store."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.cookbook import ANSWERS, QUERIES, approximately, plain
from helpers.engines import url_of
from lineage_store import LineageStore
from lineage_store.store.schema.views import VIEWS

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]
READERS = {
    "parquet": "read_parquet('{at}/{view}/**/*.parquet')",
    "csv": "read_csv('{at}/{view}/**/*.csv', sample_size=-1, union_by_name=true, types={types})",
    "jsonl": "read_json('{at}/{view}/**/*.jsonl', format='newline_delimited', columns={types})",
}
"""How DuckDB reads a view's files; those of text are told the types."""


@pytest.mark.parametrize("format_", READERS)
def test_exported_files_answer_the_cookbook(format_: str, filled: Engine, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with LineageStore(url_of(filled)) as store:
        store.export(to=tmp_path / "out", format=format_)
    files = json.loads((tmp_path / "out" / "manifest.json").read_text())["files"]
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for view in VIEWS:
        types = {column.name: column.type.replace("double precision", "double") for column in view.columns}
        if format_ == "jsonl" and not any(each["rows"] for each in files if each["name"] == view.name):
            continue
        reader = READERS[format_].format(at=tmp_path / "out", view=view.name, types=types)
        connection.execute(f"CREATE VIEW {view.name} AS SELECT * FROM {reader}")
    for question, query in QUERIES.items():
        rows = [tuple(map(tidy, row)) for row in connection.execute(query).fetchall()]
        assert rows == approximately(ANSWERS[question]), question


def tidy(value: Any) -> Any:
    """A value as SQLite gives it."""
    return plain(value) if isinstance(value, datetime) else value
