"""Writing samples, and the statistics of their series.

In: columns of samples. Out: rows of `series` and of the tables of samples; the jobs and tags whose supersession must be
computed again, because a series is new or begins earlier. Promises: a step of a file that is written again replaces the
stored one; statistics are merged when all new steps are behind the stored ones, and else computed again from the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Select, Table, func, select

from lineage_store.errors import BookmarkMovedError
from lineage_store.store.catalog.registry import next_numbers
from lineage_store.store.database.dialects import among_rows, insert_plain, listed_rows, one_of_rows
from lineage_store.store.records import FileKey, SampleColumns, SeriesName
from lineage_store.store.schema.tables import samples_of, series
from lineage_store.store.statistics import Statistics
from lineage_store.store.writes import bulk
from lineage_store.store.writes.series import (
    SeriesNumber,
    append_statistics,
    samples_from,
    statistics_from_rows,
    store_statistics,
)
from lineage_store.texts import key

SeriesKey = tuple[int, str, int, int]
"""The key of a series: (job id, plugin, tag key, number of the log file)."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One series of a batch, with the statistics of the batch's samples."""

    key: SeriesKey
    name: SeriesName
    statistics: Statistics

    def series_row(self, series_no: int) -> dict[str, Any]:
        job_id, plugin, tag_key, file_no = self.key
        return {
            "job_id": job_id,
            "series_no": series_no,
            "file_no": file_no,
            "plugin": plugin,
            "tag_key": tag_key,
            "tag": self.name.tag,
            "device": self.name.file.device,
            **self.statistics._asdict(),
        }

    def appends_to(self, row: Row[Any]) -> bool:
        """Return whether all its steps are behind those of the stored series."""
        return self.statistics.first_step > int(row.last_step)


def write_samples(
    connection: Connection, samples: Sequence[SampleColumns], most_tags: int
) -> tuple[set[int], set[int], set[FileKey]]:
    """Store samples, of at most `most_tags` series per file.

    Returns the ids of the jobs and the tag keys whose supersession must be computed again, and the files of which
    samples were left out. Raises BookmarkMovedError if one of the series was thinned: its file must be read again.
    """
    batch = [(columns, _parts(columns)) for columns in samples]
    parts = [part for _, of_plugin in batch for part in of_plugin]
    # A file whose bookmark is at 0 has no series yet.
    known = _known_series(connection, {part.name.file.key for part in parts if part.name.file.byte_offset})
    if any(row.thinned_count for row in known.values()):
        raise BookmarkMovedError("A log file was thinned since it was looked at; nothing was written.")
    room = _Room(most_tags)
    new = _create(connection, [part for part in parts if part.key not in known], room)
    moved = [part for each in batch for part in _write_plugin(connection, *each, known, new)]
    return {part.name.file.job_id for part in moved}, {part.key[2] for part in moved}, room.full


def _parts(samples: SampleColumns) -> list[_Part]:
    return [
        _Part((name.file.job_id, samples.plugin, key(name.tag), name.file.file_no), name, found)
        for name, found in zip(samples.series, samples.statistics, strict=True)
    ]


@dataclass(slots=True)
class _Room:
    """How many series the files of a batch have already, and which of them had no room for another one."""

    most_tags: int
    taken: Counter[FileKey] = field(default_factory=Counter)
    full: set[FileKey] = field(default_factory=set)

    def takes(self, file: FileKey) -> bool:
        """Count a further series of a file, or note that the file is full."""
        if self.taken[file] >= self.most_tags:
            self.full.add(file)
            return False
        self.taken[file] += 1
        return True


def _write_plugin(
    connection: Connection,
    samples: SampleColumns,
    parts: Sequence[_Part],
    known: Mapping[SeriesKey, Row[Any]],
    new: Mapping[SeriesKey, int],
) -> list[_Part]:
    """Store samples of one plugin; return the series that are new or begin at a lower step than before.

    Args:
        known: the series that were stored before the batch.
        new: the numbers of those that were created for it; samples of further ones are left out.
    """
    kept = [part.key in known or part.key in new for part in parts]
    if not all(kept):
        parts, samples = list(compress(parts, kept)), samples.only(kept)
    if not parts:
        return []
    table = samples_of(samples.plugin)
    series_nos = np.array([new.get(part.key) or known[part.key].series_no for part in parts])
    rewritten = [
        n for n, part in enumerate(parts) if part.key in known and not part.appends_to(known[part.key])
    ]
    bulk.write(connection, table, samples, series_nos, rewritten)
    extended = [part for part in parts if part.key in known]
    superseded = {
        part.key: _samples_from(samples, n, known[part.key].superseded_from)
        for n, part in enumerate(parts)
        if part.key in known
    }
    created = [part for part in parts if part.key in new]
    return created + _update_statistics(connection, table, extended, known, superseded)


def _samples_from(samples: SampleColumns, number: int, first: int | None) -> int:
    """Return how many samples of one series are at the step `first` or behind it; 0 if `first` is None."""
    return 0 if first is None else int((samples.steps[samples.number == number] >= first).sum())


def _create(connection: Connection, parts: Sequence[_Part], room: _Room) -> dict[SeriesKey, int]:
    """Insert rows of new series as far as their files have room; return their numbers within their jobs."""
    if not parts:
        return {}
    next_no = next_numbers(connection, series.c.series_no, {part.key[0] for part in parts})
    begun = {part.name.file.key for part in parts if part.name.file.byte_offset}
    room.taken.update(_series_counts(connection, begun - room.taken.keys()))
    numbers = {part.key: next(next_no[part.key[0]]) for part in parts if room.takes(part.name.file.key)}
    rows = [part.series_row(numbers[part.key]) for part in parts if part.key in numbers]
    insert_plain(connection, series, rows)
    return numbers


def _series_counts(connection: Connection, files: Collection[FileKey]) -> Counter[FileKey]:
    """Return how many series each file has."""
    if not files:
        return Counter()
    of = (series.c.job_id, series.c.file_no)
    counts = select(*of, func.count()).where(among_rows(connection, of, files)).group_by(*of)
    return Counter({(job_id, file_no): count for job_id, file_no, count in connection.execute(counts)})


def _update_statistics(
    connection: Connection,
    table: Table,
    parts: Iterable[_Part],
    known: Mapping[SeriesKey, Row[Any]],
    superseded: Mapping[SeriesKey, int],
) -> list[_Part]:
    """Update the statistics of existing series; return the parts that lowered the first step of their series.

    Args:
        superseded: how many of each part's samples are superseded.
    """
    appended: list[tuple[SeriesNumber, int, Statistics]] = []
    rewritten: list[tuple[SeriesNumber, int, Statistics]] = []
    lowered = []
    for part in parts:
        row = known[part.key]
        number = row.job_id, row.series_no
        if part.appends_to(row):
            appended.append((number, superseded[part.key], part.statistics))
            continue
        first, count = row.superseded_from, 0
        if first is not None:
            count = samples_from(connection, table, row.job_id, [row.series_no], first).get(row.series_no, 0)
        rewritten.append((number, count, statistics_from_rows(connection, table, number)))
        if part.statistics.first_step < row.first_step:
            lowered.append(part)
    append_statistics(connection, appended)
    store_statistics(connection, rewritten)
    return lowered


def _known_series(connection: Connection, files: Collection[FileKey]) -> dict[SeriesKey, Row[Any]]:
    if not files:
        return {}
    dialect_name = connection.dialect.name
    rows = connection.execute(_known(dialect_name), listed_rows(dialect_name, 2, files))
    return {tuple(row[:4]): row for row in rows}


_KNOWN_COLUMNS = (
    *("job_id", "plugin", "tag_key", "file_no", "series_no"),
    *("first_step", "last_step", "superseded_from", "thinned_count"),
)


@cache
def _known(dialect_name: str) -> Select[Any]:
    mine = one_of_rows(dialect_name, (series.c.job_id, series.c.file_no))
    return select(*(series.c[name] for name in _KNOWN_COLUMNS)).where(mine)
