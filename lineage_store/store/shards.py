"""Shards of a base dir: parts of its jobs, each of which one ingester writes while others write theirs.

In: how many there are, and which is meant. Out: whether a job or a path belongs to it, in Python and in SQL.
Promises: a job is in exactly one shard, by its train id and their number alone; so is every path below the base dir,
with the directory that it begins with. Does not know who leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_store.texts import key

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

_WITHOUT_SIGN = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Shards:
    """All shards of a base dir, or one of them."""

    count: int = 1
    """How many the base dir has."""
    number: int | None = None
    """Which, from 0; None: all of them."""

    @property
    def numbers(self) -> Sequence[int]:
        """Those that are meant, in ascending order."""
        return range(self.count) if self.number is None else (self.number,)

    @property
    def are_all(self) -> bool:
        """Whether every job belongs to them."""
        return self.number is None or self.count == 1

    def hold(self, train_id: str) -> bool:
        """Whether a job (stored id) belongs to them."""
        return self.are_all or (key(train_id) & _WITHOUT_SIGN) % self.count == self.number

    def hold_path(self, path: str) -> bool:
        """Whether a path below the base dir (stored; `.` is the base dir) does: with the directory it begins with."""
        return self.hold("./" if path == "." else f"./{path.partition('/')[0]}")

    def conditions(self) -> tuple[ColumnElement[bool], ...]:
        """What must be true of a row of `train_job` that belongs to them."""
        if self.are_all:
            return ()
        from lineage_store.store.schema.tables import train_job  # a reading process needs no SQL

        return ((train_job.c.train_key.bitwise_and(_WITHOUT_SIGN) % self.count) == self.number,)


ALL = Shards()
"""Of a base dir that is not divided, or for who may read of any job."""
