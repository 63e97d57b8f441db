"""Databases that fail under a daemon: locked, full, read-only, on real disks and servers.

In: the URL of a store; for faults of a disk, a small disk with the store. Out: a block during which the database fails.
Disks are tmpfs mounts of this process only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from sqlalchemy import text

from helpers import databases
from helpers.engines import opened
from lineage_store.store.database.db import parse_url, writing
from lineage_store.store.schema.upgrade import upgrade
from proofs.children import forked
from proofs.proof import SkippedError

_DISK_BYTES = 24 << 20
_PATIENCE_S = 30.0


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another session holds what every write needs."""
    with opened(url) as engine, writing(engine) as session:
        if engine.dialect.name == "postgresql":
            session.change(text("LOCK TABLE ingest_lease IN EXCLUSIVE MODE"))
        yield


@contextmanager
def read_only_server(url: str) -> Iterator[None]:
    """The server only reads."""

    def set_all(value: str) -> None:
        with opened(url) as engine, engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql("SET default_transaction_read_only = off")
            connection.exec_driver_sql(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            connection.exec_driver_sql("SELECT pg_reload_conf()")

    set_all("on")
    try:
        yield
    finally:
        set_all("off")


def sqlite_on_small_disk(url: str, home: Path, lifetime: ExitStack) -> tuple[str, Path]:
    """A copy of a SQLite store on a disk of its own, which is soon full: its URL, and the disk."""
    disk = _small_disk(home / "disk", lifetime)
    return f"sqlite:///{shutil.copy(url.removeprefix('sqlite:///'), disk)}", disk


def postgresql_on_small_disk(lifetime: ExitStack) -> tuple[str, Path]:
    """A store of a server of our own, whose tables are on a small disk: its URL, and the disk."""
    if os.environ.get(databases.SERVER_VARIABLE):
        raise SkippedError("the server is not ours")
    server = lifetime.enter_context(databases.postgres_server())
    # Not below the scratch directory, which is closed to the server's user.
    disk = Path(tempfile.mkdtemp(prefix="proofs-disk-"))
    lifetime.callback(disk.rmdir)
    with opened(server) as engine, engine.connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        files = Path(str(connection.exec_driver_sql("SHOW data_directory").scalar()))
        _small_disk(disk, lifetime, f"mode=0700,uid={files.stat().st_uid}")
        disk.chmod(0o755)
        connection.exec_driver_sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
        connection.exec_driver_sql("CREATE DATABASE small TABLESPACE small")
    url = parse_url(server).set(database="small").render_as_string(hide_password=False)
    upgrade(url)
    return url, disk


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """There is no room on a disk."""
    filling, end = disk / "filling", time.monotonic() + _PATIENCE_S
    with forked(partial(_fill, filling)):  # whatever becomes free, too
        while os.statvfs(disk).f_bavail:
            assert time.monotonic() < end, "the disk is not full yet"
            time.sleep(0.02)
        yield
    filling.unlink()


@contextmanager
def read_only(disk: Path, waits: Callable[[], object]) -> Iterator[None]:
    """A disk is mounted read-only in the midst of work.

    The kernel refuses that while a file is open for writing. So the disk is filled first: whoever `waits` for room has
    closed what it wrote.
    """
    filling, end = disk / "filling", time.monotonic() + _PATIENCE_S
    with forked(partial(_fill, filling)):
        while not waits():
            assert time.monotonic() < end, "a full disk was not met"
            time.sleep(0.1)
    while _mount("-o", "remount,ro", disk):
        assert time.monotonic() < end, "the disk stays open for writing"
        time.sleep(0.05)
    try:
        yield
    finally:
        _mount("-o", "remount,rw", disk)
        filling.unlink()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            with suppress(OSError):
                while file.write(bytes(4096)):
                    pass
            time.sleep(0.01)


def _small_disk(disk: Path, lifetime: ExitStack, *options: str) -> Path:
    disk.mkdir(exist_ok=True)
    sized = ",".join([f"size={_DISK_BYTES}", *options])
    if _mount("-t", "tmpfs", "-o", sized, "tmpfs", disk):
        raise SkippedError("no tmpfs mount")
    lifetime.callback(subprocess.run, ["umount", "-l", str(disk)], check=True)
    return disk


def _mount(*arguments: str | Path) -> bool:
    """Whether mounting fails."""
    if shutil.which("mount") is None:
        return True
    return subprocess.run(["mount", *arguments], capture_output=True).returncode != 0
