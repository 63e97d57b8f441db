"""Every error of a filesystem, at every call that reads log files: it affects one file, and only while it lasts."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import Engine

from helpers.base_dirs import path_meant
from helpers.ingesting import ingest, open_problems, visible_scalars
from helpers.log_writer import Log

ERRORS = (errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG)


@contextmanager
def failing(call: str, error: int, path: Path) -> Iterator[list[str]]:
    """Let a function of `os` fail for a path or what is below it, or for a descriptor of it; which it failed for."""
    real: Callable[..., Any] = getattr(os, call)
    failed: list[str] = []

    def fail(of: Any, *args: Any, **more: Any) -> Any:
        name = path_meant(of, more.get("dir_fd"))
        if name == str(path) or name.startswith(f"{path}/"):
            failed.append(name)
            raise OSError(error, os.strerror(error), name)
        return real(of, *args, **more)

    with mock.patch.object(os, call, fail):
        yield failed


@pytest.mark.parametrize("call", ["open", "fstat", "pread", "scandir", "stat"])
def test_an_error_costs_the_file_it_is_about_and_no_more_time_than_it_lasts(
    call: str, sqlite_engine: Engine, base_dir: Path
) -> None:
    good, bad = Log(), Log()
    for step, error in enumerate(ERRORS):
        good.scalar(step, "good", step / 2).write_summary(base_dir / "good")
        path = bad.scalar(step, "bad", step / 4).write_summary(base_dir / "bad")
        with failing(call, error, path.parent if call in ("scandir", "stat") else path) as failed:
            ingest(sqlite_engine, base_dir)
        assert failed, f"os.{call} was not called"
        assert visible_scalars(sqlite_engine, "good") == {n: n / 2 for n in range(step + 1)}
        assert visible_scalars(sqlite_engine, "bad") == {n: n / 4 for n in range(step)}
        ingest(sqlite_engine, base_dir)
        assert visible_scalars(sqlite_engine, "bad") == {n: n / 4 for n in range(step + 1)}
        assert open_problems(sqlite_engine) == []
