"""Samples and the statistics of their series.

In: advances with scalar columns and payload rows. Out: rows of `series`, `scalar_sample`, `payload_sample`; the jobs
and tags where a lowest step changed. Promises: within a file the last write of a step wins; statistics are merged when
samples are appended, and computed again from the rows only where a step was written again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Table, insert, select

from lineage_store.store.batch import Advance, KnownFile, PayloadRow, ScalarColumns
from lineage_store.store.dialects import in_parts, upsert
from lineage_store.store.schema import payload_sample, scalar_sample, series
from lineage_store.store.series import (
    Statistics,
    last_writes,
    merge,
    nullable,
    statistics,
    statistics_from_rows,
    store_statistics,
)
from lineage_store.texts import key

SeriesKey = tuple[int, str, int]
"""(log file id, plugin, tag key): what makes a series."""

_KEY = ("job_id", "series_id", "step")


@dataclass(frozen=True, slots=True)
class _Part:
    """The samples of one series in one batch: distinct steps, ascending."""

    file: KnownFile
    plugin: str
    tag: str
    table: Table
    statistics: Statistics
    values: list[dict[str, Any]]

    @property
    def key(self) -> SeriesKey:
        return self.file.id, self.plugin, key(self.tag)

    def series_row(self) -> dict[str, Any]:
        return {
            "job_id": self.file.job_id,
            "log_file_id": self.file.id,
            "plugin": self.plugin,
            "tag_key": key(self.tag),
            "tag": self.tag,
            "device": self.file.device,
            **asdict(self.statistics),
        }


def write_samples(connection: Connection, advances: Sequence[Advance]) -> tuple[set[int], set[int]]:
    """Store samples; give back the jobs and the tag keys for which supersession must be computed again."""
    parts = [part for advance in advances for part in _parts(advance)]
    if not parts:
        return set(), set()
    files = {part.file.id for part in parts}
    known = _series_rows(connection, files)
    created = [part for part in parts if part.key not in known]
    if created:
        connection.execute(insert(series), [part.series_row() for part in created])
    ids = {found: row.id for found, row in (_series_rows(connection, files) if created else known).items()}
    for table in (scalar_sample, payload_sample):
        _upsert_samples(connection, table, [part for part in parts if part.table is table], ids)
    extended = [part for part in parts if part.key in known]
    lowered = _update_statistics(connection, extended, known)
    moved = created + lowered
    return {part.file.job_id for part in moved}, {part.key[2] for part in moved}


def _update_statistics(
    connection: Connection, parts: Iterable[_Part], known: dict[SeriesKey, Row[Any]]
) -> list[_Part]:
    """Bring the statistics of existing series up to date; give back the parts that lowered a first step."""
    stored: list[tuple[int, Statistics]] = []
    lowered = []
    for part in parts:
        row = known[part.key]
        if part.statistics.first_step > row.last_step:
            found = merge(
                Statistics(*(getattr(row, field.name) for field in fields(Statistics))), part.statistics
            )
        else:
            found = statistics_from_rows(connection, part.table, part.file.job_id, row.id)
        stored.append((row.id, found))
        if found.first_step < row.first_step:
            lowered.append(part)
    store_statistics(connection, stored)
    return lowered


def _upsert_samples(
    connection: Connection, table: Table, parts: Iterable[_Part], ids: dict[SeriesKey, int]
) -> None:
    rows = [
        {"job_id": part.file.job_id, "series_id": ids[part.key], **values}
        for part in parts
        for values in part.values
    ]
    if rows:
        rest = [column.name for column in table.columns if column.name not in _KEY]
        connection.execute(upsert(connection, table, _KEY, rest), rows)


def _series_rows(connection: Connection, file_ids: Iterable[int]) -> dict[SeriesKey, Row[Any]]:
    return {
        (row.log_file_id, row.plugin, row.tag_key): row
        for part in in_parts(sorted(file_ids))
        for row in connection.execute(select(series).where(series.c.log_file_id.in_(part)))
    }


def _parts(advance: Advance) -> Iterator[_Part]:
    for columns in advance.rows.scalars:
        yield _scalar_part(advance.file, columns)
    by_series: dict[tuple[str, str], list[PayloadRow]] = defaultdict(list)
    for row in advance.rows.payloads:
        by_series[row.plugin, row.tag].append(row)
    for (plugin, tag), rows in by_series.items():
        yield _payload_part(advance.file, plugin, tag, rows)


def _scalar_part(file: KnownFile, columns: ScalarColumns) -> _Part:
    last = last_writes(columns.steps)
    steps, times, values = columns.steps[last], columns.wall_times[last], columns.values[last]
    rows = [
        {"step": step, "wall_time": nullable(time), "value": nullable(value)}
        for step, time, value in zip(steps.tolist(), times.tolist(), values.tolist(), strict=True)
    ]
    return _Part(file, "scalar", columns.tag, scalar_sample, statistics(steps, times, values), rows)


def _payload_part(file: KnownFile, plugin: str, tag: str, rows: Sequence[PayloadRow]) -> _Part:
    all_steps: NDArray[np.int64] = np.array([row.step for row in rows], np.int64)
    kept = [rows[index] for index in last_writes(all_steps)]
    steps = np.array([row.step for row in kept], np.int64)
    times = np.array([np.nan if row.wall_time is None else row.wall_time for row in kept], np.float64)
    values = [
        {name: value for name, value in asdict(row).items() if name not in ("plugin", "tag")} for row in kept
    ]
    return _Part(file, plugin, tag, payload_sample, statistics(steps, times, None), values)
