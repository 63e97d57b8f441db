"""The result of a format's fast path: the values of many frames as numpy columns, one piece per tag."""

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
    """Scalars of one tag, by ascending frame; float32 values widened to float64. All arrays have equal lengths."""

    tag: str
    frame: Integers
    """Index of the value's frame among the frames of the buffer."""
    value_index: Integers
    step: Integers
    wall_time: Floats
    value: Floats


@dataclass(frozen=True, slots=True)
class PayloadPiece:
    """Histograms, images or tensors of one tag, by ascending frame; one entry of each array per value."""

    plugin: str
    tag: str
    frame: Integers
    value_index: Integers
    step: Integers
    wall_time: Floats
    size_bytes: Integers
    rank: Integers
    """Number of dimensions of each value."""
    shape: Integers
    """Array of shape (n, greatest rank); in each row only the first `rank` entries count."""
    dtype: Texts
    """As in PayloadValue."""
    integers: Mapping[str, Integers]
    """For histograms: count, nan_count, pos_inf_count, neg_inf_count."""
    floats: Mapping[str, Floats]
    """For histograms: min, max, sum."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The values of a buffer's frames, except for the frames in `left`."""

    frames: Frames
    scalars: list[ScalarPiece]
    payloads: list[PayloadPiece]
    left: Integers
    """Indices of the frames that the caller must decode one by one."""
