"""The queries of every tick read few rows from indexes, however many files there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from benchmarks.many_rows import add_jobs
from helpers.engines import opened
from helpers.stored_jobs import add_base_dir
from lineage_store.operations.health import read_findings
from lineage_store.query.changes import Place, read_changes
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import open_engine, reading, writing


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
        (lambda connection: registry.replaced_file(connection, 1), "ix_log_file_unsettled"),
        (lambda connection: registry.unfinished(connection, 1), "ix_log_file_pending"),
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

    with opened(sqlite_url) as engine, writing(engine) as connection:
        registry.ensure_base_dir(connection, "/base", datetime.fromtimestamp(0, UTC))
    steps = plan(sqlite_url, ask)
    assert any(
        "ix_train_job_revision (base_dir_id=? AND revision>? AND revision<?)" in step for step in steps
    )
    assert any(
        "ix_tombstone_revision (base_dir_id=? AND revision>? AND revision<?)" in step for step in steps
    )


def test_the_end_of_a_pass_looks_at_unfinished_files_and_open_problems_alone(engine: Engine) -> None:
    with writing(engine) as connection:
        base_dir_id = add_base_dir(connection)
        add_jobs(connection, base_dir_id, 6_000)
        some = "job_id IN (7, 4711)"
        connection.exec_driver_sql(f"UPDATE log_file SET size_bytes = 1000, state = 'open' WHERE {some}")
        connection.exec_driver_sql("ANALYZE")
    asked = list[tuple[str, Any]]()
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
    with reading(engine) as connection:
        assert registry.unfinished(connection, base_dir_id) == registry.Unfinished(2 * 999, 2, 2 * 999, 0)
        (statement, parameters) = next(each for each in asked if "log_file" in each[0])
        explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
        steps = [str(row[-1]) for row in connection.exec_driver_sql(f"{explain} {statement}", parameters)]
    assert any("ix_log_file_pending" in step for step in steps), steps
    assert not any("SCAN train_job" in step or "Scan on train_job" in step for step in steps), steps
    # what PostgreSQL expects: a few files, not a third of all
    assert not any(re.search(r"on log_file .*rows=\d{3}", step) for step in steps), steps


def test_used_numbers_are_found_by_indexes(sqlite_url: str) -> None:
    with opened(sqlite_url) as engine, writing(engine) as connection:
        add_base_dir(connection)
    steps = plan(sqlite_url, lambda connection: read_findings(connection, None, 60.0))
    assert any("series USING COVERING INDEX ix_series_half_used" in step for step in steps), steps
