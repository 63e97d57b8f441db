"""What one call of `record` hands over to be written.

In: values as `values.held` gives them. Out: frozen values that any thread may read. Knows no protobuf, which is loaded
when the first batch is encoded: MindSpore 2.7 to 2.9 must be imported before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lineage_store.collect.values import Held

_ENCODED_ELEMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One value added."""

    plugin: str
    tag: str
    value: Held

    @property
    def array_bytes(self) -> int:
        """What the value takes in memory, now and encoded; a single number counts nothing."""
        if isinstance(self.value, float):
            return 0
        if isinstance(self.value, bytes):
            return 2 * len(self.value)
        return self.value.nbytes + _ENCODED_ELEMENT_BYTES * self.value.size


@dataclass(frozen=True, slots=True)
class Batch:
    """The values of one call."""

    step: int
    wall_time: float
    """Seconds since the epoch."""
    entries: tuple[Entry, ...]
    """Grouped by plugin."""
    export_tensors: bool = False
