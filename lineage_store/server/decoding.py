"""Reads and decodes payloads for people, in processes beside the server.

In: a `Decoding`: where payloads are, and the importable function that makes an answer of them. Out: its `Answer`.
Promises: whatever is in a log file takes the time and memory of such a process alone; a call ends at its deadline, at
its limit of memory, when its client goes, and when the server stops; the answer is bounded, and so is what waits for a
process (503). There are more processes than there may be slow questions, so that one is left for images.
Processes start when they are needed; large ones end when nobody has needed them for a while. Does not know what is
read. The processes import this module and that of the function, but no web framework and no database.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_store.errors import PayloadTooCostlyError, RequestRefusedError
from lineage_store.server.connections import Places
from lineage_store.worker import ReaderStuckError, ReadingFailedError, Worker

if TYPE_CHECKING:
    from lineage_store.api.reports import PayloadSource


MEMORY_BYTES = 512 << 20
"""The most memory of a process: the largest frame that ingest accepts fits several times over."""
MOST_ANSWER_BYTES = 80 << 20
"""The longest answer: the largest frame as it is, and some more."""
BESIDE_S = 30.0
"""How much longer than its processor time an answer may take: for a disk. Waiting for a processor does not count, but
never is the answer waited for twice as long as that."""
KEPT_BYTES = 160 << 20
"""A process with more memory is ended when it is asked about something else, or has been idle for IDLE_S."""
IDLE_S = 60.0
WAITS_S = 5.0
"""How long a question waits for a process."""
MOST_WAITING = 100
"""Questions that wait for a process at once, half of them for one client; a page of images asks for some tens."""
_KILLED_AGAIN_S = 0.1
_GIVEN_UP_S = 1.0
"""How long a killed process is waited for: one that waits for a disk does not end before the disk answers."""
Gone = Callable[[], Coroutine[Any, Any, None]]
"""Returns when nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer: JSON, or a file as it was recorded."""

    content: bytes
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Decoding:
    """The rest of a question that reads log files: `make(*arguments)`, called in a process."""

    make: Callable[..., Answer]
    arguments: tuple[Any, ...]
    sources: Sequence[PayloadSource]
    """All that it reads; not empty."""

    @property
    def subject(self) -> Hashable:
        """What a process that was asked before may still have: it is asked again, if it is free."""
        return self.make.__module__, self.sources[0]

    def too_costly(self, reason: str) -> PayloadTooCostlyError:
        """Return the error that names the payloads, and how reading them ended."""
        first, *others = self.sources
        also = f" and {len(others):,} more" if others else ""
        return PayloadTooCostlyError(
            f"The {first.plugin} at {first.place}{also} cannot be shown. {reason}",
            hint="The Python API reads payloads within the memory of your own process; `lineage-store inspect` shows "
            "what is in the file.",
            plugin=first.plugin,
            reason=reason,
        )


class _Process:
    """A process, and what it was asked last."""

    def __init__(self, most_s: float) -> None:
        # The time of a person who waits counts, however busy the machine is.
        worker = Worker(most_s + BESIDE_S, MEMORY_BYTES, longest_s=2 * (most_s + BESIDE_S))
        self.worker, self._most_s = worker, most_s
        self.subject: Hashable = None
        self.is_stuck = False
        self.calls = 0

    def answer(self, decoding: Decoding) -> Answer:
        """Wait for the answer. Raises what the function raises, PayloadTooCostlyError, RequestRefusedError."""
        has_other = self.subject != decoding.subject
        self.subject, self.calls, self.is_stuck = decoding.subject, self.calls + 1, False
        try:
            if has_other and self.worker.resident_bytes > KEPT_BYTES:
                self.worker.close()  # what the last question left in memory must not fail this one
            if not self.worker.is_running:
                self.worker.start(decoding.make.__module__)
            answer: Answer = self.worker.submit(
                _made, decoding.make, decoding.arguments, self._most_s
            ).result()
        except ReadingFailedError as error:
            took = f"Reading took more than {self._most_s:g} s of processor time."
            raise decoding.too_costly(took if signal.SIGPROF.name in str(error) else str(error)) from error
        except ReaderStuckError as error:
            self.is_stuck = True
            raise _refused(error.message) from error
        except OSError as error:
            raise _refused(f"No process to read log files could be started: {error}.") from error
        return answer


class Decoders:
    """The processes of a server that read log files.

    Args:
        slow_questions: how many questions that take long are answered at once.
        most_s: how much processor time the answer to one may take.
    """

    def __init__(self, slow_questions: int, most_s: float) -> None:
        self._most = max(3, slow_questions + 1)  # one for the slow question, one for images, one for others
        self._all = [_Process(most_s) for _ in range(self._most)]
        self._idle = list(self._all)
        self._free, self._waiting = Places(self._most), Counter[str]()

    async def answer(self, decoding: Decoding, client: str = "", gone: Gone | None = None) -> Answer:
        """Return the answer for a client; end the process when `gone` returns or the task is cancelled.

        Raises what the function raises, PayloadTooCostlyError, and RequestRefusedError if no process becomes free.
        """
        process = await self._taken(decoding.subject, client)
        asked = _in_thread(process.answer, decoding)
        asked.add_done_callback(lambda _: self._give_back(process, client))
        try:
            await answered_or_gone(asked, gone)
        finally:
            await _ended(asked, process.worker)
        if not asked.done():
            raise _refused("The process waits for a disk that does not answer.")
        return asked.result()

    async def close(self) -> None:
        """End all processes; one that waits for a disk is left to the system."""

        def end(process: _Process) -> None:
            with suppress(ReaderStuckError):
                process.worker.close()

        until = time.monotonic() + _GIVEN_UP_S
        while len(self._idle) < self._most and time.monotonic() < until:
            for process in self._all:
                process.worker.kill()
            await asyncio.sleep(_KILLED_AGAIN_S)
        ending = [process for process in self._idle if not process.is_stuck]
        await asyncio.gather(*(asyncio.to_thread(end, process) for process in ending))

    async def _taken(self, subject: Hashable, client: str) -> _Process:
        """Wait for a process, if possible the one that had this subject last. Raises RequestRefusedError."""
        waiting = self._waiting.total()
        if waiting >= MOST_WAITING or self._waiting[client] >= MOST_WAITING // 2:
            raise _refused(f"{waiting} questions wait for a process that reads log files.")
        self._waiting[client] += 1
        try:
            await asyncio.wait_for(self._free.take(client), WAITS_S)
        except TimeoutError:
            raise _refused(f"All {self._most} processes that read log files are busy.") from None
        finally:
            self._waiting -= Counter([client])
        process = min(
            self._idle,
            key=lambda each: (each.is_stuck, each.subject != subject, not each.worker.is_running),
        )
        self._idle.remove(process)
        return process

    def _give_back(self, process: _Process, client: str) -> None:
        self._idle.append(process)
        self._free.give_back(client)
        asyncio.get_running_loop().call_later(IDLE_S, self._end_if_idle, process, process.calls)

    def _end_if_idle(self, process: _Process, calls: int) -> None:
        if process.calls == calls and process in self._idle and process.worker.resident_bytes > KEPT_BYTES:
            with suppress(ReaderStuckError):
                process.worker.close()


async def answered_or_gone(asked: asyncio.Future[Any], gone: Gone | None) -> None:
    """Wait until there is an answer, or nobody waits for it any more."""
    if gone is None:
        await asyncio.wait({asked})
        return
    done, _ = await asyncio.wait({asked}, timeout=_QUICK_S)
    if done:
        return
    leaving: asyncio.Future[None] = asyncio.create_task(gone())
    either: set[asyncio.Future[Any]] = {asked, leaving}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()


_QUICK_S = 0.05
"""Only after this time is it checked whether the client has disconnected: most questions are quicker."""


def _in_thread(call: Callable[[Decoding], Answer], decoding: Decoding) -> asyncio.Future[Answer]:
    """Make a call in a thread that the end of the server does not wait for, because its disk may not answer."""
    loop, found = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            answer, error = call(decoding), None
        except Exception as raised:  # noqa: BLE001 - it is raised again in the question's task
            answer, error = None, raised
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(tell, answer, error)

    def tell(answer: Answer | None, error: Exception | None) -> None:
        if error is None:
            found.set_result(answer)
        else:
            found.set_exception(error)
            found.exception()  # nobody may ask for it any more

    threading.Thread(target=run, name="decoding", daemon=True).start()
    return found


async def _ended(asked: asyncio.Future[Any], worker: Worker) -> None:
    """Kill a process that has not answered, also one that starts just now."""
    until = time.monotonic() + _GIVEN_UP_S
    while not asked.done() and time.monotonic() < until:
        worker.kill()
        await asyncio.wait({asked}, timeout=_KILLED_AGAIN_S)


def _made(make: Callable[..., Answer], arguments: tuple[Any, ...], most_s: float) -> Answer:
    """Run in the process: make an answer, which must not be too long for the server's memory.

    After `most_s` of processor time the system ends the process (SIGPROF), whatever it does.
    """
    signal.setitimer(signal.ITIMER_PROF, most_s)
    try:
        answer = make(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if (length := len(answer.content)) > MOST_ANSWER_BYTES:
        raise RequestRefusedError(
            f"The answer would have {length:,} bytes; the server's limit is {MOST_ANSWER_BYTES:,}.",
            hint="Ask for a part of it, or read the payload with the Python API.",
            reason="answer_too_large",
        )
    return answer


def _refused(what: str) -> RequestRefusedError:
    return RequestRefusedError(what, hint="Ask again in a moment.", reason="readers_busy")
