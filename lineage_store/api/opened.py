"""An opened store: its connections, and the transactions in which every method asks.

In: a URL or settings. Out: an engine; transactions whose failures are errors of errors.py. Promises: a store that was
refused holds nothing open. Knows no question: those are in `questions`, `samples` and `operations`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lineage_store import config
from lineage_store.api import base_dirs
from lineage_store.api.base_dirs import BaseDir
from lineage_store.api.paths import PathLike
from lineage_store.config import Settings
from lineage_store.errors import LineageQuerySummaryDataError, TrainJobNotFoundError
from lineage_store.texts import to_stored

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

log = logging.getLogger(__name__)


class OpenedStore:
    """A database that holds a store of this version, and its settings."""

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

        self.settings, self._here = settings or config.load().settings, threading.local()
        given = url or self.settings.database_url
        url = given or default_url(make_directory=not read_only)
        unsafe = self.settings.allow_network_filesystem
        self._engine = engines.open_engine(
            url,
            read_only=read_only,
            allow_network_filesystem=unsafe,
            pool_size=self.settings.pool_size,
            statement_timeout_s=self.settings.statement_timeout_s,
        )
        self.url = engines.safe_url(self._engine.url)
        try:
            if create and not read_only and upgrade.is_empty(self._engine):
                upgrade.upgrade(url, allow_network_filesystem=unsafe)
                if not given:
                    log.warning("The lineage store is %s.", engines.sqlite_path(url))
            upgrade.check(self._engine)
        except BaseException:
            self.close()  # a store that was refused holds nothing open
            raise

    def close(self) -> None:
        """Close the database connections; one that another thread uses closes when its question is answered."""
        from lineage_store.store.database import pool

        pool.close(self._engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LineageStore({self.url!r})"

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, for SQL of your own; the views are the contract, the tables are not."""
        return self._engine

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
        """What this thread asks in the block is answered as of one moment; for blocks that wait for nothing else."""
        with self._reading() as connection:
            self._here.connection = connection
            try:
                yield
            finally:
                self._here.connection = None

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        from lineage_store.store.database import engine as engines

        if (here := getattr(self._here, "connection", None)) is not None:
            yield here
            return
        with self._named_failures(), engines.reading(self._engine) as connection:
            yield connection

    @contextmanager
    def _job(self, base_dir: PathLike, train_id: str) -> Iterator[tuple[Connection, BaseDir, int]]:
        """A transaction, a base dir, and the id of a job below it. Raises TrainJobNotFoundError."""
        with self._reading() as connection:
            found = base_dirs.find(connection, base_dir)
            yield connection, found, job_id(connection, found, train_id)


def job_id(connection: Connection, base_dir: BaseDir, train_id: str) -> int:
    """The id of a job below a base dir. Raises TrainJobNotFoundError."""
    from lineage_store.store.catalog import registry

    found = registry.job_id(connection, base_dir.id, to_stored(train_id))
    if found is None:
        raise no_such_job(train_id, base_dir.path)
    return found


def no_such_job(train_id: str, base_dir: Path) -> TrainJobNotFoundError:
    """The error that says that the store knows no such job, and what to do."""
    return TrainJobNotFoundError(
        f"The store knows no train job {train_id!r} below {base_dir}.",
        hint="Ids look like ./name: `lineage-store jobs` lists them, `why PATH` tells why one is missing.",
    )
