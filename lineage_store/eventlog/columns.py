"""Many frames at once: their values as columns, one tag at a time, as the fast path of a format gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lineage_store.eventlog.records.vectorised import Frames

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Texts = NDArray[np.object_]


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
    dtype: Texts
    """As PayloadValue has it."""
    integers: Mapping[str, Integers]
    """Of histograms: count, nan_count, pos_inf_count, neg_inf_count."""
    floats: Mapping[str, Floats]
    """Of histograms: min, max, sum."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The values of a buffer's frames, as far as they were read together."""

    frames: Frames
    scalars: list[ScalarPiece]
    payloads: list[PayloadPiece]
    left: Integers
    """Indices of the frames that are left to be decoded one by one."""
