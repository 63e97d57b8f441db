"""Gather the samples of several chunks into columns by plugin, whether they were decoded singly or by the fast path.

In: values of single events, and columns from the fast path. Out: SampleColumns, one per plugin.
Promises: the result does not depend on which path decoded a value; a wall time that is not finite becomes NaN
(unknown); of several values of a tag at the same step in a file, the last one is kept.
Does not know the database or the disk.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.eventlog.protobuf_columns import Decoded, Integers, PayloadPiece, ScalarPiece
from lineage_store.eventlog.tfrecord import Frame, Frames
from lineage_store.eventlog.values import PayloadValue, ScalarValue
from lineage_store.plain_values import PLAUSIBLE_SINCE
from lineage_store.plugins import SCALAR
from lineage_store.store.records import Column, KnownFile, SampleColumns, SeriesName, statistics
from lineage_store.texts import key

_FLOATS = ("wall_time", "value", "min", "max", "sum")
_TEXTS = ("dtype", "shape")


@dataclass(frozen=True, slots=True)
class _Piece:
    """Samples of one tag: per sample its file (index), the position of its frame in it, and its place in the event."""

    tag: str
    file: Integers
    position: Integers
    place: Integers
    steps: Integers
    columns: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class _Joined:
    """All samples of a plugin, ordered by series (file and tag) and then by place in the file."""

    plugin: str
    series: tuple[SeriesName, ...]
    number: Integers
    steps: Integers
    columns: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The samples of files; per file, how many it wrote and their greatest wall time (None: unknown)."""

    columns: tuple[SampleColumns, ...]
    counts: Sequence[int]
    earliest: Sequence[float | None]
    """Their least wall times that are plausible."""
    latest: Sequence[float | None]


class SampleGatherer:
    """Gathers the samples of chunks, one chunk per file; a file is named by its index in `files`."""

    def __init__(self, files: Sequence[KnownFile]) -> None:
        self._files = files
        self._single: dict[tuple[str, str], list[tuple[int, int, int, int, dict[str, Any]]]] = defaultdict(
            list
        )
        self._pieces: dict[str, list[_Piece]] = defaultdict(list)

    def add(self, file: int, frame: Frame, place: int, value: ScalarValue | PayloadValue) -> None:
        """Add one value of a frame; `place` is its index among the values of the event."""
        if isinstance(value, ScalarValue):
            plugin, tag, row = SCALAR, value.tag, {"wall_time": value.wall_time, "value": value.value}
        else:
            plugin, tag = value.plugin, value.series_tag(self._files[file].name)
            row = _payload_row(frame, value)
        self._single[plugin, tag].append((file, frame.position, place, value.step, row))

    def add_decoded(self, decoded: Decoded, files: Integers, positions: Integers) -> None:
        """Add the values that the fast path decoded, all of which have a tag.

        Args:
            files: for each frame, the index of its file.
            positions: for each frame, its position in that file.
        """
        for scalars in decoded.scalars:
            values = {"wall_time": scalars.wall_time, "value": scalars.value}
            self._pieces[SCALAR].append(_placed(scalars, files, positions, values))
        for block in decoded.payloads:
            columns = _payload_columns(decoded.frames, positions, block)
            self._pieces[block.plugin].append(_placed(block, files, positions, columns))

    def gathered(self) -> Gathered:
        """Return all samples that were added, one SampleColumns per plugin."""
        for (plugin, tag), values in self._single.items():
            self._pieces[plugin].append(_piece(tag, values))
        self._single.clear()
        joined = [_joined(plugin, self._files, pieces) for plugin, pieces in self._pieces.items()]
        return Gathered(tuple(map(_last_writes, joined)), *_per_file(joined, self._files))


def _per_file(
    joined: Iterable[_Joined], files: Sequence[KnownFile]
) -> tuple[list[int], list[float | None], list[float | None]]:
    count, earliest = np.zeros(len(files), np.int64), np.full(len(files), np.nan)
    latest = earliest.copy()
    place = {file.key: number for number, file in enumerate(files)}
    for each in joined:
        of = np.array([place[name.file.key] for name in each.series])
        np.add.at(count, of, np.bincount(each.number))
        first = np.flatnonzero(np.diff(each.number, prepend=-1))
        times = np.asarray(each.columns["wall_time"], np.float64)
        np.fmax.at(latest, of, np.fmax.reduceat(times, first))
        plausible = np.where(times >= PLAUSIBLE_SINCE, times, np.nan)
        np.fmin.at(earliest, of, np.fmin.reduceat(plausible, first))
    return count.tolist(), _or_none(earliest), _or_none(latest)


def _or_none(times: NDArray[np.float64]) -> list[float | None]:
    return [None if time != time else time for time in times.tolist()]


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


def _payload_columns(frames: Frames, positions: Integers, block: PayloadPiece) -> dict[str, Column]:
    return {
        "wall_time": block.wall_time,
        "frame_offset": positions[block.frame],
        "frame_length": frames.length[block.frame],
        "value_index": block.value_index,
        "checksum": frames.checksum[block.frame].astype(np.int64),
        "dtype": block.dtype,
        "shape": _shape_texts(block.shape, block.rank),
        "size_bytes": block.size_bytes,
        **block.integers,
        **block.floats,
    }


def _shape_texts(shapes: Integers, ranks: Integers) -> NDArray[np.object_]:
    if (shapes == shapes[0]).all() and (ranks == ranks[0]).all():
        return np.full(len(shapes), _shape_text(*shapes[0, : ranks[0]].tolist()), np.object_)
    both = zip(shapes.tolist(), ranks.tolist(), strict=True)
    return np.array([_shape_text(*shape[:rank]) for shape, rank in both], np.object_)


def _placed(
    piece: ScalarPiece | PayloadPiece, files: Integers, positions: Integers, columns: Mapping[str, Column]
) -> _Piece:
    frame = piece.frame
    return _Piece(piece.tag, files[frame], positions[frame], piece.value_index, piece.step, columns)


def _piece(tag: str, values: Sequence[tuple[int, int, int, int, dict[str, Any]]]) -> _Piece:
    *places, rows = zip(*values, strict=True)
    columns: dict[str, Column] = {
        name: np.array([row[name] for row in rows], _column_type(name)) for name in rows[0]
    }
    file, position, place, steps = (np.array(numbers, np.int64) for numbers in places)
    return _Piece(tag, file, position, place, steps, columns)


def _column_type(name: str) -> type[Any]:
    return np.float64 if name in _FLOATS else np.object_ if name in _TEXTS else np.int64


def _joined(plugin: str, files: Sequence[KnownFile], pieces: Sequence[_Piece]) -> _Joined:
    # by key, because to the database tags with the same key are one series
    tags = {key(piece.tag): number for number, piece in enumerate(pieces)}
    series = _concatenated([piece.file * len(pieces) + tags[key(piece.tag)] for piece in pieces])
    steps = _concatenated([piece.steps for piece in pieces])
    columns = {name: _concatenated([piece.columns[name] for piece in pieces]) for name in pieces[0].columns}
    if len(pieces) > 1 or (np.diff(series) < 0).any():
        position, place = (
            _concatenated([getattr(piece, name) for piece in pieces]) for name in ("position", "place")
        )
        order = np.lexsort((place, position, series))
        series, steps = series[order], steps[order]
        columns = {name: column[order] for name, column in columns.items()}
    times = np.asarray(columns["wall_time"], np.float64)
    columns["wall_time"] = np.where(np.isfinite(times), times, np.nan)
    first = np.diff(series, prepend=-1) != 0
    names = (divmod(number, len(pieces)) for number in series[first].tolist())
    named = tuple(SeriesName(files[file], pieces[tag].tag) for file, tag in names)
    return _Joined(plugin, named, np.cumsum(first) - 1, steps, columns)


def _last_writes(joined: _Joined) -> SampleColumns:
    """Keep of each series the last sample of each step, by ascending step, and compute the statistics."""
    number, steps, columns = joined.number, joined.steps, joined.columns
    if not _goes_up(number, steps).all():
        order = np.lexsort((steps, number))  # stable: samples of the same step stay in the order of writing
        kept = order[np.append(_goes_up(number[order], steps[order]), True)]
        number, steps = number[kept], steps[kept]
        columns = {name: column[kept] for name, column in columns.items()}
    values = np.asarray(columns["value"], np.float64) if "value" in columns else None
    found = statistics(number, steps, np.asarray(columns["wall_time"], np.float64), values)
    return SampleColumns(joined.plugin, joined.series, number, steps, columns, tuple(found))


def _goes_up(number: Integers, steps: Integers) -> NDArray[np.bool_]:
    """Return whether each sample but the last is followed by a higher step or another series.

    Steps are compared, not subtracted, because their difference may overflow an int64.
    """
    higher: NDArray[np.bool_] = (steps[1:] > steps[:-1]) | (number[1:] > number[:-1])
    return higher


def _concatenated(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
