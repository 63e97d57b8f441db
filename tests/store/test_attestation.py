"""A store whose catalog is not what the code makes is refused by name; an administrator's own objects stay in use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy.engine import make_url

from helpers import databases
from helpers.databases import BY_JOBS, DISTRIBUTED
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.api import administration
from lineage_store.config import Settings
from lineage_store.errors import AlteredStoreError, LineageStoreError, SchemaTooOldError
from lineage_store.operations.doctor import examine
from lineage_store.store.admin.partitioning import lay_out
from lineage_store.store.database.db import open_engine, reading
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import attestation, upgrade

Run = Callable[..., None]


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    Log().version().scalar(1, "loss", 1).write_summary(tmp_path / "base" / "job")
    return tmp_path / "base"


def run(url: str, *statements: str) -> None:
    """As somebody with the rights of the store's owner."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(str(make_url(url).database), isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)
        return
    with psycopg.connect(databases.plain(url), autocommit=True) as connection:
        for statement in statements:
            connection.execute(sql.SQL(statement))


def asked(url: str, query: str) -> list[tuple[Any, ...]]:
    engine = open_engine(url)
    try:
        with reading(engine) as session:
            return [tuple(row) for row in session.rows(query)]
    finally:
        engine.dispose()


def assert_refused(url: str, name: str) -> None:
    """By everybody who opens it, by `db upgrade` and by `doctor`; and nothing is done about it silently."""
    settings = Settings(database_url=url)
    for open_it in (
        lambda: LineageStore(url),
        lambda: LineageStore(url, read_only=True),
        lambda: administration.check_schema(settings),
        lambda: administration.upgrade_schema(settings),
    ):
        with pytest.raises(AlteredStoreError) as refused:
            open_it()
        assert name in " ".join(refused.value.altered)
        assert "restore" in str(refused.value.hint)
    (found,) = [each for each in examine(url, settings, []) if each.kind == "altered_store"]
    assert name in found.what
    assert found.is_wrong


_HOSTILE_SQLITE = {
    "the trigger evil is not ours": "CREATE TRIGGER evil AFTER INSERT ON lineage BEGIN DELETE FROM metric; END",
    "the trigger evil_view": "CREATE TRIGGER evil_view INSTEAD OF INSERT ON v_job BEGIN DELETE FROM metric; END",
    "the index all_one is not ours": "CREATE UNIQUE INDEX all_one ON metric (kind)",
    "the index dear is not ours": "CREATE INDEX dear ON metric (length(zeroblob(100000000)))",
    "the index some is not ours": "CREATE INDEX some ON metric (name) WHERE length(printf('%1000d', 1)) > 0",
    "the table metric was changed": "ALTER TABLE metric ADD COLUMN more TEXT",
    "the table lineage was changed": "ALTER TABLE lineage ADD COLUMN more TEXT AS (upper(network))",
    "the table annotation was changed": "ALTER TABLE annotation ADD COLUMN more TEXT DEFAULT (1 + 1)",
    "the index ix_metric_name_value is missing": "DROP INDEX ix_metric_name_value",
    "the table notified is missing": "DROP TABLE notified",
    "the index ix_lineage_optimizer was changed": (
        "DROP INDEX ix_lineage_optimizer; CREATE INDEX ix_lineage_optimizer ON lineage (network)"
    ),
    "the view v_metric was changed": "DROP VIEW v_metric; CREATE VIEW v_metric AS SELECT 1 AS job_id",
    "the table v_metric is not ours": "DROP VIEW v_metric; CREATE TABLE v_metric (name TEXT)",
}


@pytest.mark.parametrize("name", _HOSTILE_SQLITE)
def test_what_acts_on_a_sqlite_store_and_what_was_changed_in_it_is_refused_by_name(
    sqlite_url: str, name: str
) -> None:
    run(
        sqlite_url,
        *_HOSTILE_SQLITE[name].split("; ")
        if "BEGIN" not in _HOSTILE_SQLITE[name]
        else [_HOSTILE_SQLITE[name]],
    )
    assert_refused(sqlite_url, name)


_WRITTEN_BY_HAND = {
    "the table metric was changed": (
        "UPDATE sqlite_schema SET sql = replace(sql, 'value DOUBLE', 'value DOUBLE CHECK (value < 0)')"
        " WHERE name = 'metric'"
    ),
    "the table series was changed": (
        "UPDATE sqlite_schema SET sql = replace(sql, 'DEFAULT 0', 'DEFAULT (abs(1))') WHERE name = 'series'"
    ),
    "the index ix_log_file_pending was changed": (
        "UPDATE sqlite_schema SET sql = replace(sql, '> 0', '> 0 AND abs(size_bytes) > 0')"
        " WHERE name = 'ix_log_file_pending'"
    ),
    "the table sqlite_stat1 is not ours": (
        "UPDATE sqlite_schema SET sql = 'CREATE TABLE sqlite_stat1(tbl,idx,stat CHECK (random() > 0))'"
        " WHERE name = 'sqlite_stat1'"
    ),
}


@pytest.mark.parametrize("name", _WRITTEN_BY_HAND)
def test_what_was_written_into_the_schema_of_a_sqlite_file_by_hand_is_refused_by_name(
    sqlite_url: str, name: str
) -> None:
    run(sqlite_url, "ANALYZE", "PRAGMA writable_schema = ON", _WRITTEN_BY_HAND[name])
    assert_refused(sqlite_url, name)


_BODY = "LANGUAGE plpgsql AS $$ BEGIN DELETE FROM metric; RETURN NEW; END $$"
_HOSTILE_POSTGRESQL = {
    "the trigger evil on lineage is not ours": (
        f"CREATE FUNCTION evil() RETURNS trigger {_BODY};"
        "CREATE TRIGGER evil AFTER INSERT ON lineage FOR EACH ROW EXECUTE FUNCTION evil()"
    ),
    "the trigger evil on v_job is not ours": (
        f"CREATE FUNCTION evil() RETURNS trigger {_BODY};"
        "CREATE TRIGGER evil INSTEAD OF INSERT ON v_job FOR EACH ROW EXECUTE FUNCTION evil()"
    ),
    "the trigger late on metric is not ours": (
        f"CREATE FUNCTION evil() RETURNS trigger {_BODY};"
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON metric DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION evil()"
    ),
    "the function left(text, bigint) is not ours": (
        "CREATE FUNCTION \"left\"(text, bigint) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$"
    ),
    "the rule gone on metric is not ours": "CREATE RULE gone AS ON INSERT TO metric DO INSTEAD NOTHING",
    "the policy mine on metric is not ours": "CREATE POLICY mine ON metric USING (false)",
    "the table metric was changed": "ALTER TABLE metric ENABLE ROW LEVEL SECURITY",
    "the constraint metric.few is not ours": "ALTER TABLE metric ADD CONSTRAINT few CHECK (value < 0)",
    "the column metric.more is not ours": "ALTER TABLE metric ADD COLUMN more text DEFAULT upper('x')",
    "the column lineage.more is not ours": (
        "ALTER TABLE lineage ADD COLUMN more text GENERATED ALWAYS AS (upper(network)) STORED"
    ),
    "the column metric.kind was changed": "ALTER TABLE metric ALTER COLUMN kind SET DEFAULT now()::text",
    "the column train_job.revision was changed": "ALTER TABLE train_job ALTER revision SET DEFAULT 1 + 1",
    "the column notifier.holder was changed": "ALTER TABLE notifier ALTER COLUMN holder TYPE varchar",
    "the index all_one is not ours": "CREATE UNIQUE INDEX all_one ON metric (kind, name_key, job_id)",
    "the index ix_metric_name_value was changed": (
        "DROP INDEX ix_metric_name_value; CREATE INDEX ix_metric_name_value ON metric (name_key)"
    ),
    "the index ix_metric_name_value is missing": "DROP INDEX ix_metric_name_value",
    "the constraint metric.fk_metric_job_id is missing": "ALTER TABLE metric DROP CONSTRAINT fk_metric_job_id",
    "the inheritance metric and public.heir is not ours": "CREATE TABLE heir () INHERITS (metric)",
    "the view v_log_file was changed": (
        "DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW v_log_file AS '"
        " || replace(pg_get_viewdef('v_log_file'::regclass), ';', '') || ' LIMIT 1'; END $$"
    ),
    "the cast text as inet is not ours": "CREATE CAST (text AS inet) WITH INOUT AS IMPLICIT",
    "the event trigger watcher is not ours": (
        "CREATE FUNCTION watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN NULL; END $$;"
        "CREATE EVENT TRIGGER watcher ON ddl_command_end EXECUTE FUNCTION watch()"
    ),
    "the trigger RI_ConstraintTrigger": "ALTER TABLE metric DISABLE TRIGGER ALL",
}


@pytest.mark.parametrize("name", _HOSTILE_POSTGRESQL)
def test_what_acts_on_a_postgresql_store_and_what_was_changed_in_it_is_refused_by_name(
    postgres_server: str, postgres_template: str, name: str
) -> None:
    databases.needs_databases(postgres_server)
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        run(url, _HOSTILE_POSTGRESQL[name])
        with pytest.raises(AlteredStoreError) as refused:
            LineageStore(url)
        assert name in " ".join(refused.value.altered)


def test_a_postgresql_store_that_is_refused_is_refused_by_whoever_opens_it(
    postgres_server: str, postgres_template: str
) -> None:
    databases.needs_databases(postgres_server)
    name = "the trigger evil on lineage is not ours"
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        run(url, _HOSTILE_POSTGRESQL[name])
        assert_refused(url, name)


def test_a_changed_view_whose_digest_was_forged_is_found_by_doctor_and_upgrade(
    postgres_server: str, postgres_template: str
) -> None:
    databases.needs_databases(postgres_server)
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        run(url, _HOSTILE_POSTGRESQL["the view v_log_file was changed"])
        engine = open_engine(url)
        with engine.begin() as connection:
            attestation.mark(Session(connection), upgrade.VERSION_TABLE)
        engine.dispose()
        settings = Settings(database_url=url)
        assert "altered_store" in [each.kind for each in examine(url, settings, [])]
        with pytest.raises(AlteredStoreError, match="the view v_log_file was changed"):
            administration.upgrade_schema(settings)


def test_views_of_another_release_are_refused_until_they_are_made_anew(database_url: str) -> None:
    is_sqlite = database_url.startswith("sqlite")
    run(
        database_url,
        "DROP VIEW v_metric",
        "CREATE VIEW v_metric AS SELECT 1 AS one",
        "PRAGMA user_version = 7" if is_sqlite else f"COMMENT ON TABLE {upgrade.VERSION_TABLE} IS '7 1:abc'",
    )
    with pytest.raises(SchemaTooOldError, match=r"views of the store .* are another release's") as refused:
        LineageStore(database_url)
    assert "db upgrade" in str(refused.value.hint)
    administration.upgrade_schema(Settings(database_url=database_url))
    LineageStore(database_url).close()
    assert asked(database_url, "SELECT * FROM v_metric") == []


def test_a_view_that_was_dropped_is_made_anew_by_upgrade(database_url: str) -> None:
    run(database_url, "DROP VIEW v_metric")
    with pytest.raises(AlteredStoreError, match="the view v_metric is missing"):
        LineageStore(database_url)
    administration.upgrade_schema(Settings(database_url=database_url))
    LineageStore(database_url).close()
    assert asked(database_url, "SELECT * FROM v_metric") == []


_OWN = [
    "CREATE TABLE theirs (id INTEGER PRIMARY KEY, name TEXT DEFAULT 'x', CHECK (id > 0))",
    "CREATE VIEW their_view AS SELECT train_id FROM v_job",
    "CREATE INDEX their_index ON metric (name)",
    "CREATE INDEX their_part ON metric (name) WHERE value IN (1, 2)",
]


def test_an_administrators_own_objects_are_a_finding_and_stay_in_use(
    database_url: str, base_dir: Path
) -> None:
    run(database_url, *_OWN)
    settings = Settings(database_url=database_url)
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    assert asked(database_url, "SELECT * FROM their_view") == [("./job",)]
    administration.upgrade_schema(settings)
    (found,) = [each for each in examine(database_url, settings, []) if each.kind == "own_objects"]
    for name in ("the table theirs", "the view their_view", "the index their_index", "the index their_part"):
        assert name in found.what
    assert not found.is_wrong


@pytest.mark.parametrize("undo", [False, True])
def test_a_store_with_partitions_is_attested_with_them_and_a_trigger_on_one_is_named(
    postgres_server: str, postgres_template: str, base_dir: Path, undo: bool
) -> None:
    databases.needs_databases(postgres_server)
    if DISTRIBUTED or BY_JOBS:
        pytest.skip("it is laid out already")
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        with LineageStore(url) as store:
            store.ingest(base_dir)
        engine = open_engine(url)
        lay_out(engine, 2)
        if undo:
            lay_out(engine, None)
        assert upgrade.attest(engine, thoroughly=True).own == ()
        upgrade.upgrade(url)
        table = "scalar_sample" if undo else "scalar_sample_0"
        run(
            url,
            f"CREATE FUNCTION evil() RETURNS trigger {_BODY}",
            f"CREATE TRIGGER evil BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION evil()",
        )
        with pytest.raises(AlteredStoreError, match="the trigger evil on scalar_sample"):
            upgrade.check(engine)
        engine.dispose()


def test_a_function_for_partitions_with_another_body_is_refused(
    postgres_server: str, postgres_template: str
) -> None:
    databases.needs_databases(postgres_server)
    if DISTRIBUTED:
        pytest.skip("without partitions")
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        engine = open_engine(url)
        if not BY_JOBS:
            lay_out(engine, 2)
        engine.dispose()
        run(
            url,
            "CREATE OR REPLACE FUNCTION make_sample_partitions(job_ids integer[]) RETURNS void LANGUAGE plpgsql"
            " SECURITY DEFINER AS $$ BEGIN DELETE FROM metric; END $$",
        )
        with pytest.raises(AlteredStoreError, match=r"the function make_sample_partitions\(integer\[\]\)"):
            LineageStore(url)


def test_a_change_of_layout_that_was_interrupted_is_no_foreign_object(
    postgres_server: str, postgres_template: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases.needs_databases(postgres_server)
    if DISTRIBUTED or BY_JOBS:
        pytest.skip("it is laid out already")
    from lineage_store.store.admin import partitioning

    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        engine = open_engine(url)
        monkeypatch.setattr(partitioning, "_fill", _fail)
        with pytest.raises(LineageStoreError, match="interrupted"):
            lay_out(engine, 2)
        assert upgrade.attest(engine, thoroughly=True).own == ()
        upgrade.upgrade(url)
        run(url, "CREATE OR REPLACE FUNCTION note_scalar_sample() RETURNS trigger " + _BODY)
        with pytest.raises(AlteredStoreError, match="the function note_scalar_sample"):
            upgrade.check(engine)
        engine.dispose()


def _fail(*_: object) -> None:
    raise LineageStoreError("interrupted")


def test_names_of_foreign_objects_cannot_forge_lines(sqlite_url: str) -> None:
    run(sqlite_url, 'CREATE TRIGGER "e\nAll is well." AFTER INSERT ON metric BEGIN SELECT 1; END')
    with pytest.raises(AlteredStoreError) as refused:
        LineageStore(sqlite_url)
    assert "\n" not in refused.value.message


def test_what_is_expected_on_sqlite_is_what_the_migrations_make(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)
    assert upgrade.attest(engine) == attestation.Attested()
    with engine.connect() as connection:
        made = attestation.compared(
            Session(connection), upgrade.VERSION_TABLE, lambda other: upgrade.make(other, upgrade.HEAD)
        )
    assert made == attestation.Attested()
    engine.dispose()
