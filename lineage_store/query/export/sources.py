"""What is exported: a view, or the answer to a statement, in batches of a bounded size.

In: an open read transaction and a view with a selection of jobs, or the rows of a statement. Out: rows, or Arrow record
batches of them; a view's rows come in no order; the part of a batch that goes into each file: rows of the same base dir
and month into the same one. Promises: memory is bounded by a batch, and for v_scalar by the series of some jobs too,
however many rows there are; NULL, NaN and infinities stay distinct; every row is in exactly one part. A view without a
time column is split by base dir only; a view without a base dir, and a statement, are not split. v_scalar has the same
rows and values in columns as in rows: there, what a series says is read once for all of its samples, and PostgreSQL
sends samples as bytes, thousands in a row, because a Python object for each number would take five times as long.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, Select, and_, column, func, or_, select, table

from lineage_store.errors import LineageParamValueError, LineageStoreError
from lineage_store.plain_values import CALENDAR_BEGIN, CALENDAR_END
from lineage_store.plugins import HISTOGRAM, PLUGINS, SCALAR
from lineage_store.query.status import view_select
from lineage_store.store.database.sql import Session
from lineage_store.store.schema.tables import base_dir, series, train_job
from lineage_store.store.schema.views import VIEWS
from lineage_store.store.schema.views.model import ColumnType
from lineage_store.store.schema.views.samples import SCALAR_SERIES, V_HISTOGRAM, V_PAYLOAD, V_SCALAR
from lineage_store.texts import meant

if TYPE_CHECKING:
    import pyarrow


ROWS_AT_A_TIME = 50_000
Rows = Sequence[Sequence[Any]]
Since = int | Mapping[str, int]
"""One revision for all base dirs, or a revision by base dir (stored path); all jobs of other base dirs are exported."""
_BY_NAME = {view.name: view for view in VIEWS}
_TIMES = ("wall_at", "evaluated_at", "started_at")
"""The time columns: a view's files are split by the month of the first of these that it has."""
_PLUGINS = {
    V_SCALAR.name: [SCALAR],
    V_HISTOGRAM.name: [HISTOGRAM],
    V_PAYLOAD.name: [plugin.name for plugin in PLUGINS if not plugin.has_value],
}
"""The plugins whose samples each view of samples shows."""


@dataclass(frozen=True, slots=True)
class Source:
    """The names of the columns of a view or a statement, and the types of a view's columns."""

    name: str
    columns: tuple[str, ...]
    types: tuple[ColumnType, ...] | None = None

    @property
    def base_dir(self) -> int | None:
        """The index of the column by which files are split; None if there is none."""
        return self.columns.index("base_dir") if self.types and "base_dir" in self.columns else None

    @property
    def time(self) -> int | None:
        """The index of the column by whose month files are split; None if there is none."""
        named = [self.columns.index(name) for name in _TIMES if self.types and name in self.columns]
        return named[0] if named else None


def of_view(name: str) -> Source:
    """Return a view by name. Raises LineageParamValueError when there is none."""
    if name not in _BY_NAME:
        raise LineageParamValueError(
            f"There is no view {name!r}. {meant(name, _BY_NAME)}".rstrip(),
            hint=f"The views are {', '.join(_BY_NAME)}; anything else is a SELECT.",
        )
    columns = _BY_NAME[name].columns
    return Source(name, tuple(each.name for each in columns), tuple(each.type for each in columns))


def of_statement(columns: Sequence[str]) -> Source:
    """Return the source of a statement's answer. Raises LineageParamValueError when two columns have the same name."""
    twice = sorted({name for name in columns if list(columns).count(name) > 1})
    if twice:
        raise LineageParamValueError(
            f"The statement has several columns of the name {twice[0]!r}.", hint="Give each a name by AS."
        )
    return Source("query", tuple(columns))


def revisions(session: Session) -> dict[str, int]:
    """Return the revision of each base dir (stored path), behind which the next export may begin."""
    rows = session.rows(select(base_dir.c.path, base_dir.c.revision).where(~base_dir.c.leaving))
    return {row.path: row.revision for row in rows}


def changed_jobs(since: Since | None) -> Select[Any] | None:
    """Return the SELECT of the ids of jobs that changed behind `since`; None for None, which means all jobs."""
    if since is None:
        return None
    jobs = select(train_job.c.id).join(base_dir, base_dir.c.id == train_job.c.base_dir_id)
    if isinstance(since, int):
        return jobs.where(train_job.c.revision > since)
    known = [and_(base_dir.c.path == path, train_job.c.revision <= last) for path, last in since.items()]
    return jobs.where(~or_(*known)) if known else jobs


def expected_rows(session: Session, source: Source, jobs: Select[Any] | None) -> int | None:
    """Return the number of rows of a view of samples, from the counts of its series; None for any other source."""
    if source.name not in _PLUGINS:
        return None
    there = column("sample_count", BigInteger) - column("thinned_count", BigInteger)
    samples = select(func.sum(there)).select_from(table("v_series"))
    counted = samples.where(column("plugin").in_(_PLUGINS[source.name]))
    if jobs is not None:
        counted = counted.where(column("job_id").in_(jobs))
    return int(session.value(counted) or 0)


def source_rows(
    session: Session, source: Source, jobs: Select[Any] | None, *, as_stored: bool = False
) -> Iterator[Rows]:
    """Yield the rows of a view, times as datetimes and truth values as bool (`as_stored`: as the database has them).

    With `jobs`, a view about jobs is restricted to these jobs.
    """
    query = view_select(source.name, as_stored=as_stored)
    if jobs is not None and source.columns[:3] == ("base_dir", "train_id", "job_id"):
        query = query.where(column("job_id").in_(jobs))
    yield from session.stream(query, ROWS_AT_A_TIME)


def statement_rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[Rows]:
    """Yield the rows of a statement in batches."""
    while some := list(islice(rows, ROWS_AT_A_TIME)):
        yield some


def as_arrow(source: Source, batches: Iterable[Rows]) -> tuple[pyarrow.Schema, Iterator[pyarrow.RecordBatch]]:
    """Convert batches of rows to record batches. The types of a statement's columns come from its first batch."""
    batches = iter(batches)
    first = next(batches, ())
    schema = arrow_schema(source) if source.types else _inferred(source, first)
    return schema, (_record_batch(source, schema, rows) for rows in chain([first] if first else [], batches))


def arrow_schema(source: Source) -> pyarrow.Schema:
    """Return the Arrow schema of a view."""
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
        "double precision": pa.float64(),
        "boolean": pa.bool_(),
        "timestamptz": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema(
        [(name, types[each]) for name, each in zip(source.columns, source.types or (), strict=True)]
    )


def _inferred(source: Source, rows: Rows) -> pyarrow.Schema:
    import pyarrow as pa

    fields = []
    for place, name in enumerate(source.columns):
        found = _array(name, [row[place] for row in rows]).type
        if pa.types.is_decimal(found):  # later rows may have more digits than the first ones
            found = pa.float64()
        fields.append((name, pa.string() if pa.types.is_null(found) else found))
    return pa.schema(fields)


def _record_batch(source: Source, schema: pyarrow.Schema, rows: Rows) -> pyarrow.RecordBatch:
    import pyarrow as pa

    arrays = []
    for field, values in zip(schema, zip(*rows, strict=True), strict=True):
        if source.types is None and pa.types.is_floating(field.type):
            values = tuple(float(value) if isinstance(value, Decimal) else value for value in values)
        arrays.append(_array(field.name, values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def stored_array(values: Sequence[Any], type_: Any = None) -> pyarrow.Array:
    """Convert a column as the database has it: in SQLite, times are texts and truth values are numbers."""
    import pyarrow as pa

    first = next((value for value in values if value is not None), None)
    if isinstance(first, str) and pa.types.is_timestamp(type_ or pa.string()):
        return pa.array(values, pa.string()).cast(type_)
    if type(first) is int and pa.types.is_boolean(type_ or pa.int64()):
        return pa.array(values, pa.int8()).cast(type_)
    return pa.array(values, type_)


def _array(name: str, values: Sequence[Any], type_: Any = None) -> pyarrow.Array:
    import pyarrow as pa

    try:
        return stored_array(values, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise LineageStoreError(
            f"The column {name!r} holds values of several types: {error}.",
            hint="Give it one by CAST in the statement, or export csv or jsonl.",
        ) from error


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
    session: Session, source: Source, jobs: Select[Any] | None
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of v_scalar of some jobs (None: of all)."""
    names = arrow_schema(source).names
    for some in _jobs(session, jobs):
        listed = ", ".join(map(str, some))
        of_series = _Series(session, listed)
        for samples in _samples(session, listed) if len(of_series) else ():
            yield of_series.with_samples(names, *samples)


def _jobs(session: Session, jobs: Select[Any] | None) -> Iterator[Sequence[int]]:
    """Yield groups of job ids, each as large as can be read together."""
    last, some, series_count, sample_count = 0, list[int](), 0, 0
    counted = select(series.c.job_id, func.count(), func.sum(series.c.sample_count))
    counted = counted.where(series.c.plugin == SCALAR).group_by(series.c.job_id).order_by(series.c.job_id)
    counted = counted.limit(_JOBS_AT_A_TIME)
    if jobs is not None:
        counted = counted.where(series.c.job_id.in_(jobs))
    while found := session.rows(counted.where(series.c.job_id > last)):
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

    def __init__(self, session: Session, jobs: str) -> None:
        import pyarrow as pa

        names = [each.name for each in SCALAR_SERIES.columns]
        query = f"{SCALAR_SERIES.select(session.kind)} AND r.job_id IN ({jobs})"
        rows = session.rows(f"{query} ORDER BY r.job_id, r.series_no")
        columns = dict(zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True))
        self._keys = np.array(columns["job_id"], np.int64) << 32 | np.array(columns["series_no"], np.int64)
        superseded = columns.pop("superseded_from")
        self._is_whole = np.array([step is None for step in superseded], bool)
        self._superseded = np.array([step or 0 for step in superseded], np.int64)
        self._began = np.array(columns.pop("first_file_time"), np.float64)  # NULL becomes NaN
        schema = arrow_schema(
            Source("", tuple(columns), tuple(each.type for each in SCALAR_SERIES.columns[: len(columns)]))
        )
        self._columns = {field.name: _scalar_array(pa, columns[field.name], field.type) for field in schema}

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


def _scalar_array(pa: Any, values: Sequence[Any], type_: Any) -> Any:
    """Return a column of the series; texts become a dictionary, because they repeat."""
    array = stored_array(values, type_)
    return array.dictionary_encode() if pa.types.is_string(type_) else array


def _instants(pa: Any, seconds: NDArray[np.float64]) -> Any:
    """Convert unix seconds to timestamps as the views do; times outside of 1970 to 9999 are NULL."""
    there = (seconds >= 0) & (seconds <= CALENDAR_END)
    micros = np.where(there, seconds, 0.0) * 1e6
    whole = np.where(micros < _EXACT, np.trunc(micros + 0.5), micros).astype(np.int64)
    return pa.array(whole, mask=~there).cast(pa.timestamp("us", tz="UTC"))


def _samples(session: Session, jobs: str) -> Iterator[Samples]:
    query = _SAMPLES[session.kind].format(jobs=jobs)
    if session.kind == "sqlite":
        cursor: Any = session.connection.connection.cursor()  # rows of SQLAlchemy would double the time
        cursor.execute(query)
        fetched = iter(partial(cursor.fetchmany, _FETCHED), [])
        arrays = (np.array(rows, _SAMPLE) for rows in fetched)  # NULL becomes NaN
        while parts := list(islice(arrays, max(ROWS_AT_A_TIME // _FETCHED, 1))):
            whole = np.concatenate(parts)
            yield tuple(np.ascontiguousarray(whole[name]) for name in _SAMPLE.names or ())  # type: ignore[misc]
        return
    for some in session.stream(query, _GROUPS_AT_A_TIME):
        of_series, *numbers_of = zip(*some, strict=True)
        step_bytes, time_bytes, value_bytes = (b"".join(part) for part in numbers_of)
        yield (
            np.repeat(np.array(of_series, np.int64), [len(each) // 8 for each in numbers_of[0]]),
            np.frombuffer(step_bytes, ">i8").astype(np.int64),
            np.frombuffer(time_bytes, ">f8").astype(np.float64),
            np.frombuffer(value_bytes, ">f8").astype(np.float64),
        )


_UNSAFE = re.compile(r"[^\w.-]")
_UNKNOWN = "unknown"
"""The month of rows without a time."""
_NO_TIME, _NO_MONTH = CALENDAR_BEGIN * 1_000_000, -1969 * 12
"""Stand-ins for NULL: the first microsecond and month of the calendar, which no view shows. Months count from 1970."""
_MONTHS_BEFORE = -_NO_MONTH


class Partition(NamedTuple):
    """Rows of one base dir and month; None where the source is not split by it."""

    base_dir: str | None = None
    month: str | None = None

    def path(self, name: str) -> str:
        """Return the path of its file in the export, without a suffix.

        A digest tells base dirs of the same name apart; characters that are awkward in file names become `_`.
        """
        if self.base_dir is None:
            return f"{name}/all"
        digest = hashlib.sha256(self.base_dir.encode()).hexdigest()[:8]
        last = _UNSAFE.sub("_", self.base_dir.rstrip("/").rpartition("/")[2][:40]) or "root"
        return "/".join((name, f"{last}-{digest}", *([self.month] if self.month else [])))


def split_rows(source: Source, batch: Any) -> Iterator[tuple[Partition, Any]]:
    """Split a batch of rows."""
    base, time = source.base_dir, source.time
    if base is None:
        yield Partition(), batch
        return
    parts: dict[Partition, list[Any]] = {}
    for row in batch:
        month = None if time is None else _month(row[time])
        parts.setdefault(Partition(row[base], month), []).append(row)
    yield from parts.items()


def _month(value: Any) -> str:
    return _UNKNOWN if value is None else value.astimezone(UTC).strftime("%Y-%m")


def split_arrow(source: Source, batch: Any) -> Iterator[tuple[Partition, Any]]:
    """Split a record batch."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import compute

    if source.base_dir is None:
        yield Partition(), batch
        return
    bases = batch.column(source.base_dir)
    bases = bases if pa.types.is_dictionary(bases.type) else bases.dictionary_encode()
    keys = np.asarray(bases.indices, np.int64) << 32
    if source.time is not None:
        micros = compute.fill_null(batch.column(source.time).cast(pa.int64()), _NO_TIME)
        times = np.asarray(micros).view("datetime64[us]")
        keys |= times.astype("datetime64[M]").view(np.int64) + _MONTHS_BEFORE
    # Rows of a series are adjacent: sorting only the rows where the key changes takes a thousandth of the time.
    begins = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    found, part_of = np.unique(keys[begins], return_inverse=True)
    part_of = np.repeat(part_of, np.diff(begins, append=len(keys)))
    for number, key in enumerate(found):
        months, month = int(key & 0xFFFFFFFF) - _MONTHS_BEFORE, None
        if source.time is not None:
            month = _UNKNOWN if months == _NO_MONTH else str(np.datetime64(months, "M"))
        part = Partition(bases.dictionary[int(key >> 32)].as_py(), month)
        yield part, batch if len(found) == 1 else batch.filter(pa.array(part_of == number))
