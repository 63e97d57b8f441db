"""A proof and what it gets: a size, a seed, a scratch directory, fresh stores of both kinds.

A proof attacks a promise, and has a control: the same attack on a product without the guard, which must break the
promise. If the control does not fail, the proof has proved nothing.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from helpers import databases
from helpers.engines import opened
from lineage_store.store.database.db import sqlite_path
from lineage_store.store.schema.upgrade import upgrade

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
KINDS = (SQLITE, POSTGRESQL)


class SkippedError(Exception):
    """A proof, or a part of it, that cannot be tried here; the message says why."""


@dataclass(frozen=True, slots=True)
class Control:
    """The attack with the guard taken away."""

    without: str
    """The guard, as in "bookmark check"."""
    failures: int
    """How often the promise was broken then."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a proof did that held: a promise that breaks is an AssertionError."""

    counts: tuple[str, ...]
    """What was tried and found, in numbers: "1,000 kills", "0 lost"."""
    controls: tuple[Control, ...]
    skipped: tuple[str, ...] = ()
    """Parts that could not be tried, and why."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One promise. `prove` raises AssertionError when it breaks, SkippedError when it cannot be tried."""

    name: str
    promise: str
    unit: str
    """What the size counts."""
    ci_size: int
    full_size: int
    attacks: tuple[str, ...]
    """The rooms that have the guards: a change of one runs the proof (tools/changed_rooms.py)."""
    prove: Callable[[Run], Outcome]


@dataclass(frozen=True, slots=True)
class Run:
    """What a proof is given."""

    size: int
    seed: int
    scratch: Path
    """An empty directory on a local filesystem."""
    stores: Stores

    def chance(self, *part: object) -> random.Random:
        """Random numbers of a part of the proof, the same for the same seed."""
        return random.Random("/".join(map(str, (self.seed, *part))))

    def directory(self, name: str) -> Path:
        """A new, empty directory."""
        path = self.scratch / name
        path.mkdir()
        return path

    def store(self, kind: str) -> AbstractContextManager[str]:
        """The URL of an empty, migrated store of a kind, for the length of a block."""
        return self.stores.fresh(kind)


@contextmanager
def emptied(run: Run, kind: str) -> Iterator[str]:
    """The URL of a database of a kind without anything, for the length of a block."""
    with run.store(kind) as url:
        path = sqlite_path(url)
        if path is not None:
            path.unlink()
        else:
            with opened(url) as engine, engine.begin() as connection:
                connection.exec_driver_sql("DROP SCHEMA public CASCADE")
                connection.exec_driver_sql("CREATE SCHEMA public")
        yield url


@dataclass
class Stores:
    """Empty stores, each a copy of a template; the server is started for the first that needs it."""

    directory: Path
    lifetime: ExitStack

    def start(self) -> None:
        """Make the templates now: what forks would otherwise each make for itself."""
        for template in (self._sqlite, self._postgresql):
            assert template

    @contextmanager
    def fresh(self, kind: str) -> Iterator[str]:
        """The URL of an empty, migrated store."""
        if kind == POSTGRESQL:
            server, template = self._postgresql
            with databases.postgres_database(server, template=template) as url:
                yield url
            return
        home = Path(tempfile.mkdtemp(prefix="store-", dir=self.directory))
        shutil.copy(self._sqlite, home / "store.sqlite3")
        yield f"sqlite:///{home / 'store.sqlite3'}"
        shutil.rmtree(home)

    @cached_property
    def _sqlite(self) -> Path:
        path = self.directory / "template.sqlite3"
        upgrade(f"sqlite:///{path}")
        return path

    @cached_property
    def _postgresql(self) -> tuple[str, str]:
        server = self.lifetime.enter_context(databases.postgres_server())
        template = self.lifetime.enter_context(databases.postgres_database(server))
        upgrade(template)
        return server, template
