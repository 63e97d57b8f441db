"""What is asked at every tick is answered from indexes of the few rows it is about, however many files there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, event

from lineage_store.query.change_cursor import Place
from lineage_store.query.changes import read_changes
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import open_engine, reading, writing
from lineage_store.store.writes import generations


def plan(url: str, ask: Callable[[Connection], object]) -> list[str]:
    """The plan of what is asked, step by step."""
    engine, asked = open_engine(url), list[tuple[str, Any]]()
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
    with reading(engine) as connection:
        ask(connection)
        steps = [
            str(step.detail)
            for statement, parameters in asked[:]
            for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    engine.dispose()
    return steps


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda connection: registry.live_jobs(connection, 1), "ix_log_file_unsettled"),
        (lambda connection: generations.any_replaced(connection, 1), "ix_log_file_unsettled"),
        (lambda connection: registry.summary(connection, 1), "ix_log_file_pending"),
        (lambda connection: registry.known_files(connection, 1, {"./a"}), "(job_id=?)"),
    ],
)
def test_log_files_are_found_by_an_index_of_few(
    ask: Callable[[Connection], object], index: str, sqlite_url: str
) -> None:
    of_files = [step for step in plan(sqlite_url, ask) if " log_file " in step]
    assert of_files, "no step is about log files"
    assert all(index in step for step in of_files), of_files


def test_changes_are_found_by_revision(sqlite_url: str) -> None:
    def ask(connection: Connection) -> None:
        begun = {"/base": Place(0, 5, "./a")}
        read_changes(connection, begun, until={"/base": Place(0, 9, "")}, limit=10)

    engine = open_engine(sqlite_url)
    with writing(engine) as connection:
        registry.ensure_base_dir(connection, "/base", datetime.fromtimestamp(0, UTC))
    engine.dispose()
    steps = plan(sqlite_url, ask)
    assert any(
        "ix_train_job_revision (base_dir_id=? AND revision>? AND revision<?)" in step for step in steps
    )
    assert any(
        "ix_tombstone_revision (base_dir_id=? AND revision>? AND revision<?)" in step for step in steps
    )
