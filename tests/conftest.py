"""Fixtures for all tests: fresh databases, and the golden log files as MindSpore left them.

A test that takes `database_url` runs once on SQLite and once on PostgreSQL, each time on an empty, migrated
database of its own. The server starts when the first test asks for it; each kind of database is migrated once
and copied. A worker of pytest-xdist is a session: it has its own server and its own copies.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from helpers import databases
from helpers.base_dirs import GOLDEN, copy_base_dir
from helpers.standby import hot_standby
from lineage_store.config import Settings, load

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

if (
    os.environ.get("LINEAGE_STORE_LIMITS") == "vectorised=false"
):  # `make test-plain`: not only where settings are loaded
    Settings.__init__.__defaults__ = tuple(getattr(load().settings, field.name) for field in fields(Settings))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage seldom, and not at all among modules and thousands of tests.

    It would take a quarter of the time in which they come, and then a tenth of what the tests take of their process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


DATABASES = [pytest.param("postgres", id="postgresql")]
if not (databases.BY_JOBS or databases.DISTRIBUTED):  # which SQLite has not
    DATABASES.insert(0, pytest.param("sqlite", id="sqlite"))


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty, migrated database; the test runs on each kind."""
    return _fixture_of(request, "{}_url")


@pytest.fixture(params=DATABASES)
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """A database without any table; the test runs on each kind."""
    return _fixture_of(request, "empty_{}_url")


@pytest.fixture(scope="module", params=DATABASES)
def module_database_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """An empty, migrated database for all tests of a module, which read alone; they run on each kind."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("module") / "store.sqlite3"
        yield f"sqlite:///{shutil.copy(request.getfixturevalue('sqlite_template'), path)}"
        return
    server, template = (request.getfixturevalue(f"postgres_{name}") for name in ("server", "template"))
    with databases.postgres_database(server, template=template) as url:
        yield url


@pytest.fixture(params=DATABASES)
def stored_url(request: pytest.FixtureRequest, tmp_path: Path, corpus: Path) -> Iterator[str]:
    """A store of the test's own with the golden base dir in it; the test runs on each kind of database."""
    with databases.copied(_fixture_of(request, "golden_{}_url"), tmp_path, partial(_fill, corpus)) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    """An empty, migrated SQLite database."""
    path = tmp_path / "store.sqlite3"
    shutil.copy(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """A SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path / 'empty.sqlite3'}"


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """An empty, migrated PostgreSQL database."""
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A PostgreSQL database without any table."""
    with databases.postgres_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL server for the session."""
    with databases.postgres_server() as url:
        yield url


@pytest.fixture(scope="module")
def standby_server(postgres_server: str) -> Iterator[str]:
    """A hot standby of that server, for a module."""
    with hot_standby(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The migrated database that others are copies of; nobody may be connected to it."""
    with databases.postgres_database(postgres_server) as url:
        databases.make_store(url)
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The migrated file that others are copies of."""
    from lineage_store.store.schema.upgrade import upgrade

    path = tmp_path_factory.mktemp("template") / "store.sqlite3"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def golden_sqlite_url(sqlite_template: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store of the golden base dir that others are copies of."""
    url = f"sqlite:///{shutil.copy(sqlite_template, tmp_path_factory.mktemp('golden') / 'store.sqlite3')}"
    _fill(corpus, url)
    return url


@pytest.fixture(scope="session")
def golden_postgres_url(postgres_server: str, postgres_template: str, corpus: Path) -> Iterator[str]:
    """The same on PostgreSQL; nobody may be connected to it."""
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        _fill(corpus, url)
        yield url


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden base dir, to be read only: a test that changes files copies it first (`shutil.copytree`)."""
    return copy_base_dir(GOLDEN / "summary_base", tmp_path_factory.mktemp("corpus") / "summary_base")


def _fill(corpus: Path, url: str) -> None:
    from lineage_store import LineageStore

    with LineageStore(url) as store:
        store.ingest(corpus)


def _fixture_of(request: pytest.FixtureRequest, name: str) -> str:
    url: str = request.getfixturevalue(name.format(request.param))
    return url
