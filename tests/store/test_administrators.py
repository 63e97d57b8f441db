"""Settings of a PostgreSQL administrator, and poolers between us and the server, do not change the answers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy.engine import make_url

from helpers.contents import natural_contents
from helpers.databases import needs_databases, plain, plain_role, postgres_database
from helpers.lending_pooler import lending_pooler
from helpers.log_writer import Log
from lineage_store import DatabaseUnavailableError, LineageStore
from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.store.database.db import open_engine, reading, writing
from lineage_store.store.schema.upgrade import upgrade

DEFAULTS = [
    "default_transaction_isolation = serializable",
    "default_transaction_deferrable = on",
    "statement_timeout = '20s'",
    "lock_timeout = '20s'",
    "idle_in_transaction_session_timeout = '20s'",
    "search_path = other, public",
    "TimeZone = 'Asia/Kolkata'",
    "DateStyle = SQL, DMY",
    "IntervalStyle = sql_standard",
    "bytea_output = escape",
    "extra_float_digits = -5",
    "standard_conforming_strings = off",
    "transform_null_equals = on",
    "client_encoding = LATIN1",
]


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    path = tmp_path / "base"
    log = Log().version().scalar(1, "loss", 0.1).scalar(2, "loss", float("nan")).image(3, "i", [[[1, 2, 3]]])
    log.scalar(4, "Verlust \u00e9\u20ac\u65e5\\n'x'", 1 / 3).write_summary(path / "a\u20ac")
    lineage = Log().train(network="N\\", loss=1 / 3, epoch=3).evaluation({"\u00e9": 0.1 + 0.2})
    lineage.user_info(key="v\u20ac").write_lineage(path / "a\u20ac")
    return path


def look(url: str, base_dir: Path) -> list[Any]:
    """Fill a store, and see it in every way."""
    with LineageStore(url, settings=Settings()) as store:
        store.ingest(base_dir)
        store.job((base_dir, "./a\u20ac")).annotate(remark="\u00e9\u20ac")
        found = [natural_contents(store.engine), list(store.lineage.iterate({"loss": {"lt": 1}}))]
        found += [
            store.lineage.jobs()[0].train_id,
            store.job((base_dir, "./a\u20ac")).scalars("loss").values.tolist()[0],
        ]
        assert [file for file in store.repair.verify() if file.differences or file.unreadable] == []
    for _ in range(2):
        with (
            plain_role(url) as asker,
            LineageStore(asker, settings=Settings(), read_only=True) as store,
            store.sql("SELECT loss, network FROM v_job") as some,
            store.sql("SELECT loss, network FROM v_job WHERE 1 = 0") as none,
        ):
            found += [list(some.rows), none.columns, list(none.rows)]
    return found


@pytest.mark.slow
def test_defaults_of_an_administrator_change_no_answer(
    postgres_server: str, postgres_url: str, base_dir: Path
) -> None:
    with database(
        postgres_server, "CREATE SCHEMA other", *map("ALTER DATABASE {{}} SET {}".format, DEFAULTS)
    ) as url:
        upgrade(url)
        assert look(url, base_dir) == look(postgres_url, base_dir)


@contextmanager
def database(server: str, *statements: str) -> Iterator[str]:
    """An empty database on which these have been executed."""
    needs_databases(server)
    with postgres_database(server) as url:
        with psycopg.connect(plain(url), autocommit=True) as admin:
            for statement in statements:
                admin.execute(SQL(statement).format(Identifier(admin.info.dbname)))
        yield url


def test_where_transactions_are_read_only_by_default_nothing_is_written_and_that_is_told(
    postgres_server: str,
) -> None:
    with (
        database(postgres_server, "ALTER DATABASE {} SET default_transaction_read_only = on") as url,
        pytest.raises(DatabaseUnavailableError, match="read-only transaction") as refused,
    ):
        upgrade(url)
    assert refused.value.cause == "read-only"
    assert "default_transaction_read_only" in str(refused.value.hint)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_all_text_becomes_no_store(postgres_server: str, encoding: str) -> None:
    needs_databases(postgres_server)
    name = f"test_{encoding.lower()}_{os.getpid()}"
    with psycopg.connect(plain(postgres_server), autocommit=True) as admin:
        how = f"TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
        admin.execute(SQL("CREATE DATABASE {} " + how).format(Identifier(name)))
        try:
            url = make_url(postgres_server).set(database=name).render_as_string(hide_password=False)
            with pytest.raises(ConfigError, match=f"holds text as {encoding}"):
                upgrade(url)
        finally:
            admin.execute(SQL("DROP DATABASE {}").format(Identifier(name)))


# --- a pooler in between ---


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory, lending_pooler(postgres_url, Path(directory)) as url:
        yield url


def test_behind_a_pooler_that_lends_sessions_the_answers_are_the_same(
    pooled_url: str, postgres_server: str, postgres_template: str, base_dir: Path
) -> None:
    with postgres_database(postgres_server, template=postgres_template) as url:
        assert look(pooled_url, base_dir) == look(url, base_dir)


def test_nothing_is_left_in_sessions_that_are_lent(pooled_url: str) -> None:
    names = ("default_transaction_read_only", "lock_timeout", "statement_timeout", "TimeZone")
    shown = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
    with psycopg.connect(plain(pooled_url), autocommit=True) as other:
        before = other.execute(shown).fetchone()
        for read_only in (True, False):
            engine = open_engine(pooled_url, read_only=read_only)
            for _ in range(8):  # psycopg would have prepared it by now
                with reading(engine) as session:
                    found = session.one(shown)
                    assert tuple(found[1:]) == ("30s", "15min", "UTC")
            engine.dispose()
        assert [other.execute(shown).fetchone() for _ in range(4)] == [before] * 4
        assert other.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_who_only_reads_does_not_keep_others_behind_a_pooler_from_writing(pooled_url: str) -> None:
    readers, writers = open_engine(pooled_url, read_only=True), open_engine(pooled_url)
    for _ in range(4):
        with reading(readers) as session, pytest.raises(Exception, match="read-only"):
            session.change("DELETE FROM train_job")
        with writing(writers) as session:
            session.change("DELETE FROM train_job")
    readers.dispose()
    writers.dispose()
