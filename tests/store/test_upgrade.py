"""Upgrades: of an empty database, repeated, at the same time, refused; and the cheap check before every use."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import subprocess
import sys
import zipfile
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg.sql import SQL
from sqlalchemy import Engine, inspect, text

from helpers.databases import DISTRIBUTED, plain
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.errors import (
    DatabaseUnavailableError,
    NotAStoreError,
    SchemaTooNewError,
    SchemaTooOldError,
)
from lineage_store.store.database import connections
from lineage_store.store.database.connections import APPLICATION_ID
from lineage_store.store.database.db import open_engine, reading, sqlite_path, writing
from lineage_store.store.schema import descriptions
from lineage_store.store.schema.tables import metadata
from lineage_store.store.schema.upgrade import (
    HEAD,
    VERSION_TABLE,
    check,
    current_version,
    migrations_path,
    upgrade,
)
from lineage_store.store.schema.views import VIEWS

CHECKOUT = Path(__file__).parents[2]


def test_upgrade_makes_every_table_and_view(empty_database_url: str, empty_engine: Engine) -> None:
    upgrade(empty_database_url)
    with reading(empty_engine) as session:
        assert set(inspect(session.connection).get_table_names()) >= set(metadata.tables)
        assert set(inspect(session.connection).get_view_names()) == {view.name for view in VIEWS}
    check(empty_engine)
    assert current_version(empty_database_url) == HEAD


def test_second_upgrade_touches_nothing(database_url: str, engine: Engine) -> None:
    before = _catalog_version(engine)
    upgrade(database_url)
    assert _catalog_version(engine) == before


def test_upgrade_renews_views_that_an_older_release_made(database_url: str, engine: Engine) -> None:
    with writing(engine) as session:
        session.change(text("DROP VIEW v_scalar"))
        session.change(text("CREATE VIEW v_scalar AS SELECT 1 AS old"))
        mark = "PRAGMA user_version = 1" if _is_sqlite(engine) else f"COMMENT ON TABLE {VERSION_TABLE} IS '1'"
        session.change(text(mark))
    upgrade(database_url)
    with reading(engine) as session:
        assert "value" in list(session.connection.execute(text("SELECT * FROM v_scalar")).keys())


def test_upgrade_keeps_grants_on_views(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    with writing(engine) as session:
        session.change(text("GRANT SELECT ON v_job TO PUBLIC"))
        session.change(text(f"COMMENT ON TABLE {VERSION_TABLE} IS '1'"))
    upgrade(postgres_url)
    with reading(engine) as session:
        privileges = session.column(
            text(
                "SELECT privilege_type FROM information_schema.table_privileges"
                " WHERE table_name = 'v_job' AND grantee = 'PUBLIC'"
            )
        )
        assert privileges == ["SELECT"]
    engine.dispose()


def test_failing_upgrade_leaves_nothing(
    empty_database_url: str, empty_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_connection: object) -> None:
        raise RuntimeError("out of luck")

    with monkeypatch.context() as patched:
        patched.setattr(descriptions, "store", broken)
        with pytest.raises(RuntimeError, match="out of luck"):
            upgrade(empty_database_url)
    with reading(empty_engine) as session:
        assert inspect(session.connection).get_table_names() == []
    upgrade(empty_database_url)
    check(empty_engine)


@pytest.mark.slow
def test_two_upgrades_at_once_queue_up(empty_database_url: str, empty_engine: Engine) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(upgrade, empty_database_url) for _ in range(2)]:
            done.result()
    check(empty_engine)


@pytest.mark.parametrize(
    "occupation",
    [f"SELECT pg_advisory_xact_lock({APPLICATION_ID})", "SELECT count(*) FROM v_job"],
    ids=["another upgrade", "a reader"],
)
def test_an_upgrade_waits_for_its_turn_however_long(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, occupation: LiteralString
) -> None:
    usual = connections._SETTINGS
    monkeypatch.setattr(
        connections, "_SETTINGS", usual.replace("'lock_timeout', '30s'", "'lock_timeout', '50ms'")
    )
    assert usual != connections._SETTINGS
    waits_long = SQL(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND clock_timestamp() - query_start > '1s'"
    )
    with (
        psycopg.connect(plain(postgres_url), autocommit=True) as watcher,
        psycopg.connect(plain(postgres_url)) as occupier,
        ThreadPoolExecutor(1) as pool,
    ):
        watcher.execute(f"COMMENT ON TABLE {VERSION_TABLE} IS '1'")  # views of an older release
        occupier.execute(occupation)
        upgrading = pool.submit(upgrade, postgres_url)
        wait_until(lambda: watcher.execute(waits_long).fetchone() or upgrading.done())
        assert not upgrading.done(), upgrading.exception()
        occupier.rollback()
        upgrading.result(60)
    check(postgres_url)


def test_sqlite_file_is_private_and_marked(empty_sqlite_url: str) -> None:
    upgrade(empty_sqlite_url)
    path = sqlite_path(empty_sqlite_url)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes()[68:72] == b"LStr"


def test_upgrade_leaves_logging_alone(empty_sqlite_url: str) -> None:
    before = (logging.root.level, list(logging.root.handlers))
    upgrade(empty_sqlite_url)
    assert (logging.root.level, list(logging.root.handlers)) == before


def test_check_of_nothing_says_init(empty_database_url: str) -> None:
    assert current_version(empty_database_url) is None
    with pytest.raises((SchemaTooOldError, DatabaseUnavailableError), match="lineage-store init"):
        check(empty_database_url)
    path = sqlite_path(empty_database_url)
    assert path is None or not path.exists(), "a check must not make a file"


def test_check_of_an_older_schema_says_upgrade(database_url: str, engine: Engine) -> None:
    _set_version(engine, "0000")
    with pytest.raises(SchemaTooOldError, match="lineage-store db upgrade"):
        check(database_url)


def test_newer_schema_is_refused_untouched(database_url: str, engine: Engine) -> None:
    _set_version(engine, "9999")
    for refuse in (check, upgrade):
        with pytest.raises(SchemaTooNewError, match="schema 9999"):
            refuse(database_url)
    assert current_version(database_url) == "9999"


def test_a_store_that_was_refused_holds_nothing_open(sqlite_url: str, tmp_path: Path) -> None:
    engine = open_engine(sqlite_url)
    _set_version(engine, "9999")
    engine.dispose()
    with pytest.raises(SchemaTooNewError) as refused:
        LineageStore(sqlite_url)
    assert [path.name for path in tmp_path.iterdir()] == ["store.sqlite3"], refused


def test_database_of_another_application_is_refused_untouched(
    empty_database_url: str, empty_engine: Engine
) -> None:
    with writing(empty_engine) as session:
        session.change(text("CREATE TABLE orders (id INTEGER)"))
    for refuse in (check, upgrade, current_version):
        with pytest.raises(NotAStoreError, match="orders"):
            refuse(empty_database_url)
    with reading(empty_engine) as session:
        assert inspect(session.connection).get_table_names() == ["orders"]


def test_sqlite_file_without_our_mark_is_refused(sqlite_url: str) -> None:
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("PRAGMA application_id = 1")
    connection.close()
    with pytest.raises(NotAStoreError):
        check(sqlite_url)


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)
    for refuse in (check, upgrade, current_version):
        with pytest.raises(NotAStoreError, match="another kind"):
            refuse(f"sqlite:///{path}")
    assert path.read_text() == "not a database\n" * 100


def test_head_is_the_newest_script() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_path()))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [HEAD]
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True)
    assert {len(revision) for revision in revisions} == {4}


@pytest.mark.skipif(DISTRIBUTED == "all", reason="which takes constraints away")
def test_alembic_at_the_command_line_sees_no_difference(database_url: str) -> None:
    command = [sys.executable, "-m", "alembic", "-c", str(migrations_path() / "alembic.ini"), "check"]
    environment = os.environ | {"LINEAGE_STORE_DATABASE_URL": database_url}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "No new upgrade operations detected.\n"), run.stderr


def test_check_does_not_import_alembic(sqlite_url: str) -> None:
    program = (
        "import sys; from lineage_store.store.schema.upgrade import check; check(sys.argv[1]);"
        " sys.exit('alembic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, sqlite_url], check=True)


@pytest.mark.slow
def test_installed_wheel_upgrades(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(tmp_path),
    ]
    subprocess.run([*build, str(CHECKOUT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "from lineage_store.store.schema.upgrade import check, migrations_path, upgrade\n"
        "upgrade(sys.argv[1]); check(sys.argv[1]); print(migrations_path())"
    )
    url = f"sqlite:///{tmp_path / 'store.sqlite3'}"
    run = subprocess.run(
        [sys.executable, "-c", program, url], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert run.stdout.strip() == str(installed / "lineage_store" / "_migrations")


def _is_sqlite(engine: Engine) -> bool:
    return engine.dialect.name == "sqlite"


def _catalog_version(engine: Engine) -> object:
    """Something that changes with any DDL: SQLite's schema cookie, or the newest row versions of the catalog."""
    newest = "PRAGMA schema_version"
    if not _is_sqlite(engine):
        newest = (
            "SELECT max(xmin::text::bigint) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        )
    with reading(engine) as session:
        return session.value(text(newest))


def _set_version(engine: Engine, version: str) -> None:
    with writing(engine) as session:
        session.change(text(f"UPDATE {VERSION_TABLE} SET version_num = :version"), {"version": version})


def test_a_sqlite_file_of_another_application_is_not_touched_at_all(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (i INTEGER)")
    before = path.read_bytes()
    with pytest.raises(NotAStoreError):
        LineageStore(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["other.db"]
