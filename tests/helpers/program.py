"""Run the command line: how it ended, and what it writes to a terminal."""

from __future__ import annotations

import logging
import os
import pty
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from lineage_store.cli import main

PROGRAM = Path(sys.executable).parent / "lineage-store"


@dataclass(frozen=True, slots=True)
class Finished:
    """Exit code, stdout and stderr."""

    code: int
    out: str
    err: str


Run = Callable[..., Finished]


def on_terminal(
    *arguments: object, url: str, columns: int = 200, environment: dict[str, str] | None = None
) -> str:
    """Return what the program, run in this process, writes when stdin, stdout and stderr are a terminal."""
    settings = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    settings |= {"LINEAGE_STORE_DATABASE_URL": url, "TERM": "xterm", "COLUMNS": str(columns), "PAGER": "cat"}
    settings |= environment or {}
    seen = bytearray()
    with mock.patch.dict(os.environ, settings, clear=True), logging_kept(), _terminal(seen):
        code = main(list(map(str, arguments)))
    assert code == 0, seen
    return seen.decode()


@contextmanager
def logging_kept() -> Iterator[None]:
    """Undo after the block what the program does to the root logger of this process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:], root.level = handlers, level


@contextmanager
def _terminal(seen: bytearray) -> Iterator[None]:
    """Put this process and its children on a terminal, and collect what they write there."""
    ours, theirs = pty.openpty()
    reader = threading.Thread(target=lambda: seen.extend(b"".join(iter(lambda: _read(ours), b""))))
    reader.start()
    kept, streams = [os.dup(number) for number in range(3)], (sys.stdin, sys.stdout, sys.stderr)
    for number in range(3):
        os.dup2(theirs, number)
    os.close(theirs)
    sys.stdin, sys.stdout, sys.stderr = (open(n, "w" if n else "r", closefd=False) for n in range(3))  # noqa: SIM115 - closed below
    try:
        yield
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        reader.join()
        os.close(ours)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux's error when the other side of a terminal is closed
        return b""
