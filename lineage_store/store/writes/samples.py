"""Samples and the statistics of their series.

In: advances with columns of samples. Out: rows of `series`, `scalar_sample`, `payload_sample`; the jobs and tags where
a lowest step changed. Promises: within a file the last write of a step wins; statistics are merged when samples are
appended, and computed again from the rows only where a step was written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Table, insert, select

from lineage_store.store.batch import Advance, KnownFile, SampleColumns, as_row
from lineage_store.store.dialects import in_parts
from lineage_store.store.schema import payload_sample, scalar_sample, series
from lineage_store.store.series import (
    Statistics,
    last_writes,
    merge,
    statistics,
    statistics_from_rows,
    store_statistics,
)
from lineage_store.store.writes import bulk
from lineage_store.store.writes.bulk import SeriesSamples
from lineage_store.texts import key

SeriesKey = tuple[int, str, int]
"""(log file id, plugin, tag key): what makes a series."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The samples of one series in one batch: distinct steps, ascending."""

    key: SeriesKey
    file: KnownFile
    samples: SampleColumns
    statistics: Statistics

    @property
    def table(self) -> Table:
        return scalar_sample if self.samples.plugin == "scalar" else payload_sample

    def series_row(self) -> dict[str, Any]:
        return {
            "job_id": self.file.job_id,
            "log_file_id": self.file.id,
            "plugin": self.samples.plugin,
            "tag_key": self.key[2],
            "tag": self.samples.tag,
            "device": self.file.device,
            **as_row(self.statistics),
        }


def write_samples(connection: Connection, advances: Sequence[Advance]) -> tuple[set[int], set[int]]:
    """Store samples; give back the jobs and the tag keys for which supersession must be computed again."""
    parts = [_part(advance.file, samples) for advance in advances for samples in advance.rows.samples]
    if not parts:
        return set(), set()
    files = {part.file.id for part in parts}
    known = _series_rows(connection, files)
    created = [part for part in parts if part.key not in known]
    if created:
        connection.execute(insert(series), [part.series_row() for part in created])
    ids = {found: row.id for found, row in (_series_rows(connection, files) if created else known).items()}
    for table in (scalar_sample, payload_sample):
        of_table = [_for_series(part, ids[part.key], known) for part in parts if part.table is table]
        bulk.write(connection, table, of_table)
    extended = [part for part in parts if part.key in known]
    lowered = _update_statistics(connection, extended, known)
    moved = created + lowered
    return {part.file.job_id for part in moved}, {part.key[2] for part in moved}


def _part(file: KnownFile, samples: SampleColumns) -> _Part:
    kept = _without_rewritten(samples)
    times, values = (_floats(kept, name) for name in ("wall_time", "value"))
    assert times is not None
    found = statistics(kept.steps, times, values)
    return _Part((file.id, kept.plugin, key(kept.tag)), file, kept, found)


def _floats(samples: SampleColumns, name: str) -> NDArray[np.float64] | None:
    column = samples.columns.get(name)
    return None if column is None else column.astype(np.float64, copy=False)


def _without_rewritten(samples: SampleColumns) -> SampleColumns:
    """Distinct, ascending steps; as it is where it has them already."""
    if (np.diff(samples.steps) > 0).all():
        return samples
    last = last_writes(samples.steps)
    columns = {name: column[last] for name, column in samples.columns.items()}
    return SampleColumns(samples.plugin, samples.tag, samples.steps[last], columns)


def _for_series(part: _Part, series_id: int, known: dict[SeriesKey, Row[Any]]) -> SeriesSamples:
    row = known.get(part.key)
    rewrites = row is not None and part.statistics.first_step <= row.last_step
    return SeriesSamples(part.file.job_id, series_id, part.samples, rewrites)


def _update_statistics(
    connection: Connection, parts: Iterable[_Part], known: dict[SeriesKey, Row[Any]]
) -> list[_Part]:
    """Bring the statistics of existing series up to date; give back the parts that lowered a first step."""
    stored: list[tuple[int, Statistics]] = []
    lowered = []
    for part in parts:
        row = known[part.key]
        if part.statistics.first_step > row.last_step:
            before = Statistics(*(getattr(row, field.name) for field in fields(Statistics)))
            found = merge(before, part.statistics)
        else:
            found = statistics_from_rows(connection, part.table, part.file.job_id, row.id)
        stored.append((row.id, found))
        if found.first_step < row.first_step:
            lowered.append(part)
    store_statistics(connection, stored)
    return lowered


def _series_rows(connection: Connection, file_ids: Iterable[int]) -> dict[SeriesKey, Row[Any]]:
    return {
        (row.log_file_id, row.plugin, row.tag_key): row
        for part in in_parts(sorted(file_ids))
        for row in connection.execute(select(series).where(series.c.log_file_id.in_(part)))
    }
