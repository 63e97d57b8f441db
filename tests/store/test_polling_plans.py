"""The queries of every tick read few rows from indexes, however many files there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, event

from benchmarks.many_rows import add_jobs
from helpers.engines import opened
from helpers.stored_jobs import add_base_dir
from lineage_store.operations.health import read_findings
from lineage_store.query.changes import ChangePlace, read_changes
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import open_engine, reading, writing
from lineage_store.store.database.sql import Session


def plan(url: str, ask: Callable[[Session], object]) -> list[str]:
    """The plan of what is asked, step by step."""
    engine, asked = open_engine(url), list[tuple[str, Any]]()
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
    with reading(engine) as session:
        ask(session)
        steps = [
            str(step.detail)
            for statement, parameters in asked[:]
            for step in session.rows(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    engine.dispose()
    return steps


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda session: registry.live_jobs(session, 1), "ix_log_file_unsettled"),
        (lambda session: registry.replaced_file(session, 1), "ix_log_file_unsettled"),
        (lambda session: registry.unfinished(session, 1), "ix_log_file_pending"),
        (lambda session: registry.known_files(session, 1, {"./a"}), "(job_id=?)"),
    ],
)
def test_log_files_are_found_by_an_index_of_few(
    ask: Callable[[Session], object], index: str, sqlite_url: str
) -> None:
    of_files = [step for step in plan(sqlite_url, ask) if " log_file " in step]
    assert of_files, "no step is about log files"
    assert all(index in step for step in of_files), of_files


def test_changes_are_found_by_revision(sqlite_url: str) -> None:
    def ask(session: Session) -> None:
        begun = {"/base": ChangePlace(0, 5, "./a")}
        read_changes(session, begun, until={"/base": ChangePlace(0, 9, "")}, limit=10)

    with opened(sqlite_url) as engine, writing(engine) as session:
        registry.ensure_base_dir(session, "/base", datetime.fromtimestamp(0, UTC))
    steps = plan(sqlite_url, ask)
    assert any(
        "ix_train_job_revision (base_dir_id=? AND revision>? AND revision<?)" in step for step in steps
    )
    assert any(
        "ix_tombstone_revision (base_dir_id=? AND revision>? AND revision<?)" in step for step in steps
    )


def test_the_end_of_a_pass_looks_at_unfinished_files_and_open_problems_alone(engine: Engine) -> None:
    with writing(engine) as session:
        base_dir_id = add_base_dir(session)
        add_jobs(session, base_dir_id, 6_000)
        some = "job_id IN (7, 4711)"
        session.change(f"UPDATE log_file SET size_bytes = 1000, state = 'open' WHERE {some}")
        session.change("ANALYZE")
    asked = list[tuple[str, Any]]()
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
    with reading(engine) as session:
        assert registry.unfinished(session, base_dir_id) == registry.Unfinished(2 * 999, 2, 2 * 999, 0)
        (statement, parameters) = next(each for each in asked if "log_file" in each[0])
        explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
        steps = [str(row[-1]) for row in session.rows(f"{explain} {statement}", parameters)]
    assert any("ix_log_file_pending" in step for step in steps), steps
    assert not any("SCAN train_job" in step or "Scan on train_job" in step for step in steps), steps
    # what PostgreSQL expects: a few files, not a third of all
    assert not any(re.search(r"on log_file .*rows=\d{3}", step) for step in steps), steps


def test_used_numbers_are_found_by_indexes(sqlite_url: str) -> None:
    with opened(sqlite_url) as engine, writing(engine) as session:
        add_base_dir(session)
    steps = plan(sqlite_url, lambda session: read_findings(session, None, 60.0))
    assert any("series USING COVERING INDEX ix_series_half_used" in step for step in steps), steps
