"""Count work, not time: what a database looks at, how many statements it is sent, how many functions Python calls.

In: a block. Out: the `Work` of everything that this process did in it, in all of its threads. On SQLite, the steps of
the virtual machine, to a hundred; on PostgreSQL, the rows that each node of each plan returned or threw away, as the
server's auto_explain tells. The same block takes the same work on a fast machine and a slow one.
"""

from __future__ import annotations

import cProfile
import json
import re
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any
from unittest import mock

import psycopg
from sqlalchemy.engine import make_url

from helpers.databases import _execute

STEPS_AT_A_TIME = 100
_EXPLAINED = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
    "auto_explain.log_nested_statements": "on",
}
_PLAN = re.compile(r"^duration: .*?  plan:\n", re.DOTALL)
_THROWN_AWAY = ("Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")


@dataclass(slots=True)
class Work:
    """How much was done."""

    rows: int = 0
    """Steps of SQLite, or rows of PostgreSQL."""
    statements: int = 0
    calls: int = 0
    """Calls of functions in Python, those written in C included."""


@dataclass(slots=True)
class Meter:
    """What has been counted since the block began; `taken` runs a call and returns the work of it."""

    work: Work = field(default_factory=Work)

    def taken(self, call: Callable[[], object]) -> Work:
        before = Work(*(getattr(self.work, each.name) for each in fields(Work)))
        with _calls_counted() as counted:
            call()
        after = self.work
        return Work(after.rows - before.rows, after.statements - before.statements, counted())


@contextmanager
def metered() -> Iterator[Meter]:
    """Count for the length of a block; connections opened before it are not counted."""
    meter = Meter()
    connect_sqlite, connect_postgresql = sqlite3.dbapi2.connect, psycopg.Connection.connect

    def sqlite(*given: Any, factory: type[sqlite3.Connection] = sqlite3.Connection, **options: Any) -> Any:
        return connect_sqlite(*given, factory=_counting(factory, meter.work), **options)

    def postgresql(*given: Any, **options: Any) -> Any:
        connection = connect_postgresql(*given, **options)
        connection.add_notice_handler(lambda notice: _add_plan(meter.work, notice.message_primary or ""))
        return connection

    with (
        mock.patch.object(sqlite3.dbapi2, "connect", sqlite),
        mock.patch.object(psycopg.Connection, "connect", postgresql),
        mock.patch.object(psycopg, "connect", postgresql),
    ):
        yield meter


def let_explain(url: str) -> None:
    """Let a PostgreSQL database tell the plan of every statement from now on."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        for setting, value in _EXPLAINED.items():
            quoted = f"ALTER DATABASE \"{parsed.database}\" SET {setting} = '{value}'"
            _execute(url, quoted)  # type: ignore[arg-type]


def _counting(base: type[sqlite3.Connection], work: Work) -> type[sqlite3.Connection]:
    class Counting(base):  # type: ignore[valid-type, misc]
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            self.set_trace_callback(self._begin)
            self.set_progress_handler(None, 0)

        def _begin(self, _statement: str) -> None:
            work.statements += 1

        def set_progress_handler(self, handler: Callable[[], object] | None, number: int) -> None:
            waiting = [number]

            def step() -> object:
                work.rows += STEPS_AT_A_TIME
                waiting[0] -= STEPS_AT_A_TIME
                if waiting[0] > 0 or handler is None:
                    return 0
                waiting[0] = number
                return handler()

            super().set_progress_handler(step, STEPS_AT_A_TIME)

    return Counting


def _add_plan(work: Work, message: str) -> None:
    found = _PLAN.match(message)
    if found is not None:
        work.statements += 1
        work.rows += _rows(json.loads(message[found.end() :])["Plan"])


def _rows(node: dict[str, Any]) -> int:
    """How many rows a node and those below it returned or threw away."""
    of_one = node.get("Actual Rows", 0) + sum(node.get(name, 0) for name in _THROWN_AWAY)
    return int(of_one * node.get("Actual Loops", 0)) + sum(map(_rows, node.get("Plans", ())))


@contextmanager
def _calls_counted() -> Iterator[Callable[[], int]]:
    """Count calls in this thread and in those that start within the block; from Python 3.12 on a profiler sees all."""
    profilers = [cProfile.Profile(builtins=True)]

    def begin(*_: object) -> None:
        profilers.append(cProfile.Profile(builtins=True))
        profilers[-1].enable()

    if sys.version_info < (3, 12):
        threading.setprofile(begin)
    profilers[0].enable()
    try:
        yield lambda: sum(entry.callcount for each in profilers for entry in each.getstats())
    finally:
        profilers[0].disable()
        threading.setprofile(None)
