"""Processes that a proof may kill: forks of this one, which has imported everything, so that they start at once.

In: a function to run, which opens its own connections. Out: a child. Promises: no child is left when its block ends;
no clean-up of the parent runs in a child.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine, event

from proofs.proof import SkippedError

T = TypeVar("T")

KILLED = -signal.SIGKILL
# From linux/sched.h, linux/mount.h and linux/prctl.h.
_NEW_MOUNTS, _ALL_PRIVATE, _SIGNAL_AT_DEATH_OF_PARENT = 0x20000, 0x44000, 1


@dataclass(slots=True)
class Child:
    """A forked process."""

    pid: int
    code: int | None = None
    """How it ended: 0, 1 after an exception, or minus the number of the signal; None as long as it runs."""

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if not self.ended():
            os.kill(self.pid, number)

    def ended(self) -> bool:
        """Whether it has ended; does not wait."""
        self._collect(os.WNOHANG)
        return self.code is not None

    def wait(self) -> int:
        """Wait for its end; how it ended."""
        self._collect(0)
        assert self.code is not None
        return self.code

    def kill(self) -> int:
        """`kill -9`, if it still runs; how it ended."""
        self.send(signal.SIGKILL)
        return self.wait()

    def kill_after(self, seconds: float) -> int:
        """`kill -9` after a time; how it ended."""
        time.sleep(seconds)
        return self.kill()

    def _collect(self, options: int) -> None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)


@contextmanager
def forked(work: Callable[[], object]) -> Iterator[Child]:
    """Run `work` in a child, which is killed when the block ends before it."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _run(work)
    child = Child(pid)
    try:
        yield child
    finally:
        child.kill()


def at_once(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each in a child and return what they return, which must be plain. An exception ends all of them.

    Raises AssertionError, or SkippedError when that is what one of them raised.
    """
    with ExitStack() as children:
        answers = []
        for work in works:
            ours, theirs = Pipe(duplex=False)
            children.enter_context(forked(partial(_answer, work, theirs)))
            theirs.close()
            answers.append(children.enter_context(ours))
        return [_received(answer) for answer in answers]


def _answer(work: Callable[[], T], channel: Connection) -> None:
    try:
        channel.send(work())
    except SkippedError as error:
        channel.send(error)
    except Exception as error:
        channel.send(AssertionError(f"{type(error).__name__}: {error}"))
        raise


def _received(channel: Connection) -> Any:
    answer = channel.recv()
    if isinstance(answer, AssertionError | SkippedError):
        raise answer
    return answer


def own_mounts() -> None:
    """Let what this process mounts from now on be seen by its children only, and vanish with them."""
    libc = ctypes.CDLL(None)
    if libc.unshare(_NEW_MOUNTS) == 0:
        libc.mount(None, b"/", None, _ALL_PRIVATE, None)


def shared_library(source: str, directory: Path) -> Path:
    """Compile a file of this package, to be preloaded. Raises SkippedError where that cannot be done."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SkippedError("no C compiler")
    library = directory / Path(source).with_suffix(".so").name
    command: list[str | Path] = [
        compiler,
        "-shared",
        "-fPIC",
        "-o",
        library,
        Path(__file__).with_name(source),
    ]
    subprocess.run(command, check=True)
    return library


def _run(work: Callable[[], object]) -> None:
    ctypes.CDLL(None).prctl(_SIGNAL_AT_DEATH_OF_PARENT, signal.SIGKILL)
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(code)


def kill_at(number: int, *moments: str) -> None:
    """Kill this process when its engines have come to these moments (SQLAlchemy's events) so many times."""
    done = 0

    def at(*_: Any) -> None:
        nonlocal done
        done += 1
        if done == number:
            os.kill(os.getpid(), signal.SIGKILL)

    for moment in moments:
        event.listen(Engine, moment, at)
