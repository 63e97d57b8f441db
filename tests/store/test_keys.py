"""All rows of a job can be partitioned or distributed by job: their keys and statements begin with the job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKeyConstraint, PrimaryKeyConstraint, Table, UniqueConstraint, event

from helpers.ingesting import column, ingest, rows, visible_scalars
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.operations.base_dirs import forget
from lineage_store.operations.repair import reingest
from lineage_store.operations.verify import verify
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading
from lineage_store.store.database.sql import among_rows
from lineage_store.store.schema.tables import log_file, metadata

OF_A_JOB = [table for table in metadata.sorted_tables if "job_id" in table.c and not table.c.job_id.nullable]


def names_of(items: Any) -> list[str]:
    return [item.name for item in items]


@pytest.mark.parametrize("table", OF_A_JOB, ids=names_of(OF_A_JOB))
def test_every_key_begins_with_the_job(table: Table) -> None:
    for constraint in table.constraints:
        if isinstance(constraint, PrimaryKeyConstraint | UniqueConstraint):
            assert names_of(constraint.columns)[0] == "job_id", constraint
    assert not [index for index in table.indexes if index.unique]


@pytest.mark.parametrize("table", OF_A_JOB, ids=names_of(OF_A_JOB))
def test_what_refers_to_something_else_of_the_job_says_which_job(table: Table) -> None:
    for constraint in table.constraints:
        if isinstance(constraint, ForeignKeyConstraint) and constraint.referred_table in OF_A_JOB:
            pairs = {element.parent.name: element.column.name for element in constraint.elements}
            assert pairs["job_id"] == "job_id", constraint


def test_every_statement_about_what_hangs_on_a_job_names_the_job(database_url: str, tmp_path: Path) -> None:
    base_dir = tmp_path / "base"
    about = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE|TABLE) ({'|'.join(names_of(OF_A_JOB))})\b")
    seen, nameless = set[str](), set[str]()

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if tables := {found[1] for found in about.findall(statement)}:
            seen.update(tables)
            is_lock = statement.startswith("LOCK TABLE")  # of partitioned tables, which are on one machine
            if "job_id" not in statement and not is_lock:
                nameless.add(statement)

    for name in ("one", "other"):
        log = Log().version().scalar(1, "loss", 0.5).histogram(1, "w", [0.0, 1.0])
        log.write_summary(base_dir / name, timestamp=1_700_000_000)
        log.write_summary(base_dir / name, timestamp=1_700_000_001)
        lineage = Log().train(network="N").evaluation({"acc": 0.5}).user_info(team="vision")
        lineage.write_lineage(base_dir / name)
    settings = Settings(batch_rows=2)
    with LineageStore(database_url, settings=settings) as store:
        event.listen(store.engine, "before_cursor_execute", note)
        store.ingest(base_dir)
        store.lineage.filter({"metric/acc": {"gt": 0.1}, "network": {"eq": "N"}}, base_dir=base_dir)
        store.job((base_dir, "./one")).scalars("loss")
        store.job((base_dir, "./one")).histograms("w")
        store.job((base_dir, "./one")).lineage()
        with reading(store.engine) as session:
            base_dir_id = registry.base_dir_id(session, str(base_dir))
        assert base_dir_id is not None
        assert not [
            found for found in verify(store.engine, base_dir, base_dir_id, settings) if found.differences
        ]
        reingest(store.engine, base_dir, base_dir_id, "./one", settings)
        for path in (base_dir / "other").glob("*.summary.*"):
            path.unlink()
        store.ingest(base_dir)
        forget(store.engine, base_dir, settings)
    assert seen == set(names_of(OF_A_JOB))
    assert {statement for statement in nameless if "max(rowid)" not in statement} == set()


def test_files_and_series_are_numbered_within_their_job(engine: Engine, tmp_path: Path) -> None:
    base_dir = tmp_path / "base"
    for name in ("a", "b"):
        for tag, timestamp in (("loss", 1_700_000_000), ("lr", 1_700_000_001)):
            Log().scalar(1, tag, 0.5).write_summary(base_dir / name, timestamp=timestamp)
    ingest(engine, base_dir)
    numbers = rows(engine, "SELECT job_id, file_no, series_no FROM series ORDER BY job_id, file_no")
    first, second = column(engine, "SELECT id FROM train_job ORDER BY id")
    assert numbers == [(first, 1, 1), (first, 2, 2), (second, 1, 1), (second, 2, 2)]


def test_a_file_that_comes_later_gets_the_next_number(engine: Engine, tmp_path: Path) -> None:
    base_dir = tmp_path / "base"
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job", timestamp=1_700_000_005)
    ingest(engine, base_dir)
    Log().scalar(2, "loss", 0.25).write_summary(base_dir / "job", timestamp=1_700_000_009)
    ingest(engine, base_dir)
    assert rows(engine, "SELECT file_no, series_no FROM series ORDER BY 1") == [(1, 1), (2, 2)]
    assert visible_scalars(engine) == {1: 0.5, 2: 0.25}


def test_rows_of_whole_numbers_and_text_are_found_and_an_empty_list_finds_none(
    engine: Engine, tmp_path: Path
) -> None:
    base_dir = tmp_path / "base"
    for name in ("a", "b"):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / name, timestamp=1_700_000_000)
    ingest(engine, base_dir)
    names, columns = column(engine, "SELECT name FROM log_file"), (log_file.c.job_id, log_file.c.name)
    (job, _) = column(engine, "SELECT id FROM train_job ORDER BY id")
    with reading(engine) as session:
        for given, found in (([(job, names[0])], [job]), ([], []), ([(job, "no 'such'")], [])):
            query = log_file.select().where(among_rows(session, columns, given))
            assert [row.job_id for row in session.rows(query)] == found
