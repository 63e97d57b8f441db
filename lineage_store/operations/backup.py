"""Back up a store into one file, and restore it from there.

In: an engine or a URL, and a file. Out: a SQLite file or an archive of pg_dump; a restored store. Promises: a backup
file is a consistent snapshot, checked and synced to disk, or does not appear at all; a killed restore leaves either
the old contents or the restored ones; contents are replaced on request only, and never while an ingester leads.
Bookmarks are restored with the rows, so the next ingest reads what log files have gained since.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import DatabaseError

from lineage_store.errors import (
    DatabaseUnavailableError,
    LineageStoreError,
    NotAStoreError,
    UnfinishedCopyError,
)
from lineage_store.operations.table_rows import any_row
from lineage_store.output_files import replacing
from lineage_store.store import leases
from lineage_store.store.admin import client_programs, roles
from lineage_store.store.admin.publish import copy_file
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import open_engine, reading, safe_url, sqlite_path
from lineage_store.store.database.locks import readers_of
from lineage_store.store.schema import distribution, partitions, upgrade
from lineage_store.store.schema.tables import base_dir, ingest_cycle, metadata, train_job

PRIVATE = 0o600
_SQLITE, _ARCHIVE = b"SQLite format 3\0", b"PGDMP"
"""The first bytes of the two kinds of backups."""
_NAME_ONE = "Name what `lineage-store backup` wrote of a store in the same kind of database."


@dataclass(frozen=True, slots=True)
class Restored:
    """The contents of a restored store."""

    jobs: int
    last_ingest_at: datetime | None
    """The end of its last ingest cycle."""
    left: str | None
    """A statement that somebody else must run to restore the limits of roles, if this user may not; else None."""


def backup(engine: Engine, target: Path, told: Callable[[str], None] = lambda _: None) -> int:
    """Write a backup, replacing an older one; return its size in bytes. On LineageStoreError the older one stays.

    For SQLite, `told` is called with the progress; pg_dump does not report any.
    """
    path = sqlite_path(engine.url)
    if path is not None and os.path.exists(target) and target.samefile(path):
        raise LineageStoreError(f"{target} is the store itself.", hint="Name another file.")
    with _named(f"The backup {target} cannot be written"), replacing(target, PRIVATE) as new:
        if path is not None:
            copy_file(path, new.path, told)
            told("checking")
            _check_file(new.path, target)
        else:
            client_programs.run(engine, "pg_dump", "--format=custom", into=new.file)
            _check_archive(engine, new.path)
    return target.stat().st_size


def restore(
    url: str,
    source: Path,
    *,
    replace: bool = False,
    allow_network_filesystem: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> Restored:
    """Restore the store at a URL from a backup; `replace` allows to replace existing contents.

    Raises LineageStoreError if the file is no backup of this kind of database, or if the store has contents and
    `replace` is not set; LeaseHeldError while an ingester leads; DatabaseUnavailableError while a SQLite store is
    open elsewhere.
    """
    engine = open_engine(url, allow_network_filesystem=allow_network_filesystem, statement_timeout_s=0)
    try:
        if not os.path.isfile(source):
            raise LineageStoreError(f"There is no file {source}.", hint=_NAME_ONE)
        _refuse_contents(engine, replace)
        path = sqlite_path(engine.url)
        if path is None:
            _refuse_laid_out(engine)
        engine.dispose()
        with _named(f"The store {safe_url(url)} cannot be restored from {source}"):
            _refuse_other_kind(source, _SQLITE if path is not None else _ARCHIVE)
            if path is not None:
                _restore_file(path, source, told)
            else:
                _restore_database(engine, source)
        upgrade.upgrade(url, allow_network_filesystem=allow_network_filesystem)
        left = roles.put_limits_back(engine)
        with reading(engine) as connection:
            jobs = connection.execute(select(func.count()).select_from(train_job)).scalar_one()
            last = connection.execute(select(func.max(ingest_cycle.c.finished_at))).scalar()
        return Restored(jobs, last, left)
    finally:
        engine.dispose()


@contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        hint = "Do both directories exist, may this user write there, and is there room?"
        if type(error) is sqlite3.DatabaseError:  # errors of the system are subclasses
            hint = "It is damaged: use an older backup."
        raise LineageStoreError(f"{what}: {error}.", hint=hint) from error


def _refuse_other_kind(source: Path, beginning: bytes) -> None:
    with source.open("rb") as file:
        if file.read(len(beginning)) != beginning:
            kind = "a SQLite store" if beginning == _SQLITE else "a PostgreSQL store"
            raise LineageStoreError(f"{source} is no backup of {kind}.", hint=_NAME_ONE)


def _refuse_contents(engine: Engine, replace: bool) -> None:
    """Raise LineageStoreError unless the store is empty or `replace` is set; LeaseHeldError while an ingester leads;
    NotAStoreError for another application's database."""
    try:
        if upgrade.is_empty(engine):
            return
        has_contents = _has_contents(engine)
    except UnfinishedCopyError:
        if not replace:
            raise
        return
    except DatabaseError as error:
        raise LineageStoreError(
            f"The store {safe_url(engine.url)} cannot be read: {error.orig}.",
            hint="Move it out of the way, with the files beside it, and restore again.",
        ) from error
    if has_contents and not replace:
        raise LineageStoreError(
            f"The store {safe_url(engine.url)} has contents, which the backup would replace.",
            hint="`--replace` does so. What only this store knows is then lost: back it up first.",
        )


def _refuse_laid_out(engine: Engine) -> None:
    """Raise LineageStoreError for a partitioned or distributed store, which pg_restore cannot replace.

    pg_restore drops constraints before tables, which partitions do not allow, and drops extensions with their metadata.
    """
    if upgrade.is_empty(engine):
        return
    with reading(engine) as connection:
        is_partitioned, spread = partitions.is_partitioned(connection), distribution.layout(connection)
        if is_partitioned or spread:
            raise LineageStoreError(
                f"The store {safe_url(engine.url)} is {'distributed' if spread else 'partitioned'}, "
                "and cannot be replaced where it is.",
                hint="Make a new database by CREATE DATABASE, run `lineage-store --database postgresql://…/NEW restore "
                "FILE`, and name it in database_url. This one stays as it is.",
            )


def _has_contents(engine: Engine) -> bool:
    """Return whether the store has a base dir. Raises LeaseHeldError while an ingester leads one."""
    with reading(engine) as connection:
        for number, _ in registry.base_dirs(connection):
            leases.last(connection, number)
        return any_row(connection, base_dir)


def _restore_file(path: Path, source: Path, told: Callable[[str], None]) -> None:
    if path.exists() and path.samefile(source):
        raise LineageStoreError(f"{source} is the store itself.", hint="Name a backup.")
    with replacing(Path(os.path.realpath(path)), PRIVATE) as new:  # the operator may have linked the store
        copy_file(source, new.path, told)
        told("checking")
        _check_file(new.path, source)
        _close(path)


def _check_file(path: Path, named: Path) -> None:
    """Raise LineageStoreError, naming the file `named`, unless `path` is an undamaged store of a known version."""
    try:
        version = upgrade.current(f"sqlite:///{path}")
    except NotAStoreError:
        version = None
    if version is None:
        raise LineageStoreError(f"{named} is no backup of a store.", hint=_NAME_ONE)
    upgrade.refuse_newer(version, str(named))
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise LineageStoreError(f"The SQLite store is damaged: {found}.", hint="Use an older backup.")


def _close(path: Path) -> None:
    """Merge the old file's write-ahead log into it and delete it. Raises DatabaseUnavailableError if somebody else has
    the store open, as then that is impossible."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=1)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        readers = ", ".join(map(str, readers_of(path)))
        raise DatabaseUnavailableError(
            f"The SQLite store {path} is in use{f' by process {readers}' if readers else ''}: {error}.",
            hint="Stop the daemon, and whoever else has it open; then restore.",
            cause="locked",
        ) from error


def _check_archive(engine: Engine, archive: Path) -> None:
    """Raise LineageStoreError unless it has every table of a store."""
    listed = client_programs.run(engine, "pg_restore", "--list", str(archive), connects=False)
    entries = [line.split() for line in listed.splitlines()]
    there = {words[5] for words in entries if words[3:4] == ["TABLE"]}
    for table in [upgrade.VERSION_TABLE, *metadata.tables]:
        if table not in there:
            raise LineageStoreError(f"{archive} is no backup of a store: it has no table {table}.")


def _restore_database(engine: Engine, archive: Path) -> None:
    _check_archive(engine, archive)
    only = ("--data-only", f"--table={upgrade.VERSION_TABLE}", "--file=-")
    told = client_programs.run(engine, "pg_restore", *only, str(archive), connects=False)
    upgrade.refuse_newer(told.partition("\nCOPY ")[2].splitlines()[1], str(archive))
    whole = ("--clean", "--if-exists", "--single-transaction", "--exit-on-error")
    client_programs.run(engine, "pg_restore", *whole, str(archive))
