"""An export: sources, one after the other, into a directory or one stream.

In: an open read transaction or a statement's answer, a format, where to. Out: files and a report. Promises: all views
of an export are of one moment; memory for a batch and for what the open files hold.
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
"""A source, its columns as the format takes them, its batches."""
Watched = Generator[tuple[Source, Any, Generator[Any, None, None]], None, None]
"""Sources that can be closed where writing fails: while their connection is there."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote."""

    rows: int
    files: Sequence[ExportedFile]
    """None where it went into a stream."""


@dataclass(frozen=True, slots=True)
class ExportProgress:
    """How far an export has come with what it writes now."""

    name: str
    """Of the view, or `query`, or `openlineage`."""
    rows: int
    expected_rows: int | None
    """How many there will be; None where that is not known before."""


def views(
    connection: Connection, sources: Sequence[Source], format_: Format, since: Since | None
) -> Iterator[Batches]:
    """Views, one after the other."""
    jobs = None if since is None else changed_jobs(since)
    for source in sources:
        if format_.takes_arrow and source.name == V_SCALAR.name:
            yield source, arrow_schema(source), scalar_batches(connection, source, jobs)
        else:
            rows = view_rows(connection, source, jobs, as_stored=format_.takes_arrow)
            yield _of_rows(source, rows, format_)


def events(connection: Connection, since: Since | None) -> Iterator[Batches]:
    """Run events of OpenLineage."""
    jobs = None if since is None else changed_jobs(since)
    yield Source("openlineage", ()), (), iter(run_events(connection, jobs))


def statement(columns: Sequence[str], rows: Iterator[tuple[Any, ...]], format_: Format) -> Iterator[Batches]:
    """The answer to a statement."""
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
    """The same sources, which say after each batch how far they have come."""
    jobs = None if since is None else changed_jobs(since)
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
    """What a manifest says beside its files."""
    return {
        "format": format_.name,
        "lineage_store": version("lineage-store"),
        "made_at": iso(datetime.now(UTC)),
        "since": since,
        "revisions": None if connection is None else revisions(connection),
    }


def written(
    to: str | os.PathLike[str] | BinaryIO,
    format_: Format,
    sources: Watched,
    told: Mapping[str, Any],
) -> ExportReport:
    """Write into a directory, or one source into a stream, which has no manifest."""
    with closing(sources):
        if isinstance(to, str | os.PathLike):
            return _into_directory(Path(to), format_, sources, told)
        return _into_stream(to, format_, sources)


def _into_directory(
    directory: Path, format_: Format, sources: Watched, told: Mapping[str, Any]
) -> ExportReport:
    """Write files, and what is told of them behind the last one."""
    with ExportDirectory(directory, format_) as written:
        for source, columns, batches in sources:
            with closing(batches):
                written.write(source, columns, batches)
        written.finish(told)
        return ExportReport(sum(each.rows for each in written.files), tuple(written.files))


def _into_stream(stream: BinaryIO, format_: Format, sources: Watched) -> ExportReport:
    """Write one source as one stream."""
    rows = 0
    for _, columns, batches in sources:
        writer = format_.open(stream, columns)
        with closing(batches):
            for batch in batches:
                writer.write(batch)
                rows += len(batch)
        writer.close()
    return ExportReport(rows, ())
