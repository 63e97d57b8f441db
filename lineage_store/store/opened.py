"""An opened store: its connections, and the transactions in which every method reads and writes.

In: a URL or settings. Out: engines of the primary and of an optional standby; transactions whose failures are errors of
errors.py. Promises: if a store cannot be opened, all its connections are closed; a store with a standby opens and
answers while its primary is unavailable; reads see what the store has written before, unless the primary has become
unavailable. Does not know questions: `LineageStore` and its nouns ask them of an `Opened` that they were given.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lineage_store import config
from lineage_store.config import Settings, user_directory
from lineage_store.errors import (
    Cause,
    ConfigError,
    DatabaseUnavailableError,
    LineageParamTypeError,
    LineageQuerySummaryDataError,
    NotAStoreError,
    SchemaTooOldError,
)
from lineage_store.paths import PathLike, filesystem_type, is_network
from lineage_store.store.catalog import refs
from lineage_store.store.catalog.refs import BaseDirRef

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from lineage_store.store.database.sql import Session
    from lineage_store.store.database.standby import Standby


log = logging.getLogger(__name__)


class Opened:
    """A database with a store of this version, and the settings. Threads may share it."""

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> None:
        from lineage_store.store.database import db
        from lineage_store.store.schema import upgrade

        if not isinstance(url, str | None):
            raise LineageParamTypeError(
                f"url must be a text, not {type(url).__name__}.",
                hint="Give sqlite:////path/to/file or postgresql://user@host/name; by default the settings name it.",
            )
        self.settings, self._here = settings or config.load().settings, threading.local()
        given = url or self.settings.database_url
        url = given or default_url(make_directory=not read_only)
        unsafe = self.settings.allow_network_filesystem
        self.primary = self._new_engine(url, read_only=read_only)
        """The engine of the primary, whether its schema fits or not; see `engine`."""
        self.url = db.safe_url(self.primary.url)
        self._is_fit = self._is_copy = False
        self.standby: Standby | None = None
        """What answers questions in place of the primary; None without the setting `read_database_url`."""
        try:
            self.standby = self._beside_primary()
            if create and not read_only and upgrade.is_empty(self.primary):
                upgrade.upgrade(url, allow_network_filesystem=unsafe)
                if not given:
                    log.warning("The lineage store is %s.", db.sqlite_path(url))
            self._require_fit()
        except DatabaseUnavailableError as error:
            if self.standby is None:
                self.close()
                raise
            log.warning("%s Questions are answered by %s.", error, self.standby)
        except BaseException:
            self.close()
            raise

    def _new_engine(self, url: str, *, read_only: bool) -> Engine:
        from lineage_store.store.database.db import open_engine

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
        standby = Standby(self.primary, engine)
        if {engine.dialect.name, self.primary.dialect.name} != {"postgresql"}:
            raise ConfigError(
                f"read_database_url names {standby}, and the store is {self.url}: only PostgreSQL has standbys.",
                hint="Clear read_database_url.",
            )
        return standby

    def close(self) -> None:
        """Close the database connections; a connection in use by another thread closes when that thread is done."""
        from lineage_store.store.database import connections

        connections.close(self.primary)
        if self.standby is not None:
            connections.close(self.standby.engine)

    @property
    def engine(self) -> Engine:
        """The engine of the primary. Raises if its schema does not fit, or if it does not answer the check of that."""
        self._require_fit()
        return self.primary

    @property
    def read_engine(self) -> Engine:
        """The engine for the next question: the standby's, if there is one, unless it lacks what was written here."""
        standby = self.standby
        if standby is None or (self._require_copy(standby) and standby.lacks_writes()):
            return self.engine
        return standby.engine

    def answers_as_followed(self) -> bool:
        """Whether the next question goes to the engine that is watched for changes."""
        return self.standby is None or self.read_engine is self.followed

    def see_latest(self) -> None:
        """Make sure that later reads see everything that is in the primary now, even if a standby answers."""
        if self.standby is not None:
            self.standby.stay_no_older()

    @property
    def informed(self) -> Engine:
        """The engine for the status of ingest: the primary's, because leases look expired on a standby that lags.

        While the primary does not answer, it is the engine for questions.
        """
        if self.standby is None or self.standby.primary_answers():
            return self.engine
        return self.read_engine

    @property
    def followed(self) -> Engine:
        """The engine that is watched for changes: the standby's, if there is one."""
        return self.engine if self.standby is None else self.standby.engine

    def _require_fit(self) -> None:
        if self._is_fit:
            return
        from lineage_store.store.schema import upgrade

        upgrade.check(self.primary)
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
                hint="Name a hot standby of that server and the same database, or clear the setting.",
            )
        self._is_copy = True
        return True

    @contextmanager
    def named_failures(self) -> Iterator[None]:
        """Raise LineageQuerySummaryDataError, with the cause, for an error of the driver in the block."""
        from sqlalchemy.exc import DBAPIError

        try:
            yield
        except DBAPIError as error:
            cause = str(error.orig).strip().splitlines()[0]
            raise LineageQuerySummaryDataError(f"The database {self.url} failed: {cause}.") from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Answer all questions of this thread in the block from one snapshot; the block must not wait for others."""
        with self.read() as session:
            self._here.session = session
            try:
                yield
            finally:
                self._here.session = None

    @contextmanager
    def read(self, engine: Engine | None = None) -> Iterator[Session]:
        """Open a read transaction on an engine; None: use the snapshot's transaction, or else `read_engine`."""
        from lineage_store.store.database import db

        here = getattr(self._here, "session", None)
        if engine is None and here is not None:
            yield here
            return
        with self.named_failures(), db.reading(engine or self.read_engine) as session:
            yield session

    @contextmanager
    def read_at_length(self) -> Iterator[Session]:
        """Open a read transaction whose statements may take any time, on a connection of its own."""
        from lineage_store.store.database import connections, db

        url = self.read_engine.url.render_as_string(hide_password=False)
        apart = db.open_engine(url, read_only=True, allow_network_filesystem=True, statement_timeout_s=0)
        try:
            with self.read(apart) as session:
                yield session
        finally:
            connections.close(apart)

    def ask(self, question: Callable[[Session], T], engine: Engine | None = None) -> T:
        """Return the answer to a question in a transaction of its own, as `read` opens it.

        If a standby has ended it, because it had to replay changes to the rows that the question read, it is asked once
        more, in a new snapshot; not so a part of a `snapshot`, or of a function that `asked_again` retries as a whole.
        """

        def answer() -> T:
            with self.read(engine) as session:
                return question(session)

        return answer() if getattr(self._here, "session", None) else asked_again(answer)()

    def base_dirs(self, base_dir: PathLike | None = None) -> list[BaseDirRef]:
        """Return the base dir at a path as a list of one, or all, as the primary has them; raises as `refs` does."""
        return self.ask(lambda session: refs.base_dirs(session, base_dir), self.engine)


# ---- Retry a question that a standby has ended because it had to replay changes to the rows that the question read
# In: a function. Out: the same with a retry. Promises: one retry, for no other failure; the retry starts anew, in a
# snapshot of its own. A question that is part of another question is not retried by itself,
# because it may run in the transaction of the whole. Does not know the questions.


P = ParamSpec("P")
T = TypeVar("T")
_IS_PART: ContextVar[bool] = ContextVar("is_part", default=False)


def asked_again(question: Callable[P, T]) -> Callable[P, T]:
    """Retry a question once if a standby has ended it."""

    @wraps(question)
    def ask(*arguments: P.args, **named: P.kwargs) -> T:
        if _IS_PART.get():
            return question(*arguments, **named)
        whole = _IS_PART.set(True)
        try:
            return question(*arguments, **named)
        except DatabaseUnavailableError as error:
            if error.cause != Cause.CONFLICT:
                raise
            return question(*arguments, **named)
        finally:
            _IS_PART.reset(whole)

    return ask


# ---- The default location of the store: a SQLite file in the user's state directory
# In: nothing. Out: a database URL. If the state directory is on a network filesystem (as on most clusters), is
# another user's, cannot be made or cannot be written to, the store is in a private directory below /var/tmp, which is
# local and survives reboots. A store that exists stays the default one while the other directory has none, so that no
# jobs are missed.


FILE_NAME = "store.db"
FALLBACK = Path("/var/tmp") / f"lineage-store-{os.getuid()}"  # noqa: S108 - made private, and only used if ours


def default_url(*, make_directory: bool = True) -> str:
    """Return the URL of this user's own store; unless `make_directory` is false, make its directory (mode 0700).

    Raises DatabaseUnavailableError if there is no directory that can be used.
    """
    home = user_directory("state")
    candidates = [FALLBACK] if home is None or is_network(filesystem_type(home)) else [home, FALLBACK]
    there = next(filter(_holds_our_store, candidates), None)
    if there is not None or not make_directory:
        return _url(there or candidates[0])
    for directory in candidates:
        with suppress(OSError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(directory) and os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
                return _url(directory)
    raise DatabaseUnavailableError(
        f"No directory for the store can be made or written to: {' nor '.join(map(str, candidates))}.",
        hint="Name one: LINEAGE_STORE_DATABASE_URL=sqlite:////path/to/store.db.",
    )


def _holds_our_store(directory: Path) -> bool:
    with suppress(OSError):
        return (directory / FILE_NAME).exists() and _is_ours(directory)
    return False


def _is_ours(directory: Path) -> bool:
    """Return whether a directory is this user's: in /var/tmp anybody may make directories, and links to others."""
    status = directory.stat(follow_symlinks=directory != FALLBACK)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _url(directory: Path) -> str:
    return f"sqlite:///{directory / FILE_NAME}"
