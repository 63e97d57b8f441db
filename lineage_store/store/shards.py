"""Shards: disjoint parts of a base dir's jobs, so that several ingesters can write at once, each its own shards.

In: the number of shards, and which of them is meant. Out: whether a job or a path belongs to it, in Python and in SQL.
Promises: the train id and the number of shards alone decide which one shard a job is in; a path is in the shard of the
first directory in it. Does not know who leads a shard.
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
    """The number of the one shard that is meant, from 0; None: all shards."""

    @property
    def numbers(self) -> Sequence[int]:
        """The shards that are meant, in ascending order."""
        return range(self.count) if self.number is None else (self.number,)

    @property
    def are_all(self) -> bool:
        """Whether every job belongs to these shards."""
        return self.number is None or self.count == 1

    def hold(self, train_id: str) -> bool:
        """Return whether the job with this stored train id belongs to these shards."""
        return self.are_all or (key(train_id) & _WITHOUT_SIGN) % self.count == self.number

    def hold_path(self, path: str) -> bool:
        """Return whether a stored path relative to the base dir (`.` is the base dir) belongs to these shards."""
        return self.hold("./" if path == "." else f"./{path.partition('/')[0]}")

    def conditions(self, base_dir_id: int) -> tuple[ColumnElement[bool], ...]:
        """Return conditions on `train_job` that select the jobs of these shards of a base dir."""
        from lineage_store.store.schema.tables import train_job  # a reading process needs no SQL

        mine = train_job.c.base_dir_id == base_dir_id
        if self.are_all:
            return (mine,)
        return mine, (train_job.c.train_key.bitwise_and(_WITHOUT_SIGN) % self.count) == self.number


ALL = Shards()
"""For a base dir that is not divided, and for readers of all jobs."""
