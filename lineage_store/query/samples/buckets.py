"""Curves for a screen: scalars of several tags, summarized in a given number of buckets.

In: tags of jobs, a range of steps, a number of buckets. Out: a `Curve` for each device of a tag (and, on request, for
superseded samples), all on one grid of steps. Promises: every sample counts: a bucket has the least and the greatest
value with their steps, the first and the last sample, the number of samples and of NaN. If there is room for all
samples, the curve has these instead of buckets. A bucket is one range of the primary key, which is read once for the
least and once for the greatest value: grouping all samples takes three times as long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    func,
    select,
    true,
    type_coerce,
)

from lineage_store.plain_values import LARGEST_INTEGER, LEAST_INTEGER
from lineage_store.query.samples.scalars import Series, joined, read_columns
from lineage_store.store.database.sql import Query, Session, listed, one_of
from lineage_store.store.schema.tables import scalar_sample

SAMPLE_COLUMNS = ("step", "wall_time", "value")
BUCKET_COLUMNS = (
    *("first_step", "first_wall_time", "first", "last_step", "last_wall_time", "last"),
    *("min_step", "min", "max_step", "max", "count", "nan_count"),
)
_COUNTS = ("count", "nan_count")
_SAMPLE = scalar_sample.c
_HERE = and_(_SAMPLE.job_id == bindparam("of_job"), _SAMPLE.series_no == bindparam("of_series"))


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The scalars of a tag on one device, ascending by step."""

    number: int
    """The index of the tag in the list that the caller gave."""
    device: int | None
    superseded: bool
    """Whether these are samples that a newer file wrote again."""
    columns: Mapping[str, NDArray[Any]]
    """Arrays of equal length: SAMPLE_COLUMNS with a row per sample, or BUCKET_COLUMNS with a row per bucket that has
    samples. Steps and counts are int64, the rest float64; NaN means unknown, or that no value is a number.
    """
    restarts: tuple[int, ...] = ()
    """The first steps of further files of the device, ascending: the training was started again there."""
    began_at: float | None = None
    """The least wall time of the whole tag, unix s, whatever range of steps was asked for."""
    thinned_count: int = 0
    """The number of samples that were thinned out of its series: extremes are kept, counts are of what is left."""

    @property
    def is_bucketed(self) -> bool:
        """Whether rows are buckets rather than samples."""
        return "count" in self.columns


class _Piece(NamedTuple):
    """Steps `first` to `last`, both included, of a series."""

    series: Series
    first: int
    last: int

    @property
    def samples(self) -> ColumnElement[bool]:
        """The condition for its samples."""
        series, steps = self.series, _SAMPLE.step.between(self.first, self.last)
        return and_(_SAMPLE.job_id == series.job_id, _SAMPLE.series_no == series.number, steps)


def curves(
    session: Session,
    tags: Sequence[Sequence[Series]],
    start: int | None,
    stop: int | None,
    *,
    points: int,
    superseded: bool = False,
) -> list[Curve]:
    """Return the curves of some tags, each given by its series, from step `start` up to but not including `stop`.

    Args:
        points: the most buckets of a curve; a curve of up to twice as many samples is not divided into buckets.
        superseded: add curves of the samples that a newer file wrote again.
    """
    first = LEAST_INTEGER if start is None else start
    last = LARGEST_INTEGER if stop is None else stop - 1
    asked = [(key, pieces) for key, pieces in _pieces(tags, first, last, superseded) if pieces]
    steps = [step for _, pieces in asked for piece in pieces for step in (piece.first, piece.last)]
    width = _width(max(steps, default=0) - min(steps, default=0), points)
    return [
        Curve(
            *key,
            _columns(session, pieces, width, points),
            _restarts(tags[key[0]], key[1]),
            _began_at(tags[key[0]]),
            sum(piece.series.thinned_count for piece in pieces),
        )
        for key, pieces in asked
    ]


def _restarts(of_tag: Iterable[Series], device: int | None) -> tuple[int, ...]:
    _, *later = (series.first_step for series in of_tag if series.device == device)
    return tuple(sorted(later))


def _began_at(of_tag: Iterable[Series]) -> float | None:
    known = [series.earliest_wall_time for series in of_tag if series.earliest_wall_time is not None]
    return min(known, default=None)


def _pieces(
    tags: Iterable[Sequence[Series]], first: int, last: int, superseded: bool
) -> Iterator[tuple[tuple[int, int | None, bool], list[_Piece]]]:
    """Yield for each curve its (number, device, superseded), and its pieces: ascending by step, without overlap."""
    for number, of_tag in enumerate(tags):
        by_device: dict[int | None, list[_Piece]] = {}
        again: list[tuple[Series, _Piece]] = []
        for series in of_tag:
            end = LARGEST_INTEGER if series.superseded_from is None else series.superseded_from - 1
            by_device.setdefault(series.device, []).append(_clipped(series, first, min(last, end)))
            again.append((series, _clipped(series, max(first, end + 1), last)))
        for device, pieces in by_device.items():
            yield (number, device, False), sorted(_filled(pieces), key=lambda piece: piece.first)
        if superseded:
            yield from (((number, series.device, True), _filled([piece])) for series, piece in again)


def _clipped(series: Series, first: int, last: int) -> _Piece:
    return _Piece(series, max(first, series.first_step), min(last, series.last_step))


def _filled(pieces: Iterable[_Piece]) -> list[_Piece]:
    return [piece for piece in pieces if piece.first <= piece.last]


def _width(steps: int, points: int) -> int:
    """Return the steps of a bucket, rounded up by a quarter at most, so that the grid rarely changes as curves grow."""
    least = -(-(steps + 1) // max(1, points - 1))
    unit = 1 << max(0, least.bit_length() - 3)
    return -(-least // unit) * unit


def _columns(
    session: Session, pieces: Sequence[_Piece], width: int, points: int
) -> Mapping[str, NDArray[Any]]:
    if sum(piece.series.rows for piece in pieces) > 2 * points:
        columns = _merged([_buckets(session, piece, width) for piece in pieces], width)
        if columns["count"].sum() > 2 * points:
            return columns
    samples = joined(read_columns(session, piece.samples) for piece in pieces)
    return dict(zip(SAMPLE_COLUMNS, samples, strict=True))


def _buckets(session: Session, piece: _Piece, width: int) -> Mapping[str, NDArray[Any]]:
    """Return the buckets of a piece that have samples."""
    numbers = range(piece.first // width, piece.last // width + 1)
    firsts = [max(piece.first, number * width) for number in numbers]
    lasts = [min(piece.last, number * width + width - 1) for number in numbers]
    found = _ends(session, piece.series, firsts, lasts)
    ends = np.array(found, np.int64).reshape(-1, 6)
    steps, place = np.unique(ends[:, :4], return_inverse=True)
    dialect = session.kind
    rows = session.rows(Query(_at(dialect)), wanted=listed(dialect, steps.tolist()), **_ids(piece.series))
    wall_times, values = np.array(rows, np.float64).reshape(-1, 3)[:, 1:].T  # NULL becomes NaN
    place, count = place.reshape(-1, 4).T, ends[:, 4]
    first, last, least, greatest = ends[:, :4].T
    timed = (wall_times[place[0]], values[place[0]], last, wall_times[place[1]], values[place[1]])
    extremes = (least, values[place[2]], greatest, values[place[3]])
    return dict(zip(BUCKET_COLUMNS, (first, *timed, *extremes, count, count - ends[:, 5]), strict=True))


def _merged(parts: Sequence[Mapping[str, NDArray[Any]]], width: int) -> Mapping[str, NDArray[Any]]:
    """Concatenate buckets of pieces; two rows of one bucket, in which one file ends and the next begins, become one."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in BUCKET_COLUMNS}
    number = whole["first_step"] // width
    begins = np.unique(number, return_index=True)[1]
    rows = {
        "first": begins,
        "last": np.append(begins[1:], len(number))[: len(begins)] - 1,
        "min": np.lexsort((whole["min_step"], whole["min"], number))[begins],  # NaN comes last
        "max": np.lexsort((whole["max_step"], -whole["max"], number))[begins],
    }
    counts = {name: np.add.reduceat(whole[name], begins) if len(begins) else whole[name] for name in _COUNTS}
    ends = {name: each[rows[name.partition("_")[0]]] for name, each in whole.items() if name not in _COUNTS}
    return ends | counts


def _ends(
    session: Session, series: Series, firsts: Sequence[int], lasts: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return six integers for each range of steps that has samples.

    They are the first and last step, the steps of the least and of the greatest value, the number of samples, and the
    number of samples whose value is not NaN.
    """
    if session.kind == "sqlite":
        bounds = json.dumps(list(zip(firsts, lasts, strict=True)))
        found = session.rows(Query(_on_sqlite()), bounds=bounds, **_ids(series))
        there = [row for row in found if row[0] is not None]
        leasts, greatests = (json.loads(f"[{','.join(row[n] for row in there)}]") for n in (2, 3))
        return [
            (*row[:2], least[0], *greatest[:3])
            for row, least, greatest in zip(there, leasts, greatests, strict=True)
        ]
    return session.rows(Query(_on_postgresql()), firsts=firsts, lasts=lasts, **_ids(series))


def _ids(series: Series) -> dict[str, int]:
    return {"of_job": series.job_id, "of_series": series.number}


@cache
def _at(dialect_name: str) -> Select[Any]:
    """Select the samples at some steps, ascending."""
    wanted = one_of(dialect_name, _SAMPLE.step, bindparam("wanted"))
    return select(_SAMPLE.step, _SAMPLE.wall_time, _SAMPLE.value).where(_HERE, wanted).order_by(_SAMPLE.step)


@cache
def _on_sqlite() -> Select[Any]:
    """Return the statement for SQLite, which makes use of its bare columns.

    Beside a single min() or max(), SQLite takes other columns from the row with the extreme; JSON holds several values.
    """
    each = func.json_each(bindparam("bounds")).table_valued("value").c.value
    bounds = select(*(func.json_extract(each, f"$[{n}]").label(f"bound{n}") for n in (0, 1))).cte("bounds")
    inside = and_(_HERE, _SAMPLE.step.between(bounds.c.bound0, bounds.c.bound1))
    counts = func.count(), func.count(_SAMPLE.value)
    values = (
        func.json_array(_SAMPLE.step, func.min(_SAMPLE.value).is_(None)),
        func.json_array(_SAMPLE.step, *counts, func.max(_SAMPLE.value).is_(None)),
    )
    shown = (select(value).where(inside).scalar_subquery() for value in values)
    return select(*_first_and_last(inside), *shown).select_from(bounds)


@cache
def _on_postgresql() -> Select[Any]:
    given = (type_coerce(bindparam(name), ARRAY(BigInteger)) for name in ("firsts", "lasts"))
    bounds = func.unnest(*given).table_valued("first", "last", name="bounds").render_derived()
    inside = and_(_HERE, _SAMPLE.step.between(bounds.c.first, bounds.c.last))
    value = _SAMPLE.value
    numbers = (func.min(value).label("least"), func.max(value).label("greatest"))
    counts = (func.count().label("count"), func.count(value).label("numbers"))
    found = select(*numbers, *counts).where(inside).lateral("found")
    first, last = _first_and_last(inside)
    extremes = (
        func.coalesce(_first_step(and_(inside, value == extreme)), first)
        for extreme in (found.c.least, found.c.greatest)
    )
    shown: list[Any] = [first, last, *extremes, found.c["count"], found.c.numbers]
    return select(*shown).select_from(bounds.join(found, true())).where(found.c["count"] > 0)


def _first_and_last(inside: ColumnElement[bool]) -> tuple[ScalarSelect[int], ScalarSelect[int]]:
    last = select(_SAMPLE.step).where(inside).order_by(_SAMPLE.step.desc()).limit(1).scalar_subquery()
    return _first_step(inside), last


def _first_step(wanted: ColumnElement[bool]) -> ScalarSelect[int]:
    return select(_SAMPLE.step).where(wanted).order_by(_SAMPLE.step).limit(1).scalar_subquery()
