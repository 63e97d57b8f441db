"""What is exported: a view, or the answer to a statement, in batches of a bounded size.

In: an open read transaction and a view with a selection of jobs, or the rows of a statement. Out: rows, or Arrow record
batches of them; a view's rows come in no order. Promises: memory is bounded by a batch, however many rows there are;
NULL, NaN and infinities stay distinct. Does not know files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Connection, Select, and_, column, func, or_, select, table

from lineage_store.errors import LineageParamValueError, LineageStoreError
from lineage_store.plugins import HISTOGRAM, PLUGINS, SCALAR
from lineage_store.query.views import view_select
from lineage_store.store.schema.tables import base_dir, train_job
from lineage_store.store.schema.views import VIEWS
from lineage_store.store.schema.views.model import ColumnType
from lineage_store.store.schema.views.samples import V_HISTOGRAM, V_PAYLOAD, V_SCALAR
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


def revisions(connection: Connection) -> dict[str, int]:
    """Return the revision of each base dir (stored path), behind which the next export may begin."""
    rows = connection.execute(select(base_dir.c.path, base_dir.c.revision).where(~base_dir.c.leaving))
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


def expected_rows(connection: Connection, source: Source, jobs: Select[Any] | None) -> int | None:
    """Return the number of rows of a view of samples, from the counts of its series; None for any other source."""
    if source.name not in _PLUGINS:
        return None
    there = column("sample_count", BigInteger) - column("thinned_count", BigInteger)
    samples = select(func.sum(there)).select_from(table("v_series"))
    counted = samples.where(column("plugin").in_(_PLUGINS[source.name]))
    if jobs is not None:
        counted = counted.where(column("job_id").in_(jobs))
    return int(connection.execute(counted).scalar() or 0)


def view_rows(
    connection: Connection, source: Source, jobs: Select[Any] | None, *, as_stored: bool = False
) -> Iterator[Rows]:
    """Yield the rows of a view, times as datetimes and truth values as bool (`as_stored`: as the database has them).

    With `jobs`, a view about jobs is restricted to these jobs.
    """
    query = view_select(source.name, as_stored=as_stored)
    if jobs is not None and source.columns[:3] == ("base_dir", "train_id", "job_id"):
        query = query.where(column("job_id").in_(jobs))
    with connection.execute(query, execution_options={"yield_per": ROWS_AT_A_TIME}) as rows:
        yield from rows.partitions()


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
