"""The samples of a stretch, gathered into columns by plugin and tag, from whichever path decoded them.

In: values of single events, and whole blocks of the fast path. Out: SampleColumns, each in the order of the file.
Promises: what a column holds does not depend on the path; a wall time that is no time is unknown (NaN).
Does not know the database or the disk.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.eventlog.events import PayloadValue, ScalarValue
from lineage_store.eventlog.fast import Decoded, Frames, PayloadPiece, ScalarPiece
from lineage_store.eventlog.framing import Frame
from lineage_store.store.batch import Column, SampleColumns

_FLOATS = ("wall_time", "value", "min", "max", "sum")
_TEXTS = ("dtype", "shape")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Samples of one tag with their places: position of the frame in the file, then place in the event."""

    position: NDArray[np.int64]
    place: NDArray[np.int64]
    steps: NDArray[np.int64]
    columns: Mapping[str, Column]


class SampleGatherer:
    """Gathers the samples of one stretch; `file_name` stands in for the tag that a graph does not have."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._single: dict[tuple[str, str], list[tuple[int, int, int, dict[str, Any]]]] = defaultdict(list)
        self._pieces: dict[tuple[str, str], list[_Piece]] = defaultdict(list)

    def add(self, frame: Frame, place: int, value: ScalarValue | PayloadValue) -> None:
        """One value of a frame, at its place in the event."""
        if isinstance(value, ScalarValue):
            name, row = ("scalar", value.tag), {"wall_time": value.wall_time, "value": value.value}
        else:
            name, row = (value.plugin, value.tag or self._file_name), _payload_row(frame, value)
        self._single[name].append((frame.position, place, value.step, row))

    def add_decoded(self, decoded: Decoded, base: int) -> None:
        """What the fast path read of a buffer whose first byte stands at `base` in the file."""
        for scalars in decoded.scalars:
            values = {"wall_time": scalars.wall_time, "value": scalars.value}
            self._pieces["scalar", scalars.tag].append(_placed(decoded.frames, base, scalars, values))
        for block in decoded.payloads:
            columns = _payload_columns(decoded.frames, base, block)
            self._pieces[block.plugin, block.tag].append(_placed(decoded.frames, base, block, columns))

    def columns(self) -> tuple[SampleColumns, ...]:
        """Everything gathered, a SampleColumns per plugin and tag."""
        for name, values in self._single.items():
            self._pieces[name].append(_piece(values))
        self._single.clear()
        return tuple(_joined(plugin, tag, pieces) for (plugin, tag), pieces in self._pieces.items())


@lru_cache(maxsize=4096)
def _shape_text(*shape: int) -> str:
    return json.dumps(shape)


def _payload_row(frame: Frame, value: PayloadValue) -> dict[str, Any]:
    return {
        "wall_time": value.wall_time,
        "frame_offset": frame.position,
        "frame_length": frame.length,
        "value_index": value.value_index,
        "checksum": frame.checksum,
        "dtype": value.dtype,
        "shape": _shape_text(*value.shape),
        "size_bytes": value.size_bytes,
        **(asdict(value.statistics) if value.statistics else {}),
    }


def _payload_columns(frames: Frames, base: int, block: PayloadPiece) -> dict[str, Column]:
    dtype = "png" if block.plugin == "image" else None
    return {
        "wall_time": block.wall_time,
        "frame_offset": frames.start[block.frame] + base,
        "frame_length": frames.length[block.frame],
        "value_index": block.value_index,
        "checksum": frames.checksum[block.frame].astype(np.int64),
        "dtype": np.full(len(block.frame), dtype, np.object_),
        "shape": np.array([_shape_text(*shape) for shape in block.shape.tolist()], np.object_),
        "size_bytes": block.size_bytes,
        **block.integers,
        **block.floats,
    }


def _placed(
    frames: Frames, base: int, piece: ScalarPiece | PayloadPiece, columns: Mapping[str, Column]
) -> _Piece:
    return _Piece(frames.start[piece.frame] + base, piece.value_index, piece.step, columns)


def _piece(values: Sequence[tuple[int, int, int, dict[str, Any]]]) -> _Piece:
    positions, places, steps, rows = zip(*values, strict=True)
    columns: dict[str, Column] = {
        name: np.array([row[name] for row in rows], _column_type(name)) for name in rows[0]
    }
    position, place, step = (np.array(numbers, np.int64) for numbers in (positions, places, steps))
    return _Piece(position, place, step, columns)


def _column_type(name: str) -> type[Any]:
    return np.float64 if name in _FLOATS else np.object_ if name in _TEXTS else np.int64


def _joined(plugin: str, tag: str, pieces: Sequence[_Piece]) -> SampleColumns:
    steps = pieces[0].steps
    columns = dict(pieces[0].columns)
    if len(pieces) > 1:
        position, place = (
            np.concatenate([getattr(p, name) for p in pieces]) for name in ("position", "place")
        )
        order = np.lexsort((place, position))
        steps = np.concatenate([piece.steps for piece in pieces])[order]
        columns = {name: np.concatenate([p.columns[name] for p in pieces])[order] for name in columns}
    times = np.asarray(columns["wall_time"], np.float64)
    columns["wall_time"] = np.where(np.isfinite(times), times, np.nan)
    return SampleColumns(plugin, tag, steps, columns)
