"""On SQLite a transaction that requests the write lock half way may be refused; ours have it from the beginning."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.operations.base_dirs import forget

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER")

# A server for tests may sync nothing at all: what counts is whether the transaction says so.
UNSYNCED = {
    "sqlite": "SELECT synchronous < 2 FROM pragma_synchronous",
    "postgresql": "SELECT source = 'session' FROM pg_settings WHERE name = 'synchronous_commit'",
}


def test_whatever_writes_has_the_lock_from_its_beginning(sqlite_url: str, tmp_path: Path) -> None:
    base_dir = tmp_path / "base"
    Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    Log().train(network="N").evaluation({"acc": 0.5}).write_lineage(base_dir / "job")
    begun: dict[int, list[str]] = defaultdict(list)
    with LineageStore(sqlite_url, settings=Settings()) as store:

        def note(_c: object, cursor: Any, statement: str, *_: Any) -> None:
            words = statement.split()
            if words[0] == "BEGIN":
                begun[id(cursor.connection)] = [statement]
            else:
                begun[id(cursor.connection)].append(words[0].upper())

        def look(connection: Any) -> None:
            verbs = begun.pop(id(connection.connection.dbapi_connection), [])
            if any(verb in WRITES for verb in verbs):
                assert verbs[0] == "BEGIN IMMEDIATE", verbs
                written.append(verbs)

        written: list[list[str]] = []
        event.listen(store.engine, "before_cursor_execute", note)
        event.listen(store.engine, "commit", look)
        store.ingest(base_dir)
        store.job((base_dir, "./job")).annotate(label=1, remark="good")
        store.lineage.filter({"network": {"eq": "N"}}, base_dir=base_dir)
        forget(store.engine, base_dir, Settings())
    assert len(written) > 10


def test_only_what_log_files_tell_again_is_committed_without_a_sync(
    database_url: str, tmp_path: Path
) -> None:
    base_dir = tmp_path / "base"
    Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    with LineageStore(database_url, settings=Settings()) as store:
        committed = watch_commits(store.engine)
        store.ingest(base_dir)
        store.job((base_dir, "./job")).annotate(remark="good")
    synced, unsynced = (
        {table for written, of_them in committed if of_them is which for table in written}
        for which in (True, False)
    )
    assert {"ingest_cycle", "annotation"} <= synced
    assert {"log_file", "series"} <= unsynced
    assert not unsynced & {"ingest_cycle", "annotation"}
    assert committed[-2][1], "what was ingested is on the disk when ingest is done"


def watch_commits(engine: Engine) -> list[tuple[set[str], bool]]:
    """The tables that each transaction writes from now on, and whether it is synced."""
    written: dict[int, set[str]] = defaultdict(set)
    committed: list[tuple[set[str], bool]] = []
    unsynced = UNSYNCED[engine.dialect.name]

    def note(connection: Any, _cursor: object, statement: str, *_: Any) -> None:
        if found := re.match(r"(?:INSERT INTO|UPDATE) (\w+)", statement):
            written[id(connection)].add(found[1])

    def look(connection: Connection) -> None:
        if tables := written.pop(id(connection), None):
            committed.append((tables, not connection.exec_driver_sql(unsynced).scalar_one()))

    event.listen(engine, "before_cursor_execute", note)
    event.listen(engine, "commit", look)
    return committed
