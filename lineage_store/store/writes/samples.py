"""Samples and the statistics of their series.

In: columns of samples. Out: rows of `series`, `scalar_sample`, `payload_sample`; the jobs and tags where a lowest step
changed. Promises: within a file the last write of a step wins; statistics are merged when samples are appended, and
computed again from the rows only where a step was written again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Table, select

from lineage_store.store.database.dialects import among, insert_plain
from lineage_store.store.records import SampleColumns, SeriesName
from lineage_store.store.schema.tables import samples_of, series
from lineage_store.store.statistics import Statistics
from lineage_store.store.writes import bulk
from lineage_store.store.writes.series import append_statistics, statistics_from_rows, store_statistics
from lineage_store.texts import key

SeriesKey = tuple[int, str, int]
"""(log file id, plugin, tag key): what makes a series."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One series of a batch, with the statistics of the batch's samples."""

    key: SeriesKey
    name: SeriesName
    statistics: Statistics

    def series_row(self) -> dict[str, Any]:
        file_id, plugin, tag_key = self.key
        file = self.name.file
        place = {"job_id": file.job_id, "log_file_id": file_id, "device": file.device}
        return {
            **place,
            "plugin": plugin,
            "tag_key": tag_key,
            "tag": self.name.tag,
            **self.statistics._asdict(),
        }

    def appends_to(self, row: Row[Any]) -> bool:
        """Whether all its steps are behind those of the stored series."""
        return self.statistics.first_step > int(row.last_step)


def write_samples(connection: Connection, samples: Sequence[SampleColumns]) -> tuple[set[int], set[int]]:
    """Store samples; give back the jobs and the tag keys for which supersession must be computed again."""
    moved = [part for columns in samples for part in _write_plugin(connection, columns)]
    return {part.name.file.job_id for part in moved}, {part.key[2] for part in moved}


def _write_plugin(connection: Connection, samples: SampleColumns) -> list[_Part]:
    """Store samples of one plugin; give back the series that are new or begin earlier than they did."""
    parts = [
        _Part((name.file.id, samples.plugin, key(name.tag)), name, found)
        for name, found in zip(samples.series, samples.statistics, strict=True)
    ]
    # before the first bookmark no file has series
    begun = {name.file.id for name in samples.series if name.file.byte_offset}
    known = _known_series(connection, samples.plugin, begun)
    created = [part for part in parts if part.key not in known]
    extended = [part for part in parts if part.key in known]
    insert_plain(connection, series, [part.series_row() for part in created])
    new = _known_series(connection, samples.plugin, {part.name.file.id for part in created})
    table = samples_of(samples.plugin)
    series_ids = np.array([(known.get(part.key) or new[part.key]).id for part in parts])
    rewritten = [
        n for n, part in enumerate(parts) if part.key in known and not part.appends_to(known[part.key])
    ]
    bulk.write(connection, table, samples, series_ids, rewritten)
    return created + _update_statistics(connection, table, extended, known)


def _update_statistics(
    connection: Connection, table: Table, parts: Iterable[_Part], known: Mapping[SeriesKey, Row[Any]]
) -> list[_Part]:
    """Bring the statistics of existing series up to date; give back the parts that lowered a first step."""
    appended: list[tuple[int, Statistics]] = []
    rewritten: list[tuple[int, Statistics]] = []
    lowered = []
    for part in parts:
        row = known[part.key]
        if part.appends_to(row):
            appended.append((row.id, part.statistics))
            continue
        rewritten.append((row.id, statistics_from_rows(connection, table, part.name.file.job_id, row.id)))
        if part.statistics.first_step < row.first_step:
            lowered.append(part)
    append_statistics(connection, appended)
    store_statistics(connection, rewritten)
    return lowered


def _known_series(
    connection: Connection, plugin: str, file_ids: Collection[int]
) -> dict[SeriesKey, Row[Any]]:
    if not file_ids:
        return {}
    mine = _KNOWN.where(among(connection, series.c.log_file_id, file_ids), series.c.plugin == plugin)
    return {(row[0], plugin, row[1]): row for row in connection.execute(mine).all()}


_KNOWN = select(*(series.c[name] for name in ("log_file_id", "tag_key", "id", "first_step", "last_step")))
