"""Take things in turn, so that what has many of them does not keep the others waiting. Pure.

In: things, and to what each belongs. Out: an order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import chain, zip_longest
from typing import TypeVar

T = TypeVar("T")
_NOTHING = object()


def in_turn(things: Iterable[T], owner: Callable[[T], Hashable]) -> list[T]:
    """Return the first of every owner, then the second of every owner that has one, and so on."""
    by_owner: dict[Hashable, list[T]] = defaultdict(list)
    for thing in things:
        by_owner[owner(thing)].append(thing)
    rounds = zip_longest(*by_owner.values(), fillvalue=_NOTHING)
    return [thing for thing in chain.from_iterable(rounds) if thing is not _NOTHING]  # type: ignore[misc]
