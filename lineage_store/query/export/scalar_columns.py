"""v_scalar in columns: values of a series are read once for all of its samples; numpy handles the samples.

In: an open read transaction, a selection of jobs. Out: Arrow record batches. Promises: the same rows and values as the
view v_scalar; memory is bounded by a batch of samples and the series of some jobs. PostgreSQL sends samples as bytes,
thousands in a row: a Python object for each number would take five times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, func, select

from lineage_store.plugins import SCALAR
from lineage_store.query.export.sources import ROWS_AT_A_TIME, Source, arrow_schema, stored_array
from lineage_store.store.schema.tables import series
from lineage_store.store.schema.views.samples import SCALAR_SERIES
from lineage_store.times import CALENDAR_END

if TYPE_CHECKING:
    import pyarrow

_MOST_SERIES = 20_000
_MOST_SAMPLES = 1_000_000
"""A group of jobs that are read together ends at so many series or samples; its last job may exceed both."""
_JOBS_AT_A_TIME = 2_000
_EXACT = float(1 << 52)
"""Doubles from here on have no fraction."""
_SAMPLE = np.dtype([("key", np.int64), ("step", np.int64), ("wall_time", np.float64), ("value", np.float64)])
Samples = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]
"""Columns of samples: key of the series, step, wall time, value."""
_SAMPLES = {
    "sqlite": "SELECT job_id << 32 | series_no, step, wall_time, value FROM scalar_sample WHERE job_id IN ({jobs})",
    "postgresql": """
SELECT CAST(job_id AS bigint) << 32 | series_no, string_agg(int8send(step), ''),
       string_agg(float8send(coalesce(wall_time, 'NaN')), ''), string_agg(float8send(coalesce(value, 'NaN')), '')
FROM scalar_sample WHERE job_id IN ({jobs}) GROUP BY job_id, series_no, step / 10000""",
}
_GROUPS_AT_A_TIME = 10
"""Rows of PostgreSQL in a batch; each holds up to 10,000 samples of a series."""
_FETCHED = 2_000
"""Rows of SQLite that are Python objects at a time: with many more, garbage collection takes as long as SQLite."""


def scalar_batches(
    connection: Connection, source: Source, jobs: Select[Any] | None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of v_scalar of some jobs (None: of all)."""
    names = arrow_schema(source).names
    for some in _jobs(connection, jobs):
        listed = ", ".join(map(str, some))
        of_series = _Series(connection, listed)
        for samples in _samples(connection, listed) if len(of_series) else ():
            yield of_series.with_samples(names, *samples)


def _jobs(connection: Connection, jobs: Select[Any] | None) -> Iterator[Sequence[int]]:
    """Yield groups of job ids, each as large as can be read together."""
    last, some, series_count, sample_count = 0, list[int](), 0, 0
    counted = select(series.c.job_id, func.count(), func.sum(series.c.sample_count))
    counted = counted.where(series.c.plugin == SCALAR).group_by(series.c.job_id).order_by(series.c.job_id)
    counted = counted.limit(_JOBS_AT_A_TIME)
    if jobs is not None:
        counted = counted.where(series.c.job_id.in_(jobs))
    while found := connection.execute(counted.where(series.c.job_id > last)).all():
        for last, more_series, more_samples in found:
            series_count, sample_count = series_count + more_series, sample_count + int(more_samples)
            some.append(last)
            if series_count >= _MOST_SERIES or sample_count >= _MOST_SAMPLES or len(some) == _JOBS_AT_A_TIME:
                yield some
                some, series_count, sample_count = [], 0, 0
    if some:
        yield some


class _Series:
    """The series of some jobs, sorted by key."""

    def __init__(self, connection: Connection, jobs: str) -> None:
        import pyarrow as pa

        names = [each.name for each in SCALAR_SERIES.columns]
        query = f"{SCALAR_SERIES.select(connection.dialect.name)} AND r.job_id IN ({jobs})"
        rows = connection.exec_driver_sql(f"{query} ORDER BY r.job_id, r.series_no").all()
        columns = dict(zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True))
        self._keys = np.array(columns["job_id"], np.int64) << 32 | np.array(columns["series_no"], np.int64)
        superseded = columns.pop("superseded_from")
        self._is_whole = np.array([step is None for step in superseded], bool)
        self._superseded = np.array([step or 0 for step in superseded], np.int64)
        self._began = np.array(columns.pop("first_file_time"), np.float64)  # NULL becomes NaN
        schema = arrow_schema(
            Source("", tuple(columns), tuple(each.type for each in SCALAR_SERIES.columns[: len(columns)]))
        )
        self._columns = {field.name: _array(pa, columns[field.name], field.type) for field in schema}

    def __len__(self) -> int:
        return len(self._keys)

    def with_samples(
        self,
        names: Sequence[str],
        keys: NDArray[np.int64],
        steps: NDArray[np.int64],
        wall_times: NDArray[np.float64],
        values: NDArray[np.float64],
    ) -> pyarrow.RecordBatch:
        """Return the rows of v_scalar for some samples, without samples of series that the view does not show."""
        import pyarrow as pa

        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        seen = self._keys[places] == keys
        if not seen.all():
            places, steps, wall_times, values = (each[seen] for each in (places, steps, wall_times, values))
        at = pa.array(places)
        columns = {name: column.take(at) for name, column in self._columns.items()}
        elapsed = wall_times - self._began[places]
        columns |= {
            "step": pa.array(steps),
            "wall_at": _instants(pa, wall_times),
            "elapsed_s": pa.array(elapsed, mask=np.isnan(elapsed)),
            "value": pa.array(values, mask=np.isnan(values)),
            "is_effective": pa.array(self._is_whole[places] | (steps < self._superseded[places])),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in names], list(names))


def _array(pa: Any, values: Sequence[Any], type_: Any) -> Any:
    """Return a column of the series; texts become a dictionary, because they repeat."""
    array = stored_array(values, type_)
    return array.dictionary_encode() if pa.types.is_string(type_) else array


def _instants(pa: Any, seconds: NDArray[np.float64]) -> Any:
    """Convert unix seconds to timestamps as the views do; times outside of 1970 to 9999 are NULL."""
    there = (seconds >= 0) & (seconds <= CALENDAR_END)
    micros = np.where(there, seconds, 0.0) * 1e6
    whole = np.where(micros < _EXACT, np.trunc(micros + 0.5), micros).astype(np.int64)
    return pa.array(whole, mask=~there).cast(pa.timestamp("us", tz="UTC"))


def _samples(connection: Connection, jobs: str) -> Iterator[Samples]:
    query = _SAMPLES[connection.dialect.name].format(jobs=jobs)
    if connection.dialect.name == "sqlite":
        cursor: Any = connection.connection.cursor()  # rows of SQLAlchemy would double the time
        cursor.execute(query)
        fetched = iter(partial(cursor.fetchmany, _FETCHED), [])
        arrays = (np.array(rows, _SAMPLE) for rows in fetched)  # NULL becomes NaN
        while parts := list(islice(arrays, max(ROWS_AT_A_TIME // _FETCHED, 1))):
            whole = np.concatenate(parts)
            yield tuple(np.ascontiguousarray(whole[name]) for name in _SAMPLE.names or ())  # type: ignore[misc]
        return
    with connection.exec_driver_sql(query, execution_options={"yield_per": _GROUPS_AT_A_TIME}) as groups:
        for some in groups.partitions():
            of_series, *numbers_of = zip(*some, strict=True)
            step_bytes, time_bytes, value_bytes = (b"".join(part) for part in numbers_of)
            yield (
                np.repeat(np.array(of_series, np.int64), [len(each) // 8 for each in numbers_of[0]]),
                np.frombuffer(step_bytes, ">i8").astype(np.int64),
                np.frombuffer(time_bytes, ">f8").astype(np.float64),
                np.frombuffer(value_bytes, ">f8").astype(np.float64),
            )
