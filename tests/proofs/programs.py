"""The program itself in a fork, in a session of its own, and the processes of that session that outlive it.

In: arguments, as on the command line. Out: the process ends as the program does; its output is in a file.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import alembic.command  # noqa: F401 - so that children need not

from lineage_store.cli import main
from lineage_store.cli.verbs import database, gc  # noqa: F401 - as above

_GONE_WITHIN_S = 30.0


def run_program(said: Path, *arguments: object) -> None:
    """Be the program `lineage-store`; to be run in a fork."""
    os.setsid()
    descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os._exit(main([*map(str, arguments)]))


def survivors(session: int, programs: tuple[str, ...]) -> int:
    """How many of some programs live on in a session whose leader is dead; they are killed.

    Who is to die with it does so before it is told to stop, and who stops lives on.
    """
    stopped, end = set[int](), time.monotonic() + _GONE_WITHIN_S
    while left := set(_living(session)) - stopped:
        assert time.monotonic() < end, f"processes {sorted(left)} neither die nor stop"
        for pid in left:
            name, state = _name_and_state(pid)
            if state == "T":
                stopped.add(pid)
            elif name in programs:
                _send(pid, signal.SIGSTOP)
        time.sleep(0.01)
    for pid in stopped:
        _send(pid, signal.SIGKILL)
    return len(stopped)


def _living(session: int) -> Iterator[int]:
    for path in Path("/proc").iterdir():
        if (
            path.name.isdecimal()
            and _session_of(int(path.name)) == session
            and _name_and_state(int(path.name))[1] not in "ZX"
        ):
            yield int(path.name)


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _name_and_state(pid: int) -> tuple[str, str]:
    """Of one that is gone: X."""
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return "", "X"
    return before.partition("(")[2], after.split()[0]


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
