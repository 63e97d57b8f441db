"""On SQLite a transaction that asks for the write lock half way may be refused at once; ours have it from the start."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from sqlalchemy import event

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest.forgetting import forget

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER")


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
        store.annotate(base_dir, "./job", tag=1, remark="good")
        store.filter_lineage({"network": {"eq": "N"}}, base_dir=base_dir)
        forget(store.engine, base_dir, Settings())
    assert len(written) > 10
