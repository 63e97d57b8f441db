"""The cookbook through each client that docs/clients.md describes, and the types that the client sees."""

from __future__ import annotations

import asyncio
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import Engine, MetaData, create_engine, func, select

from helpers.base_dirs import ROOT
from helpers.cookbook import ANSWERS, QUERIES, approximately, plain
from lineage_store.operations.backup import backup
from lineage_store.store.schema.views import VIEWS

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]
METADATA = ROOT / "config" / "datasette.json"


def path_of(engine: Engine) -> str:
    """A snapshot for readers: many clients bring a SQLite of their own, and two in a process must not share a file."""
    snapshot = Path(f"{engine.url.database}.snapshot", "store.db")
    if not snapshot.exists():
        snapshot.parent.mkdir()
        backup(engine, snapshot, mode=0o444)
    return str(snapshot)


def url_of(engine: Engine) -> str:
    """As most clients take it: without a driver, a socket in the place of the host."""
    if engine.dialect.name == "sqlite":
        return f"sqlite:///{path_of(engine)}"
    place = quote(str(engine.url.query["host"]), safe="")
    return f"postgresql://{engine.url.username}@{place}/{engine.url.database}"


def output(*command: str | Path, given: str | None = None) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(text: str) -> Rows:
    return [tuple(row.values()) for row in json.loads(text or "[]")]


def sqlite3_shell(engine: Engine) -> Ask:
    shell = shutil.which("sqlite3") or pytest.skip("no sqlite3 is here")
    return lambda query: records(output(shell, "-json", path_of(engine), query))


def psql(engine: Engine) -> Ask:
    shell = shutil.which("psql") or pytest.skip("no psql is here")
    as_json = "SELECT coalesce(json_agg(t), '[]') FROM ({}) t"
    return lambda query: records(output(shell, url_of(engine), "-qAtc", as_json.format(query)))


def sqlite_utils(engine: Engine) -> Ask:
    command = (sys.executable, "-m", "sqlite_utils", "query", path_of(engine))
    return lambda query: records(output(*command, query))


def datasette(engine: Engine) -> Ask:
    from datasette.app import Datasette

    questions = {sql: name for name, sql in QUERIES.items()}
    server = Datasette([path_of(engine)], metadata=json.loads(METADATA.read_text("utf-8")))
    loop = asyncio.Runner()

    def ask(query: str) -> Rows:
        page = f"/store/question_{questions[query]}.json?_shape=arrays"
        return [tuple(row) for row in loop.run(server.client.get(page)).json()["rows"]]

    return ask


def pandas(engine: Engine) -> Ask:
    import pandas as pd

    def ask(query: str) -> Rows:
        with engine.connect() as connection:
            return list(pd.read_sql(query, connection).itertuples(index=False, name=None))

    return ask


def polars_by(way: str) -> Callable[[Engine], Ask]:
    import polars as pl

    def by(engine: Engine) -> Ask:
        return lambda query: pl.read_database_uri(query, url_of(engine), engine=way).rows()

    return by


def adbc(engine: Engine) -> Ask:
    def ask(query: str) -> Rows:
        if engine.dialect.name == "sqlite":
            from adbc_driver_sqlite.dbapi import connect

            connection = connect(path_of(engine))
        else:
            from adbc_driver_postgresql.dbapi import connect

            connection = connect(url_of(engine))
        with connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    return ask


def ibis(engine: Engine) -> Ask:
    import ibis as library

    if engine.dialect.name == "sqlite":
        connection = library.sqlite.connect(path_of(engine))
        return lambda query: list(connection.sql(query).execute().itertuples(index=False, name=None))
    host, url = engine.url.query["host"], engine.url
    connection = library.postgres.connect(host=host, user=url.username, database=url.database)
    return lambda query: list(connection.raw_sql(query).fetchall())


def jupysql(engine: Engine) -> Ask:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "sql")
    shell.run_line_magic("sql", engine.url.render_as_string(hide_password=False))
    return lambda query: [tuple(row) for row in shell.run_cell_magic("sql", "", query)]


def duckdb(engine: Engine) -> Ask:
    connection = attached(engine)
    return lambda query: list(connection.execute(query).fetchall())


def attached(engine: Engine) -> Any:
    """DuckDB with the store in it, its extension from PyPI and nothing from elsewhere."""
    import duckdb as library

    kind = engine.dialect.name.removesuffix("ql")
    package = importlib.import_module(f"duckdb_extension_{kind}_scanner")
    (extension,) = Path(package.__path__[0]).rglob("*.duckdb_extension")
    connection = library.connect()
    connection.execute(f"LOAD '{extension}'")
    where = path_of(engine) if kind == "sqlite" else url_of(engine)
    connection.execute(f"ATTACH '{where}' AS store (TYPE {kind}, READ_ONLY)")
    connection.execute("USE store")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET disabled_optimizers = 'cte_inlining'")  # fails over SQLite, in 1.5.5
    return connection


BOTH = ("sqlite", "postgresql")
CLIENTS_OF = {
    "sqlite3": (sqlite3_shell, ("sqlite",)),
    "psql": (psql, ("postgresql",)),
    "sqlite-utils": (sqlite_utils, ("sqlite",)),
    "datasette": (datasette, ("sqlite",)),
    "pandas": (pandas, BOTH),
    "polars-connectorx": (lambda engine: polars_by("connectorx")(engine), BOTH),
    "polars-adbc": (lambda engine: polars_by("adbc")(engine), BOTH),
    "adbc": (adbc, BOTH),
    "ibis": (ibis, BOTH),
    "jupysql": (jupysql, BOTH),
    "duckdb": (duckdb, BOTH),
}


UNANSWERED = {("polars-connectorx", "sqlite"): {"16"}}
"""connectorx takes a column's type from its first row, which has none there."""


@pytest.mark.parametrize("client", CLIENTS_OF)
def test_client_answers_the_cookbook(client: str, filled: Engine) -> None:
    connect, databases = CLIENTS_OF[client]
    if filled.dialect.name not in databases:
        pytest.skip("of the other database")
    ask, wrong = connect(filled), {}
    for question, query in QUERIES.items():
        try:
            rows = [tuple(map(tidy, row)) for row in ask(query)]
        except Exception as error:  # noqa: BLE001 - whatever a client raises
            wrong[question] = repr(error)[:600]
            continue
        if rows != approximately(ANSWERS[question]):
            wrong[question] = repr(rows)
    assert wrong.keys() == UNANSWERED.get((client, filled.dialect.name), set()), wrong


def tidy(value: Any) -> Any:
    """A value of a client as SQLite gives it."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or value != value:
        return None
    if isinstance(value, str) and value.endswith(("+00:00", "+00")) and value[:4].isdigit():
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        value = value if value.tzinfo else value.replace(tzinfo=UTC)
    return plain(value)


def test_reflection_finds_every_view(filled: Engine) -> None:
    engine = create_engine(filled.url)
    reflected = MetaData()
    reflected.reflect(engine, views=True)
    with engine.connect() as connection:
        for view in VIEWS:
            table = reflected.tables[view.name]
            assert [column.name for column in table.columns] == [column.name for column in view.columns]
            connection.execute(select(func.count()).select_from(table))
    engine.dispose()


NOW = ("quiet_s", "last_cycle_age_s")
"""Columns that say something else each time."""
DUCKDB_TYPES = {
    "sqlite": {
        "text": "VARCHAR",
        "integer": "BIGINT",
        "bigint": "BIGINT",
        "double precision": "DOUBLE",
        "boolean": "BOOLEAN",
        "timestamptz": "VARCHAR",
    },
    "postgresql": {
        "text": "VARCHAR",
        "integer": "INTEGER",
        "bigint": "BIGINT",
        "double precision": "DOUBLE",
        "boolean": "BOOLEAN",
        "timestamptz": "TIMESTAMP WITH TIME ZONE",
    },
}


def test_duckdb_sees_the_type_of_every_column(filled: Engine) -> None:
    connection, types = attached(filled), DUCKDB_TYPES[filled.dialect.name]
    seen = {
        (view.name, name): type_
        for view in VIEWS
        for name, type_, *_ in connection.execute(f"DESCRIBE {view.name}").fetchall()
    }
    assert seen == {(view.name, column.name): types[column.type] for view in VIEWS for column in view.columns}


def test_duckdb_reads_every_view_as_the_database_does(filled: Engine) -> None:
    connection = attached(filled)
    with filled.connect() as ours:
        for view in VIEWS:
            names = ", ".join(column.name for column in view.columns if not column.name.endswith(NOW))
            query = f"SELECT {names} FROM {view.name}"
            known = [tuple(map(tidy, row)) for row in ours.exec_driver_sql(query)]
            seen = [tuple(map(tidy, row)) for row in connection.execute(query).fetchall()]
            assert sorted(seen, key=repr) == sorted(known, key=repr)
            assert connection.execute(f"SELECT count(*) FROM {view.name}").fetchone() == (len(known),)
