"""Write all files of one recorder: summary file, lineage file, exported arrays; in a thread of its own where it pays.

In: batches, from any thread. Out: files with MindSpore's names, each created with its first frame.
Promises: `JobFiles.write` and `close` never raise: values that cannot be written are reported to the LostValues, and
later ones are still tried. Recorders of the same second never open or truncate each other's files. After a failed write
the incomplete frame is removed, so that the file ends with a complete one and later frames may follow. A file gets its
closed mode even if the training is killed, by a small process (`Keeper`) that waits for its end; where none can be
started, a killed training leaves the file in its open mode. At most one batch is lost when the process is killed, a
slow disk slows the training down instead of filling its memory, and all is written before the interpreter exits.
Protobuf is imported with the first batch. Does not know where batches come from.
"""

from __future__ import annotations

import atexit
import logging
import os
import platform
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Condition, Thread
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote

import numpy as np

from lineage_store.collect import from_mindspore
from lineage_store.collect.entries import RecordedStep
from lineage_store.collect.lost_values import LostValues
from lineage_store.eventlog.mindspore.filenames import LINEAGE_SUFFIX, compose
from lineage_store.plugins import TENSOR

if TYPE_CHECKING:
    from lineage_store.collect.encoding import Export

log = logging.getLogger(__name__)

FILE_MODE = 0o600
CLOSED_FILE_MODE = 0o400
_WRITE_BYTES = 4 * 1024 * 1024
"""Approximate maximum size of the frames that are written with one system call."""
_SCRIPT = """
import os, sys, time
writer, mode = map(int, sys.argv[1:])
while os.getppid() == writer:
    time.sleep(0.2)
os.fchmod(0, mode)
"""

Keeper = subprocess.Popen[bytes]
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class FileRules:
    """The modes and the maximum size of files."""

    max_file_size: int | None = None
    """Maximum bytes of each file; None: no limit."""
    file_mode: int = FILE_MODE
    closed_file_mode: int = CLOSED_FILE_MODE


class JobFiles:
    """The open files of a recorder. Takes one batch at a time."""

    def __init__(self, directory: Path, prefix: str, suffix: str, rules: FileRules, lost: LostValues) -> None:
        device, host = from_mindspore.device_number(), platform.node()

        def path_at(suffix: str, second: int) -> Path:
            return directory / compose(prefix, second, device, host, suffix)

        summary_at, lineage_at = partial(path_at, suffix), partial(path_at, LINEAGE_SUFFIX)
        second = free_second(lambda at: (summary_at(at), lineage_at(at), directory / f"export_{at}"))
        self.summary = LogFile(summary_at, second, rules, _version)
        self.lineage = LogFile(lineage_at, second, rules)
        self._exports, self._exported_mode = directory / f"export_{second}", rules.closed_file_mode
        self._lost = lost

    def write(self, batch: RecordedStep) -> None:
        """Encode a batch and write it to the files."""
        try:
            self._write(batch)
        except Exception as error:  # noqa: BLE001 - the writer thread must go on: other threads wait for it
            self._lost.add("whole batches", error)

    def _write(self, batch: RecordedStep) -> None:
        from lineage_store.collect.encoding import encode_step

        encoded = encode_step(batch)
        for what, error in encoded.failures:
            self._lost.add(f"values ({type(error).__name__})", error, what=what)
        for export in encoded.exports:
            self._save(export)
        self._append("summary events", self.summary, encoded.summary)
        self._append("lineage events", self.lineage, encoded.lineage)

    def close(self) -> None:
        """Close both log files, and log what could not be written."""
        for log_file in (self.summary, self.lineage):
            try:
                log_file.close()
            except OSError as error:
                self._lost.add("closing", error, what=f"the end of {log_file.path}")
        self._lost.tell_total()

    def _append(self, kind: str, log_file: LogFile, frames: list[bytes]) -> None:
        done, together = 0, len(frames)
        while done < len(frames):
            try:
                done += log_file.append(frames[done : done + together])
                together *= 2
            except OSError as error:  # a shorter frame may still fit, but each try on a full disk is slow
                self._lost.add(kind, error, what=f"an event in {log_file.path}")
                done, together = done + 1, 1

    def _save(self, export: Export) -> None:
        path = self._exports / TENSOR / f"{quote(export.tag, safe='')}_{export.step}.npy"
        unfinished = path.with_name(f".{os.getpid()}.npy")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            np.save(unfinished, export.values)
            unfinished.chmod(self._exported_mode)
            unfinished.replace(path)
        except OSError as error:
            self._lost.add("exported tensors", error, what=str(path))
            unfinished.unlink(missing_ok=True)


def _version() -> bytes:
    from lineage_store.collect.encoding import version_frame

    return version_frame(time.time())


def free_second(paths_at: Callable[[int], Iterable[Path]]) -> int:
    """Return the first second from now on for which none of the paths exists."""
    seconds = count(int(time.time()))
    return next(second for second in seconds if not any(map(os.path.lexists, paths_at(second))))


class LogFile:
    """A log file, which is created with the first frame, and its successors. Not thread-safe."""

    def __init__(
        self,
        path_at: Callable[[int], Path],
        timestamp: int,
        rules: FileRules,
        opening: Callable[[], bytes] = bytes,
    ) -> None:
        """`path_at` returns the path of the file with this unix time in seconds in its name; `opening` the bytes that
        every file begins with: the version's frame, or nothing."""
        self._path_at, self._timestamp, self._rules, self._opening = path_at, timestamp, rules, opening
        self._descriptor: int | None = None
        self._keeper: Keeper | None = None
        self._size = 0

    @property
    def path(self) -> Path:
        """The open file, or the next one to be created, unless that name is taken by then."""
        return self._path_at(self._timestamp)

    def append(self, frames: Sequence[bytes]) -> int:
        """Write the first of the frames, as many as fit; return their number. Call again with the rest.

        Raises OSError if the first frame could not be written; the file then has no part of it.
        """
        if self._size and not self._holds(self._size + len(frames[0])):
            self._begin_another()
        opening = b"" if self._size else self._opening()
        if not self._holds(self._size + len(opening) + len(frames[0])):
            raise OSError(f"{len(frames[0])} bytes do not fit into a file of {self._rules.max_file_size}")
        descriptor = self._open() if self._descriptor is None else self._descriptor
        status = os.fstat(descriptor)
        if status.st_nlink == 0:
            raise FileNotFoundError(f"{self.path} was removed while it was written")
        self._size = status.st_size  # more than `_size` if Ctrl-C came between writing and counting
        content, ends = bytearray(opening), []
        for frame in frames:
            if len(content) > _WRITE_BYTES or not self._holds(self._size + len(content) + len(frame)):
                break
            content += frame
            ends.append(len(content))
        return self._write(descriptor, content, ends)

    def close(self) -> None:
        """Close the file and give it its closed mode; the next frame goes into a new file."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor, self._size = self._descriptor, None, 0
        try:
            os.fchmod(descriptor, self._rules.closed_file_mode)
        finally:
            os.close(descriptor)
            if self._keeper is not None:
                self._keeper.kill()
                self._keeper.wait()

    def _holds(self, size: int) -> bool:
        return self._rules.max_file_size is None or size <= self._rules.max_file_size

    def _open(self) -> int:
        while self._descriptor is None:
            try:
                self._descriptor = os.open(
                    self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, self._rules.file_mode
                )
            except FileExistsError:
                self._timestamp += 1
        os.fchmod(self._descriptor, self._rules.file_mode)  # regardless of the umask
        self._keeper = keeper_of(self._descriptor, self._rules.closed_file_mode)
        return self._descriptor

    def _write(self, descriptor: int, content: bytearray, ends: list[int]) -> int:
        """Write all, or on a failure the complete frames up to one of the `ends`; return how many frames."""
        written = 0
        try:
            with memoryview(content) as view:
                while written < len(content):
                    written += os.write(descriptor, view[written:])
        except BaseException as error:  # Ctrl-C among them
            whole = bisect_right(ends, written)
            self._take_back(descriptor, self._size + (ends[whole - 1] if whole else 0))
            if not whole or not isinstance(error, OSError):
                raise
            return whole
        self._size += written
        return len(ends)

    def _take_back(self, descriptor: int, size: int) -> None:
        try:
            os.ftruncate(descriptor, size)
            self._size = size
        except OSError:  # the rest of a frame stays, so no frame may follow in this file
            self._begin_another()

    def _begin_another(self) -> None:
        self.close()
        self._timestamp = max(int(time.time()), self._timestamp + 1)


def keeper_of(descriptor: int, mode: int) -> Keeper | None:
    """Start the process that gives the file this mode when ours has ended; None if it cannot be started.

    MindSpore's writer process does the same. The keeper writes nothing, gets no signals to the training's process
    group, and ends within a second of the training's process.
    """
    if not sys.executable or getattr(sys, "frozen", False):  # frozen: would rerun the training
        return None
    command = [sys.executable, "-I", "-S", "-c", _SCRIPT, str(os.getpid()), str(mode)]
    nothing = subprocess.DEVNULL
    try:
        return subprocess.Popen(  # noqa: S603 - our own words
            command, stdin=descriptor, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
        )
    except OSError as error:
        log.info("A log file keeps its open mode when this process is killed: %s", error)
        return None


class WriterThread(Generic[Given]):
    """A thread that writes items, which the first `put` starts.

    Calls `work`, one item at a time, in the order of `put`, which waits until the previous item is written; and
    `finish` once, at the end. Neither may raise. In a forked child, `stop` and `close` do nothing; callers must check
    `is_ours` before `put` and `drain`.
    """

    def __init__(self, work: Callable[[Given], None], finish: Callable[[], None]) -> None:
        self._work, self._finish = work, finish
        self._thread: Thread | None = None
        self._given: SimpleQueue[Given | None] = SimpleQueue()
        self._turn = Condition()
        self._is_busy = False
        self._closed = False
        self.process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process made the writer; a forked child has no thread, only a copy of the locks."""
        return os.getpid() == self.process

    def put(self, given: Given, *, light: bool) -> None:
        """Take one item. `light` items are written in this thread, which is cheaper than passing them on.

        Raises RuntimeError if the writer is closed or no thread can be started.
        """
        with self._turn:
            self._turn.wait_for(lambda: not self._is_busy)
            if self._closed:
                raise RuntimeError("the recorder was closed meanwhile")
            if self._thread is None:
                self._start()
            if light:
                self._work(given)
            else:
                self._is_busy = True
                self._given.put(given)

    def drain(self) -> None:
        """Wait until all items are written."""
        with self._turn:
            self._turn.wait_for(lambda: not self._is_busy)

    def stop(self) -> None:
        """Let the writer finish and end, without waiting for it.

        Takes no lock, because garbage collection calls this in any thread, which may hold the lock already.
        """
        if self.is_ours:
            self._given.put(None)

    def close(self) -> None:
        """Write what is pending, and wait until the writer has ended."""
        if not self.is_ours:
            return
        with self._turn:
            self._closed = True
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        writer = Thread(target=self._run, name="summary-writer", daemon=True)
        writer.start()
        self._thread = writer
        atexit.register(self.close)

    def _run(self) -> None:
        while (given := self._given.get()) is not None:
            self._work(given)
            with self._turn:
                self._is_busy = False
                self._turn.notify_all()
        self._finish()
        atexit.unregister(self.close)
