"""The fast path: decode whole buffers of summary events into columns, from one file or from many small ones.

In: a buffer whose segments are parts of summary files. Out: their valid frames; their scalars, histograms, images and
tensors as columns; and the indices of frames left for `events` to decode. Promises: frames and values are bit for bit
those that `framing` and `events` return. The setting `vectorised = false` turns it off, which changes only the speed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lineage_store.eventlog.columns import Decoded, PayloadPiece, ScalarPiece
from lineage_store.eventlog.mindspore.vectorised import templates, walker
from lineage_store.eventlog.records import vectorised as frames_of
from lineage_store.eventlog.records.vectorised import Segment

FEWEST_TO_WALK = 32
"""Fewer frames are left to `events`: walking takes some milliseconds before the first value is read (90 passes for the
buckets of histograms alone), in which `events` decodes about this many frames, of any length up to half a MB."""
LONG_BYTES = 4_194_304
"""If one frame is longer than this, frames are walked however few they are: `events` would copy that frame twice."""


def decode(buffer: bytes, segments: Sequence[Segment], *, max_frame_bytes: int) -> Decoded:
    """Decode the frames of each segment, up to the first that is not complete and valid."""
    found = frames_of.read(buffer, segments, max_frame_bytes=max_frame_bytes)
    scalars: list[ScalarPiece] = []
    left = np.ones(len(found.start), np.bool_)
    for group in found.groups:
        pieces, taken = templates.read(group)
        scalars += pieces
        left[group.frame[taken]] = False
    rest = np.flatnonzero(left)
    payloads: list[PayloadPiece] = []
    if len(rest) >= FEWEST_TO_WALK or (found.length[rest] > LONG_BYTES).any():
        walked = walker.read(buffer, rest, found.payload_start[rest], found.payload_end[rest])
        scalars += walked.scalars
        payloads = walked.payloads
        rest = rest[walked.odd]
    return Decoded(found, scalars, payloads, rest)
