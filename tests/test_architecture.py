"""The rooms of the package: who may import whom, and which library lives where."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "lineage_store"

BASE = {"errors", "fields", "texts", "config"}
MAY_IMPORT = {
    **dict.fromkeys(BASE, BASE),
    "eventlog": BASE,
    "store": BASE,
    "ingest": BASE | {"store", "eventlog"},
    "query": BASE | {"store", "eventlog.payloads"},
    "collect": BASE | {"eventlog"},
    "api": BASE | {"ingest", "query", "store"},
    "operations": BASE | {"api", "ingest", "query", "store"},
    "cli": BASE | {"api", "operations", "logs", "ingest", "query", "store", "eventlog"},
    "logs": BASE,
    "": BASE | {"api", "collect"},
}
LIVES_IN = {
    "apscheduler": {"ingest.daemon"},
    "google.protobuf": {"eventlog"},
    "mindspore": {"collect"},
    "sqlalchemy": {"store", "ingest", "query", "api"},
    "alembic": {"store"},
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


def test_imports_point_down_only() -> None:
    for module, imported in imports():
        room, target = module.partition(".")[0], imported.removeprefix("lineage_store.")
        if imported != target:
            assert within(target, MAY_IMPORT[room] | {room}), f"{module} must not import {imported}"


def test_only_samples_and_verification_read_payloads() -> None:
    readers = {
        module for module, imported in imports() if imported.startswith("lineage_store.eventlog.payloads")
    }
    # Verification proves that references decode; nothing else of ingest looks into payloads.
    rooms = {"query.samples", "eventlog", "ingest.verify"}
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
