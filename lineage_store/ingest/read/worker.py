"""A process beside this one that reads and decodes log files, so that no file can cost more than itself.

In: calls of plain functions with plain values. Out: what they return, or why they did not: past their deadline, out of
memory, ended by a signal. Promises: whatever a file or its disk does to the process, this one goes on; a deadline runs
from when the process is ready, so that a machine which starts it slowly is no fault of a file; a process that not even
SIGKILL ends (a disk that does not answer) is left alone, and no second one is started beside it.
Does not know what is called.
"""

from __future__ import annotations

import importlib
import logging
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any, NoReturn, ParamSpec, Protocol, TypeVar

from lineage_store.errors import LineageStoreError
from lineage_store.ingest.gc_pause import uncollected
from lineage_store.texts import to_stored

log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)

STARTS_WITHIN_S = 30.0
"""How long a process may take until it is ready: libraries are imported from a disk that may be busy."""
_ENDS_WITHIN_S = 5.0
"""How soon a killed process is gone, unless it waits for a disk."""


class ReadingFailedError(Exception):
    """A call did not come to its end, and it is the fault of what was read."""


class ReaderStuckError(LineageStoreError):
    """The reading process waits for a disk that does not answer, or does not start."""


class Pending(Protocol[T_co]):
    """What a call comes to."""

    def result(self) -> T_co:
        """Wait for it. Raises ReadingFailedError, ReaderStuckError, or what the call raised."""


class Reader(Protocol):
    """Where calls are made: in a thread (`ThreadPoolExecutor`) or in a process (`Worker`)."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Begin a call; the one before has come to its end."""


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any
    error: BaseException | None = None


class Worker:
    """One process, started when it is needed, and again after it had to be ended."""

    def __init__(
        self, deadline_s: float, memory_bytes: int, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        self._deadline_s, self._memory_bytes, self._on_ready = deadline_s, memory_bytes, on_ready
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None
        self._unanswered = False
        self.is_awaited = False
        """Whether somebody waits for an answer now, with the deadline running."""

    def start(self, module: str) -> Connection:
        """Start the process: the channel to it, when it has imported what it will call. A call does so if need be.

        Raises ReaderStuckError when it does not become ready, OSError when the system refuses one.
        """
        if self._process is not None:  # it was stuck when last seen
            self._await_end(self._process)
        ours, theirs = Pipe()
        with theirs:
            end, most = theirs.fileno(), self._memory_bytes
            serving = f"from lineage_store.ingest.read import worker; worker.serve({end}, {most}, {module!r})"
            command = [sys.executable, "-P", "-c", serving]  # no module that lies in the working directory
            self._process = subprocess.Popen(command, pass_fds=[end], stdin=subprocess.DEVNULL)  # noqa: S603
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

        The answer to a call before that nobody asked for is dropped. Raises ReaderStuckError when there is no process
        that could answer.
        """
        if self._unanswered:
            with suppress(Exception):
                self.result()
        channel = self._channel or self.start(call.__module__)
        try:
            channel.send((call, args, kwargs))
        except OSError as error:
            return _Refused(self._failure(error))
        self._unanswered = True
        return _Awaited(self)

    def result(self) -> Any:
        """What the last call returned."""
        assert self._channel is not None
        self._unanswered, self.is_awaited = False, True
        try:
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

    @property
    def is_running(self) -> bool:
        """Whether there is a process that takes calls."""
        return self._channel is not None

    @property
    def is_done(self) -> bool:
        """Whether the last call has come to its end, so that its result is not waited for."""
        return self._channel is None or self._channel.poll()

    def expire(self) -> NoReturn:
        """Give up the last call, which takes too long. Raises ReadingFailedError."""
        raise self._failure(BlockingIOError())

    def close(self) -> None:
        """End the process. Raises ReaderStuckError when it does not end."""
        self._unanswered = False
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._await_end(self._process)
            self._process = None

    def _not_started(self, error: BaseException) -> ReaderStuckError:
        """Why the process did not become ready; it is ended."""
        assert self._process is not None
        late = isinstance(error, BlockingIOError)
        how = (
            f"was not ready after {STARTS_WITHIN_S:g} s" if late else f"did not start: {_how(self._process)}"
        )
        self.close()
        return ReaderStuckError(
            f"The reading process {how}.",
            hint="Is the machine overloaded, or reading_memory_bytes too little? No file is blamed; it is tried again.",
        )

    def _failure(self, error: BaseException) -> ReadingFailedError:
        """Why the process did not answer; it is ended."""
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
                hint="Look at the mount of the base dir. Reading goes on when the disk answers again.",
            ) from error


@dataclass(frozen=True, slots=True)
class _Awaited:
    worker: Worker

    def result(self) -> Any:
        return self.worker.result()


@dataclass(frozen=True, slots=True)
class _Refused:
    failure: ReadingFailedError

    def result(self) -> Any:
        raise self.failure


def failure_of(error: Exception, train_id: str, name: str) -> str:
    """Why a log file's reading failed the reader; what is no fault of its own process is logged with its traceback."""
    if isinstance(error, ReadingFailedError):
        return str(error)
    log.error("reading failed", extra={"train_id": train_id, "file": name}, exc_info=error)
    return f"Reading failed with {type(error).__name__}: {to_stored(str(error))[:200]}."


def serve(descriptor: int, memory_bytes: int, module: str) -> None:
    """The other end: say when it is ready, answer calls until the channel is closed. For a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    # A core would lie in the working directory, a base dir perhaps.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with Connection(descriptor) as channel, suppress(EOFError, ConnectionError):  # nobody is there any more
        importlib.import_module(
            module
        )  # not limited: to compile protobuf's modules takes 100 MiB for a moment
        # Not RLIMIT_AS, which numpy's libraries exceed by merely being there.
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, most))
        channel.send(None)
        while True:
            call, args, kwargs = channel.recv()
            channel.send(_answer(call, args, kwargs))


def _answer(call: Callable[..., Any], args: Any, kwargs: Any) -> _Answer:
    try:
        with uncollected():
            return _Answer(call(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - it is raised again on the other side
        return _Answer(None, error)


def _limit_waiting(channel: Connection, seconds: float) -> None:
    """Let sending and receiving end with BlockingIOError after so long."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    with socket.socket(fileno=os.dup(channel.fileno())) as end:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            end.setsockopt(socket.SOL_SOCKET, option, limit)


def _how(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        return "it closed its channel"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
