"""Back up a store into one file, and restore it from there.

In: an engine or a URL, and a file. Out: a SQLite file or an archive of pg_dump; a restored store. Promises: a backup
file is a consistent snapshot, checked and synced to disk, or does not appear at all; of a SQLite store it is a store
that needs no other files, so that whoever its permissions let read it can ask it questions; a killed restore leaves
either the old contents or the restored ones; contents are replaced on request only, and never while an ingester leads;
a backup, which anybody may have made or changed, gives rows only: the tables, views and functions are made by our own
code, nothing that the file says is run, and what acts in it is refused by name.
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

from sqlalchemy import URL, Engine, func, select
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import (
    Cause,
    DatabaseUnavailableError,
    LineageStoreError,
    NotAStoreError,
    UnfinishedCopyError,
)
from lineage_store.finding_kinds import KINDS
from lineage_store.operations import archives
from lineage_store.operations.store_copy import any_row
from lineage_store.output_files import replacing
from lineage_store.store import leases
from lineage_store.store.admin import client_programs, distribution, roles
from lineage_store.store.catalog import registry
from lineage_store.store.database import connections
from lineage_store.store.database.db import open_engine, reading, safe_url, sqlite_path, writing
from lineage_store.store.database.failures import readers_of
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import attestation, partitions, upgrade
from lineage_store.store.schema.descriptions import SCHEMA_DOC
from lineage_store.store.schema.tables import base_dir, ingest_cycle, metadata, train_job

PRIVATE = 0o600
PAGES_AT_A_TIME = 16_384
"""64 MiB with SQLite's default page size."""
_SQLITE, _ARCHIVE = b"SQLite format 3\0", b"PGDMP"
"""The first bytes of the two kinds of backups."""
_STEPS = 100_000
_DAMAGED = "It is damaged: use an older backup."
_NAME_ONE = "Name what `lineage-store backup` wrote of a store in the same kind of database."


@dataclass(frozen=True, slots=True)
class RestoredStore:
    """The contents of a restored store."""

    jobs: int
    last_ingest_at: datetime | None
    """The end of its last ingest cycle."""
    left: str | None
    """A statement that somebody else must run to restore the limits of roles, if this user may not; else None."""
    not_restored: tuple[str, ...] = ()
    """An administrator's own indexes, views and tables in the backup, which are never restored."""
    rights: tuple[str, ...] = ()
    """The roles that have the rights again which the backup says, in words."""


def backup(
    engine: Engine, target: Path, progress: Callable[[str], None] = lambda _: None, *, mode: int = PRIVATE
) -> int:
    """Write a backup, replacing an older one; return its size in bytes. On LineageStoreError the older one stays.

    For SQLite, `progress` is called, such as with "42%"; pg_dump does not report any. `mode`: the file's
    permissions.
    """
    path = sqlite_path(engine.url)
    if path is not None and os.path.exists(target) and target.samefile(path):
        raise LineageStoreError(f"{target} is the store itself.", hint="Name another file.")
    words = f"The backup {target} cannot be written"
    with (
        _named(words, f"The store is damaged. {KINDS['database_damaged'].remedy}"),
        replacing(target, mode) as new,
    ):
        if path is not None:
            _copy_file(path, new.path, progress)
            progress("checking")
            _check_file(new.path, target)
        else:
            client_programs.run_program(engine, "pg_dump", "--format=custom", into=new.file)
            archives.contents(engine, new.path)
    return target.stat().st_size


def _copy_file(source: Path, target: Path, progress: Callable[[str], None]) -> None:
    """Copy a store, as it is at one moment, into an empty file; report the progress. Raises sqlite3.Error."""
    there = f"file:{quote(os.fsencode(target))}?mode=rw"  # it is never made: it could be made elsewhere, behind a link
    with (
        closing(sqlite3.connect(source, isolation_level=None)) as reader,
        closing(sqlite3.connect(there, uri=True)) as writer,
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the first read fixes the moment
        reader.backup(
            writer,
            pages=PAGES_AT_A_TIME,
            progress=lambda _, left, all_of_them: progress(f"{1 - left / max(all_of_them, 1):.0%}"),
        )
        # The copy is in WAL mode, in which a reader would have to write side files.
        writer.execute("PRAGMA journal_mode = DELETE")


def restore_backup(
    url: str,
    source: Path,
    *,
    replace: bool = False,
    allow_network_filesystem: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> RestoredStore:
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
        with _named(f"The store {safe_url(url)} cannot be restored from {source}", _DAMAGED):
            _refuse_other_kind(source, _SQLITE if path is not None else _ARCHIVE)
            if path is not None:
                own, rights = _restore_file(path, source, progress), tuple[str, ...]()
                upgrade.upgrade(url, allow_network_filesystem=allow_network_filesystem)
            else:
                own, rights = _restore_database(engine, url, source, progress)
        left = roles.put_limits_back(engine)
        with reading(engine) as session:
            jobs = session.value(select(func.count()).select_from(train_job))
            last = session.value(select(func.max(ingest_cycle.c.finished_at)))
        return RestoredStore(jobs, last, left, own, rights)
    finally:
        engine.dispose()


@contextmanager
def _named(what: str, of_damage: str) -> Iterator[None]:
    """Name failures of files; `of_damage` is the hint for a damaged SQLite file."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        hint = "Do both directories exist, may this user write there, and is there room?"
        if type(error) is sqlite3.DatabaseError:  # errors of the system are subclasses
            hint = of_damage
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
    except DatabaseUnavailableError as error:
        if error.cause != Cause.DAMAGED:
            raise
        raise LineageStoreError(
            f"The store {safe_url(engine.url)} cannot be read: {error.message}",
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
    with reading(engine) as session:
        is_partitioned, spread = partitions.is_partitioned(session), distribution.layout(session)
        if is_partitioned or spread:
            raise LineageStoreError(
                f"The store {safe_url(engine.url)} is {'distributed' if spread else 'partitioned'}, "
                "and cannot be replaced where it is.",
                hint="Make a new database by CREATE DATABASE, run `lineage-store --database postgresql://…/NEW restore "
                "FILE`, and name it in database_url. This one stays as it is.",
            )


def _has_contents(engine: Engine) -> bool:
    """Return whether the store has a base dir. Raises LeaseHeldError while an ingester holds its lease."""
    with reading(engine) as session:
        for number, _ in registry.stored_base_dirs(session):
            leases.last(session, number)
        return any_row(session, base_dir)


def _restore_file(path: Path, source: Path, progress: Callable[[str], None]) -> tuple[str, ...]:
    """Write the rows of a backup into a new file with tables of our own making; return what else the backup holds."""
    if path.exists() and path.samefile(source):
        raise LineageStoreError(f"{source} is the store itself.", hint="Name a backup.")
    try:
        version, found = upgrade.attest_backup(_url_of(source), f"The backup {source}")
    except NotAStoreError as error:
        raise LineageStoreError(f"{source} is no backup of a store.", hint=_NAME_ONE) from error
    except DatabaseUnavailableError as error:
        if isinstance(cause := getattr(error.__cause__, "orig", None), sqlite3.DatabaseError):
            raise cause from error  # which is named as an error of the backup
        raise
    with replacing(Path(os.path.realpath(path)), PRIVATE) as new:  # the operator may have linked the store
        upgrade.make_at(_url_of(new.path), version)
        _copy_rows(source, new.path, progress)
        progress("checking")
        _check_file(new.path, source)
        _close(path)
    return found.own


def _url_of(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string()


def _copy_rows(source: Path, target: Path, progress: Callable[[str], None]) -> None:
    """Copy the rows of all tables of a new SQLite file from a backup whose tables are the same."""
    with closing(sqlite3.connect(f"file:{quote(str(target))}", uri=True, isolation_level=None)) as connection:
        connections.harden(connection)
        connection.set_progress_handler(lambda: 0, _STEPS)  # else a signal waits for the end of a statement
        for pragma in ("journal_mode = DELETE", "synchronous = OFF", "foreign_keys = OFF"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("ATTACH ? AS backup", (f"file:{quote(str(source))}?mode=ro",))
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM main.sqlite_schema WHERE type = 'table' ORDER BY 1"
            )
            if name not in (upgrade.VERSION_TABLE, SCHEMA_DOC) and not name.startswith("sqlite_")
        ]
        connection.execute("BEGIN")
        for done, name in enumerate(tables, 1):
            connection.execute(f'INSERT INTO main."{name}" SELECT * FROM backup."{name}"')  # noqa: S608 - ours
            progress(f"{done / len(tables):.0%}")
        broken = connection.execute("PRAGMA main.foreign_key_check").fetchone()
        if broken is not None:
            raise sqlite3.DatabaseError(
                f"a row of {broken[0]} belongs to a row of {broken[2]} that is missing"
            )
        connection.execute("COMMIT")


def _check_file(path: Path, named: Path) -> None:
    """Raise LineageStoreError, naming the file `named`, unless `path` is an undamaged store of a known version."""
    try:
        version = upgrade.current_version(f"sqlite:///{path}")
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
            hint="Stop the daemon, and every other program that has it open; then restore.",
            cause=Cause.LOCKED,
        ) from error


def _restore_database(
    engine: Engine, url: str, archive: Path, progress: Callable[[str], None]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write the rows of an archive into tables of our own making, in one transaction.

    Return what else the archive holds, and who has which rights again: those that the archive says, if the store is
    new; a store that is replaced keeps its own.
    """
    found = archives.contents(engine, archive)
    named = f"The backup {archive}"
    if found.acting:
        raise upgrade.altered_store(named, tuple(f"{entry} is not ours" for entry in found.acting))
    version = archives.version(engine, archive, found)
    upgrade.refuse_newer(version, str(archive))
    if version != upgrade.HEAD:
        raise LineageStoreError(
            f"{archive} has schema {version}; this version of lineage_store restores {upgrade.HEAD}.",
            hint="Restore it with the release that wrote it, then upgrade: `lineage-store db upgrade`.",
        )
    is_new = _made_ready(engine, url)
    if altered := archives.changed(engine, archive, found):
        raise upgrade.altered_store(named, altered)
    try:
        with writing(engine) as session:
            upgrade.wait_for_turn(session)
            session.change(f"TRUNCATE {', '.join(metadata.tables)}")
            if is_new and found.by_jobs:
                partitions.cut_empty(session, found.by_jobs)
                partitions.create_functions(session)
                attestation.mark(session, upgrade.VERSION_TABLE)
            archives.load_archive(
                session,
                engine,
                archive,
                found,
                progress,
                before_samples=lambda: partitions.ensure(session, _job_ids(session)),
            )
            progress("checking")
    except DBAPIError as error:
        words = str(error.orig).strip().splitlines()[0]
        raise LineageStoreError(
            f"The store {safe_url(url)} cannot be restored from {archive}: {words}.",
            hint="It is as it was. Is the archive whole, and does this user own the tables?",
        ) from error
    rights = (
        roles.put_back(engine, archives.archived_grants(engine, archive, found), found.owner)
        if is_new
        else ()
    )
    return tuple(map(str, found.own)), rights


def _made_ready(engine: Engine, url: str) -> bool:
    """Make or upgrade the store that is to get the rows; return whether it is new. Drops an unfinished copy's mark."""
    try:
        is_new = upgrade.is_empty(engine)
    except UnfinishedCopyError:
        is_new = False
        with writing(engine) as session:
            session.change(f"TRUNCATE {', '.join(metadata.tables)}")
            session.change(f"DROP TABLE {upgrade.UNFINISHED_COPY}")
    upgrade.upgrade(url)
    return is_new


def _job_ids(session: Session) -> list[int]:
    return session.column(select(train_job.c.id))
