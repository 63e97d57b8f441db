"""Write config/datasette.json, the metadata with which Datasette shows a SQLite store: views, units, the cookbook.

In: the descriptions of the schema, docs/cookbook.md. Out: JSON, in config/datasette.json or in the file given as the
only argument. Promises: tables are hidden; every question of the cookbook is a named query.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from lineage_store.store.schema.descriptions import Relation, relations

ROOT = Path(__file__).resolve().parent.parent
METADATA = ROOT / "config" / "datasette.json"
DATABASE = "store"
"""Datasette calls a database by its file's name without the ending."""
_QUESTION = re.compile(r"^## (\d+)\. (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SQL = re.compile(r"^```sql\n(.*?);\n```", re.MULTILINE | re.DOTALL)
_UNITS = {"s": "second", "bytes": "byte"}
"""Our units in the spelling of Datasette's library."""
_FACETS = {
    "v_job": ["network", "optimizer", "state"],
    "v_series": ["plugin", "tag"],
    "v_metric_latest": ["name"],
    "v_log_file": ["state", "kind"],
    "v_ingest_problem": ["kind"],
}


def metadata() -> dict[str, Any]:
    """Return Datasette's metadata of a store."""
    known = {each.name: _relation(each) for each in relations()}
    queries = dict(_queries((ROOT / "docs" / "cookbook.md").read_text("utf-8")))
    about = {
        "title": "Lineage store",
        "description": "What MindSpore trainings wrote, by jobs, tags and steps.",
    }
    return {**about, "databases": {DATABASE: {"tables": known, "queries": queries}}}


def _relation(relation: Relation) -> dict[str, Any]:
    if relation.kind == "table":
        return {"hidden": True}
    columns = {column.name: column.meaning for column in relation.columns}
    units = {column.name: _UNITS[column.unit] for column in relation.columns if column.unit in _UNITS}
    told = {"description": relation.meaning, "columns": columns, "units": units}
    return told | ({"facets": _FACETS[relation.name]} if relation.name in _FACETS else {})


def _queries(page: str) -> Any:
    for number, question, section in _QUESTION.findall(page):
        for place, sql in zip(("", "b"), _SQL.findall(section), strict=False):
            yield f"question_{number}{place}", {"title": f"{number}. {question}", "sql": sql}


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else METADATA
    target.write_text(json.dumps(metadata(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
