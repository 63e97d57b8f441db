"""The values that one call of `record` passes on to be written.

In: values as `values.held` returns them. Out: frozen values that any thread may read. Promises: does not import
protobuf, which is imported when the first batch is encoded, because MindSpore 2.7 to 2.9 must be imported before it.
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
        """Bytes of memory that the value takes, now and encoded; 0 for a single number."""
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
    """Unix time in seconds."""
    entries: tuple[Entry, ...]
    """Grouped by plugin."""
    export_tensors: bool = False
