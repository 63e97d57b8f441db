"""What the fast path gives: the values of many frames as columns, one tag at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScalarPiece:
    """Scalars of one tag, by ascending frame; float32 widened."""

    tag: str
    frame: Integers
    """Index of its frame among the buffer's."""
    value_index: Integers
    step: Integers
    wall_time: Floats
    value: Floats


@dataclass(frozen=True, slots=True)
class PayloadPiece:
    """Histograms, images or tensors of one tag, by ascending frame."""

    plugin: str
    tag: str
    frame: Integers
    value_index: Integers
    step: Integers
    wall_time: Floats
    size_bytes: Integers
    rank: Integers
    """How many dimensions each has."""
    shape: Integers
    """(n, greatest rank), each row as far as its rank goes."""
    integers: Mapping[str, Integers]
    """Of histograms: count, nan_count, pos_inf_count, neg_inf_count; of tensors: data_type."""
    floats: Mapping[str, Floats]
    """Of histograms: min, max, sum."""
