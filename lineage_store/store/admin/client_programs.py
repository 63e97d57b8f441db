"""Find and run PostgreSQL's own programs, `pg_dump` and `pg_restore`, in a version that fits the server.

In: an engine, arguments. Out: the program's stdout. Promises: the URL's password is in no process list; an error quotes
the program's own words; on Linux the program is killed when this process ends, however it ends, so that no program is
left behind that changes the store later. Does not know what is dumped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.errors import LineageStoreError
from lineage_store.store.database.engine import reading
from lineage_store.texts import without_passwords

_MORTAL = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Calls prctl(PR_SET_PDEATHSIG, SIGKILL), then becomes the program. Run as a Python process of its own, because a
process with threads must not run Python code between fork and exec."""


def run(engine: Engine, program: str, *arguments: str, connects: bool = True) -> str:
    """Run a program and return its stdout. Raises LineageStoreError if it fails, or if no fitting version is found.

    Args:
        connects: pass the engine's database as --dbname; else the engine only determines the program's version.
    """
    from psycopg.conninfo import make_conninfo

    _, parameters = engine.dialect.create_connect_args(engine.url)
    parameters.pop("context", None)  # only psycopg knows it
    environment = dict(os.environ)
    if password := parameters.pop("password", None):
        environment["PGPASSWORD"] = str(password)
    shown = make_conninfo(**parameters)
    command = [_fitting(engine, program), *arguments, *([f"--dbname={shown}"] if connects else [])]
    ended = subprocess.run(  # noqa: S603 - no shell, and words of our own
        [*_mortally(), *command],
        check=False,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
    )
    if ended.returncode:
        words = without_passwords(ended.stderr).strip().splitlines() or [f"exit code {ended.returncode}"]
        raise LineageStoreError(
            f"{program} failed: {' '.join(words[:3])}",
            hint="Does this user own the tables, is the archive whole, and is there room on the disk?",
        )
    return ended.stdout


def _mortally() -> list[str]:
    """Return the words before a command that make it end with this process; none outside Linux."""
    return [sys.executable, "-ISc", _MORTAL, str(os.getpid())] if sys.platform == "linux" else []


def _fitting(engine: Engine, program: str) -> str:
    """Return the program of the server's version, else of the next newer version: older ones refuse the server."""
    with reading(engine) as connection:
        server = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one()) // 10_000
    there = [(_major(path), str(path)) for path in _on_path(program)]
    fitting = [each for each in there if each[0] >= server]
    if not fitting:
        found = f"; found {', '.join(f'{path} ({major})' for major, path in there)}" if there else ""
        raise LineageStoreError(
            f"There is no {program} of PostgreSQL {server} or newer on the PATH{found}.",
            hint=f"Install PostgreSQL's client programs (such as postgresql-client-{server}), or put them on the PATH.",
        )
    return min(fitting)[1]


def _on_path(program: str) -> list[Path]:
    directories = dict.fromkeys(os.environ.get("PATH", os.defpath).split(os.pathsep))
    found = [Path(directory, program) for directory in directories if directory]
    return [path for path in found if path.is_file() and os.access(path, os.X_OK)]


def _major(program: Path) -> int:
    told = subprocess.run([*_mortally(), program, "--version"], check=False, capture_output=True, text=True)  # noqa: S603
    version = re.search(r"\) (\d+)", told.stdout)
    return int(version[1]) if version else 0
