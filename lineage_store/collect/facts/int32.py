"""The range of the integers in a lineage event."""

from __future__ import annotations

LARGEST = 2**31 - 1


def fits_int32(value: int) -> bool:
    """Whether a field of a lineage event can hold the integer."""
    return -LARGEST - 1 <= value <= LARGEST
