"""An export: sources, one after the other, into a directory or one stream.

In: an open read transaction or the answer to a statement, a format, a target. Out: files and a report. Promises: all
views of an export come from one snapshot; memory is bounded by one batch and the buffers of the open files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Connection

from lineage_store.json_values import iso
from lineage_store.query.export.directory import ExportDirectory, ExportedFile
from lineage_store.query.export.formats import Format
from lineage_store.query.export.openlineage import run_events
from lineage_store.query.export.scalar_columns import scalar_batches
from lineage_store.query.export.sources import (
    Since,
    Source,
    arrow_schema,
    as_arrow,
    changed_jobs,
    expected_rows,
    of_statement,
    revisions,
    statement_rows,
    view_rows,
)
from lineage_store.store.schema.views.samples import V_SCALAR

Batches = tuple[Source, Any, Iterator[Any]]
"""A source, its columns in the form that the format takes, its batches."""
Watched = Generator[tuple[Source, Any, Generator[Any, None, None]], None, None]
"""Sources as generators: when writing fails, they can be closed while their connection is still open."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote."""

    rows: int
    files: Sequence[ExportedFile]
    """Empty when the target was a stream."""


@dataclass(frozen=True, slots=True)
class ExportProgress:
    """The progress of an export with its present source."""

    name: str
    """The name of the view, or `query`, or `openlineage`."""
    rows: int
    expected_rows: int | None
    """The number of rows of the whole source; None when it is not known in advance."""


def views(
    connection: Connection, sources: Sequence[Source], format_: Format, since: Since | None
) -> Iterator[Batches]:
    """Yield views, one after the other."""
    jobs = changed_jobs(since)
    for source in sources:
        if format_.takes_arrow and source.name == V_SCALAR.name:
            yield source, arrow_schema(source), scalar_batches(connection, source, jobs)
        else:
            rows = view_rows(connection, source, jobs, as_stored=format_.takes_arrow)
            yield _of_rows(source, rows, format_)


def events(connection: Connection, since: Since | None) -> Iterator[Batches]:
    """Yield the run events of OpenLineage, as one source."""
    yield Source("openlineage", ()), (), iter(run_events(connection, changed_jobs(since)))


def statement(columns: Sequence[str], rows: Iterator[tuple[Any, ...]], format_: Format) -> Iterator[Batches]:
    """Yield the answer to a statement, as one source."""
    yield _of_rows(of_statement(columns), statement_rows(rows), format_)


def _of_rows(source: Source, rows: Iterator[Any], format_: Format) -> Batches:
    if format_.takes_arrow:
        return source, *as_arrow(source, rows)
    return source, source.columns, rows


def watched(
    sources: Iterator[Batches],
    connection: Connection | None,
    since: Since | None,
    progress: Callable[[ExportProgress], None],
) -> Watched:
    """Yield the same sources; their batches call `progress` after each one that was written."""
    jobs = changed_jobs(since)
    for source, columns, batches in sources:
        expected = None if connection is None else expected_rows(connection, source, jobs)
        yield source, columns, _counted(source.name, batches, expected, progress)


def _counted(
    name: str, batches: Iterator[Any], expected: int | None, progress: Callable[[ExportProgress], None]
) -> Generator[Any, None, None]:
    rows = 0
    for batch in batches:
        yield batch
        rows += len(batch)
        progress(ExportProgress(name, rows, expected))


def facts(connection: Connection | None, format_: Format, since: Since | None) -> Mapping[str, Any]:
    """Return the contents of a manifest beside its list of files."""
    return {
        "format": format_.name,
        "lineage_store": version("lineage-store"),
        "made_at": iso(datetime.now(UTC)),
        "since": since,
        "revisions": None if connection is None else revisions(connection),
    }


def written(
    to: str | os.PathLike[str] | BinaryIO, format_: Format, sources: Watched, manifest: Mapping[str, Any]
) -> ExportReport:
    """Write the sources into a directory, with a manifest, or one source into a stream, without."""
    with closing(sources):
        if isinstance(to, str | os.PathLike):
            return _into_directory(Path(to), format_, sources, manifest)
        return _into_stream(to, format_, sources)


def _into_directory(
    directory: Path, format_: Format, sources: Watched, manifest: Mapping[str, Any]
) -> ExportReport:
    with ExportDirectory(directory, format_) as written:
        for source, columns, batches in sources:
            with closing(batches):
                written.write(source, columns, batches)
        written.finish(manifest)
        return ExportReport(sum(each.rows for each in written.files), tuple(written.files))


def _into_stream(stream: BinaryIO, format_: Format, sources: Watched) -> ExportReport:
    rows = 0
    for _, columns, batches in sources:
        writer = format_.open(stream, columns)
        with closing(batches):
            for batch in batches:
                writer.write(batch)
                rows += len(batch)
        writer.close()
    return ExportReport(rows, ())
