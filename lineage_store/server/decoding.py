"""What the requests of a server share and wait for: places, and processes that read and decode payloads for people.

In: who asks; a `Decoding`: where payloads are, and the importable function that makes an answer of them. Out: a place
for as long as it is held; the answer's `Content`, as bytes.
Promises: no client takes the last place from the others. Whatever is in a log file takes the time and memory of a
process beside the server alone; a call ends at its deadline, at its limit of memory, when its client goes, and when
the server stops; the answer is bounded, and so is what waits for a process (503). There are more processes than there
may be slow questions, so that one is left for images. Processes start when they are needed; large ones end when nobody
has needed them for a while. They import this module and that of the function, but no web framework and no database.
Does not know what a place is for, and what is read.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from lineage_store.errors import PayloadTooCostlyError, RequestRefusedError
from lineage_store.plain_values import for_json, iso
from lineage_store.worker import ReaderStuckError, ReadingFailedError, Worker

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
_QUICK_S = 0.05
"""Only after this time is it checked whether the client has disconnected: most questions are quicker."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks."""

    name: str = ""
    """As `client_of` returns it."""
    gone: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Returns when nobody waits for the answer any more."""


ANYBODY = Client()


def client_of(scope: Mapping[str, Any]) -> str:
    """Return who sent a request, as far as limits are concerned: its address, and of IPv6 the network (/64)."""
    client = scope.get("client")
    return _network(client[0]) if client else ""


@lru_cache(4096)
def _network(address: str) -> str:
    try:
        given = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(given, ipaddress.IPv6Address) and given.ipv4_mapped is None:
        return str(ipaddress.ip_network((given, 64), strict=False))
    return str(getattr(given, "ipv4_mapped", None) or given)


class Places:
    """Places of which no client takes the last one from the others; to be used in one event loop.

    A client may take a free place if it has none, or if another one stays free. Of those who wait, who has fewest comes
    first, then who came first.
    """

    def __init__(self, most: int) -> None:
        self._free, self._spare = most, min(1, most - 1)
        self._taken = Counter[str]()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Hold a place for the length of a block."""
        await self.take(client)
        try:
            yield
        finally:
            self.give_back(client)

    async def take(self, client: str) -> None:
        """Wait for a place, and take it."""
        if self._may_take(client):
            self._take(client)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((client, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(client)
            else:
                self._waiting.remove((client, turn))
            raise

    def give_back(self, client: str) -> None:
        """Give a place back, to one who waits for it."""
        self._free += 1
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]
        while admitted := min(
            (each for each in self._waiting if self._may_take(each[0])),
            key=lambda each: self._taken[each[0]],
            default=None,
        ):
            self._waiting.remove(admitted)
            self._take(admitted[0])
            admitted[1].set_result(None)

    def _may_take(self, client: str) -> bool:
        return self._free > (self._spare if self._taken[client] else 0)

    def _take(self, client: str) -> None:
        self._free -= 1
        self._taken[client] += 1


async def answered_or_gone(asked: asyncio.Future[Any], client: Client) -> None:
    """Wait until there is an answer, or nobody waits for it any more."""
    if client.gone is None:
        await asyncio.wait({asked})
        return
    done, _ = await asyncio.wait({asked}, timeout=_QUICK_S)
    if done:
        return
    leaving: asyncio.Future[None] = asyncio.create_task(client.gone())
    either: set[asyncio.Future[Any]] = {asked, leaving}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()


@dataclass(frozen=True, slots=True)
class Content:
    """The body of an answer: JSON, or a file as it was recorded."""

    content: bytes
    media_type: str = "application/json"


def to_json(content: Any) -> bytes:
    """Return JSON in UTF-8; surrogates in text that is not Unicode (names of files) are escaped."""
    try:
        return orjson.dumps(content, default=_shown, option=orjson.OPT_PASSTHROUGH_DATETIME)
    except TypeError:  # text with a surrogate, or a number beyond 64 bits
        return json.dumps(for_json(content), allow_nan=False).encode()


def numbers(array: NDArray[Any]) -> Any:
    """Return the numbers of an array as nested lists, in which NaN and infinities are spelled out."""
    import numpy as np

    plain = array.tolist()
    return plain if np.isfinite(array).all() else for_json(plain)


def _shown(value: object) -> Any:
    return iso(value) if isinstance(value, datetime) else for_json(value)


@dataclass(frozen=True, slots=True)
class Decoding:
    """The rest of a question that reads log files: `make(*arguments)`, called in a process."""

    make: Callable[..., Content]
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

    def answer(self, decoding: Decoding) -> Content:
        """Wait for the answer. Raises what the function raises, PayloadTooCostlyError, RequestRefusedError."""
        has_other = self.subject != decoding.subject
        self.subject, self.calls, self.is_stuck = decoding.subject, self.calls + 1, False
        try:
            if has_other and self.worker.resident_bytes > KEPT_BYTES:
                self.worker.close()  # what the last question left in memory must not fail this one
            if not self.worker.is_running:
                self.worker.start(decoding.make.__module__)
            answer: Content = self.worker.submit(
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

    async def answer(self, decoding: Decoding, client: Client = ANYBODY) -> Content:
        """Return the answer for a client; end the process when it has gone or the task is cancelled.

        Raises what the function raises, PayloadTooCostlyError, and RequestRefusedError if no process becomes free.
        """
        process = await self._taken(decoding.subject, client.name)
        asked = _in_thread(process.answer, decoding)
        asked.add_done_callback(lambda _: self._give_back(process, client.name))
        try:
            await answered_or_gone(asked, client)
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


def _in_thread(call: Callable[[Decoding], Content], decoding: Decoding) -> asyncio.Future[Content]:
    """Make a call in a thread that the end of the server does not wait for, because its disk may not answer."""
    loop, found = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def run() -> None:
        try:
            answer, error = call(decoding), None
        except Exception as raised:  # noqa: BLE001 - it is raised again in the question's task
            answer, error = None, raised
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(tell, answer, error)

    def tell(answer: Content | None, error: Exception | None) -> None:
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


def _made(make: Callable[..., Content], arguments: tuple[Any, ...], most_s: float) -> Content:
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
