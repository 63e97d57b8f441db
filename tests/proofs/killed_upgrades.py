"""Upgrades under `kill -9` at their statements, and a store of a newer release: a part of the proof `bounds`.

In: a run. Out: how often an upgrade was killed, or an AssertionError. The promises: a killed upgrade leaves the old
schema or the new one, never something between, and the next upgrade gives the same result as an undisturbed one; a
newer schema is refused, and no byte of the store changes. The control commits after every statement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import alembic.command  # noqa: F401 - so that children need not
from sqlalchemy import Engine, event, text

from helpers.engines import opened
from helpers.ingesting import ingest
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.errors import SchemaTooNewError
from lineage_store.store.database.db import sqlite_path
from lineage_store.store.schema.tables import metadata
from lineage_store.store.schema.upgrade import HEAD, VERSION_TABLE, check, upgrade
from proofs import ledger
from proofs.children import KILLED, forked, kill_at
from proofs.proof import KINDS, POSTGRESQL, SQLITE, Run, emptied

_SQLITE_SCHEMA = (
    "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_master",
    "SELECT 'application ' || application_id FROM pragma_application_id",
    "SELECT 'mark ' || user_version FROM pragma_user_version",
)
_POSTGRESQL_SCHEMA = (
    "SELECT concat_ws(' ', relkind, relname, obj_description(oid, 'pg_class'), CASE relkind"
    " WHEN 'v' THEN pg_get_viewdef(oid) WHEN 'i' THEN pg_get_indexdef(oid) END)"
    " FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    "SELECT concat_ws(' ', relname, attname, format_type(atttypid, atttypmod), attnotnull,"
    " col_description(attrelid, attnum)) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
    " WHERE relnamespace = 'public'::regnamespace AND attnum > 0",
    "SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace",
)
_OUTDATED = {SQLITE: "PRAGMA user_version = 1", POSTGRESQL: f"COMMENT ON TABLE {VERSION_TABLE} IS '1'"}
"""What an older release leaves: views that the next upgrade drops and makes anew."""
EVERY_STATEMENT_FROM = 50_000
"""From this size of a run on, upgrades are killed at every statement; below it at every second one, and so on."""
LONGEST_STRIDE = 50


@dataclass(slots=True)
class Kills:
    """How the upgrades ended."""

    kills: int = 0
    between: int = 0
    """Schemas that were neither the old one nor the new one."""


def prove(run: Run) -> tuple[int, int]:
    """(kills of upgrades that left the old or the new schema, failures of the control)."""
    base_dir = run.directory("upgraded")
    Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    held, control = Kills(), Kills()
    stride = min(LONGEST_STRIDE, max(1, EVERY_STATEMENT_FROM // run.size))
    first = run.chance("upgrades").randint(1, stride)
    for kind in KINDS:
        with run.store(kind) as reference, opened(reference) as engine:
            ingest(engine, base_dir)
            _refuse_newer(kind, reference, engine)
            new = _schema(engine)
            with emptied(run, kind) as url:
                _kill_at_statements(url, new, held, count(first, stride))
            with opened(reference) as outdated, outdated.begin() as connection:
                connection.execute(text(_OUTDATED[kind]))
            _kill_at_statements(reference, new, held, count(first, stride))
            ledger.check(engine)
        with emptied(run, kind) as url:
            _kill_at_statements(url, new, control, count(100, 50), piecemeal=True)
    assert held.between == 0, (
        f"{held.between} of {held.kills} killed upgrades left neither the old nor the new schema"
    )
    return held.kills, control.between


def _kill_at_statements(
    url: str, new: frozenset[str], seen: Kills, numbers: Iterable[int], *, piecemeal: bool = False
) -> None:
    """Kill an upgrade before each of these statements in turn, until one gets to its end."""
    with opened(url) as engine:
        old = _schema(engine)
        for number in numbers:
            with forked(partial(_upgrade_until, number, url, piecemeal)) as child:
                finished = child.wait() != KILLED
            schema = _schema(engine)
            seen.kills += not finished
            if finished:
                assert schema == new, "after kills an upgrade ended with another schema"
                return
            if schema not in (old, new):
                seen.between += 1
                if piecemeal:
                    return


def _upgrade_until(number: int, url: str, piecemeal: bool) -> None:
    """Upgrade, and be killed before the statement (or commit, or return) of this number."""
    kill_at(number, "before_cursor_execute", "commit", "checkin")
    if piecemeal:
        event.listen(Engine, "after_cursor_execute", _commit)
    upgrade(url)


def _commit(_connection: object, cursor: Any, *_: object) -> None:
    cursor.connection.commit()


def _refuse_newer(kind: str, url: str, engine: Engine) -> None:
    """Whatever meets a newer schema says so and touches nothing."""
    _set_version(engine, "9999")
    before = _everything(kind, url, engine)
    for meet in (check, upgrade, LineageStore):
        try:
            meet(url)
        except SchemaTooNewError:
            assert _everything(kind, url, engine) == before, f"{meet.__name__} touched a newer store"
        else:
            raise AssertionError(f"{meet.__name__} did not refuse a newer store")
    _set_version(engine, HEAD)


def _set_version(engine: Engine, version: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :version"), {"version": version})


def _everything(kind: str, url: str, engine: Engine) -> object:
    """What must not change: the bytes of a file, or the schema and the newest row versions."""
    path = sqlite_path(url)
    if path is not None:
        # The last connection that may write brings the write-ahead log home, and removes what readers left beside it.
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1 FROM sqlite_schema").first()
        engine.dispose()
        return [hashlib.sha256(each.read_bytes()).hexdigest() for each in sorted(path.parent.iterdir())]
    newest = "SELECT count(*), max(xmin::text::bigint) FROM {}"
    with engine.connect() as connection:
        versions = [
            connection.exec_driver_sql(newest.format(table)).one()
            for table in (VERSION_TABLE, *metadata.tables)
        ]
    return _schema(engine), versions


def _schema(engine: Engine) -> frozenset[str]:
    """All tables, views, indexes, columns, constraints, descriptions and marks, each in words."""
    queries = _SQLITE_SCHEMA if engine.dialect.name == "sqlite" else _POSTGRESQL_SCHEMA
    with engine.connect() as connection:
        found = [word for query in queries for word in connection.exec_driver_sql(query).scalars()]
    engine.dispose()
    return frozenset(found)
