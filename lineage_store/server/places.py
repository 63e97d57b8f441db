"""Places that clients share: of connections to the database, of slow questions, of processes that read log files.

In: who asks. Out: a place, for as long as it is held. Promises: no client takes the last place from the others. Does
not know what a place is for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


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
