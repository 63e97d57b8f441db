"""An export: views, the answer to a statement, or run events, one after the other, into a directory or one stream.

In: an open store, what to export, a format, a target. Out: files and a report. Promises: all views of an export come
from one snapshot; memory is bounded by one batch and the buffers of the open files. A file has at most `_MOST_ROWS`
rows and those of one more batch; a directory without a manifest is an unfinished export, and two exports never write
into one. Does not know how files get their names (`output_files`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from lineage_store.errors import LineageParamTypeError, LineageParamValueError
from lineage_store.output_files import OutputDirectory, UnfinishedFile
from lineage_store.paths import PathLike
from lineage_store.plain_values import LARGEST_INTEGER, LEAST_INTEGER, is_integer, is_text, iso
from lineage_store.query.export import file_formats
from lineage_store.query.export.file_formats import Format, Writer
from lineage_store.query.export.openlineage import run_events
from lineage_store.query.export.sources import (
    Partition,
    Since,
    Source,
    arrow_schema,
    as_arrow,
    changed_jobs,
    expected_rows,
    of_statement,
    of_view,
    revisions,
    scalar_batches,
    source_rows,
    split_arrow,
    split_rows,
    statement_rows,
)
from lineage_store.store.admin.read_only_sql import Answer
from lineage_store.store.database.sql import Session
from lineage_store.store.opened import Opened
from lineage_store.store.schema.views import VIEWS
from lineage_store.store.schema.views.samples import V_SCALAR
from lineage_store.texts import check_text

_NAME = re.compile(r"\s*\w+\s*")
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


def export(
    opened: Opened,
    answers: Callable[[str], AbstractContextManager[Answer]],
    what: str | None,
    to: PathLike | BinaryIO,
    format_: str,
    since: int | PathLike | None,
    progress: Callable[[ExportProgress], None],
) -> ExportReport:
    """Export as `LineageStore.export` says; `answers` runs a statement that only reads."""
    if what is not None:
        check_text("what", what)
    check_text("format", format_)
    found, is_directory = file_formats.find_format(format_), isinstance(to, str) or hasattr(to, "__fspath__")
    if not is_directory and (isinstance(to, io.TextIOBase) or not hasattr(to, "write")):
        raise LineageParamTypeError(f"to = {to!r} is neither a directory nor a stream of bytes.")
    behind, is_statement = _since(since), what is not None and _NAME.fullmatch(what) is None
    is_lineage = found.name == "openlineage"
    if is_lineage and what is not None:
        raise LineageParamValueError(f"The format {format_} is of all jobs: name no view and no statement.")
    if is_statement and behind is not None:
        raise LineageParamValueError("since is for views; a statement says itself which rows it wants.")
    if what is None and not is_directory and not is_lineage:
        raise LineageParamValueError("A stream takes one view or statement.", hint="Name it, or a directory.")
    if is_statement:
        with answers(what or "") as answer:
            rows = _watched(_statement(answer.columns, answer.rows, found), None, None, progress)
            return _written(to, found, rows, _facts(None, found, None))
    with opened.read_at_length() as session:
        facts = _facts(session, found, behind)
        named = [view.name for view in VIEWS] if what is None else [what.strip()]
        # No name for what is inside `_watched`: its cursor is closed with it, before the connection is.
        sources = _watched(
            openlineage_source(session, behind)
            if is_lineage
            else _views(session, list(map(of_view, named)), found, behind),
            session,
            behind,
            progress,
        )
        return _written(to, found, sources, facts)


def _since(since: int | PathLike | None) -> Since | None:
    """Return a revision, or the revisions in the manifest of an earlier export.

    Raises LineageParamTypeError, LineageParamValueError.
    """
    if isinstance(since, bool):
        raise LineageParamTypeError(f"since = {since!r} is neither a revision nor an export.")
    if since is None or isinstance(since, int):
        return None if since is None else max(LEAST_INTEGER, min(since, LARGEST_INTEGER))
    try:
        path = Path(since)
        path = path / MANIFEST if path.is_dir() else path
        found: dict[str, int] = json.loads(path.read_bytes())["revisions"]
        if not all(is_text(base_dir) and is_integer(revision) for base_dir, revision in found.items()):
            raise TypeError
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LineageParamValueError(
            f"since = {str(since)!r} is no export of views: {_lack(str(since), error)}.",
            hint="Give a revision (v_job.revision), or the directory of a whole export.",
        ) from error


def _lack(since: str, error: Exception) -> str:
    """Return what is missing for a complete export, according to the error of reading its manifest."""
    if isinstance(error, FileNotFoundError):
        return f"there is no {MANIFEST} in {since.removesuffix(MANIFEST) or 'this directory'}"
    if isinstance(error, OSError):
        return f"its {MANIFEST} cannot be read: {error.strerror}"
    return f"it has no {MANIFEST} with revisions"


def _views(
    session: Session, sources: Sequence[Source], format_: Format, since: Since | None
) -> Iterator[Batches]:
    """Yield views, one after the other."""
    jobs = changed_jobs(since)
    for source in sources:
        if format_.takes_arrow and source.name == V_SCALAR.name:
            yield source, arrow_schema(source), scalar_batches(session, source, jobs)
        else:
            rows = source_rows(session, source, jobs, as_stored=format_.takes_arrow)
            yield _of_rows(source, rows, format_)


def openlineage_source(session: Session, since: Since | None) -> Iterator[Batches]:
    """Yield the run events of OpenLineage, as one source."""
    yield Source("openlineage", ()), (), iter(run_events(session, changed_jobs(since)))


def _statement(columns: Sequence[str], rows: Iterator[tuple[Any, ...]], format_: Format) -> Iterator[Batches]:
    """Yield the answer to a statement, as one source."""
    yield _of_rows(of_statement(columns), statement_rows(rows), format_)


def _of_rows(source: Source, rows: Iterator[Any], format_: Format) -> Batches:
    if format_.takes_arrow:
        return source, *as_arrow(source, rows)
    return source, source.columns, rows


def _watched(
    sources: Iterator[Batches],
    session: Session | None,
    since: Since | None,
    progress: Callable[[ExportProgress], None],
) -> Watched:
    """Yield the same sources; their batches call `progress` after each one that was written."""
    jobs = changed_jobs(since)
    for source, columns, batches in sources:
        expected = None if session is None else expected_rows(session, source, jobs)
        yield source, columns, _counted(source.name, batches, expected, progress)


def _counted(
    name: str, batches: Iterator[Any], expected: int | None, progress: Callable[[ExportProgress], None]
) -> Generator[Any, None, None]:
    rows = 0
    for batch in batches:
        yield batch
        rows += len(batch)
        progress(ExportProgress(name, rows, expected))


def _facts(session: Session | None, format_: Format, since: Since | None) -> Mapping[str, Any]:
    """Return the contents of a manifest beside its list of files."""
    return {
        "format": format_.name,
        "lineage_store": version("lineage-store"),
        "made_at": iso(datetime.now(UTC)),
        "since": since,
        "revisions": None if session is None else revisions(session),
    }


def _written(
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


MANIFEST = "manifest.json"
_MOST_OPEN = 32
_MOST_ROWS = 5_000_000
"""The most rows of a file: a Parquet writer keeps the metadata of each row group in memory until the file ends."""


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One file of an export."""

    path: str
    """Relative to the directory."""
    name: str
    """The name of the view, or `query`, or `openlineage`."""
    base_dir: str | None
    month: str | None
    rows: int
    bytes: int
    sha256: str


@dataclass(slots=True)
class _Open:
    """A file that is being written, without a name yet."""

    path: str
    new: UnfinishedFile
    writer: Writer
    rows: int = 0


class ExportDirectory:
    """An export that is being written. It is complete when `finish` has returned."""

    def __init__(self, directory: Path, format_: Format) -> None:
        self._format = format_
        self._open: dict[tuple[str, Partition], _Open] = {}
        self.files: list[ExportedFile] = []
        try:
            self._directory = OutputDirectory.made(directory)
        except OSError as error:
            raise LineageParamValueError(
                f"{directory} cannot be written to: {error.strerror}.",
                hint="Name a directory that is new or empty.",
            ) from error
        if not self._directory.is_empty():
            what = "holds an export" if self._directory.exists(MANIFEST) else "is not empty"
            self._directory.close()
            raise LineageParamValueError(
                f"{directory} {what}.",
                hint="Export into a new or an empty directory, that no other export writes to; one without "
                "manifest.json is unfinished, remove it.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for each in self._open.values():
            with suppress(Exception):  # the export failed anyway; an open writer would write to a closed file
                each.writer.close()
            each.new.discard()
        self._directory.close()

    def write(self, source: Source, columns: Any, batches: Iterable[Any]) -> None:
        """Write a source. A source without rows becomes one file with columns and no rows."""
        split = split_arrow if self._format.takes_arrow else split_rows
        before = len(self.files)
        for batch in batches:
            for partition, part in split(source, batch):
                opened = self._opened(source, columns, partition)
                opened.writer.write(part)
                opened.rows += len(part)
                if opened.rows >= _MOST_ROWS:
                    self._finish((source.name, partition))
        for key in list(self._open):
            self._finish(key)
        if len(self.files) == before:
            self._opened(source, columns, Partition())
            self._finish((source.name, Partition()))

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write the manifest, with `facts` and the list of files, which completes the export."""
        manifest = {**facts, "files": [asdict(each) for each in self.files]}
        self._directory.write(MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")

    def _opened(self, source: Source, columns: Any, partition: Partition) -> _Open:
        key = source.name, partition
        found = self._open.pop(key, None)
        if found is None:
            if len(self._open) == _MOST_OPEN:
                self._finish(next(iter(self._open)))
            path = self._free(partition.path(source.name))
            new = self._directory.new(path)
            found = _Open(path, new, self._format.open(new.file, columns))
        self._open[key] = found  # moved to the end: `_open` is sorted by the last write
        return found

    def _free(self, name: str) -> str:
        """Return a path that no file has yet: rows of a file that was closed early continue in another file."""
        number, path = 1, f"{name}.{self._format.suffix}"
        while self._directory.exists(path):
            number += 1
            path = f"{name}.{number}.{self._format.suffix}"
        return path

    def _finish(self, key: tuple[str, Partition]) -> None:
        done = self._open[key]
        done.writer.close()
        size = done.new.file.seek(0, os.SEEK_END)
        done.new.file.seek(0)
        digest = hashlib.file_digest(done.new.file, "sha256").hexdigest()
        done.new.finish()
        del self._open[key]
        name, (base_dir, month) = key
        self.files.append(ExportedFile(done.path, name, base_dir, month, done.rows, size, digest))
