"""PostgreSQL's own programs, `pg_dump` and `pg_restore`: found, of a version that fits, and run.

In: an engine, arguments. Out: what the program wrote to stdout. Promises: a password is in no process list; what went
wrong is told in the program's words; on Linux it dies with this process, however that ends: nobody is left behind who
changes the store later. Does not know what is dumped.
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
"""PR_SET_PDEATHSIG, SIGKILL; in a new process, for between fork and exec one with threads may do nothing."""


def run(engine: Engine, program: str, *arguments: str, connects: bool = True) -> str:
    """Run a program on the engine's database (`connects`), or only of its version. Raises LineageStoreError."""
    from psycopg.conninfo import make_conninfo

    _, parameters = engine.dialect.create_connect_args(engine.url)
    parameters.pop("context", None)  # of psycopg alone
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
    """What goes before a command that is to die with this process."""
    return [sys.executable, "-ISc", _MORTAL, str(os.getpid())] if sys.platform == "linux" else []


def _fitting(engine: Engine, program: str) -> str:
    """The program of the server's version, or else of the next one that there is: an older one refuses the server."""
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
