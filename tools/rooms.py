"""The rooms of the package: who may import whom and which library, and so whom a change concerns.

Read by tests/test_architecture.py, which holds the package to the table, and by tools/changed_rooms.py.
"""

from __future__ import annotations

ROOMS = ("base", "eventlog", "collect", "store", "ingest", "query", "operations", "api", "server", "cli")
"""The rooms of the first level, those that others import first."""
BASE = {
    "config",
    "errors",
    "fields",
    "finding_kinds",
    "findings",
    "output_files",
    "paths",
    "plain_values",
    "plugins",
    "program",
    "states",
    "texts",
    "worker",
}
STORE = {"store.schema", "store.records", "store.database", "store.clock", "store.leases"}
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(BASE, BASE),
    "eventlog": BASE,
    "eventlog.values": BASE,
    "eventlog.mindspore": BASE | {"eventlog.values", "eventlog.protobuf_columns", "eventlog.tfrecord"},
    "store.database": BASE,
    "store.schema": BASE | {"store.database"},
    "store.records": BASE,
    "store.clock": BASE | {"store.schema", "store.database"},
    "store.catalog": BASE | STORE,
    "store.writes": BASE | STORE | {"store.catalog"},
    "store.admin": BASE | STORE,
    "store.catalog.refs": BASE | STORE | {"store.catalog"},
    "store.opened": BASE | STORE | {"store.catalog"},
    "store": BASE | STORE,
    "ingest.decode": BASE | {"eventlog", "store.records"},
    "ingest.report": BASE | {"eventlog", "store.records", "ingest.scan"},
    "ingest.scan": BASE | {"eventlog", "store", "ingest.report"},
    "ingest.read": BASE
    | {
        "eventlog",
        "store.records",
        "ingest.decode",
        "ingest.scan",
        "ingest.problems",
    },
    "ingest.daemon": BASE | {"ingest", "store"},
    "ingest": BASE | {"eventlog", "store", "ingest.scan", "ingest.read", "ingest.decode"},
    "query": BASE | {"store", "eventlog.formats", "eventlog.payload_files", "eventlog.values"},
    "operations": BASE | {"eventlog", "ingest", "query", "store"},
    "collect": BASE | {"eventlog"},
    "api": BASE | {"ingest", "operations", "query", "store"},
    "server": BASE | {"api"},
    "cli": BASE | {"api", "eventlog", "server"},
    "__main__": {"cli"},
    "": BASE | {"api", "collect"},
}
"""Who may import what, by the longest name that fits; each may import what is in its own room."""
LIVES_IN: dict[str, set[str]] = {
    "apscheduler": {"ingest.daemon.scheduler"},
    "google.protobuf": {"eventlog.mindspore"},
    "mindspore": {"collect"},
    "sqlalchemy": {"store", "ingest", "operations", "query", "api"},
    "alembic": {"store.schema"},
    "click": {"cli"},
    "fastapi": {"server"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "orjson": {"server"},
    "prometheus_client": {"operations.monitoring", "operations.health", "server"},
}
"""Which rooms may import a library."""


def within(module: str, rooms: set[str]) -> bool:
    """Return whether a dotted name is that of a room among `rooms`, or of something in one."""
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def room_of(module: str) -> str:
    """Return the name of the table, the longest that fits, that says what a module may import."""
    return max((room for room in MAY_IMPORT if within(module, {room})), key=len, default="")


def first_level(name: str) -> str:
    """Return which of ROOMS a dotted name is in: `base` beside the rooms, and none for the package itself."""
    first = name.partition(".")[0]
    return first if first in ROOMS or first in ("", "__main__") else "base"


def speaks_sql(room: str) -> bool:
    """Return whether a room of the first level knows that there are two databases."""
    return room in LIVES_IN["sqlalchemy"]


def importers(room: str) -> set[str]:
    """Return which of ROOMS may import a room directly."""
    names = {name for name, may in MAY_IMPORT.items() if room in map(first_level, may)}
    return {first_level(name) for name in names}.intersection(ROOMS) - {room}


def above(room: str) -> set[str]:
    """Return which of ROOMS may import a room, directly or through others."""
    found, last = importers(room), set[str]()
    while found != last:
        last = found
        found = found.union(*map(importers, found))
    return found - {room}
