"""Check that everything ingest needs is in place: one finding per check, with a remedy if it fails.

In: settings, the store's URL, base dirs to look at. Out: findings. Promises: a failed check is a finding, not an
exception; nothing is changed, and no database is created.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import AlteredStoreError, Cause, DatabaseUnavailableError, MindInsightException
from lineage_store.eventlog.formats import naming
from lineage_store.fields import less_is_better
from lineage_store.findings import THE_STANDBY, THE_STORE, Finding, finding, of_database
from lineage_store.ingest.problems import access_of, me, path_problems, unlistable_base_dir, unreadable_file
from lineage_store.ingest.scan.discovery import FoundFile, FoundFiles, deeper_jobs, is_one_job, scan
from lineage_store.paths import OpenBaseDir, filesystem_type, is_network, opened
from lineage_store.store import leases
from lineage_store.store.admin import distribution, obstacles
from lineage_store.store.admin.roles import writing_functions_of_readers
from lineage_store.store.catalog import audit, registry, retention
from lineage_store.store.database.connections import look_for_damage
from lineage_store.store.database.db import open_engine, reading, safe_url, sqlite_path
from lineage_store.store.database.standby import read_replay
from lineage_store.store.schema import partitions, upgrade
from lineage_store.store.schema.attestation import Attested
from lineage_store.texts import from_stored

LEAST_POSTGRESQL = 14
STANDBY_LAGS_S = 60.0
CHECKED_WITHIN_S = 20.0
"""How long SQLite may look for damage in its file; it checks about a GB in that time, if the disk is quick."""
_SHOWN = 20
_PACKAGES = ("sqlalchemy", "alembic", "protobuf", "numpy", "apscheduler", "google-crc32c")


def examine(url: str, settings: Settings, base_dirs: Sequence[Path]) -> Iterator[Finding]:
    """Yield all findings about the store and about `base_dirs`, the settings' base dirs and the store's."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield _ok("versions", f"Python {platform.python_version()}, {packages}.")
    yield from _store(url, settings)
    leaders = _leaders(url)
    configured = [Path(os.path.realpath(path)) for path in settings.base_dirs]
    for base_dir in dict.fromkeys([*base_dirs, *configured, *leaders]):
        yield from _base_dir(base_dir, settings)
        leader = leaders.get(base_dir)
        text = (
            f"{leader} holds its lease."
            if leader
            else "No ingester holds its lease; each `ingest` brings it up to date."
        )
        yield _ok(str(base_dir), text)


def _store(url: str, settings: Settings) -> Iterator[Finding]:
    try:
        yield from _location(url, settings)
        with _opened(url) as engine:
            # First, for what is compared word by word is made and taken back, which the standby replays.
            has_standby = settings.read_database_url and engine.dialect.name == "postgresql"
            standby = _standby(engine, settings.read_database_url) if has_standby else None
            if upgrade.is_empty(engine):
                yield _ok("schema", "There is no store there yet; the first ingest makes it.")
            else:
                yield from _schema(engine, url)
                yield from _pages(url)
                yield from _layout(engine)
                is_less = less_is_better(settings.less_is_better)
                with reading(engine) as session:
                    yield from registry.known_twice(session)
                    yield from retention.waiting(session)
                    for metric, jobs in audit.chosen_otherwise(session, is_less):
                        yield finding("other_best", THE_STORE, metric=metric, jobs=jobs)
            yield from _server(engine)
            if standby is not None:
                yield standby
            log = obstacles.read_wal(engine)
            if log is not None and log.finding:
                yield log.finding
    except DatabaseUnavailableError as error:
        yield of_database(error.cause, what=error.message, remedy=error.hint)
    except AlteredStoreError as error:
        altered = "; ".join(error.altered)
        yield finding("altered_store", THE_STORE, altered=altered, remedy=error.hint)
    except MindInsightException as error:
        yield finding("unusable_store", THE_STORE, reason=error.message, remedy=error.hint)


def _location(url: str, settings: Settings) -> Iterator[Finding]:
    path = sqlite_path(url)
    if path is None:
        yield _ok(THE_STORE, safe_url(url))
        return
    kind = filesystem_type(path)
    if is_network(kind) and not settings.allow_network_filesystem:
        yield finding("network_filesystem", THE_STORE, path=path, filesystem=kind)
    else:
        yield _ok(THE_STORE, f"{path} is on {kind or 'an unknown filesystem'}.")
    if os.path.isfile(path) and os.path.getsize(path) == 0:
        yield finding("empty_store", THE_STORE, path=path)
    if os.path.exists(path) and not os.access(path, os.W_OK):
        yield finding("unwritable_store", THE_STORE, path=path, access=access_of(str(path)))


def _schema(engine: Engine, url: str) -> Iterator[Finding]:
    upgrade.check_version(engine)
    found, is_thorough = _attested(engine, url)
    yield _ok("schema", f"Schema {upgrade.HEAD}, as this release needs it.")
    if not is_thorough:
        yield finding("unattested_words", THE_STORE)
    if found.own:
        more = f" and {len(found.own) - _SHOWN} more" if len(found.own) > _SHOWN else ""
        yield finding("own_objects", THE_STORE, objects=", ".join(found.own[:_SHOWN]) + more)


def _pages(url: str) -> Iterator[Finding]:
    """Look for damage in a SQLite file."""
    path = sqlite_path(url)
    if path is None:
        return
    words, is_checked = look_for_damage(path, CHECKED_WITHIN_S)
    if words is not None:
        yield of_database(Cause.DAMAGED, what=f"The SQLite file is damaged: {words}.")
    elif not is_checked:
        yield finding("unchecked_store", THE_STORE, within_s=CHECKED_WITHIN_S, size_bytes=path.stat().st_size)
    else:
        yield _ok("pages", "No page of the SQLite file is damaged.")


def _attested(engine: Engine, url: str) -> tuple[Attested, bool]:
    """Compare the catalog with what the code makes; return also whether word by word.

    On PostgreSQL that needs somebody who may make temporary tables, which are taken back.
    """
    if engine.dialect.name != "postgresql":
        return upgrade.attest(engine), True
    writer = open_engine(url, statement_timeout_s=0)
    try:
        return upgrade.attest(writer, thoroughly=True), True
    except DatabaseUnavailableError:  # it may not, or the server only reads
        return upgrade.attest(engine), False
    finally:
        writer.dispose()


def layout_of(engine: Engine) -> str:
    """Describe a partitioned or distributed store in a sentence; an empty text for any other store."""
    with reading(engine) as session:
        found, spread = partitions.layouts(session), distribution.layout(session)
    if not found:
        return str(spread or "")
    jobs, count = next(iter(found.values()))
    return f"Samples are in {count:,} partitions of {jobs:,} jobs."


def _layout(engine: Engine) -> Iterator[Finding]:
    if words := layout_of(engine):
        yield _ok("layout", words)
    with reading(engine) as session:
        if distribution.layout(session):
            yield from distribution.ill_settings(session)
        if partitions.is_changing(session):
            yield finding("unfinished_layout", THE_STORE)


def _server(engine: Engine) -> Iterator[Finding]:
    if engine.dialect.name != "postgresql":
        return
    with reading(engine):
        major = int((engine.dialect.server_version_info or (0,))[0])
    if major < LEAST_POSTGRESQL:
        yield finding("old_server", THE_STORE, found=major, needed=LEAST_POSTGRESQL)
    with reading(engine) as session:
        reachable = writing_functions_of_readers(session)
    for role, functions in reachable.items():
        yield finding("writing_reader", THE_STORE, role=role, functions=", ".join(functions))


def _standby(engine: Engine, url: str) -> Finding:
    with _opened(url) as standby:
        found = read_replay(engine, standby, within_s=STANDBY_LAGS_S)
    return found.finding or _ok(THE_STANDBY, f"{found}.")


def _base_dir(base_dir: Path, settings: Settings) -> Iterator[Finding]:
    subject = str(base_dir)
    try:
        found = scan(base_dir, recursive=settings.recursive, follow_symlinks=settings.follow_symlinks)
    except OSError as error:
        yield unlistable_base_dir(subject, error, subject)
        return
    kind = filesystem_type(base_dir)
    what = f"{len(found.directories):,} directories, {len(found.files):,} log files"
    yield _ok(subject, f"{what}, on {kind or 'an unknown filesystem'}.")
    if is_network(kind):
        text = (
            "It is on a network filesystem: times and sizes there lag, so open files are always opened anew."
        )
        yield _ok(subject, text)
    yield from _depth(base_dir, found, settings)
    yield from _permissions(base_dir, found, settings.follow_symlinks)


def _depth(base_dir: Path, found: FoundFiles, settings: Settings) -> Iterator[Finding]:
    subject = str(base_dir)
    if is_one_job({file.train_id for file in found.files}):
        yield finding("one_job", subject, parent=base_dir.parent, path=base_dir)
    deeper = [] if settings.recursive else deeper_jobs(base_dir, levels=1)
    if deeper:
        yield finding("deeper_log_files", subject, where=", ".join(map(from_stored, deeper)))
    elif not found.files:
        yield finding("no_log_file", subject, naming=naming())


def _permissions(base_dir: Path, found: FoundFiles, follow_symlinks: bool) -> Iterator[Finding]:
    problems = path_problems(base_dir, found.unreadable)
    with opened(base_dir, follow_symlinks=follow_symlinks) as root:
        problems += (problem for file in found.files for problem in _unreadable(root, file))
    if problems:
        first, text = problems[0], f"{me()} cannot read {len(problems):,} files or directories, such as"
        what = f"{text} {first.subject}: {first.what}"
        yield replace(first, kind="unreadable_path", subject=str(base_dir), what=what)
    elif found.files:
        yield _ok(str(base_dir), f"{me()} can read all of it.")
    if os.stat(base_dir).st_mode & stat.S_IWOTH:
        yield finding("open_to_everybody", str(base_dir))


def _ok(subject: str, words: str) -> Finding:
    return finding("in_order", subject, words=words)


def _unreadable(root: OpenBaseDir, file: FoundFile) -> Iterator[Finding]:
    try:
        with root.file(from_stored(f"{file.train_id}/{file.name}")):
            return
    except OSError as error:
        yield unreadable_file(root.path, file.train_id, file.name, error)


def _leaders(url: str) -> dict[Path, str | None]:
    """Return the store's base dirs with their leaders; none if there is no usable store, which `_store` reports."""
    try:
        with _opened(url) as engine:
            if upgrade.is_empty(engine):
                return {}
            with reading(engine) as session:
                known = registry.stored_base_dirs(session)
                return {Path(from_stored(path)): leases.leader(session, number) for number, path in known}
    except MindInsightException:
        return {}


@contextmanager
def _opened(url: str) -> Iterator[Engine]:
    engine = open_engine(url, read_only=True, allow_network_filesystem=True)
    try:
        yield engine
    finally:
        engine.dispose()
