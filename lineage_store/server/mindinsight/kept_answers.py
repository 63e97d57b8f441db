"""Answers that are kept until something changes: MindInsight's page asks the same every ten seconds, in every tab.

In: what was asked, with what it was asked of; an answer. Out: the answer again. Promises: so many bytes at most, the
answers that were used last. Threads may share one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from lineage_store.server.mindinsight.protocol import Answer

_MOST_BYTES, _MOST_OF_ONE = 64 << 20, 8 << 20


class KeptAnswers:
    """Answers by what was asked."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, asked: Hashable) -> Answer | None:
        """The answer, if it is kept."""
        with self._lock:
            found = self._answers.get(asked)
            if found is not None:
                self._answers.move_to_end(asked)
            return found

    def keep(self, asked: Hashable, answer: Answer) -> None:
        """Keep an answer that is not too large."""
        if len(answer.content) > _MOST_OF_ONE:
            return
        with self._lock:
            if asked not in self._answers:
                self._answers[asked] = answer
                self._bytes += len(answer.content)
            while self._bytes > _MOST_BYTES:
                self._bytes -= len(self._answers.popitem(last=False)[1].content)
