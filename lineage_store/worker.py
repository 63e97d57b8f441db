"""A process beside this one that reads and decodes log files, so that a file that ends or hangs it harms no other.

In: calls of importable functions. Out: what they return, or why they did not: past the deadline, out of memory, ended
by a signal. Promises: whatever a file or its disk does to the process, this one goes on; the deadline does not include
the start of the process, so that no file is blamed for a slow machine; while a process waits for a disk that does not
answer, so that not even SIGKILL ends it, no second one is started; the process ends with this one, also in the midst of
a call. Ingest has one per base dir, a server a few for what people look at. Does not know which functions are called.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar

from lineage_store.errors import LineageStoreError
from lineage_store.program import Limit, uncollected

T = TypeVar("T")
P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)

STARTS_WITHIN_S = 30.0
"""How long a process may take to start: it imports libraries, from a disk that may be busy."""
_ENDS_WITHIN_S = 5.0
"""How long a killed process may take to end, unless it waits for a disk."""


class ReadingFailedError(Exception):
    """A call did not end by itself, because of the file that it read."""


class ReaderStuckError(LineageStoreError):
    """The reading process waits for a disk that does not answer, or does not start."""


class Pending(Protocol[T_co]):
    """A call that was begun."""

    def result(self) -> T_co:
        """Wait for the result. Raises ReadingFailedError, ReaderStuckError, or what the call raised."""


class Reader(Protocol):
    """Makes calls, in a thread (`ThreadPoolExecutor`) or in a process (`Worker`)."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Begin a call. The previous call must have ended."""


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any
    error: BaseException | None = None


class Worker:
    """One process, started when it is needed, and again after it had to be ended.

    Args:
        deadline_s: how long a call may take by itself (program.py) while `result` waits for it.
        memory_bytes: how much memory a call may take (RLIMIT_DATA of the process).
        on_ready: called when the process has started.
        longest_s: how long `result` waits, however busy the machine is; None: as `Limit` has it.
    """

    def __init__(
        self,
        deadline_s: float,
        memory_bytes: int,
        on_ready: Callable[[], None] = lambda: None,
        longest_s: float | None = None,
    ) -> None:
        self._deadline_s, self._memory_bytes, self._on_ready = deadline_s, memory_bytes, on_ready
        self._longest_s = longest_s
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None
        self._unanswered = False
        self.is_awaited = False
        """Whether a thread waits for the process now; there is a limit to that."""

    def start(self, module: str) -> Connection:
        """Start the process, wait until it has imported `module`, and return the channel to it.

        `submit` does so when there is no process. Raises ReaderStuckError when the process does not become ready,
        OSError when the system refuses to start one.
        """
        self.close()  # the previous one may have been ended by others, or did not end when it was killed
        ours, theirs = Pipe()
        with theirs:
            end, most = theirs.fileno(), self._memory_bytes
            serving = f"from lineage_store import worker; worker.serve({end}, {most}, {module!r})"
            command = [sys.executable, "-P", "-c", serving]  # no module that lies in the working directory
            self._process = subprocess.Popen(command, pass_fds=[end], stdin=subprocess.PIPE)  # noqa: S603
        _limit_waiting(ours, STARTS_WITHIN_S)
        self.is_awaited = True
        try:
            ours.recv()
        except (OSError, EOFError) as error:
            ours.close()
            raise self._not_started(error) from error
        finally:
            self.is_awaited = False
        _limit_waiting(ours, self._deadline_s)
        self._channel = ours
        self._on_ready()
        return ours

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Begin a call of an importable function; its deadline runs from when its result is asked for.

        An answer that nobody has asked for is dropped first. Raises ReaderStuckError or OSError as `start` does.
        """
        if self._unanswered:
            with suppress(Exception):
                self.result()
        channel = self._channel if self.is_running and self._channel else self.start(call.__module__)
        try:
            channel.send((call, args, kwargs))
        except OSError as error:
            refused: Future[T] = Future()
            refused.set_exception(self._failure(error))
            return refused
        self._unanswered = True
        return self

    def result(self) -> Any:
        """Wait for what the last call returns. Raises ReadingFailedError, ReaderStuckError, or what the call raised."""
        assert self._channel is not None
        self._unanswered, self.is_awaited = False, True
        limit = self.limit()
        try:
            while not self._channel.poll(max(0.0, left_s := limit.left_s())):
                if left_s <= 0:
                    raise BlockingIOError
            with uncollected():
                answer: _Answer = self._channel.recv()
        except (OSError, EOFError) as error:
            raise self._failure(error) from error
        finally:
            self.is_awaited = False
        if isinstance(answer.error, MemoryError):
            self.close()
            mebibytes = self._memory_bytes >> 20
            raise ReadingFailedError(f"Reading took more than {mebibytes} MiB of memory.") from answer.error
        if answer.error is not None:
            raise answer.error
        return answer.value

    def limit(self) -> Limit:
        """Return what a call may take from now on."""
        return Limit(self._deadline_s, self._longest_s, self.tasks)

    @property
    def tasks(self) -> list[int | None]:
        """The id of the process, if there is one."""
        return [] if self._process is None else [self._process.pid]

    @property
    def is_running(self) -> bool:
        """Whether there is a process that takes calls."""
        return self._channel is not None and self._process is not None and self._process.poll() is None

    @property
    def is_done(self) -> bool:
        """Whether the last call has ended, so that `result` does not wait."""
        return self._channel is None or self._channel.poll()

    def expire(self) -> NoReturn:
        """Give up the last call, which took too long, and end the process. Raises ReadingFailedError."""
        raise self._failure(BlockingIOError())

    def kill(self) -> None:
        """End the process from another thread than the one that waits for its answer, which is told so at once."""
        if (process := self._process) is not None:
            process.kill()

    @property
    def resident_bytes(self) -> int:
        """How much memory the process has; 0 without one."""
        try:
            with open(f"/proc/{self._process.pid if self._process else 0}/statm", "rb") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        except OSError:
            return 0

    def close(self) -> None:
        """End the process, if there is one. Raises ReaderStuckError when it does not end."""
        self._unanswered = False
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._await_end(self._process)

    def _not_started(self, error: BaseException) -> ReaderStuckError:
        """End the process, and return why it did not become ready."""
        assert self._process is not None
        late = isinstance(error, BlockingIOError)
        how = (
            f"was not ready after {STARTS_WITHIN_S:g} s" if late else f"did not start: {_how(self._process)}"
        )
        self.close()
        return ReaderStuckError(
            f"The reading process {how}.",
            hint="Is the machine overloaded, or reading_memory_bytes too little? No file is blamed; will retry.",
        )

    def _failure(self, error: BaseException) -> ReadingFailedError:
        """End the process, and return why it did not answer."""
        assert self._process is not None
        if isinstance(error, BlockingIOError):
            reason = f"Reading took longer than {self._deadline_s:g} s."
        else:
            reason = f"The reading process was ended: {_how(self._process)}."
        self.close()
        return ReadingFailedError(reason)

    def _await_end(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            raise ReaderStuckError(
                f"The reading process {process.pid} waits for a disk that does not answer.",
                hint="Check the mount of the base dir. Reading resumes when the disk answers again.",
            ) from error
        assert process.stdin is not None
        process.stdin.close()
        self._process = None


def serve(descriptor: int, memory_bytes: int, module: str) -> None:
    """Run in the reading process: say when it is ready, then answer calls until the channel is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    _end_with_the_other()
    # A core dump would be written to the working directory, which may be a base dir.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Errors of the channel: the other process has ended.
    with Connection(descriptor) as channel, suppress(EOFError, ConnectionError):
        # Without a limit: compiling protobuf's modules takes 100 MiB for a moment.
        importlib.import_module(module)
        # Not RLIMIT_AS, which numpy's libraries exceed as soon as they are loaded.
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, most))
        channel.send(None)
        while True:
            call, args, kwargs = channel.recv()
            channel.send(_answer(call, args, kwargs))


def _end_with_the_other() -> None:
    """Have the system end this process when the other one ends, which it would otherwise notice behind a call alone.

    Nothing is ever written to standard input, and the other process has its only other end: the system sends SIGIO,
    which ends a process, when that is closed. PR_SET_PDEATHSIG would do so when the *thread* ends that started this.
    """
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _answer(call: Callable[..., Any], args: Any, kwargs: Any) -> _Answer:
    try:
        return _Answer(call(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - it is raised again on the other side
        return _Answer(None, error)


def _limit_waiting(channel: Connection, seconds: float) -> None:
    """Let sending and receiving raise BlockingIOError after `seconds`."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    with socket.socket(fileno=os.dup(channel.fileno())) as end:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            end.setsockopt(socket.SOL_SOCKET, option, limit)


def _how(process: subprocess.Popen[bytes]) -> str:
    """Say how a process ended."""
    try:
        code = process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        return "it closed its channel"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
