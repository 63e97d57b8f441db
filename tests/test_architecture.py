"""The rooms of the package: who may import whom, and which library lives where."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "lineage_store"

BASE = {"errors", "fields", "texts", "config"}
STORE = {"store.schema", "store.records", "store.statistics", "store.database"}
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(BASE, BASE),
    "logs": BASE,
    "eventlog.records": BASE,
    "eventlog": BASE,
    "store.database": BASE,
    "store.schema": BASE | {"store.database"},
    "store.records": {"store.statistics"},
    "store.statistics": set(),
    "store.catalog": BASE | STORE,
    "store.writes": BASE | STORE | {"store.catalog"},
    "store.admin": BASE | STORE,
    "store": BASE | STORE,
    "ingest.decode": BASE | {"eventlog", "store.records", "store.statistics"},
    "ingest.counts": {"store.records"},
    "ingest.scan": BASE | {"eventlog.mindspore", "store", "ingest.counts"},
    "ingest.read": BASE
    | {"eventlog", "store.records", "ingest.decode", "ingest.scan", "ingest.gc_pause", "ingest.problems"},
    "ingest.daemon": BASE | {"ingest", "store"},
    "ingest": BASE | {"eventlog", "store", "ingest.scan", "ingest.read", "ingest.decode"},
    "query": BASE | {"store", "eventlog.mindspore.payloads"},
    "operations": BASE | {"eventlog", "ingest", "query", "store"},
    "collect": BASE | {"eventlog"},
    "api": BASE | {"ingest", "operations", "query", "store"},
    "cli": BASE | {"api", "logs", "eventlog.mindspore"},
    "__main__": {"cli"},
    "": BASE | {"api", "collect"},
}
"""Who may import what, by the longest name that fits; each may import what is in its own room."""
LIVES_IN = {
    "apscheduler": {"ingest.daemon.scheduler"},
    "google.protobuf": {"eventlog.mindspore"},
    "mindspore": {"collect"},
    "sqlalchemy": {"store", "ingest", "operations", "query", "api"},
    "alembic": {"store.schema"},
    "click": {"cli"},
}


def imports() -> Iterator[tuple[str, str]]:
    """(importing module, imported module or name), both dotted, ours without the package's name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
        module = module.removesuffix("__init__").rstrip(".")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}: imports are absolute"
                yield from ((module, f"{node.module}.{name.name}") for name in node.names)
            elif isinstance(node, ast.Import):
                yield from ((module, name.name) for name in node.names)


def within(module: str, rooms: set[str]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def room_of(module: str) -> str:
    return max((room for room in MAY_IMPORT if within(module, {room})), key=len, default="")


def test_imports_point_down_only() -> None:
    for module, imported in imports():
        room, target = room_of(module), imported.removeprefix("lineage_store.")
        if imported != target:
            assert within(target, MAY_IMPORT[room] | {room}), f"{module} must not import {imported}"


def test_only_samples_and_verification_read_payloads() -> None:
    readers = {
        module
        for module, imported in imports()
        if imported.startswith("lineage_store.eventlog.mindspore.payloads")
    }
    # Verification proves that references decode; nothing else but samples looks into payloads.
    rooms = {"query.samples", "eventlog", "operations.verify"}
    assert all(within(reader, rooms) for reader in readers), readers


def test_each_library_lives_in_its_room() -> None:
    for module, imported in imports():
        for library, rooms in LIVES_IN.items():
            if within(imported, {library}):
                assert within(module, rooms), f"{module} must not import {imported}"


def test_importing_the_package_loads_no_heavy_library() -> None:
    script = "import sys, lineage_store; print(*sorted({'mindspore', 'apscheduler', 'alembic'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert loaded.stdout.split() == []
