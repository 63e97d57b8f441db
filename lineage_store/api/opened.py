"""An opened store: its connections, and the transactions in which every method reads and writes.

In: a URL or settings. Out: engines of the primary and of an optional standby; transactions whose failures are errors of
errors.py. Promises: if a store cannot be opened, all its connections are closed; a store with a standby opens and
answers while its primary is unavailable; reads see what the store has written before, unless the primary has become
unavailable. Does not know questions: these are in `questions`, `jobs`, `samples` and `operations`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from lineage_store import setting_sources
from lineage_store.api import base_dirs
from lineage_store.api.base_dirs import BaseDir
from lineage_store.api.paths import PathLike
from lineage_store.config import Settings
from lineage_store.errors import (
    ConfigError,
    DatabaseUnavailableError,
    LineageParamTypeError,
    LineageQuerySummaryDataError,
    NotAStoreError,
    SchemaTooOldError,
)
from lineage_store.texts import shown, to_stored

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from lineage_store.store.database.standby import Standby

log = logging.getLogger(__name__)


class OpenedStore:
    """A database with a store of this version, and the settings."""

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> None:
        from lineage_store.store.database import engine as engines
        from lineage_store.store.database.default_location import default_url
        from lineage_store.store.schema import upgrade

        if not isinstance(url, str | None):
            raise LineageParamTypeError(
                f"url must be a text, not {type(url).__name__}.",
                hint="Give sqlite:////path/to/file or postgresql://user@host/name, or nothing for the settings' own.",
            )
        self.settings, self._here = settings or setting_sources.load().settings, threading.local()
        given = url or self.settings.database_url
        url = given or default_url(make_directory=not read_only)
        unsafe = self.settings.allow_network_filesystem
        self._primary = self._new_engine(url, read_only=read_only)
        self.url = engines.safe_url(self._primary.url)
        self._is_fit = self._is_copy = False
        self._standby: Standby | None = None
        try:
            self._standby = self._beside_primary()
            if create and not read_only and upgrade.is_empty(self._primary):
                upgrade.upgrade(url, allow_network_filesystem=unsafe)
                if not given:
                    log.warning("The lineage store is %s.", engines.sqlite_path(url))
            self._require_fit()
        except DatabaseUnavailableError as error:
            if self._standby is None:
                self.close()
                raise
            log.warning("%s Questions are answered by %s.", error, self._standby)
        except BaseException:
            self.close()
            raise

    def _new_engine(self, url: str, *, read_only: bool) -> Engine:
        from lineage_store.store.database.engine import open_engine

        return open_engine(
            url,
            read_only=read_only,
            allow_network_filesystem=self.settings.allow_network_filesystem,
            pool_size=self.settings.pool_size,
            statement_timeout_s=self.settings.statement_timeout_s,
        )

    def _beside_primary(self) -> Standby | None:
        """Return the standby of the settings, not yet connected; None without one. Raises ConfigError."""
        if not self.settings.read_database_url:
            return None
        from lineage_store.store.database.standby import Standby

        engine = self._new_engine(self.settings.read_database_url, read_only=True)
        standby = Standby(self._primary, engine)
        if {engine.dialect.name, self._primary.dialect.name} != {"postgresql"}:
            raise ConfigError(
                f"read_database_url names {standby}, and the store is {self.url}: only PostgreSQL has standbys.",
                hint="Set read_database_url to nothing.",
            )
        return standby

    def close(self) -> None:
        """Close the database connections; a connection in use by another thread closes when that thread is done."""
        from lineage_store.store.database import pool

        pool.close(self._primary)
        if self._standby is not None:
            pool.close(self._standby.engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LineageStore({self.url!r})"

    @property
    def engine(self) -> Engine:
        """The primary's SQLAlchemy engine, for SQL of your own; the views are the contract, the tables are not.

        Raises if its schema does not fit, or if it does not answer the first check of that.
        """
        self._require_fit()
        return self._primary

    @property
    def read_engine(self) -> Engine:
        """The engine for the next question: the standby's, if there is one, unless it lacks what was written here."""
        standby = self._standby
        if standby is None or (self._require_copy(standby) and standby.lacks_writes()):
            return self.engine
        return standby.engine

    def answers_as_followed(self) -> bool:
        """Whether the next question goes to the engine that is watched for changes."""
        return self._standby is None or self.read_engine is self._followed

    def see_latest(self) -> None:
        """Make sure that later reads see everything that is in the primary now, even if a standby answers."""
        if self._standby is not None:
            self._standby.stay_no_older()

    @property
    def _informed(self) -> Engine:
        """The engine for the status of ingest: the primary's, because leases look expired on a standby that lags.

        While the primary does not answer, it is the engine for questions.
        """
        if self._standby is None or self._standby.primary_answers():
            return self.engine
        return self.read_engine

    @property
    def _followed(self) -> Engine:
        """The engine that is watched for changes: the standby's, if there is one."""
        return self.engine if self._standby is None else self._standby.engine

    def _require_fit(self) -> None:
        if self._is_fit:
            return
        from lineage_store.store.schema import upgrade

        upgrade.check(self._primary)
        self._is_fit = True

    def _require_copy(self, standby: Standby) -> bool:
        """Check once that the standby is a copy of the store; return True, or raise what is wrong with it."""
        if self._is_copy:
            return True
        from lineage_store.store.schema import upgrade

        try:
            upgrade.check(standby.engine)
        except (SchemaTooOldError, NotAStoreError) as error:
            hint = f"It must be a standby of {self.url}: wait until it has replayed what made the store."
            raise type(error)(error.message, hint=hint) from error
        if not standby.is_copy():
            raise ConfigError(
                f"read_database_url names {standby}, which is no standby of {self.url}.",
                hint="Name a hot standby of that server and the same database, or nothing.",
            )
        self._is_copy = True
        return True

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        from sqlalchemy.exc import DBAPIError

        try:
            yield
        except DBAPIError as error:
            cause = str(error.orig).strip().splitlines()[0]
            raise LineageQuerySummaryDataError(f"The database {self.url} failed: {cause}.") from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Answer all questions of this thread in the block from one snapshot; the block must not wait for others."""
        with self._reading() as connection:
            self._here.connection = connection
            try:
                yield
            finally:
                self._here.connection = None

    @contextmanager
    def _reading(self, engine: Engine | None = None) -> Iterator[Connection]:
        """Open a read transaction on an engine; None: use the snapshot's transaction, or else `read_engine`."""
        from lineage_store.store.database import engine as engines

        here = getattr(self._here, "connection", None)
        if engine is None and here is not None:
            yield here
            return
        with self._named_failures(), engines.reading(engine or self.read_engine) as connection:
            yield connection

    @contextmanager
    def _job(self, base_dir: PathLike, train_id: str) -> Iterator[tuple[Connection, BaseDir, int]]:
        """Open a read transaction, and find a base dir and the id of a job in it. Raises as `find_job`."""
        with self._reading() as connection:
            yield connection, *find_job(connection, base_dir, train_id)


def find_job(connection: Connection, base_dir: PathLike, train_id: str) -> tuple[BaseDir, int]:
    """Return a base dir, and the id of a job of it.

    Raises TrainJobNotFoundError, LineageParamTypeError; LineageParamSummaryPathError when the store does not know the
    base dir.
    """
    from lineage_store.query import jobs
    from lineage_store.store.catalog import registry

    place = base_dirs.find(connection, base_dir)
    found = registry.job_id(connection, place.id, stored_id(train_id))
    if found is None:
        raise jobs.no_such_job(train_id, place.path)
    return place, found


def stored_id(train_id: str) -> str:
    """Return a train id as the store has it. Raises LineageParamTypeError when it is no text."""
    if not isinstance(train_id, str):
        raise LineageParamTypeError(f"train_id = {shown(train_id)} must be a text such as './run_7'.")
    return to_stored(train_id)


def check_text(name: str, value: object) -> None:
    """Raise LineageParamTypeError when a parameter is no text."""
    if not isinstance(value, str):
        raise LineageParamTypeError(f"{name} = {shown(value)} must be a text.")
