"""Functions that need no open store: schema, roles, layout, copies and backups, doctor, the daemons of this host.

In: settings, paths. Out: frozen reports. `upgrade_schema`, `grant`, `partition`, `distribute`, `copy_store` and
`restore` change a database. Does not know SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError
from lineage_store.findings import Finding
from lineage_store.operations import health
from lineage_store.operations.health import Measures
from lineage_store.operations.health import collector as collector
from lineage_store.paths import PathLike, real_path
from lineage_store.store.database import db
from lineage_store.store.opened import default_url
from lineage_store.store.schema import upgrade
from lineage_store.store.schema.upgrade import HEAD as HEAD

if TYPE_CHECKING:
    from lineage_store.ingest.daemon.status_file import DaemonStatus
    from lineage_store.operations.backup import RestoredStore
    from lineage_store.operations.store_copy import StoreCopy


def database_url(settings: Settings) -> str:
    """Return the database URL of the settings, or the default one."""
    return settings.database_url or default_url()


def store_url_shown(settings: Settings) -> str:
    """Return the same URL without a password."""
    return db.safe_url(database_url(settings))


def schema_found(settings: Settings) -> str | None:
    """Return the schema version of the database; None while it is empty. Raises NotAStoreError."""
    return upgrade.current_version(database_url(settings))


def check_schema(settings: Settings) -> None:
    """Raise unless the schema of the database fits this release.

    Raises SchemaTooOldError, SchemaTooNewError, NotAStoreError, DatabaseUnavailableError.
    """
    upgrade.check(database_url(settings))


def upgrade_schema(settings: Settings, *, create: bool = True) -> None:
    """Upgrade the store; `create`: make a store if the database is empty, instead of raising.

    Raises NotAStoreError, SchemaTooNewError, DatabaseUnavailableError.
    """
    url = database_url(settings)
    if not create and upgrade.current_version(url) is None:
        raise upgrade.no_store(url)
    upgrade.upgrade(url, allow_network_filesystem=settings.allow_network_filesystem)


def grant(
    settings: Settings,
    owner: str | None,
    ingest: str | None,
    readers: Sequence[str],
    analysts: Sequence[str],
    *,
    dry_run: bool = False,
) -> tuple[Sequence[str], Sequence[str]]:
    """Grant PostgreSQL roles their rights. Return the roles, and the statements that still have to be run.

    That is at most one statement, which sets the limits of readers and analysts and needs the right to alter these
    roles. `dry_run`: run nothing, and return all statements.
    """
    from lineage_store.store.admin import roles

    wanted = roles.Roles(owner, ingest, tuple(readers), tuple(analysts))
    with _engine(settings) as engine:
        upgrade.check(engine)
        if dry_run:
            return list(wanted), roles.grant_statements(engine, wanted)
        left = roles.grant_roles(engine, wanted)
        return list(wanted), [left] if left else []


def partition(
    settings: Settings, by_jobs: int | None, progress: Callable[[str], None] = lambda _: None
) -> bool:
    """Partition the samples, `by_jobs` jobs in each partition, or (None) undo that. Return whether anything was to do.

    Readers and ingest go on meanwhile. After an interruption, the same call resumes the work. Raises LineageStoreError.
    """
    from lineage_store.store.admin import partitioning

    with _engine(settings) as engine:
        upgrade.check(engine)
        return partitioning.lay_out(engine, by_jobs, progress)


def distribute(settings: Settings, shards: int, *, dry_run: bool = False) -> Sequence[str]:
    """Distribute the samples over the workers of Citus. Return the statements; `dry_run`: do not run them.

    Raises LineageStoreError when that is impossible, such as without the extension.
    """
    from lineage_store.store.admin import distribution

    with _engine(settings) as engine:
        upgrade.check(engine)
        return (distribution.planned if dry_run else distribution.distribute_samples)(engine, shards)


def copy_store(
    settings: Settings,
    source_url: str,
    target_url: str,
    *,
    anew: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> StoreCopy:
    """Copy a whole store into an empty database, and compare all rows. If interrupted, the same call resumes the copy.

    `anew`: remove what an unfinished copy has left, and begin again. Raises LineageStoreError if the target has other
    data, or if the source has changed since the copy was begun.
    """
    from lineage_store.operations import store_copy

    unsafe = settings.allow_network_filesystem
    return store_copy.copy_contents(
        source_url, target_url, anew=anew, allow_network_filesystem=unsafe, progress=progress
    )


def restore(
    settings: Settings,
    file: PathLike,
    *,
    replace: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> RestoredStore:
    """Restore the store from a backup; `replace`: even if the store is not empty.

    Raises LineageStoreError, LeaseHeldError while an ingester leads, DatabaseUnavailableError while it is in use.
    """
    from lineage_store.operations import backup

    unsafe = settings.allow_network_filesystem
    return backup.restore_backup(
        database_url(settings),
        real_path(file),
        replace=replace,
        allow_network_filesystem=unsafe,
        progress=progress,
    )


def layout(settings: Settings) -> str:
    """Return a sentence about partitions and distribution of the store; empty without them."""
    from lineage_store.operations.doctor import layout_of

    with _engine(settings) as engine:
        return layout_of(engine)


def doctor(settings: Settings, paths: Sequence[PathLike]) -> Iterator[Finding]:
    """Yield a finding for each check of what ingest needs."""
    from lineage_store.operations.doctor import examine

    return examine(database_url(settings), settings, [real_path(path) for path in paths])


def daemons(settings: Settings, base_dir: PathLike | None = None) -> Sequence[DaemonStatus]:
    """Return the status of the daemons of this host for one base dir, or for each; needs no answer of the database."""
    return health.daemon_statuses(database_url(settings), None if base_dir is None else real_path(base_dir))


def findings_without_database(
    settings: Settings, base_dir: PathLike | None, error: DatabaseUnavailableError
) -> Sequence[Finding]:
    """Return what is wrong with ingest while the store cannot be opened, including `error`."""
    path = None if base_dir is None else real_path(base_dir)
    return health.findings_of_unopened(database_url(settings), path, error)


def measures_without_store(settings: Settings, error: Exception) -> Measures:
    """Return the status of a store that cannot be opened, as numbers for a monitor."""
    return health.measure_without(database_url(settings), error)


@contextmanager
def _engine(settings: Settings) -> Iterator[Engine]:
    engine = db.open_engine(
        database_url(settings), allow_network_filesystem=settings.allow_network_filesystem
    )
    try:
        yield engine
    finally:
        engine.dispose()
