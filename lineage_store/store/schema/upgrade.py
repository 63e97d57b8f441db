"""Schema versions: which version a database has, which one this release needs, and the upgrade between them.

In: a database URL or an engine. Out: an upgraded database, or an error that says what to do.
Promises: an upgrade is one transaction, so the schema is the old or the new one, never a mixture; on PostgreSQL it
waits as long as necessary for another upgrade and for transactions that use what it changes, on SQLite as long as any
write does; views and descriptions always fit the tables; a database of another application is never changed, nor a
store whose catalog is not what this code makes (store/schema/attestation.py). `check` runs a few small queries and does
not import Alembic. Does not know the tables (migrations/, tables/).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, column, event, inspect, select, table
from sqlalchemy.engine import URL, make_url

from lineage_store.errors import (
    AlteredStoreError,
    Cause,
    ConfigError,
    DatabaseUnavailableError,
    NotAStoreError,
    PermissionDeniedError,
    SchemaTooNewError,
    SchemaTooOldError,
    UnfinishedCopyError,
)
from lineage_store.store.database.connections import APPLICATION_ID
from lineage_store.store.database.db import is_read_only, open_engine, reading, safe_url, sqlite_path, writing
from lineage_store.store.database.failures import was_a_store
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import attestation, descriptions
from lineage_store.store.schema.attestation import Attested

HEAD = "0001"
"""The schema version that this release needs: that of the newest script in migrations/versions. Versions have four
digits, so that they compare as text."""
VERSION_TABLE = "lineage_store_version"
UNFINISHED_COPY = "unfinished_copy"
"""A store has this table while another store is being copied into it; until that is finished, nobody may use it."""
_SHOWN = 5
_MISTRUSTED = (
    "Nothing was read from it or written. Restore a backup of before (on SQLite by `lineage-store restore FILE "
    "--replace`, on PostgreSQL into a new database), or make a new store and read the log files again. Only if you "
    "know who changed it and trust what it holds: drop what is not ours, and the views that were changed; "
    "`lineage-store db upgrade` makes these anew."
)
_OF_BACKUP = (
    "Nothing of it was restored. Use another backup, or make a new store and read the log files again: labels and "
    "remarks are what only the backup has."
)


def upgrade(
    url: str,
    *,
    allow_network_filesystem: bool = False,
    when_made: Callable[[Session], None] = lambda _: None,
) -> None:
    """Create or upgrade the store at `url`; do nothing if it is up to date. Grants on views are kept.

    Raises NotAStoreError, AlteredStoreError, SchemaTooNewError, ConfigError (a database whose encoding is not UTF-8),
    DatabaseUnavailableError.

    Args:
        when_made: called inside the transaction that creates the store.
    """
    engine = open_engine(url, allow_network_filesystem=allow_network_filesystem, statement_timeout_s=0)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _suspend_foreign_keys)
    with _closing(engine), writing(engine) as session:
        if engine.dialect.name == "postgresql":
            wait_for_turn(session)
        version = _version(session)
        refuse_newer(version or HEAD, f"The store {safe_url(engine.url)}")
        if version is None and engine.dialect.name == "postgresql":
            _refuse_other_text(session)
        are_views_ours = False
        if version is not None:
            found, are_views_ours = _attested(session, version)
            refuse_altered(f"The store {safe_url(engine.url)}", replace(found, missing_views=()))
            are_views_ours = are_views_ours and not found.missing_views
        if version != HEAD or not are_views_ours:
            _rebuild(session, version)
        elif engine.dialect.name == "postgresql":
            attestation.mark(session, VERSION_TABLE)  # a newer server has other words for the same
        if version is None:
            when_made(session)


def attest_backup(url: str, named: str) -> tuple[str, Attested]:
    """Return the version of a SQLite file that is to be restored, and what it holds that is not ours.

    Raises NotAStoreError, SchemaTooNewError, AlteredStoreError, DatabaseUnavailableError.
    """
    engine = open_engine(url, read_only=True, allow_network_filesystem=True, statement_timeout_s=0)
    with _closing(engine):
        if (version := _current(engine)) is None:
            raise _not_a_store(engine, "holds nothing")
        refuse_newer(version, named)
        with reading(engine) as session:
            found, _ = _attested(session, version)
        refuse_altered(named, replace(found, missing_views=()), hint=_OF_BACKUP)
        return version, found


def make_at(url: str, version: str) -> None:
    """Make the tables of a version in a new SQLite file; of HEAD also the views."""
    engine = open_engine(url, allow_network_filesystem=True, statement_timeout_s=0)
    with _closing(engine), writing(engine) as session:
        if version == HEAD:
            _rebuild(session, None)
        else:
            _migrate(session, version)


def _attested(session: Session, version: str) -> tuple[Attested, bool]:
    """Compare a catalog with that of a version, as thoroughly as this role may; return also whether views are HEAD's.

    Views of another release are not compared: they are dropped, or not restored.
    """
    are_views_ours = version == HEAD and descriptions.up_to_date(session, VERSION_TABLE)
    try:
        found = attestation.compared(session, VERSION_TABLE, lambda other: make(other, version))
    except PermissionDeniedError:
        found = attestation.examine_schema(session, VERSION_TABLE)
    return (found if are_views_ours else replace(found, views=())), are_views_ours


def wait_for_turn(session: Session) -> None:
    """Wait on PostgreSQL, without any timeout, until no upgrade or change of the layout runs; keep others waiting.

    The lock and the absence of timeouts end with the transaction: its later statements wait for locks without limit,
    and large tables may take their time.
    """
    session.change("SET LOCAL statement_timeout = 0")
    session.change("SET LOCAL lock_timeout = 0")
    session.change(f"SELECT pg_advisory_xact_lock({APPLICATION_ID})")


def current_version(url: str) -> str | None:
    """Return the schema version of the store at `url`; None if there is no table yet. Raises NotAStoreError."""
    engine = open_engine(url, read_only=True, allow_network_filesystem=True)
    with _closing(engine):
        return _current(engine)


def check(store: Engine | str) -> None:
    """Raise an error that says what to do, unless there is a store that fits this release.

    Raises SchemaTooOldError, SchemaTooNewError, NotAStoreError, UnfinishedCopyError or AlteredStoreError;
    DatabaseUnavailableError if there is no SQLite file, or if it is damaged.
    """
    if isinstance(store, str):
        engine = open_engine(store, read_only=True, allow_network_filesystem=True)
        with _closing(engine):
            return check(engine)
    check_version(store)
    attest(store)
    return None


def check_version(store: Engine) -> None:
    """Raise as `check`, but do not look at more than the version."""
    version = _current(store)
    if version is None:
        raise no_store(store.url)
    if version < HEAD:
        raise SchemaTooOldError(
            f"The store {safe_url(store.url)} has schema {version}; this version of lineage_store needs {HEAD}.",
            hint="Stop the daemon and run `lineage-store db upgrade`.",
        )
    refuse_newer(version, f"The store {safe_url(store.url)}")


def attest(store: Engine, *, thoroughly: bool = False) -> Attested:
    """Compare the catalog of a store of this release with what the code makes; return what else is there.

    Raises AlteredStoreError for what is not ours and acts on it, and for what is ours and was changed;
    SchemaTooOldError if its views are another release's.

    Args:
        thoroughly: on PostgreSQL compare word by word too; raises PermissionDeniedError or ReadOnlyStoreError where
            that is impossible. Otherwise that is done only if the stored digest is another one.
    """
    with reading(store) as session:
        found = attestation.examine_schema(session, VERSION_TABLE)
        are_views_ours = descriptions.up_to_date(session, VERSION_TABLE)
    is_postgresql = store.dialect.name == "postgresql"
    in_doubt = attestation.OTHER_WORDS in found.changed and not is_read_only(store)
    if is_postgresql and (thoroughly or in_doubt) and (are_views_ours or not found.altered):
        try:
            with writing(store) as session:
                found = attestation.compared(session, VERSION_TABLE, lambda other: make(other, HEAD))
        except PermissionDeniedError:
            if thoroughly:
                raise
    is_only_views = not (found.foreign or found.changed or found.missing)
    if not are_views_ours and (is_only_views or found.changed == (attestation.OTHER_WORDS,)):
        raise SchemaTooOldError(
            f"The views of the store {safe_url(store.url)} are another release's.",
            hint="Stop the daemon and run `lineage-store db upgrade`.",
        )
    refuse_altered(f"The store {safe_url(store.url)}", found)
    return found


def make(session: Session, version: str) -> None:
    """Make what is compared of a version in an empty database: its tables, and of HEAD the views."""
    _migrate(session, version)
    if version == HEAD:
        descriptions.create(session)
        if session.kind == "sqlite":
            descriptions.store(session)


def refuse_altered(named: str, found: Attested, hint: str = _MISTRUSTED) -> None:
    """Raise AlteredStoreError for what is not as it should be in the store or backup `named`."""
    if altered := found.altered:
        raise altered_store(named, altered, hint)


def altered_store(named: str, altered: tuple[str, ...], hint: str = _OF_BACKUP) -> AlteredStoreError:
    """Return the error for what is not as it should be, in words, in the store or backup `named`."""
    more = f"; and {len(altered) - _SHOWN} more" if len(altered) > _SHOWN else ""
    return AlteredStoreError(
        f"{named} is not as lineage_store made it: {'; '.join(altered[:_SHOWN])}{more}.",
        hint=hint,
        altered=altered,
    )


def refuse_newer(version: str, named: str) -> None:
    """Raise SchemaTooNewError for a version that this release does not know; `named` is the store in the message."""
    if version > HEAD:
        raise SchemaTooNewError(
            f"{named} has schema {version}; this version of lineage_store knows up to {HEAD}.",
            hint="Install the newer version of lineage_store that upgraded it.",
        )


def is_empty(store: Engine) -> bool:
    """Return whether the database has no table yet, or there is no SQLite file. Raises NotAStoreError."""
    return _current(store) is None


def no_store(url: str | URL) -> SchemaTooOldError | DatabaseUnavailableError:
    """Return the error for a place without a store: the database is empty, or there is no SQLite file."""
    path = sqlite_path(make_url(url))
    text = f"There is no lineage store at {safe_url(url)}."
    if path is None or path.exists():
        return SchemaTooOldError(text, hint="`lineage-store init` makes one there, and so does `ingest`.")
    hint = "Check the path; `lineage-store init` makes a store there, and so does `ingest`."
    if not path.parent.exists():
        hint = f"Check the path: the directory {path.parent} does not exist, or is not mounted."
    return DatabaseUnavailableError(text, hint=hint, cause=Cause.GONE)


def migrations_path() -> Path:
    """Return the folder of migration scripts: inside an installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent.parent
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


def _refuse_other_text(session: Session) -> None:
    """Raise ConfigError unless the encoding is UTF-8: a name that it cannot store would fail its batch for ever."""
    encoding = session.value("SHOW server_encoding")
    if encoding != "UTF8":
        raise ConfigError(
            f"The database {safe_url(session.connection.engine.url)} holds text as {encoding}; "
            "names may have any letters.",
            hint="Make one for the store: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.",
        )


def _rebuild(session: Session, version: str | None) -> None:
    grants = descriptions.grants(session)
    descriptions.drop(session)
    if version != HEAD:
        _migrate(session, HEAD)
    descriptions.create(session)
    descriptions.store(session)
    attestation.mark(session, VERSION_TABLE)
    for grant in grants:
        session.change(grant)


def _migrate(session: Session, version: str) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    config.attributes["connection"] = session.connection
    command.upgrade(config, version)
    if session.kind == "sqlite":
        session.change(f"PRAGMA application_id = {APPLICATION_ID}")


def _current(engine: Engine) -> str | None:
    path = sqlite_path(engine.url)
    if path is not None and not _holds_anything(path):
        return None
    with _foreign_file_named(engine), reading(engine) as session:
        return _version(session)


def _holds_anything(path: Path) -> bool:
    """Return whether a SQLite file may hold tables. To SQLite a file of one byte is empty: it would write into it."""
    try:
        return path.stat().st_size > 1
    except OSError:
        return False


def _version(session: Session) -> str | None:
    tables = inspect(session.connection).get_table_names()
    if not tables:
        return None
    marked = session.kind != "sqlite" or (session.value("PRAGMA application_id") == APPLICATION_ID)
    if VERSION_TABLE not in tables or not marked:
        raise _not_a_store(
            session.connection.engine, f"holds tables of another application, such as {min(tables)}"
        )
    if UNFINISHED_COPY in tables:
        raise UnfinishedCopyError(
            f"{safe_url(session.connection.engine.url)} holds a copy of a store that has not come to its end.",
            hint="Run the same `lineage-store db copy FROM TO` again: it resumes where it stopped.",
        )
    return session.value(select(column("version_num")).select_from(table(VERSION_TABLE)))


@contextmanager
def _closing(engine: Engine) -> Iterator[None]:
    try:
        with _foreign_file_named(engine):
            yield
    finally:
        engine.dispose()


@contextmanager
def _foreign_file_named(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailableError as error:
        path = sqlite_path(engine.url)
        if error.cause == Cause.DAMAGED and path is not None and not was_a_store(path):
            raise _not_a_store(engine, "is a file of another kind") from error
        raise


def _suspend_foreign_keys(connection: sqlite3.Connection, _record: Any) -> None:
    # A migration changes a SQLite table by making a new one and dropping the old; that must not delete referring rows.
    connection.execute("PRAGMA foreign_keys = OFF")


def _not_a_store(engine: Engine, why: str) -> NotAStoreError:
    return NotAStoreError(
        f"{safe_url(engine.url)} {why}: it is not a lineage store; nothing was changed.",
        hint="Give the URL of a new or an empty database.",
    )
