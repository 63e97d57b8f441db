"""Partitions of the sample tables: made and undone during use, added for new jobs, dropped with old ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, text

from helpers.contents import natural_contents
from helpers.databases import plain_role
from helpers.empty_store import base_dir, sqlite_engine
from helpers.engines import opened, url_of
from helpers.ingesting import column, ingest, rows
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import LineageStoreError
from lineage_store.finding_kinds import Severity
from lineage_store.findings import THE_STORE
from lineage_store.operations.base_dirs import forget
from lineage_store.operations.doctor import examine
from lineage_store.operations.removal import CleanUp
from lineage_store.store.admin import partitioning
from lineage_store.store.admin.partitioning import lay_out
from lineage_store.store.admin.roles import Roles, grant_roles
from lineage_store.store.database.db import reading
from lineage_store.store.schema import partitions
from lineage_store.store.schema.upgrade import upgrade

__all__ = ["base_dir", "sqlite_engine"]

BY_JOBS = 3
OLD = 1_600_000_000
_PARTS = (
    "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relname LIKE 'scalar_sample%'"
    " ORDER BY length(relname), relname"
)
_CATALOGUE = (
    "SELECT relkind::text, relname, coalesce(obj_description(oid, 'pg_class'), ''), reloptions::text FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace"
    " UNION ALL SELECT 'column', attrelid::regclass::text, attname || format_type(atttypid, atttypmod) || attnotnull,"
    " col_description(attrelid, attnum) FROM pg_attribute WHERE attnum > 0 AND attrelid IN"
    " ('scalar_sample'::regclass, 'payload_sample'::regclass)"
    " UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = current_schema()::regnamespace"
    " UNION ALL SELECT 'function', proname, pg_get_functiondef(oid), '' FROM pg_proc"
    " WHERE pronamespace = current_schema()::regnamespace ORDER BY 1, 2, 3"
)


@pytest.fixture
def engine(empty_postgres_url: str) -> Iterator[Engine]:
    """An empty store on PostgreSQL, without partitions."""
    upgrade(empty_postgres_url)
    with opened(empty_postgres_url) as engine:
        yield engine


def write(base_dir: Path, *numbers: int, steps: int = 2, timestamp: int = OLD) -> None:
    """Jobs with samples of both tables."""
    for number in numbers:
        log = Log().version().histogram(1, "w", [0.0, 1.0])
        for step in range(steps):
            log.scalar(step, "loss", number + step / 8)
        log.write_summary(base_dir / f"job_{number:02}", timestamp=timestamp).chmod(0o400)


def layout(engine: Engine) -> dict[str, tuple[int, int]]:
    with reading(engine) as session:
        return partitions.layouts(session)


def parts(engine: Engine) -> list[str]:
    return [name.removeprefix("scalar_sample_") for name in column(engine, _PARTS)]


@pytest.mark.slow
def test_a_store_holds_the_same_with_partitions_and_without_them_again(
    engine: Engine, base_dir: Path, corpus: Path
) -> None:
    write(base_dir, *range(10))
    ingest(engine, base_dir)
    ingest(engine, corpus)
    before, catalogue = natural_contents(engine), rows(engine, _CATALOGUE)
    assert lay_out(engine, BY_JOBS)
    assert natural_contents(engine) == before
    assert set(layout(engine)) == {"scalar_sample", "payload_sample"}
    assert {jobs for jobs, _ in layout(engine).values()} == {BY_JOBS}
    assert column(engine, "SELECT count(*) FROM v_scalar WHERE train_id = './job_03'") == [2]
    assert not lay_out(engine, BY_JOBS), "there is nothing left to do"
    assert lay_out(engine, None)
    assert natural_contents(engine) == before
    assert rows(engine, _CATALOGUE) == catalogue
    assert not lay_out(engine, None)


def test_new_jobs_find_their_partitions_and_the_next_one_is_there_ahead_of_need(
    engine: Engine, base_dir: Path
) -> None:
    lay_out(engine, BY_JOBS)
    assert parts(engine) == ["0", "3"]
    for number in range(8):
        write(base_dir, number)
        ingest(engine, base_dir)
        (newest,) = column(engine, "SELECT max(id) FROM train_job")
        wanted = range(0, newest // BY_JOBS * BY_JOBS + BY_JOBS + 1, BY_JOBS)
        assert parts(engine) == [str(first) for first in wanted]
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [16]
    write(base_dir, *range(8, 30))
    ingest(engine, base_dir)
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [60]


def test_a_gap_in_the_ids_makes_no_partitions_for_it(engine: Engine, base_dir: Path) -> None:
    lay_out(engine, BY_JOBS)
    with engine.begin() as connection:
        connection.execute(text("SELECT setval('train_job_id_seq', 3000)"))
    write(base_dir, 1)
    ingest(engine, base_dir)
    write(base_dir, 2)
    ingest(engine, base_dir)
    assert parts(engine) == ["0", "3", "3000", "3003"]


def test_forgetting_a_base_dir_drops_the_partitions_that_held_its_jobs_alone(
    engine: Engine, tmp_path: Path
) -> None:
    lay_out(engine, BY_JOBS)
    for name, numbers in (("gone", range(7)), ("stays", range(3))):
        write(tmp_path / name, *numbers)
        ingest(engine, tmp_path / name)
    assert parts(engine) == ["0", "3", "6", "9", "12"]
    forget(engine, tmp_path / "gone", Settings(batch_rows=4))
    assert parts(engine) == ["6", "9", "12"]
    held = "SELECT count(*) FROM scalar_sample s WHERE NOT EXISTS (SELECT FROM train_job j WHERE j.id = s.job_id)"
    assert column(engine, held) == [0]
    assert column(engine, "SELECT count(*) FROM v_scalar") == [6]


def test_gc_drops_a_partition_whose_jobs_are_all_gone(engine: Engine, base_dir: Path) -> None:
    lay_out(engine, BY_JOBS)
    write(base_dir, *range(8))
    ingest(engine, base_dir)
    with LineageStore(url_of(engine)) as store:
        assert store.removal.remove(CleanUp(older_than_s=0), base_dir).jobs == 8
    assert parts(engine) == ["6", "9"], "the newest job's, and the one ahead, stay"
    write(base_dir, 20)
    ingest(engine, base_dir)
    assert column(engine, "SELECT train_id FROM v_scalar") == ["./job_20"] * 2


def test_a_partition_that_is_read_for_long_goes_with_the_next_removal(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioning, "LOCK_WAIT_MS", 10)
    lay_out(engine, BY_JOBS)
    for name in ("first", "second"):
        write(tmp_path / name, *range(6))
        ingest(engine, tmp_path / name)
    with reading(engine) as session:
        session.value(text("SELECT count(*) FROM scalar_sample"))
        forget(engine, tmp_path / "first", Settings())
        assert parts(engine) == ["0", "3", "6", "9", "12", "15"]
    forget(engine, tmp_path / "second", Settings())
    assert parts(engine) == ["12", "15"]


@pytest.mark.parametrize("is_begun", [False, True], ids=["before", "meanwhile"])
def test_what_jobs_that_went_have_left_to_their_partitions_is_not_copied(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    lay_out(engine, BY_JOBS)
    for name in ("gone", "stays"):
        write(tmp_path / name, *range(6))
        ingest(engine, tmp_path / name)
    if is_begun:
        with pytest.raises(InterruptedByHandError):
            lay_out(engine, None, interrupt_after("payload_sample"))
    with monkeypatch.context() as killed:  # a moment before it drops the partitions
        killed.setattr(partitioning, "drop_vacated_partitions", lambda _engine: None)
        forget(engine, tmp_path / "gone", Settings())
    lay_out(engine, None)
    for table in partitions.SAMPLE_TABLES:
        held = f"SELECT count(*) FROM {table} WHERE job_id NOT IN (SELECT id FROM train_job)"
        assert column(engine, held) == [0], table


class InterruptedByHandError(Exception):
    """Somebody pressed a key."""


def interrupt_after(some: str) -> Callable[[str], None]:
    def told(words: str) -> None:
        if some in words:
            raise InterruptedByHandError

    return told


@pytest.mark.slow
@pytest.mark.parametrize("by_jobs", [BY_JOBS, None], ids=["partition", "undo"])
def test_what_is_written_while_samples_are_copied_is_not_lost(
    engine: Engine, base_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_jobs: int | None
) -> None:
    monkeypatch.setattr(partitioning, "JOBS_AT_A_TIME", 2)
    write(base_dir, *range(6))
    write(tmp_path / "forgotten", *range(2))
    ingest(engine, base_dir)
    ingest(engine, tmp_path / "forgotten")
    if by_jobs is None:
        lay_out(engine, 4)
    for part in ("scalar_sample", "payload_sample"):
        with pytest.raises(InterruptedByHandError):
            lay_out(engine, by_jobs, interrupt_after(part))
        write(base_dir, *range(20, 26))  # new ones
        write(base_dir, 1, steps=5, timestamp=OLD + len(part))  # and one that goes on
        ingest(engine, base_dir)
        found = [
            finding
            for finding in examine(url_of(engine), Settings(), [])
            if finding.severity is Severity.NOTE
        ]
        assert [finding.kind for finding in found if finding.subject == THE_STORE] == ["unfinished_layout"]
    forget(engine, tmp_path / "forgotten", Settings())
    before = natural_contents(engine)
    assert lay_out(engine, by_jobs)
    assert natural_contents(engine) == before
    assert bool(layout(engine)) is (by_jobs is not None)
    assert not [
        finding for finding in examine(url_of(engine), Settings(), []) if finding.severity is Severity.NOTE
    ]


def test_rows_that_are_deleted_or_written_again_meanwhile_come_out_right(
    engine: Engine, base_dir: Path
) -> None:
    write(base_dir, 1, 2)
    ingest(engine, base_dir)
    with pytest.raises(InterruptedByHandError):
        lay_out(engine, BY_JOBS, interrupt_after("scalar_sample"))
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM scalar_sample WHERE step = 0"))
        connection.execute(text("UPDATE scalar_sample SET value = 7 WHERE step = 1"))
        connection.execute(
            text("INSERT INTO scalar_sample SELECT job_id, series_no, 9, NULL, 8 FROM scalar_sample")
        )
    lay_out(engine, BY_JOBS)
    assert rows(engine, "SELECT step, value FROM scalar_sample ORDER BY 1") == [
        (1, 7),
        (1, 7),
        (9, 8),
        (9, 8),
    ]


def test_an_interrupted_change_can_be_taken_back(engine: Engine, base_dir: Path) -> None:
    write(base_dir, 1)
    ingest(engine, base_dir)
    before = rows(engine, _CATALOGUE)
    with pytest.raises(InterruptedByHandError):
        lay_out(engine, BY_JOBS, interrupt_after("scalar_sample"))
    assert not lay_out(engine, None)
    assert rows(engine, _CATALOGUE) == before


def test_the_new_tables_wait_for_who_reads_and_let_others_read_meanwhile(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioning, "LOCK_WAIT_MS", 50)
    write(base_dir, 1, 2)
    ingest(engine, base_dir)
    waits = threading.Event()
    reader = engine.connect()
    reader.execute(text("SELECT count(*) FROM v_scalar")).scalar()
    changing = threading.Thread(
        target=lay_out,
        args=(engine, BY_JOBS, lambda words: waits.set() if "A session has" in words else None),
    )
    changing.start()
    assert waits.wait(60)
    assert column(engine, "SELECT count(*) FROM v_scalar") == [4]
    write(base_dir, 3)
    ingest(engine, base_dir)
    reader.close()
    changing.join(60)
    assert not changing.is_alive()
    assert column(engine, "SELECT count(*) FROM v_scalar") == [6]
    assert layout(engine)


def test_who_reads_views_all_the_time_does_not_keep_the_new_tables_waiting(
    engine: Engine, base_dir: Path
) -> None:
    write(base_dir, 1, 2)
    ingest(engine, base_dir)
    ended, failures = threading.Event(), list[Exception]()

    def read() -> None:
        try:
            while not ended.is_set():
                assert column(engine, "SELECT count(*) FROM v_scalar") == [4]
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    changing = threading.Thread(target=lay_out, args=(engine, BY_JOBS))
    changing.start()
    changing.join(60)
    ended.set()
    for thread in (*readers, changing):
        thread.join(60)
    assert layout(engine)
    assert not failures


def test_partitions_of_another_size_are_refused(engine: Engine) -> None:
    lay_out(engine, BY_JOBS)
    with pytest.raises(LineageStoreError, match=r"by 3 jobs already.*--undo"):
        lay_out(engine, 5)
    with pytest.raises(LineageStoreError, match="0 jobs"):
        lay_out(engine, 0)


def test_sqlite_has_no_partitions(sqlite_engine: Engine) -> None:
    with pytest.raises(LineageStoreError, match="Only PostgreSQL"):
        lay_out(sqlite_engine, BY_JOBS)


@pytest.mark.parametrize("granted_first", [True, False])
def test_the_ingest_role_makes_and_drops_partitions_and_owns_nothing(
    engine: Engine, tmp_path: Path, granted_first: bool
) -> None:
    url = url_of(engine)
    with plain_role(url) as owner, plain_role(url) as ingester, plain_role(url) as reader:
        names = [str(make_url(each).username) for each in (owner, ingester, reader)]
        if granted_first:
            grant_roles(engine, Roles(names[0], names[1], (names[2],)))
        lay_out(engine, BY_JOBS)
        if not granted_first:
            grant_roles(engine, Roles(names[0], names[1], (names[2],)))
        with opened(ingester) as as_ingester:
            for name, numbers in (("gone", range(5)), ("stays", range(6))):
                write(tmp_path / name, *numbers)
                ingest(as_ingester, tmp_path / name)
            forget(as_ingester, tmp_path / "gone", Settings())
            assert column(as_ingester, "SELECT count(*) FROM scalar_sample") == [12]
            assert parts(as_ingester) == ["6", "9", "12"]
        with opened(reader) as as_reader:
            assert column(as_reader, "SELECT count(*) FROM v_scalar") == [12]
        with opened(owner) as as_owner:
            lay_out(as_owner, None)
