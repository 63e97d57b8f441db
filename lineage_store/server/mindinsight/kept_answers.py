"""A cache of answers: MindInsight's page repeats the same requests every ten seconds, in every tab.

In: keys made of a request and the state of the store; answers. Out: the answer of a key.
Promises: at most 64 MiB, from which the least recently used answers are removed; answers above 8 MiB are not stored.
Threads may share a cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from lineage_store.server.decoding import Answer

_MOST_BYTES, _MOST_OF_ONE = 64 << 20, 8 << 20


class KeptAnswers:
    """A cache of answers, by key."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Answer | None:
        """Return the stored answer, or None."""
        with self._lock:
            found = self._answers.get(key)
            if found is not None:
                self._answers.move_to_end(key)
            return found

    def keep(self, key: Hashable, answer: Answer) -> None:
        """Store an answer, unless it is too large."""
        if len(answer.content) > _MOST_OF_ONE:
            return
        with self._lock:
            if key not in self._answers:
                self._answers[key] = answer
                self._bytes += len(answer.content)
            while self._bytes > _MOST_BYTES:
                self._bytes -= len(self._answers.popitem(last=False)[1].content)
