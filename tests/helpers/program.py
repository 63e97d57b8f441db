"""The command line, run: how it ended, and what it writes on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
    """What the program writes when stdout and stderr are a terminal."""
    settings = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    settings |= {"LINEAGE_STORE_DATABASE_URL": url, "TERM": "xterm", "COLUMNS": str(columns), "PAGER": "cat"}
    ours, theirs = pty.openpty()
    command = [str(PROGRAM), *map(str, arguments)]
    environment = settings | (environment or {})
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = bytearray()
        while part := _read(ours):
            seen += part
    os.close(ours)
    assert process.returncode == 0, seen
    return seen.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # what Linux says when the other side of a terminal is closed
        return b""
