"""Roles: every table and view against every verb, as the roles themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from helpers.databases import login, needs_databases, plain
from helpers.engines import opened
from helpers.fake_citus import without_role_on_worker
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.api import administration
from lineage_store.config import Settings
from lineage_store.errors import LineageStoreError, PermissionDeniedError
from lineage_store.ingest import pipeline
from lineage_store.store.admin.roles import Roles, grant_roles, grant_statements, writing_functions_of_readers
from lineage_store.store.database.db import open_engine
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import upgrade
from lineage_store.store.schema.tables import metadata
from lineage_store.store.schema.views import VIEWS

_BY_ROLE = {
    "owner": 'test "owner" %s',
    "ingest": "test_%ingest",
    "reader": "test_reader",
    "analyst": "test_Analyst",
}
NAMES = {role: f"{name} {os.getpid()}" for role, name in _BY_ROLE.items()}
"""Of roles, which all databases of a server share."""
TABLES = [table.name for table in metadata.sorted_tables]
DENIED = psycopg.errors.InsufficientPrivilege


def as_role(url: str, role: str) -> str:
    """The URL with another user. The server of the tests trusts everybody on its socket."""
    return make_url(url).set(username=NAMES[role]).render_as_string(hide_password=False)


@pytest.fixture
def granted(postgres_url: str) -> Iterator[str]:
    """A store on which the roles have been granted what is theirs."""
    with psycopg.connect(plain(postgres_url), autocommit=True) as admin:
        for name in NAMES.values():
            admin.execute(SQL("CREATE ROLE {} {}").format(Identifier(name), login(postgres_url)))
    engine = open_engine(postgres_url)
    try:
        grant_roles(engine, Roles(NAMES["owner"], NAMES["ingest"], (NAMES["reader"],), (NAMES["analyst"],)))
        yield postgres_url
    finally:
        engine.dispose()
        with psycopg.connect(plain(postgres_url), autocommit=True) as admin:
            admin.execute(f"REASSIGN OWNED BY {quoted('owner')} TO CURRENT_USER")
            for role in NAMES:
                admin.execute(f"DROP OWNED BY {quoted(role)}")
                admin.execute(f"DROP ROLE {quoted(role)}")


def quoted(role: str) -> str:
    return '"' + NAMES[role].replace('"', '""') + '"'


def outcome(url: str, role: str, statement: str) -> str:
    """allowed or denied; nothing is kept."""
    with psycopg.connect(plain(url), user=NAMES[role]) as connection:
        try:
            connection.execute("SET default_transaction_read_only = off")
            connection.commit()
            connection.execute(statement)
        except DENIED:
            return "denied"
        except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.FeatureNotSupported):
            return "no such thing"  # a view that cannot be written
        except psycopg.errors.IntegrityError:
            return "allowed"
        finally:
            connection.rollback()
    return "allowed"


VERBS = {
    "read": "SELECT * FROM {} LIMIT 1",
    "insert": "INSERT INTO {} DEFAULT VALUES",
    "delete": "DELETE FROM {}",
    "truncate": "TRUNCATE {} CASCADE",
    "alter": "ALTER TABLE {} ADD COLUMN extra integer",
}


def test_each_role_may_do_what_is_its_own(granted: str) -> None:
    allowed = {
        role: {
            (verb, table)
            for verb in VERBS
            for table in TABLES
            if outcome(granted, role, VERBS[verb].format(table)) == "allowed"
        }
        for role in NAMES
    }
    assert allowed["analyst"] == set()
    assert allowed["reader"] == {("read", table) for table in TABLES}
    assert allowed["ingest"] == {(verb, table) for verb in ("read", "insert", "delete") for table in TABLES}
    assert allowed["owner"] == {(verb, table) for verb in VERBS for table in TABLES}


def test_the_sql_says_names_as_they_are(granted: str) -> None:
    engine = open_engine(granted)
    told = grant_statements(engine, Roles(NAMES["owner"], NAMES["ingest"]))
    engine.dispose()
    for role in ("owner", "ingest"):
        assert [each for each in told if each.endswith(f" TO {quoted(role)}")]


@pytest.mark.parametrize("role", NAMES)
def test_every_role_reads_the_views(granted: str, role: str) -> None:
    assert {outcome(granted, role, f"SELECT * FROM {view.name} LIMIT 1") for view in VIEWS} == {"allowed"}


@pytest.mark.parametrize("statement", ["CREATE TABLE t (i int)", "CREATE TEMP TABLE t (i int)"])
@pytest.mark.parametrize("role", ["reader", "analyst"])
def test_who_only_reads_makes_nothing(granted: str, role: str, statement: str) -> None:
    assert outcome(granted, role, statement) == "denied"


@pytest.mark.parametrize("role", ["reader", "analyst"])
def test_who_only_reads_has_limits(granted: str, role: str) -> None:
    with psycopg.connect(plain(granted), user=NAMES[role]) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1min",)
        assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
        assert connection.execute("SHOW join_collapse_limit").fetchone() == ("16",)
        assert connection.execute("SHOW from_collapse_limit").fetchone() == ("16",)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE t (i int)")


def test_our_own_sessions_keep_an_analysts_limit(granted: str) -> None:
    with opened(as_role(granted, "analyst")) as engine, engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "1min"


def test_the_ingest_role_ingests_and_cannot_upgrade(granted: str, tmp_path: Path) -> None:
    Log().version().scalar(1, "loss", 1.0).write_summary(tmp_path / "base" / "run")
    Log().train(network="LeNet5").write_lineage(tmp_path / "base" / "run")
    url = as_role(granted, "ingest")
    with LineageStore(url) as store:
        assert pipeline.ingest(store.engine, tmp_path / "base", Settings()).counts.events == 3
        assert store.lineage.filter()["count"] == 1
        with pytest.raises(PermissionDeniedError, match="A superuser grants, or the owner") as denied:
            grant_roles(store.engine, Roles(analysts=(NAMES["analyst"],)))
        assert denied.value.exit_code == 1


def test_an_administrator_who_is_no_superuser_grants(granted: str) -> None:
    """As docs/operations.md says: the owner of the database who has made the roles."""
    needs_databases(granted)
    database = make_url(granted).database
    made = ("test_admin", "test_made_owner", "test_made_reader")
    with psycopg.connect(plain(granted), autocommit=True) as superuser:
        superuser.execute(SQL("CREATE ROLE test_admin CREATEROLE {}").format(login(granted)))
        superuser.execute(f"ALTER DATABASE {database} OWNER TO test_admin")
        superuser.execute(f"GRANT {quoted('owner')} TO test_admin")
    try:
        with psycopg.connect(plain(granted), user="test_admin", autocommit=True) as admin:
            admin.execute("CREATE ROLE test_made_owner")
            admin.execute(SQL("CREATE ROLE test_made_reader {}").format(login(granted)))
            admin.execute("GRANT test_made_owner TO test_admin WITH SET TRUE")
        engine = open_engine(make_url(granted).set(username="test_admin").render_as_string(False))
        grant_roles(engine, Roles(owner="test_made_owner", readers=("test_made_reader",)))
        engine.dispose()
        reader = make_url(granted).set(username="test_made_reader").render_as_string(hide_password=False)
        with LineageStore(reader, settings=Settings(), read_only=True) as store:
            assert store.lineage.filter()["count"] == 0
    finally:
        with psycopg.connect(plain(granted), autocommit=True) as superuser:
            superuser.execute(f"ALTER DATABASE {database} OWNER TO CURRENT_USER")
            for role in reversed(made):
                superuser.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
                superuser.execute(f"DROP OWNED BY {role}")
                superuser.execute(f"DROP ROLE {role}")


def test_a_plain_owner_grants_and_one_statement_is_left_to_a_superuser(granted: str) -> None:
    needs_databases(granted)
    database = make_url(granted).database
    made = ("test_plain_owner", "test_plain_ingest", "test_plain_reader", "test_plain_analyst")
    with psycopg.connect(plain(granted), autocommit=True) as superuser:
        for role in made:
            superuser.execute(SQL("CREATE ROLE {} {}").format(Identifier(role), login(granted)))
        superuser.execute(f"ALTER DATABASE {database} OWNER TO {made[0]}")
    superusers = open_engine(granted)
    assert grant_roles(superusers, Roles(owner=made[0])) is None
    superusers.dispose()
    try:
        engine = open_engine(make_url(granted).set(username=made[0]).render_as_string(False))
        left = grant_roles(engine, Roles(ingest=made[1], readers=(made[2],), analysts=(made[3],)))
        engine.dispose()
        assert left is not None
        for role, query, allowed in (
            (made[1], "DELETE FROM annotation", True),
            (made[2], "SELECT * FROM train_job", True),
            (made[2], "CREATE TEMP TABLE t (i int)", False),
            (made[3], "SELECT * FROM v_job", True),
            (made[3], "SELECT * FROM train_job", False),
        ):
            with psycopg.connect(plain(granted), user=role) as connection, ExitStack() as refused:
                if not allowed:
                    refused.enter_context(pytest.raises(DENIED))
                connection.execute(query)
        with psycopg.connect(plain(granted), autocommit=True) as superuser:
            superuser.execute(left)
        for role in made[2:]:
            with psycopg.connect(plain(granted), user=role) as connection:
                assert connection.execute("SHOW statement_timeout").fetchone() == ("1min",)
                for statement in WRITING:
                    with pytest.raises(DENIED):
                        connection.execute(statement)
                    connection.rollback()
    finally:
        with psycopg.connect(plain(granted), autocommit=True) as superuser:
            superuser.execute(f"ALTER DATABASE {database} OWNER TO CURRENT_USER")
            for role in made:
                superuser.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER")
                superuser.execute(f"DROP OWNED BY {role}")
                superuser.execute(f"DROP ROLE {role}")


WRITING = (
    "SELECT pg_logical_emit_message(false, 'x', 'y')",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT pg_notify('x', 'y')",
    "SELECT lo_create(0)",
)


@pytest.mark.parametrize("role", ["reader", "analyst"])
def test_who_only_reads_cannot_call_functions_that_write_or_lock(granted: str, role: str) -> None:
    needs_databases(granted)
    assert {outcome(granted, role, statement) for statement in WRITING} == {"denied"}
    assert outcome(granted, "owner", "SELECT pg_advisory_xact_lock(1)") == "allowed"  # upgrades take it
    with opened(granted) as engine, engine.begin() as connection:
        assert writing_functions_of_readers(Session(connection)) == {}


def test_doctor_lists_the_functions_that_a_reader_can_call(granted: str) -> None:
    needs_databases(granted)
    with psycopg.connect(plain(granted), autocommit=True) as superuser:
        superuser.execute(f"GRANT EXECUTE ON FUNCTION pg_notify(text, text) TO {quoted('analyst')}")
    settings = Settings(database_url=granted)
    (found,) = [each for each in administration.doctor(settings, []) if each.kind == "writing_reader"]
    assert NAMES["analyst"] in found.what
    assert "pg_notify(text, text)" in found.what
    assert "db grant" in found.remedy


def test_the_owner_upgrades_and_grants_on_views_survive(granted: str) -> None:
    with opened(as_role(granted, "owner")) as engine, engine.begin() as connection:
        connection.exec_driver_sql(f"COMMENT ON TABLE {upgrade.VERSION_TABLE} IS '0'")
    upgrade.upgrade(as_role(granted, "owner"))
    assert outcome(granted, "analyst", "SELECT * FROM v_job") == "allowed"


@pytest.mark.parametrize("reads", ["readers", "analysts"])
def test_the_owner_of_the_tables_is_not_made_one_who_only_reads(granted: str, reads: str) -> None:
    """Nobody could write any more: PostgreSQL checks keys as the owner."""
    with opened(granted) as engine, pytest.raises(LineageStoreError, match="owns the tables"):
        grant_roles(engine, Roles(**{reads: (NAMES["owner"],)}))  # type: ignore[arg-type]


def test_sqlite_has_no_roles(sqlite_url: str) -> None:
    with pytest.raises(LineageStoreError, match="PostgreSQL"):
        grant_statements(open_engine(sqlite_url), Roles(analysts=("a",)))


@pytest.mark.parametrize(
    ("roles", "message"),
    [(Roles(), "No role"), (Roles(owner="nobody_there"), "nobody_there"), (Roles("twice", "twice"), "twice")],
)
def test_roles_that_cannot_be_granted_are_refused(postgres_url: str, roles: Roles, message: str) -> None:
    engine: Engine = open_engine(postgres_url)
    with pytest.raises(LineageStoreError, match=message):
        grant_roles(engine, roles)
    engine.dispose()


def test_a_role_that_a_worker_of_citus_lacks_is_named_with_what_to_do(
    postgres_server: str, granted: str
) -> None:
    needs_databases(postgres_server)
    with opened(granted) as engine:
        found = grant_statements(engine, Roles(readers=(NAMES["reader"],)))
        with (
            without_role_on_worker(granted, NAMES["reader"]),
            pytest.raises(
                LineageStoreError, match=r"worker worker1:5432 has no role 'test_reader"
            ) as refused,
        ):
            grant_roles(engine, Roles(readers=(NAMES["reader"],)))
        assert f'CREATE ROLE "{NAMES["reader"]}"' in str(refused.value.hint)
        assert "citus.enable_create_role_propagation" in str(refused.value.hint)
        assert grant_statements(engine, Roles(readers=(NAMES["reader"],))) == found
        assert grant_roles(engine, Roles(readers=(NAMES["reader"],))) is None
