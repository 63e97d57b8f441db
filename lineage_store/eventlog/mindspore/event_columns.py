"""The fast path: decode whole buffers of summary events into columns, from one file or from many small ones.

In: a buffer whose segments are parts of summary files. Out: their valid frames; their scalars, histograms, images and
tensors as columns; and the indices of frames left for `events` to decode. Promises: frames and values are bit for bit
those that `FrameReader` and `events` return. The limit `vectorised=false` turns it off, which changes only the
speed.

Scalar events of one length that differ only in wall time, step and values are decoded by a *template*: one of them,
parsed in full, whose other bytes equal theirs. All other events are *walked*: all together, field by field. An event
that has other values (versions, graphs, landscapes) or an unusual form is *odd*, and left to `events`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lineage_store.eventlog import tfrecord
from lineage_store.eventlog.mindspore.events import DTYPE_NAMES
from lineage_store.eventlog.protobuf_columns import (
    Children,
    Decoded,
    Floats,
    Integers,
    Mask,
    Messages,
    PayloadPiece,
    ScalarPiece,
    Texts,
    Wire,
)
from lineage_store.eventlog.tfrecord import Group, Segment
from lineage_store.plugins import BY_NAME, HISTOGRAM, IMAGE, TENSOR
from lineage_store.texts import to_stored

FEWEST_TO_WALK = 32
"""Fewer frames are left to `events`: walking takes some milliseconds before the first value is read (90 passes for the
buckets of histograms alone), in which `events` decodes about this many frames, of any length up to half a MB."""
LONG_BYTES = 4_194_304
"""If one frame is longer than this, frames are walked however few they are: `events` would copy that frame twice."""
LONGEST_FREE_STEP = 9
"""The tenth byte of a varint can only be 1, so it must equal the template's."""
MOST_TEMPLATES = 32
"""Templates per length; payloads that fit none of them are left to the walker."""
FEWEST_PER_TEMPLATE = 8
"""At most one template is tried per this many payloads: `events` decodes as many in the time that trying one takes."""

_WALL_TIME, _STEP, _SUMMARY, _VALUE, _TAG, _SCALAR_FIELD = 0x09, 0x10, 0x2A, 0x0A, 0x0A, 0x1D
_SCALAR, _IMAGE, _TENSOR, _HISTOGRAM = 0x1D, 0x22, 0x42, 0x4A
"""Keys (field number and wire type) of the fields of Value that are decoded here, as in the file."""
MOST_DIMENSIONS = 8
FEWEST_PER_TAG = 32
"""With fewer values per tag, `events`, which decodes one by one, is faster."""
_SEARCHED_TAGS = 32
"""This many tags are each searched for among all values; the values of further tags are grouped one by one."""
FEWEST_ABREAST = 32
"""If fewer events than this have an n-th value, they are left to `events`: walking a single event of very many values
would take minutes."""
PLACES_OF_FEW = 8
"""The first values of an event are walked however few events there are: they may be long, and `events` copies them."""
_DATA_TYPES = list(DTYPE_NAMES)


def decode_columns(buffer: bytes, segments: Sequence[Segment], *, max_frame_bytes: int) -> Decoded:
    """Decode the frames of each segment, up to the first that is not complete and valid."""
    found = tfrecord.read_frames(buffer, segments, max_frame_bytes=max_frame_bytes)
    scalars: list[ScalarPiece] = []
    left = np.ones(len(found.start), np.bool_)
    for group in found.groups:
        pieces, taken = read_group(group)
        scalars += pieces
        left[group.frame[taken]] = False
    rest = np.flatnonzero(left)
    payloads: list[PayloadPiece] = []
    if len(rest) >= FEWEST_TO_WALK or (found.length[rest] > LONG_BYTES).any():
        walked = walk(buffer, rest, found.payload_start[rest], found.payload_end[rest])
        scalars += walked.scalars
        payloads = walked.payloads
        rest = rest[walked.odd]
    return Decoded(found, scalars, payloads, rest)


@dataclass(frozen=True, slots=True)
class Template:
    """The layout of a payload of scalars."""

    step: slice
    """The bytes of the step's varint; empty if there is no step."""
    scalars: tuple[tuple[str, int], ...]
    """(stored tag, index of the float's first byte), in order."""

    def is_free(self, length: int) -> NDArray[np.bool_]:
        """Return which bytes may differ from the template's in a payload that fits."""
        free = np.zeros(length, np.bool_)
        free[1:9] = True
        free[self.step.start : min(self.step.stop, self.step.start + LONGEST_FREE_STEP)] = True
        for _, at in self.scalars:
            free[at : at + 4] = True
        return free


def read_group(group: Group) -> tuple[list[ScalarPiece], NDArray[np.bool_]]:
    """Return the scalars of the payloads that fit a template, and which of the group's payloads these are."""
    taken = np.zeros(len(group.rows), np.bool_)
    pieces: list[ScalarPiece] = []
    for _ in range(min(MOST_TEMPLATES, len(group.rows) // FEWEST_PER_TEMPLATE)):
        waiting = np.flatnonzero(~taken)
        if not len(waiting):
            break
        first = group.rows[waiting[0]]
        template = _template(first.tobytes())
        if template is None:
            break
        fits = _fits(group, first, template) & ~taken
        taken |= fits
        pieces.extend(_pieces(group, fits, template))
    return pieces, taken


def _fits(group: Group, first: NDArray[np.uint8], template: Template) -> NDArray[np.bool_]:
    """Return which payloads have the template's bytes where these are not free, and steps of the same length."""
    free = template.is_free(group.rows.shape[1])
    rows = group.rows
    fits = np.ones(len(rows), np.bool_)
    for column in np.flatnonzero(group.varying & ~free).tolist():
        fits &= rows[:, column] == first[column]
    for column in range(template.step.start, template.step.stop):
        if group.varying[column]:
            fits &= (rows[:, column] >= 0x80) == (first[column] >= 0x80)
    return fits


def _pieces(group: Group, fits: NDArray[np.bool_], template: Template) -> Iterator[ScalarPiece]:
    rows = group.rows if fits.all() else group.rows[fits]
    frame = group.frame if fits.all() else group.frame[fits]
    wall_times = np.ascontiguousarray(rows[:, 1:9]).view("<f8").ravel()
    steps = _varints(rows[:, template.step])
    for value_index, (tag, at) in enumerate(template.scalars):
        values = np.ascontiguousarray(rows[:, at : at + 4]).view("<f4").ravel()
        with np.errstate(invalid="ignore"):  # else widening a signalling NaN warns
            widened = values.astype(np.float64)
        places = np.broadcast_to(np.int64(value_index), frame.shape)
        yield ScalarPiece(tag, frame, places, steps, wall_times, widened)


def _varints(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the steps of varints of equal length; 0 if the length is 0."""
    values = np.zeros(len(digits), np.uint64)
    for place in range(digits.shape[1]):
        values |= (digits[:, place] & 0x7F).astype(np.uint64) << np.uint64(7 * place)
    return values.view(np.int64)


def _template(payload: bytes) -> Template | None:
    """Parse one payload; None unless it has a wall time, perhaps a step, and a summary that has only scalars."""
    if len(payload) < 11 or payload[0] != _WALL_TIME:
        return None
    step, at = slice(9, 9), 9
    if payload[9] == _STEP:
        end = _varint_end(payload, 10)
        if end is None:
            return None
        step, at = slice(10, end), end
    scalars = []
    end_of_summary = _enter(payload, at, len(payload), _SUMMARY)
    if end_of_summary is None or end_of_summary[1] != len(payload):
        return None
    at = end_of_summary[0]
    while at < len(payload):
        value = _enter(payload, at, len(payload), _VALUE)
        tag = _enter(payload, value[0], value[1], _TAG) if value else None
        if value is None or tag is None or tag[1] + 5 != value[1] or payload[tag[1]] != _SCALAR_FIELD:
            return None
        scalars.append((to_stored(payload[tag[0] : tag[1]]), tag[1] + 1))
        at = value[1]
    return Template(step, tuple(scalars))


def _enter(payload: bytes, at: int, limit: int, key: int) -> tuple[int, int] | None:
    """Return where the content of the length-delimited field at `at` begins and ends; None for another key or end."""
    if at + 2 > limit or payload[at] != key:
        return None
    length, begin = payload[at + 1], at + 2
    if length >= 0x80:
        if begin + 1 > limit or payload[begin] >= 0x80 or payload[begin] == 0:
            return None  # longer than any template may be, or not in the shortest form
        length, begin = length & 0x7F | payload[begin] << 7, begin + 1
    return (begin, begin + length) if begin + length <= limit else None


def _varint_end(payload: bytes, at: int) -> int | None:
    for end in range(at + 1, min(at + 10, len(payload)) + 1):
        if payload[end - 1] < 0x80:
            return None if end - at == 10 and payload[end - 1] > 1 else end
    return None


@dataclass(frozen=True, slots=True)
class Walked:
    """The values of payloads, and per payload whether it is odd and must be decoded by `events`."""

    scalars: list[ScalarPiece]
    payloads: list[PayloadPiece]
    odd: Mask


def walk(buffer: bytes, frame: Integers, starts: Integers, ends: Integers) -> Walked:
    """Decode payloads, each one event.

    Args:
        frame: the index of each payload's frame.
        starts, ends: where the payloads are in the buffer.
    """
    wire = Wire(buffer)
    odd = np.zeros(len(starts), np.bool_)
    events = Messages(wire, starts, ends, odd, np.arange(len(starts)))
    wall_time, step = events.floats(), events.integers()
    summaries = []
    for key, rows, at, until in events.fields({0x09: False, 0x10: False, 0x2A: False}):
        match key:
            case 0x09:
                wall_time[rows] = wire.doubles(at)
            case 0x10:
                step[rows] = wire.varints(at)
            case _:
                summaries.append((rows, at, until, 0))
    events.require(0x09, 0x2A)
    values = _values_of(wire, Children.joined(summaries), odd)
    found = _read_values(wire, values, odd)
    walked = Walked([], [], odd)
    kept = np.flatnonzero(~odd[values.owner])
    tags = list(_by_tag(wire, found, kept))
    if len(tags) > max(_SEARCHED_TAGS, len(kept) / FEWEST_PER_TAG):
        return Walked([], [], np.ones_like(odd))
    for tag, of_tag in tags:
        for key in np.unique(found.kind[of_tag]).tolist():
            alike = of_tag[found.kind[of_tag] == key]
            owner = values.owner[alike]
            place = frame[owner], values.place[alike], step[owner], wall_time[owner]
            if key == _SCALAR:
                walked.scalars.append(ScalarPiece(tag, *place, wire.floats(found.start[alike])))
            else:
                walked.payloads.append(found.blocks[key].piece(tag, place, alike, found))
    return walked


def _values_of(wire: Wire, summaries: Children, odd: Mask) -> Children:
    """Return the values of all summaries, with their indices there, ordered by event."""
    messages = Messages(wire, summaries.start, summaries.end, odd, summaries.owner)
    parts = []
    for place, (_, rows, at, until) in enumerate(messages.fields({0x0A: True})):
        if place >= PLACES_OF_FEW and len(rows) < FEWEST_ABREAST:
            messages.mark_odd(rows)
            break
        parts.append((summaries.owner[rows], at, until, place))
    values = Children.joined(parts)
    order = np.lexsort((values.place, values.owner))
    return values.take(order)


_Place = tuple[Integers, Integers, Integers, Floats]
"""The columns that values of every kind have: frame, index in the event, step and wall time."""


@dataclass(frozen=True, slots=True)
class _Block:
    """The columns of one kind of payload, for the values with the indices `rows`, odd ones included."""

    plugin: str
    rows: Integers
    rank: Integers
    shape: Integers
    data_type: Integers | None = None
    integers: dict[str, Integers] = field(default_factory=dict)
    floats: dict[str, Floats] = field(default_factory=dict)

    def piece(self, tag: str, place: _Place, of: Integers, found: _Found) -> PayloadPiece:
        """Return the columns of one tag, for the values with the indices `of`."""
        at = np.searchsorted(self.rows, of)
        return PayloadPiece(
            self.plugin,
            tag,
            *place,
            size_bytes=found.end[of] - found.start[of],
            rank=self.rank[at],
            shape=self.shape[at],
            dtype=self._dtypes(at),
            integers={name: column[at] for name, column in self.integers.items()},
            floats={name: column[at] for name, column in self.floats.items()},
        )

    def _dtypes(self, at: Integers) -> Texts:
        if self.data_type is None:
            return np.full(len(at), BY_NAME[self.plugin].dtype, np.object_)
        return np.array([DTYPE_NAMES[number] for number in self.data_type[at].tolist()], np.object_)


@dataclass(frozen=True, slots=True)
class _Found:
    """Per value: where its tag and its content are, and the key of its kind; and the columns of each kind."""

    tag_start: Integers
    tag_end: Integers
    start: Integers
    end: Integers
    kind: Integers
    blocks: dict[int, _Block]


def _read_values(wire: Wire, values: Children, odd: Mask) -> _Found:
    messages = Messages(wire, values.start, values.end, odd, values.owner)
    tag_start, tag_end = messages.integers(), messages.integers()
    start, end, kind = messages.integers(), messages.integers(), messages.integers()
    keys = dict.fromkeys((0x0A, _SCALAR, _IMAGE, _TENSOR, _HISTOGRAM), False)
    for key, rows, at, until in messages.fields(keys):
        if key == 0x0A:
            tag_start[rows], tag_end[rows] = at, until
        else:
            messages.mark_odd(rows[kind[rows] != 0])
            start[rows], end[rows], kind[rows] = at, until, key
    messages.require(0x0A)
    messages.mark_odd(np.flatnonzero(kind == 0))
    blocks = {}
    for key, read_kind in ((_IMAGE, _images), (_TENSOR, _tensors), (_HISTOGRAM, _histograms)):
        rows = np.flatnonzero((kind == key) & ~odd[values.owner])
        blocks[key] = read_kind(rows, Messages(wire, start[rows], end[rows], odd, values.owner[rows]))
    return _Found(tag_start, tag_end, start, end, kind, blocks)


def _images(rows: Integers, messages: Messages) -> _Block:
    shape = np.zeros((len(rows), 3), np.int64)
    for key, which, at, _ in messages.fields({0x08: False, 0x10: False, 0x18: False, 0x22: False}):
        if key != 0x22:
            shape[which, (key >> 3) - 1] = messages.wire.varints(at).astype(np.int32)
    messages.require(0x08, 0x10, 0x18, 0x22)
    return _Block(IMAGE, rows, np.full(len(rows), 3), shape)


def _tensors(rows: Integers, messages: Messages) -> _Block:
    """Read tensors in MindSpore's form: dimensions, data type, elements as packed float32."""
    rank, data_type = messages.integers(), messages.integers()
    shape = np.zeros((len(rows), MOST_DIMENSIONS), np.int64)
    for key, which, at, until in messages.fields({0x08: True, 0x10: False, 0x1A: False}):
        match key:
            case 0x08:
                messages.mark_odd(which[rank[which] >= MOST_DIMENSIONS])
                shape[which, np.minimum(rank[which], MOST_DIMENSIONS - 1)] = messages.wire.varints(at)
                rank[which] += 1
            case 0x10:
                data_type[which] = messages.wire.varints(at)
            case _:
                size = until - at
                messages.mark_odd(which[(size == 0) | (size % 4 != 0)])
    messages.mark_odd(np.flatnonzero(~np.isin(data_type, _DATA_TYPES)))
    return _Block(TENSOR, rows, rank, shape, data_type)


_HISTOGRAM_INTEGERS = {0x10: "nan_count", 0x18: "pos_inf_count", 0x20: "neg_inf_count", 0x40: "count"}
_HISTOGRAM_FLOATS = {0x29: "max", 0x31: "min", 0x39: "sum"}


def _histograms(rows: Integers, messages: Messages) -> _Block:
    buckets = messages.skip_buckets()
    integers = {name: messages.integers() for name in _HISTOGRAM_INTEGERS.values()}
    floats = {name: messages.floats() for name in _HISTOGRAM_FLOATS.values()}
    keys = dict.fromkeys([*_HISTOGRAM_INTEGERS, *_HISTOGRAM_FLOATS], False)
    for key, which, at, _ in messages.fields(keys):
        if key in _HISTOGRAM_INTEGERS:
            integers[_HISTOGRAM_INTEGERS[key]][which] = messages.wire.varints(at)
        else:
            floats[_HISTOGRAM_FLOATS[key]][which] = messages.wire.doubles(at)
    ranks = np.ones(len(rows), np.int64)
    return _Block(HISTOGRAM, rows, ranks, buckets[:, None], integers=integers, floats=floats)


def _by_tag(wire: Wire, found: _Found, waiting: Integers) -> Iterator[tuple[str, Integers]]:
    """Yield each tag with the indices of its values, ascending. Tags are compared by their bytes, not by a hash."""
    lengths = found.tag_end - found.tag_start
    for _ in range(_SEARCHED_TAGS):
        if not len(waiting):
            return
        length = int(lengths[waiting[0]])
        of_length = lengths[waiting] == length
        rows = wire.rows(found.tag_start[waiting[of_length]], length)
        alike = (rows == rows[0]).all(axis=1)
        taken = np.flatnonzero(of_length)[alike]
        yield to_stored(rows[0].tobytes()), waiting[taken]
        waiting = np.delete(waiting, taken)
    places = zip(
        waiting.tolist(), found.tag_start[waiting].tolist(), found.tag_end[waiting].tolist(), strict=True
    )
    by_tag: dict[bytes, list[int]] = {}
    for value, start, end in places:
        by_tag.setdefault(wire.bytes[start:end].tobytes(), []).append(value)
    yield from ((to_stored(tag), np.array(of_tag)) for tag, of_tag in by_tag.items())
