"""Find and run PostgreSQL's own programs, `pg_dump` and `pg_restore`, in a version that fits the server.

In: an engine, arguments. Out: the program's stdout. Promises: no secret of the URL is in a process list; an error
quotes the program's own words; on Linux the program is killed when this process ends, however it ends, so that no
program is left behind that changes the store later. Does not know what is dumped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from sqlalchemy import Engine

from lineage_store.errors import ConfigError, LineageStoreError
from lineage_store.store.database.db import reading
from lineage_store.texts import without_passwords

_MORTAL = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Calls prctl(PR_SET_PDEATHSIG, SIGKILL), then becomes the program. Run as a Python process of its own, because a
process with threads must not run Python code between fork and exec."""

_SERVICE = "lineage_store"
_WORDS_BYTES = 10_000


def run_program(
    engine: Engine, program: str, *arguments: str, connects: bool = True, into: BinaryIO | None = None
) -> str:
    """Run a program and return its stdout. Raises LineageStoreError if it fails, or if no fitting version is found.

    Args:
        connects: pass the engine's database as --dbname; else the engine only determines the program's version.
        into: an open file for its stdout, which then is not returned.
    """
    with _connection(engine) as (conninfo, environment):
        command = [_fitting(engine, program), *arguments, *([f"--dbname={conninfo}"] if connects else [])]
        ended = subprocess.run(  # noqa: S603 - no shell, and words of our own
            [*_mortally(), *command],
            stdout=subprocess.PIPE if into is None else into,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
        )
    if ended.returncode:
        raise _failed(program, ended.stderr, ended.returncode)
    return ended.stdout or ""


@contextmanager
def reading_from(engine: Engine, program: str, *arguments: str) -> Iterator[IO[bytes]]:
    """Run a program that does not connect, and yield its stdout; it is ended with the block.

    Raises LineageStoreError if no fitting version is found, and at the end of stdout if the program failed.
    """
    command = [*_mortally(), _fitting(engine, program), *arguments]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process,  # noqa: S603 - as above
    ):
        assert process.stdout is not None
        try:
            yield process.stdout
        except BaseException:
            process.kill()
            raise
        process.stdout.close()
        if code := process.wait():
            said.seek(0)
            raise _failed(program, said.read(_WORDS_BYTES).decode(errors="replace"), code)


def _failed(program: str, said: str, code: int) -> LineageStoreError:
    words = without_passwords(said).strip().splitlines() or [f"exit code {code}"]
    return LineageStoreError(
        f"{program} failed: {' '.join(words[:3])}",
        hint="Does this user own the tables, is the archive whole, and is there room on the disk?",
    )


@contextmanager
def _connection(engine: Engine) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield a connection string without secrets, and the environment that has them. Raises ConfigError.

    The environment has a variable for the password alone, so other secrets are in a service file of mode 0600.
    """
    from psycopg.conninfo import make_conninfo

    _, parameters = engine.dialect.create_connect_args(engine.url)
    parameters.pop("context", None)  # only psycopg knows it
    environment = dict(os.environ)
    if password := parameters.pop("password", None):
        environment["PGPASSWORD"] = str(password)
    secrets = {name: str(parameters.pop(name)) for name in _secret_names() & parameters.keys()}
    if not secrets:
        yield make_conninfo(**parameters), environment
        return
    _refuse_unwritable(secrets, has_service="service" in parameters or "PGSERVICE" in environment)
    with tempfile.NamedTemporaryFile("w", prefix="lineage-store-", encoding="utf-8") as file:
        file.writelines([f"[{_SERVICE}]\n", *(f"{name}={value}\n" for name, value in secrets.items())])
        file.flush()
        environment["PGSERVICEFILE"] = file.name
        yield make_conninfo(**parameters, service=_SERVICE), environment


def _secret_names() -> set[str]:
    """Return the names of the connection parameters whose values libpq says not to show."""
    from psycopg.pq import Conninfo

    return {option.keyword.decode() for option in Conninfo.get_defaults() if option.dispchar}


def _refuse_unwritable(secrets: Mapping[str, str], *, has_service: bool) -> None:
    """Raise ConfigError for secrets that a service file of ours cannot give to a program."""
    names = " and ".join(sorted(secrets))
    if has_service:  # a program reads one service
        raise ConfigError(
            f"The database URL has a secret ({names}) and a service.",
            hint=f"Move {names} into the service file.",
        )
    if any(value != value.rstrip() or "\n" in value for value in secrets.values()):
        raise ConfigError(
            f"The secret ({names}) of the database URL ends with a blank, or has a line end.",
            hint="Choose another one: PostgreSQL's programs cannot be given this one out of sight of others.",
        )


def _mortally() -> list[str]:
    """Return the words before a command that make it end with this process; none outside Linux."""
    return [sys.executable, "-ISc", _MORTAL, str(os.getpid())] if sys.platform == "linux" else []


def _fitting(engine: Engine, program: str) -> str:
    """Return the program of the server's version, else of the next newer version: older ones refuse the server."""
    with reading(engine) as session:
        server = int(session.value("SHOW server_version_num")) // 10_000
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
    found = [Path(directory, program) for directory in dict.fromkeys(os.get_exec_path()) if directory]
    return [path for path in found if path.is_file() and os.access(path, os.X_OK)]


def _major(program: Path) -> int:
    told = subprocess.run([*_mortally(), program, "--version"], capture_output=True, text=True)  # noqa: S603
    version = re.search(r"\) (\d+)", told.stdout)
    return int(version[1]) if version else 0
