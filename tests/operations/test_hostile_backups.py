"""A backup that somebody else made or changed gives rows only: nothing in it is run, what acts is refused by name."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy.engine import make_url

from helpers import databases
from helpers.contents import natural_contents
from helpers.databases import BY_JOBS, DISTRIBUTED
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.cli.app import main
from lineage_store.errors import AlteredStoreError, LineageStoreError
from lineage_store.operations.backup import backup, restore_backup
from lineage_store.store.admin import client_programs
from lineage_store.store.database.db import open_engine


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{databases.client_programs_directory()}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    for number in range(3):
        Log().version().scalar(1, "loss", number).write_summary(tmp_path / "base" / f"job_{number}")
    return tmp_path / "base"


@pytest.fixture
def file(sqlite_url: str, base_dir: Path, tmp_path: Path) -> Path:
    """A backup of a SQLite store."""
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
        store.backup(tmp_path / "backup.db")
    return tmp_path / "backup.db"


def contents(url: str) -> object:
    engine = open_engine(url)
    try:
        return natural_contents(engine)
    finally:
        engine.dispose()


def poisoned(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


_HOSTILE = {
    "the trigger evil is not ours": [
        "CREATE TRIGGER evil AFTER INSERT ON lineage BEGIN DELETE FROM metric; END"
    ],
    "the view v_metric was changed": ["DROP VIEW v_metric", "CREATE VIEW v_metric AS SELECT 1 AS job_id"],
    "the table metric was changed": [
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'value DOUBLE', 'value DOUBLE DEFAULT (random())')"
        " WHERE name = 'metric'",
    ],
    "the table v_metric is not ours": ["DROP VIEW v_metric", "CREATE TABLE v_metric (name)"],
    "the index unique_kind is not ours": [
        "CREATE UNIQUE INDEX unique_kind ON metric (kind, job_id, name_key)"
    ],
}


@pytest.mark.parametrize("name", _HOSTILE)
@pytest.mark.parametrize("exists", [True, False])
def test_what_acts_in_a_sqlite_backup_is_refused_by_name_and_the_store_stays(
    sqlite_url: str, file: Path, tmp_path: Path, name: str, exists: bool
) -> None:
    poisoned(file, *_HOSTILE[name])
    url = sqlite_url if exists else f"sqlite:///{tmp_path}/new.db"
    before = contents(sqlite_url)
    with pytest.raises(AlteredStoreError, match=name) as refused:
        restore_backup(url, file, replace=True)
    assert str(file) in refused.value.message
    assert "Nothing of it was restored" in str(refused.value.hint)
    assert contents(sqlite_url) == before
    assert not (tmp_path / "new.db").exists()
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_an_administrators_objects_in_a_sqlite_backup_are_told_and_not_restored(
    sqlite_url: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    poisoned(
        file,
        "CREATE TABLE theirs (a)",
        "CREATE VIEW their_view AS SELECT load_extension('evil') FROM v_job",
        "CREATE INDEX their_index ON metric (name)",
        "ANALYZE",
        "UPDATE sqlite_stat1 SET stat = '1 1 1 1'",
    )
    before = contents(sqlite_url)
    assert main(["--database", sqlite_url, "restore", str(file), "--replace"]) == 0
    said = capsys.readouterr().out
    for name in ("the table theirs", "the view their_view", "the index their_index"):
        assert name in said
    assert "not restored" in said
    assert contents(sqlite_url) == before
    with closing(sqlite3.connect(str(make_url(sqlite_url).database))) as connection:
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    assert not {"theirs", "their_view", "their_index", "sqlite_stat1"} & there


def test_views_with_which_a_backup_was_marked_as_another_releases_are_not_restored(
    sqlite_url: str, file: Path, base_dir: Path
) -> None:
    poisoned(
        file, "DROP VIEW v_metric", "CREATE VIEW v_metric AS SELECT 'evil' AS name", "PRAGMA user_version = 1"
    )
    restore_backup(sqlite_url, file, replace=True)
    with LineageStore(sqlite_url) as store, store.sql("SELECT * FROM v_metric") as answer:
        assert "job_id" in answer.columns or len(answer.columns) > 3


def test_a_row_that_belongs_to_none_makes_a_backup_a_damaged_one(sqlite_url: str, file: Path) -> None:
    poisoned(file, "PRAGMA foreign_keys = OFF", "DELETE FROM base_dir")
    with pytest.raises(LineageStoreError, match="belongs to a row of base_dir that is missing"):
        restore_backup(sqlite_url, file, replace=True)


def test_a_store_that_was_poisoned_by_hand_is_mended_by_a_good_backup(sqlite_url: str, file: Path) -> None:
    poisoned(Path(str(make_url(sqlite_url).database)), *_HOSTILE["the trigger evil is not ours"])
    with pytest.raises(AlteredStoreError):
        LineageStore(sqlite_url)
    assert main(["--database", sqlite_url, "status", "--check"]) == 4
    assert restore_backup(sqlite_url, file, replace=True).jobs == 3
    LineageStore(sqlite_url).close()


# --- PostgreSQL ---


def run(url: str, statements: str) -> None:
    with psycopg.connect(databases.plain(url), autocommit=True) as connection:
        connection.execute(sql.SQL(statements))


def slow_beyond(few: int, names: Iterable[str]) -> list[Any]:
    """Names for a test: a few, and the others where tests take seconds, as each dumps and restores a database."""
    return [
        name if number < few else pytest.param(name, marks=pytest.mark.slow)
        for number, name in enumerate(names)
    ]


def dumped(url: str, archive: Path, change: Callable[[bytes], bytes] = lambda content: content) -> Path:
    """What pg_dump makes of a database, changed as an attacker may."""
    engine = open_engine(url)
    try:
        client_programs.run_program(engine, "pg_dump", "--format=custom", "--compress=0", f"--file={archive}")
    finally:
        engine.dispose()
    content = archive.read_bytes()
    changed = change(content)
    assert len(changed) == len(content), "lengths are counted in the archive"
    archive.write_bytes(changed)
    return archive


_TRIGGERED = """
CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN EXECUTE 'COPY (SELECT 1) TO PROGRAM ''touch {proof}'''; RETURN NEW; END $$;
"""
_HOSTILE_DATABASES = {
    "the trigger train_job evil is not ours": (
        f"{_TRIGGERED} CREATE TRIGGER evil BEFORE INSERT ON train_job FOR EACH ROW EXECUTE FUNCTION evil()"
    ),
    "the function evil() is not ours": _TRIGGERED,
    "the rule train_job gone is not ours": "CREATE RULE gone AS ON INSERT TO train_job DO ALSO DELETE FROM metric",
    "the constraint metric few is not ours": "ALTER TABLE metric ADD CONSTRAINT few UNIQUE (kind, job_id, name_key)",
    "the policy metric mine is not ours": "CREATE POLICY mine ON metric USING (false)",
    "the event trigger watcher is not ours": (
        "CREATE FUNCTION watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN NULL; END $$;"
        "CREATE EVENT TRIGGER watcher ON ddl_command_end EXECUTE FUNCTION watch()"
    ),
    "the cast CAST (text AS inet) is not ours": "CREATE CAST (text AS inet) WITH INOUT AS IMPLICIT",
    "the view v_log_file was changed": (
        "DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW v_log_file AS '"
        " || replace(pg_get_viewdef('v_log_file'::regclass), ';', '') || ' LIMIT 1'; END $$"
    ),
    "the table metric was changed": "ALTER TABLE metric ALTER COLUMN kind SET DEFAULT pg_read_file('/etc/passwd')",
    "the table train_job was changed": (
        "ALTER TABLE train_job ADD COLUMN more text GENERATED ALWAYS AS (upper(state)) STORED"
    ),
    "the index ix_metric_name_value was changed": (
        "DROP INDEX ix_metric_name_value; CREATE INDEX ix_metric_name_value ON metric (name_key)"
    ),
}


@pytest.mark.parametrize("name", slow_beyond(4, _HOSTILE_DATABASES))
def test_what_acts_in_an_archive_is_refused_by_name_and_never_run(
    postgres_server: str, postgres_template: str, base_dir: Path, tmp_path: Path, name: str
) -> None:
    databases.needs_databases(postgres_server)
    proof = tmp_path / "proof"
    with (
        databases.postgres_database(postgres_server, template=postgres_template) as url,
        databases.postgres_database(postgres_server) as other,
    ):
        with LineageStore(url) as store:
            store.ingest(base_dir)
        run(url, _HOSTILE_DATABASES[name].replace("{proof}", str(proof)))
        archive = dumped(url, tmp_path / "archive")
        with pytest.raises(AlteredStoreError) as refused:
            restore_backup(other, archive)
        assert name in " ".join(refused.value.altered)
        with LineageStore(other) as store:
            assert list(store.base_dirs) == []
    assert not proof.exists()


def test_an_administrators_objects_in_an_archive_are_told_and_not_restored(
    postgres_server: str, postgres_template: str, base_dir: Path, tmp_path: Path
) -> None:
    databases.needs_databases(postgres_server)
    with (
        databases.postgres_database(postgres_server, template=postgres_template) as url,
        databases.postgres_database(postgres_server) as other,
    ):
        with LineageStore(url) as store:
            store.ingest(base_dir)
        run(
            url,
            "CREATE TABLE theirs (a int); INSERT INTO theirs VALUES (1);"
            "CREATE VIEW their_view AS SELECT * FROM v_job; CREATE INDEX their_index ON metric (name);"
            "CREATE SCHEMA apart; CREATE FUNCTION apart.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        )
        engine = open_engine(url)
        backup(engine, tmp_path / "archive")
        engine.dispose()
        found = restore_backup(other, tmp_path / "archive")
        assert set(found.not_restored) == {"the table theirs", "the view their_view", "the index their_index"}
        assert contents(other) == contents(url)
        engine = open_engine(other)
        with engine.connect() as connection:
            there = connection.exec_driver_sql(
                "SELECT to_regclass('theirs'), to_regclass('their_index')"
            ).one()
        engine.dispose()
        assert tuple(there) == (None, None)


def _of_equal_length(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new.ljust(len(old)))

    return change


_COPY = b"COPY public.train_job (id, base_dir_id, train_id, train_key, owner_uid, state, outcome"
_CRAFTED: dict[str, Callable[[bytes], bytes]] = {
    "SQL in place of a COPY": _of_equal_length(_COPY, b"COPY (SELECT 1) TO PROGRAM 'touch PROOF'; --"),
    "a COPY from a program": _of_equal_length(_COPY, b"COPY public.train_job FROM PROGRAM 'touch PROOF'; --"),
    "a COPY into another table": _of_equal_length(b"COPY public.annotation (", b"COPY public.pg_authid  ("),
    "a COPY of other columns": _of_equal_length(
        _COPY, b"COPY public.train_job (id, id, ctid, xmin, state, a, b, c"
    ),
    "SQL behind a sequence": _of_equal_length(
        b"SELECT pg_catalog.setval('public.base_dir_id_seq'", b"SELECT pg_catalog.pg_read_file('PROOF'); --"
    ),
    "an end of rows before the end": lambda content: re.sub(
        rb"(\t\./job_1)\t",
        lambda found: b"\n\\.\nSELE"[: len(found[0])].ljust(len(found[0])),
        content,
        count=1,
    ),
}


@pytest.mark.parametrize("name", slow_beyond(2, _CRAFTED))
def test_sql_that_was_written_into_an_archive_is_not_run(
    postgres_server: str, postgres_template: str, base_dir: Path, tmp_path: Path, name: str
) -> None:
    databases.needs_databases(postgres_server)
    if BY_JOBS or DISTRIBUTED:
        pytest.skip("one layout is enough")
    with (
        databases.postgres_database(postgres_server, template=postgres_template) as url,
        databases.postgres_database(postgres_server) as other,
    ):
        with LineageStore(url) as store:
            store.ingest(base_dir)
            store.job((base_dir, "./job_1")).annotate(remark="ours")
        archive = dumped(url, tmp_path / "archive", _CRAFTED[name])
        here = Path.cwd()
        os.chdir(tmp_path)
        try:
            with pytest.raises(LineageStoreError):
                restore_backup(other, archive)
        finally:
            os.chdir(here)
        with LineageStore(other) as store:
            assert list(store.base_dirs) == []
        assert not list(tmp_path.glob("**/PROOF"))


def test_an_archive_that_is_cut_is_refused_and_the_store_stays(
    postgres_server: str, postgres_template: str, base_dir: Path, tmp_path: Path
) -> None:
    databases.needs_databases(postgres_server)
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        with LineageStore(url) as store:
            store.ingest(base_dir)
        whole = dumped(url, tmp_path / "archive").read_bytes()
        before = contents(url)
        for share in (0.3, 0.6, 0.9, 0.99):
            (tmp_path / "archive").write_bytes(whole[: int(len(whole) * share)])
            with pytest.raises(LineageStoreError):
                restore_backup(url, tmp_path / "archive", replace=True)
            assert contents(url) == before


def test_rights_that_an_archive_grants_to_everybody_are_not_given(
    postgres_server: str, postgres_template: str, tmp_path: Path
) -> None:
    databases.needs_databases(postgres_server)
    with (
        databases.postgres_database(postgres_server, template=postgres_template) as url,
        databases.postgres_database(postgres_server) as other,
    ):
        run(url, "GRANT INSERT, SELECT ON base_dir, train_job TO PUBLIC; GRANT SELECT ON v_job TO pg_monitor")
        found = restore_backup(other, dumped(url, tmp_path / "archive"))
        assert found.rights == ()
        engine = open_engine(other)
        with engine.connect() as connection:
            query = (
                "SELECT count(*) FROM pg_class, aclexplode(relacl) WHERE relname = 'base_dir' AND grantee = 0"
            )
            assert connection.exec_driver_sql(query).scalar_one() == 0
        engine.dispose()
