"""Many protobuf messages of a buffer, parsed together into columns: the shared part of the formats' fast paths.

In: a buffer, and where messages in it begin and end. Out: the positions of their fields, key by key, the n-th field of
all messages at once; the numbers at positions; and, as the result of a fast path, the values of many frames as numpy
columns, one piece per tag (`Decoded`). Promises: no field is read beyond the end of its message; a field that is
unexpected, repeated without being allowed to, cut off, or not in its shortest form makes the frame that owns the
message *odd*. Does not know any message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from lineage_store.eventlog.tfrecord import Frames

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Texts = NDArray[np.object_]
Mask = NDArray[np.bool_]

MOST_BUCKETS = 100
"""MindSpore writes at most 90 buckets per histogram. The n-th bucket takes a pass over all histograms that have it:
for a single histogram with very many buckets `events` is far faster."""

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_LEAST_BUCKET, _MOST_BUCKET = 20, 28
"""Least and greatest length of a histogram's bucket: two doubles and a varint of one to nine bytes, with their keys."""
_BEYOND = np.int64(1) << np.int64(62)
"""A position behind the end of every message."""


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


@dataclass(frozen=True, slots=True)
class Children:
    """Messages within other messages: per message its owner, its begin and end, and its index within the owner."""

    owner: Integers
    start: Integers
    end: Integers
    place: Integers

    @staticmethod
    def joined(parts: Sequence[tuple[Integers, Integers, Integers, int]]) -> Children:
        """Join parts (owner, start, end, place), in one go because there may be as many parts as places."""
        if not parts:
            return Children(*(np.zeros(0, np.int64) for _ in range(4)))
        owner, start, end = (np.concatenate([part[column] for part in parts]) for column in range(3))
        place = np.repeat([part[3] for part in parts], [len(part[0]) for part in parts])
        return Children(owner, start, end, place)

    def take(self, order: Integers) -> Children:
        return Children(self.owner[order], self.start[order], self.end[order], self.place[order])


class Messages:
    """Messages of one type that are parsed together. An unexpected field makes the frame that owns the message odd."""

    def __init__(self, wire: Wire, start: Integers, end: Integers, odd: Mask, owner: Integers) -> None:
        self.wire, self._position, self._end = wire, start.copy(), end
        self._odd, self._owner = odd, owner
        self._seen: dict[int, Mask] = {}

    def integers(self) -> Integers:
        return np.zeros(len(self._end), np.int64)

    def floats(self) -> Floats:
        return np.zeros(len(self._end), np.float64)

    def mark_odd(self, rows: Integers) -> None:
        self._odd[self._owner[rows]] = True

    def require(self, *keys: int) -> None:
        """Mark messages odd that lack one of these fields; call this after `fields`."""
        for key in keys:
            seen = self._seen.get(key)
            self.mark_odd(np.arange(len(self._end)) if seen is None else np.flatnonzero(~seen))

    def skip_buckets(self) -> Integers:
        """Go past the buckets at the beginning of each histogram; return how many there are."""
        self._position, buckets = self.wire.skip_buckets(self._position, self._end)
        return buckets

    def fields(self, repeated: dict[int, bool]) -> Iterator[tuple[int, Integers, Integers, Integers]]:
        """Yield (key, indices of messages, where the contents begin, where they end) for the expected fields.

        Odd messages are not parsed further.

        Args:
            repeated: for each expected key, whether the field may be repeated.
        """
        self._seen = {key: np.zeros(len(self._end), np.bool_) for key in repeated}
        rows = np.flatnonzero((self._position < self._end) & ~self._odd[self._owner])
        while len(rows):
            keys = self.wire.bytes[self._position[rows]]
            first = int(keys[0])
            kinds = [first] if (keys == first).all() else np.flatnonzero(np.bincount(keys)).tolist()
            for key in kinds:
                of_key = rows if len(kinds) == 1 else rows[keys == key]
                if key not in repeated:
                    self.mark_odd(of_key)
                    continue
                of_key = self._once(key, of_key, repeated[key])
                of_key, at, until = self._content(key & 7, of_key)
                self._position[of_key] = until
                if len(of_key):
                    yield key, of_key, at, until
            rows = rows[(self._position[rows] < self._end[rows]) & ~self._odd[self._owner[rows]]]

    def _once(self, key: int, rows: Integers, repeated: bool) -> Integers:
        seen = self._seen[key]
        if not repeated and (again := seen[rows]).any():
            self.mark_odd(rows[again])
            rows = rows[~again]
        seen[rows] = True
        return rows

    def _content(self, wire_type: int, rows: Integers) -> tuple[Integers, Integers, Integers]:
        at = self._position[rows] + 1
        end = self._end[rows]
        if wire_type == _VARINT:
            until = self.wire.varint_ends(at, end)
        elif wire_type == _BYTES:
            at, until = self.wire.lengths(at, end)
        else:
            until = at + (8 if wire_type == _FIXED64 else 4)
        fits = until <= end
        if not fits.all():
            self.mark_odd(rows[~fits])
            rows, at, until = rows[fits], at[fits], until[fits]
        return rows, at, until


class Wire:
    """The bytes of a buffer, read at many positions at once. The caller makes sure that they are within the buffer."""

    def __init__(self, buffer: bytes) -> None:
        self.bytes = np.frombuffer(buffer, np.uint8)

    def rows(self, at: Integers, length: int) -> NDArray[np.uint8]:
        """Return `length` bytes from each position on, as an array of shape (n, length)."""
        if length == 0:
            return np.zeros((len(at), 0), np.uint8)
        return sliding_window_view(self.bytes, length)[at]

    def doubles(self, at: Integers) -> Floats:
        return self.rows(at, 8).view("<f8").ravel()

    def floats(self, at: Integers) -> Floats:
        with np.errstate(invalid="ignore"):  # else widening a signalling NaN warns
            return self.rows(at, 4).view("<f4").ravel().astype(np.float64)

    def varint_ends(self, at: Integers, end: Integers) -> Integers:
        """Return the end of each varint; _BEYOND if it is not within its message or not in its shortest form."""
        until = np.full(len(at), _BEYOND)
        waiting = np.arange(len(at))
        for size in range(1, 11):
            waiting = waiting[at[waiting] + size <= end[waiting]]
            last = self.bytes[at[waiting] + size - 1]
            ends = last < (0x80 if size < 10 else 2)
            minimal = waiting[ends & (last != 0)] if size > 1 else waiting[ends]
            until[minimal] = at[minimal] + size
            if ends.all():
                break
            waiting = waiting[~ends]
        return until

    def varints(self, at: Integers) -> Integers:
        """Return the 64-bit values of varints that were checked with `varint_ends`."""
        values = np.zeros(len(at), np.uint64)
        waiting = np.arange(len(at))
        for size in range(10):
            byte = self.bytes[at[waiting] + size]
            values[waiting] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * size)
            goes_on = byte >= 0x80
            if not goes_on.any():
                break
            waiting = waiting[goes_on]
        return values.view(np.int64)

    def lengths(self, at: Integers, end: Integers) -> tuple[Integers, Integers]:
        """Return where the content of each length-delimited field begins and ends, given the position of its length.

        An end is _BEYOND if the length is invalid or greater than the buffer.
        """
        begin = self.varint_ends(at, end)
        until = np.full(len(at), _BEYOND)
        known = np.flatnonzero(begin < _BEYOND)
        length = self.varints(at[known])
        plausible = (length >= 0) & (length <= len(self.bytes))
        until[known[plausible]] = begin[known[plausible]] + length[plausible]
        return begin, until

    def skip_buckets(self, start: Integers, end: Integers) -> tuple[Integers, Integers]:
        """Return where the buckets at the beginning of each histogram end, and how many there are.

        Only buckets in the form that writers use are skipped: left, width and count, each once, in this order; and at
        most MOST_BUCKETS.
        """
        position, count, passed = start.copy(), np.zeros(len(start), np.int64), 0
        rows, at = np.arange(len(start)), start
        while len(rows) and passed < MOST_BUCKETS:
            is_bucket, until = self._buckets(at, end)
            if is_bucket.all():
                at = until
            else:
                position[rows[~is_bucket]], count[rows[~is_bucket]] = at[~is_bucket], passed
                rows, at, end = rows[is_bucket], until[is_bucket], end[is_bucket]
            passed += 1
        position[rows], count[rows] = at, passed
        return position, count

    def _buckets(self, at: Integers, end: Integers) -> tuple[Mask, Integers]:
        """Return for each position whether a bucket begins there, and where it ends."""
        size = self._byte(at + 1)
        until = at + 2 + size.astype(np.int64)
        known = (size >= _LEAST_BUCKET) & (size <= _MOST_BUCKET) & (until <= end)
        for place, key in ((0, 0x0A), (2, 0x09), (11, 0x11), (20, 0x18)):
            known &= self._byte(at + place) == key
        known &= self._byte(until - 1) < 0x80
        for digit in range(_LEAST_BUCKET, _MOST_BUCKET):  # the bytes of the count's varint except the last
            goes_on = (size > digit) & known
            if not goes_on.any():
                break
            known &= ~goes_on | (self._byte(at + 1 + digit) >= 0x80)
        return known, until

    def _byte(self, at: Integers) -> NDArray[np.uint8]:
        """Return the bytes at positions; behind the buffer any byte, because a bucket there is refused anyway."""
        return self.bytes.take(at, mode="clip")
