"""A copy of the package with a few added lines, as a developer would add them, which runs in a process of its own.

In: a folder; and for each file the lines to add and the line to add them after. Out: a copy of the package; `run`
executes a script with it. The script makes its SQLite store with `fresh_store`, because the migrations do not know the
added lines and the schema does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "lineage_store"
HELPERS = Path(__file__).resolve().parents[1]

FRESH_STORE = """
from alembic.migration import MigrationContext
from helpers.engines import opened
from lineage_store import LineageStore
from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.database.connections import APPLICATION_ID
from lineage_store.store.schema import descriptions, upgrade
from lineage_store.store.schema.tables import metadata

def fresh_store(path):
    with opened(f"sqlite:///{path}") as engine, writing(engine) as session:
        metadata.create_all(session.connection)
        descriptions.create(session)
        descriptions.store(session)
        alembic = MigrationContext.configure(session.connection, opts={"version_table": upgrade.VERSION_TABLE})
        alembic._ensure_version_table()
        session.change(f"INSERT INTO {upgrade.VERSION_TABLE} VALUES ('{upgrade.HEAD}')")
        session.change(f"PRAGMA application_id = {APPLICATION_ID}")
        descriptions.mark_up_to_date(session, upgrade.VERSION_TABLE)
    return LineageStore(f"sqlite:///{path}")
"""


def copy_package(folder: Path) -> Path:
    """Return a copy of the package below `folder`."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, folder / "lineage_store", ignore=ignored))


def add_lines(path: Path, after: str, lines: str) -> None:
    """Insert lines behind the line `after`, which must occur once in the file."""
    source = path.read_text(encoding="utf-8")
    assert source.count(f"\n{after}\n") == 1, f"{path} has the line {after!r} not once"
    path.write_text(source.replace(f"\n{after}\n", f"\n{after}\n{lines}"), encoding="utf-8")


def run(package: Path, script: str, *arguments: str | Path) -> str:
    """Return what a script prints that imports the copied package; it can call `fresh_store(path)`."""
    path = os.pathsep.join([str(package.parent), str(HELPERS)])
    process = subprocess.run(
        [sys.executable, "-c", FRESH_STORE + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=package.parent,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.returncode == 0, process.stderr
    return process.stdout
