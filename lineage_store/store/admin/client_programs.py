"""PostgreSQL's own programs, `pg_dump` and `pg_restore`: found, of a version that fits, and run.

In: an engine, arguments. Out: what the program wrote to stdout. Promises: a password is in no process list; what went
wrong is told in the program's words. Does not know what is dumped.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.errors import LineageStoreError
from lineage_store.store.database.engine import reading
from lineage_store.texts import without_passwords


def run(engine: Engine, program: str, *arguments: str, connects: bool = True) -> str:
    """Run a program on the engine's database (`connects`), or only of its version. Raises LineageStoreError."""
    url = engine.url.set(drivername="postgresql")
    environment = dict(os.environ)
    if password := url.password or url.query.get("password"):
        environment["PGPASSWORD"] = str(password)
    shown = url._replace(password=None).difference_update_query(["password"]).render_as_string()
    command = [_fitting(engine, program), *arguments, *([f"--dbname={shown}"] if connects else [])]
    ended = subprocess.run(  # noqa: S603 - no shell, and words of our own
        command, check=False, capture_output=True, text=True, errors="replace", env=environment
    )
    if ended.returncode:
        words = without_passwords(ended.stderr).strip().splitlines() or [f"exit code {ended.returncode}"]
        raise LineageStoreError(f"{program} failed: {' '.join(words[:3])}")
    return ended.stdout


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
    told = subprocess.run([program, "--version"], check=False, capture_output=True, text=True)  # noqa: S603 - as above
    version = re.search(r"\) (\d+)", told.stdout)
    return int(version[1]) if version else 0
