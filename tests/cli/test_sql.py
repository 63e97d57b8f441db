"""SQL from the command line can only read."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, text
from sqlalchemy.engine import make_url

from helpers.contents import natural_contents
from helpers.databases import plain_role
from helpers.engines import opened
from helpers.program import Run
from lineage_store import LineageStore
from lineage_store.store.admin.read_only_sql import _ONLY_READS
from lineage_store.store.admin.roles import Roles, grant_roles
from lineage_store.store.database.db import reading
from lineage_store.store.schema import tables

WRITES = [
    "DELETE FROM train_job",
    "UPDATE train_job SET state = 'x'",
    "INSERT INTO base_dir (path) VALUES ('x')",
    "CREATE TABLE other (x int)",
    "CREATE TEMP TABLE other (x int)",
    "DROP VIEW v_job",
    "WITH gone AS (DELETE FROM train_job RETURNING id) SELECT * FROM gone",
    "SELECT 1; DELETE FROM train_job",
    "COMMIT; DELETE FROM train_job",
    "VACUUM",
]
SQLITE_WRITES = [
    "ATTACH 'other.db' AS other",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA query_only = OFF",
    "PRAGMA user_version = 7",
    "UPDATE sqlite_master SET sql = ''",
    "SELECT load_extension('x')",
    "VACUUM INTO 'copy.db'",
    "EXPLAIN ATTACH 'other.db' AS other",
    "SELECT * FROM pragma_journal_mode('delete')",
    "PRAGMA writable_schema = ON",
    "PRAGMA temp_store_directory = '.'",
    "SELECT writefile('other.db', 'x')",
    "SELECT fts3_tokenizer('simple', 'x')",
    "CREATE VIRTUAL TABLE other USING fts5(x)",
    "BEGIN IMMEDIATE",
    "DETACH main",
    "REINDEX",
]
POSTGRES_WRITES = [
    "SET TRANSACTION READ WRITE",
    "RESET ROLE",
    "SET SESSION AUTHORIZATION postgres",
    "SELECT set_config('session_authorization', 'postgres', true)",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "SELECT set_config('default_transaction_read_only', 'off', false), apart.delete_jobs()",
    "SELECT apart.delete_jobs()",
    "SELECT query_to_xml('DELETE FROM train_job', true, true, '')",
    "SELECT query_to_xml('SELECT apart.delete_jobs()', true, true, '')",
    "SELECT * INTO other FROM train_job",
    "SELECT * FROM train_job FOR UPDATE",
    "SELECT nextval('train_job_id_seq')",
    "SELECT setval('train_job_id_seq', 7)",
    "EXPLAIN ANALYZE DELETE FROM train_job",
    "SELECT lo_import('PG_VERSION')",
    "SELECT lo_export(1, '/tmp/x')",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT * FROM pg_ls_dir('.')",
    "SELECT pg_create_physical_replication_slot('other')",
    "SELECT pg_reload_conf()",
]
ROLLED_BACK = ["EXPLAIN ANALYZE CREATE TABLE other AS SELECT 1", "SELECT lo_from_bytea(0, 'x')"]
"""Some versions of PostgreSQL allow these in a READ ONLY transaction."""


def count_jobs(url: str) -> int:
    with opened(url) as engine, reading(engine) as session:
        count: int = session.value(select(func.count()).select_from(tables.train_job))
    return count


@pytest.fixture
def url(on_each: str, base_dir: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    run("ingest", base_dir)
    with ExitStack() as lifetime:
        asker = on_each if on_each.startswith("sqlite") else lifetime.enter_context(plain_role(on_each))
        monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", asker)
        yield asker


def test_questions_are_answered(run: Run, url: str) -> None:
    query = "SELECT train_id, value, is_latest FROM v_metric WHERE name LIKE '%cc%' ORDER BY value DESC"
    rows = json.loads(run("sql", query, "--json").out)
    assert [(row["train_id"], row["value"]) for row in rows] == [("./good", 0.9), ("./poor", 0.5)]
    assert run("sql", query).out.splitlines()[1].split()[:2] == ["./good", "0.9"]
    assert run("sql", "SELECT NULL AS one WHERE 1 = 0", "--json").out == "[]\n"
    assert run("sql", "SELECT 1 AS one WHERE 1 = 0", "--csv").out == "one\n"


def test_nothing_can_be_written(run: Run, url: str) -> None:
    for statement in WRITES:
        refused = run("sql", statement)
        assert (refused.code, refused.out) == (1, ""), statement
        assert refused.err.startswith("Error: The statement was refused"), statement
    assert count_jobs(url) == 2


@pytest.mark.usefixtures("on_sqlite")
def test_nothing_around_sqlite_can_be_changed(run: Run, stored: Path, tmp_path: Path) -> None:
    files = sorted(path.name for path in tmp_path.iterdir())
    for statement in SQLITE_WRITES:
        assert run("sql", statement).code == 1, statement
    assert sorted(path.name for path in tmp_path.iterdir()) == files


@pytest.mark.usefixtures("on_sqlite")
def test_table_valued_functions_and_the_schema_can_be_read(run: Run) -> None:
    assert run("sql", "SELECT sum(value) AS s FROM json_each('[1, 2]')", "--csv").out == "s\n3\n"
    assert "train_id" in run("sql", "SELECT name FROM pragma_table_info('v_job')").out
    assert "train_id" in run("sql", "PRAGMA table_info(v_job)").out


@pytest.fixture
def on_postgres(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The program uses an empty PostgreSQL store, as a role that may read everything; the URL is a superuser's."""
    with plain_role(postgres_url) as asker:
        monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", asker)
        yield postgres_url


@pytest.mark.usefixtures("on_postgres")
@pytest.mark.parametrize(
    "disguise",
    ["{}", " ;{}", "\n-- SELECT\n{}", "/* SELECT */ {}", "/* /* */ SELECT 1 */ {}", "EXPLAIN {}", "({})"],
)
def test_nobody_writes_files_or_runs_programs_on_the_server(run: Run, disguise: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)  # the server may have a user of its own
        file = os.path.join(directory, "written")
        for copy in (f"COPY (SELECT 1) TO PROGRAM 'touch {file}'", f"COPY (SELECT 1) TO '{file}'"):
            assert run("sql", disguise.format(copy)).code == 1
        assert os.listdir(directory) == []


@pytest.mark.parametrize(
    ("attributes", "member_of", "named"),
    [
        ("SUPERUSER", [], "binds the role"),
        ("REPLICATION", [], "binds the role"),
        ("", ["test_unbound"], "as a member of 'test_unbound'"),
        ("", ["pg_read_server_files"], "as a member of 'pg_read_server_files'"),
        ("", ["pg_execute_server_program"], "as a member of 'pg_execute_server_program'"),
    ],
)
def test_whom_no_transaction_binds_is_refused(
    run: Run, on_postgres: str, attributes: str, member_of: list[str], named: str
) -> None:
    takes_back = (
        "SELECT set_config('role', session_user::text, true), query_to_xml('SHOW role', true, true, '')"
    )
    with opened(on_postgres) as engine, engine.connect() as connection:
        connection.execute(text("CREATE ROLE test_unbound SUPERUSER"))
        connection.commit()
        try:
            with plain_role(on_postgres, attributes, *member_of) as asker:
                for statement in (takes_back, "SELECT 1"):
                    refused = run("--database", asker, "sql", statement)
                    assert (refused.code, refused.out) == (1, "")
                    assert named in refused.err
                    assert "db grant --reader ROLE" in refused.err
        finally:
            connection.execute(text("DROP ROLE test_unbound"))
            connection.commit()


def test_not_even_who_owns_the_tables_writes(run: Run, on_postgres: str, base_dir: Path) -> None:
    with (
        LineageStore(on_postgres) as store,
        plain_role(on_postgres, "CREATEROLE CREATEDB BYPASSRLS", "pg_signal_backend") as owner,
    ):
        store.ingest(base_dir)
        grant_roles(store.engine, Roles(owner=make_url(owner).username))
        with store.engine.begin() as connection:
            connection.execute(
                text(
                    "CREATE SCHEMA apart;"
                    "CREATE FUNCTION apart.delete_jobs() RETURNS void AS 'DELETE FROM public.train_job' LANGUAGE sql;"
                    "GRANT USAGE ON SCHEMA apart TO PUBLIC"
                )
            )
        before = natural_contents(store.engine), _world(store.engine)
        for statement in [*WRITES, *POSTGRES_WRITES]:
            refused = run("--database", owner, "sql", statement)
            assert (refused.code, refused.out) == (1, ""), statement
        for statement in ROLLED_BACK:
            run("--database", owner, "sql", statement)
        assert (natural_contents(store.engine), _world(store.engine)) == before
        with store.engine.begin() as connection:
            connection.execute(text("DROP SCHEMA apart CASCADE"))


@pytest.mark.usefixtures("on_postgres")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000))",
        "SELECT pg_catalog . \"pg_logical_emit_message\" (false, 'x', 'y')",
        "SELECT PG_ADVISORY_LOCK(1)",
        "SELECT pg_advisory_lock/* /* */ */(1)",
        "SELECT pg_try_advisory_xact_lock_shared\n-- (\n(1)",
        "SELECT 1 LIMIT (SELECT 1 FROM pg_advisory_xact_lock(1))",
        "VALUES ((SELECT pg_notify('x', 'y')))",
        "EXPLAIN ANALYZE SELECT pg_notify('x', 'y')",
        "SELECT sum(1) OVER (ROWS (SELECT 1 FROM pg_advisory_lock(1)) PRECEDING)",
        "SELECT set_config('statement_timeout', '0', false)",
        "SELECT query_to_xml('SELECT pg_advisory_lock' || '(1)', true, true, '')",
        "SELECT * FROM ts_stat('SELECT pg_advisory_lock' || '(1)')",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, '')",
        "SELECT txid_current()",
        "SELECT pg_current_xact_id()",
        "SELECT pg_export_snapshot()",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user",
        'SELECT U&"pg\\005fadvisory\\005flock"(1)',
        "SELECT u&\"pg!005fnotify\" UESCAPE '!' ('x', 'y')",
        "SELECT nextval('train_job_id_seq')",
    ],
)
def test_functions_that_write_or_lock_are_refused(run: Run, statement: str) -> None:
    refused = run("sql", statement)
    assert (refused.code, refused.out) == (1, "")
    assert "writes, locks, or runs a text as SQL" in refused.err or "escapes" in refused.err


_WRITERS = (
    *(
        "amvalidate",
        "binary_upgrade_",
        "brin_",
        "currtid2",
        "cursor_to_xml",
        "gin_clean_",
        "lo_",
        "loread",
        "lowrite",
    ),
    *("nextval", "pg_advisory_", "pg_try_advisory_", "pg_backup_", "pg_start_backup", "pg_stop_backup"),
    *(
        "pg_cancel_backend",
        "pg_clear_",
        "pg_restore_",
        "pg_copy_",
        "pg_create_",
        "pg_drop_",
        "pg_export_snapshot",
    ),
    *(
        "pg_extension_config_dump",
        "pg_import_system_collations",
        "pg_isolation_test_",
        "pg_log_",
        "pg_logical_",
    ),
    *(
        "pg_ls_",
        "pg_nextoid",
        "pg_notify",
        "pg_promote",
        "pg_read_",
        "pg_reload_conf",
        "pg_replication_",
        "pg_rotate_",
    ),
    *("pg_show_", "pg_stat_file", "pg_stat_force_next_flush", "pg_stat_have_stats", "pg_stat_reset"),
    *("pg_stop_making_pinned_objects", "pg_switch_wal", "pg_sync_replication_slots", "pg_terminate_backend"),
    *(
        "pg_wal_replay_",
        "pg_walfile_",
        "plpgsql_",
        "query_to_xml",
        "set_config",
        "setval",
        "ts_rewrite",
        "ts_stat",
    ),
    *("pg_hba_file_rules", "pg_ident_file_mappings", "txid_", "pg_current_logfile", "pg_filenode_relation"),
    *("pg_event_trigger_", "pg_read_file", "pg_file_"),
)
"""How the names begin of the volatile functions that a release of PostgreSQL has and that are refused."""


def test_each_volatile_function_of_postgresql_is_known_to_read_only_or_refused(on_postgres: str) -> None:
    """A new release with a volatile function that is neither fails here: decide what it is."""
    query = (
        "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND provolatile = 'v'"
        " AND prokind = 'f' AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)"
        " AND prorettype::regtype::text NOT LIKE '%handler'"
    )
    with opened(on_postgres) as engine, engine.connect() as connection:
        volatile = connection.execute(text(query)).scalars().all()
    assert len(volatile) > 100
    only_read = {name for name in volatile if _ONLY_READS.fullmatch(name)}
    assert [name for name in volatile if name not in only_read and not name.startswith(_WRITERS)] == []
    doubtful = re.compile(
        r"advisory|write|notify|emit|create|drop|reset|terminate|cancel|set_|import|export|xml"
    )
    assert [name for name in only_read if doubtful.search(name)] == []


@pytest.mark.usefixtures("on_postgres")
def test_functions_that_only_read_are_answered(run: Run) -> None:
    for expression in (
        "random()",
        "clock_timestamp()",
        "pg_total_relation_size('train_job')",
        "gen_random_uuid()",
    ):
        assert run("sql", f"SELECT {expression} IS NOT NULL AS is_there").code == 0
    assert run("sql", "SELECT count(*) FROM pg_stat_activity").code == 0


def _world(engine: Engine) -> list[object]:
    """What is there beside the store's rows."""
    questions = (
        "SELECT array_agg(rolname::text ORDER BY 1) FROM pg_roles",
        "SELECT array_agg(relname::text ORDER BY 1) FROM pg_class",
        "SELECT count(*) FROM pg_largeobject_metadata",
        "SELECT count(*) FROM pg_replication_slots",
        "SELECT last_value FROM train_job_id_seq",
    )
    with engine.connect() as connection:
        return [connection.execute(text(question)).scalar_one() for question in questions]


@pytest.mark.usefixtures("on_postgres")
def test_an_analyst_s_statement_may_be_planned_in_any_way(run: Run) -> None:
    for setting, value in (
        ("enable_mergejoin", "on"),
        ("join_collapse_limit", 16),
        ("from_collapse_limit", 16),
    ):
        assert run("sql", f"SHOW {setting}", "--csv").out == f"{setting}\n{value}\n"


def test_what_asks_may_stand_behind_comments_and_parentheses(run: Run, url: str) -> None:
    for statement in (
        "/* why */ -- how\n (SELECT 1)",
        "values (1)",
        "WITH one AS (SELECT 1) SELECT * FROM one",
    ):
        if not (statement.endswith("(SELECT 1)") and url.startswith("sqlite")):  # where it is a syntax error
            assert run("sql", statement, "--csv").out.splitlines()[1:] == ["1"], statement
    assert run("sql", "EXPLAIN SELECT * FROM v_job").code == 0


@pytest.mark.parametrize("statement", ["", " \n", ";", " -- later", "/* later */"])
def test_no_statement_is_a_usage_error(run: Run, on_each: str, statement: str) -> None:
    refused = run("sql", statement)
    assert (refused.code, refused.out) == (2, "")
    assert "no SQL statement" in refused.err


def test_a_statement_that_takes_too_long_is_ended(run: Run, url: str) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT (i + 1) % 10 FROM n) SELECT max(i) FROM n"
    ended = run("sql", "--timeout", "0.2", endless)
    assert ended.code == 1
    assert "longer than 0.2 s" in ended.err


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "0", "soon"])
def test_a_time_that_is_none_is_a_usage_error(run: Run, url: str, seconds: str) -> None:
    refused = run("sql", "--timeout", seconds, "SELECT 1")
    assert (refused.code, refused.out) == (2, "")


def test_rows_are_read_for_as_long_as_it_takes(url: str) -> None:
    numbers = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT i FROM n"
    )
    with LineageStore(url) as store, store.sql(numbers, timeout_s=2) as answer:
        assert next(answer.rows) == (1,)
        time.sleep(2.5)
        assert sum(1 for _ in answer.rows) == 299_999


def test_a_mistake_is_named_with_what_helps(run: Run, url: str) -> None:
    wrong = run("sql", "SELECT nonsense FROM v_job")
    assert "nonsense" in wrong.err
    assert "docs/schema.md" in wrong.err
    assert "SELEC" in run("sql", "SELEC 1").err
    for statement, closest in (
        ("SELECT j.train_idd FROM v_job j", "train_id"),
        ("SELECT los FROM v_job", "loss"),
        ("SELECT * FROM v_jobs", "v_job"),
    ):
        assert f"Did you mean {closest}?" in run("sql", statement).err


@pytest.mark.usefixtures("on_sqlite")
def test_a_carriage_return_begins_no_row_of_csv(run: Run) -> None:
    texts = ["=1", "plain", "a\r=1", "\r=1", "a\r\n=1,2", 'a"\r@x']
    values = ", ".join(f"({number}, '{text}')" for number, text in enumerate(texts))
    asked = run("sql", f'WITH t(n, text) AS (VALUES {values}) SELECT n, text AS "a\rname" FROM t', "--csv")
    assert asked.out.startswith('"n","a\rname"\n0,"\'=1"\n1,"plain"\n2,"a\r=1"\n3,"\'\r=1"\n')
    rows = list(csv.reader(io.StringIO(asked.out, newline="")))
    assert [row[1].removeprefix("'") for row in rows[1:]] == texts


@pytest.mark.usefixtures("on_sqlite")
def test_a_table_shows_the_first_rows_and_says_so(run: Run) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001) SELECT i FROM n"
    shown = run("sql", many)
    assert shown.out.splitlines()[-1].strip() == "1000"
    assert "first 1,000 rows" in shown.err
    assert len(json.loads(run("sql", many, "--json").out)) == 1001


def test_columns_of_one_name_are_refused_where_names_tell_them(run: Run, url: str) -> None:
    statement = "SELECT 1 AS a, 2 AS a, 3 AS b"
    for style in (["--json"], ["--columns", "a"], ["--csv", "--columns", "b,a"]):
        refused = run("sql", statement, *style)
        assert (refused.code, refused.out) == (2, "")
        assert "several columns of the name 'a'. Give each a name by AS." in refused.err
    assert run("sql", statement, "--csv").out == "a,a,b\n1,2,3\n"
    assert run("sql", statement).out.split() == ["a", "a", "b", "1", "2", "3"]
    assert json.loads(run("sql", statement, "--json", "--columns", "b").out) == [{"b": 3}]


def test_a_statement_that_is_no_text_is_refused(run: Run, url: str) -> None:
    refused = run("--database", url, "sql", "SELECT 1 /* \udcfe */")
    assert refused.code == 2
    assert "no UTF-8 text" in refused.err
