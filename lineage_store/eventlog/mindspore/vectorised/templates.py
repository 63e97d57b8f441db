"""Decode scalar events that differ only in wall time, step and values, by a template: one of them, parsed in full.

In: a group of payloads of one length. Out: their scalars as columns, and which payloads were decoded.
Promises: the values are bit for bit those that `events` returns, because all other bytes equal the template's, which
was parsed field by field. Payloads that fit no template are not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lineage_store.eventlog.columns import ScalarPiece
from lineage_store.eventlog.records.vectorised import Group
from lineage_store.texts import to_stored

LONGEST_FREE_STEP = 9
"""The tenth byte of a varint can only be 1, so it must equal the template's."""
MOST_TEMPLATES = 32
"""Templates per length; payloads that fit none of them are left to the walker."""
FEWEST_PER_TEMPLATE = 8
"""At most one template is tried per this many payloads: `events` decodes as many in the time that trying one takes."""

_WALL_TIME, _STEP, _SUMMARY, _VALUE, _TAG, _SCALAR = 0x09, 0x10, 0x2A, 0x0A, 0x0A, 0x1D


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


def read(group: Group) -> tuple[list[ScalarPiece], NDArray[np.bool_]]:
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
        if value is None or tag is None or tag[1] + 5 != value[1] or payload[tag[1]] != _SCALAR:
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
