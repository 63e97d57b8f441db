"""Export the contents of a store as files.

In: a view, a statement or nothing for all views; a format; a target. Out: files with a manifest, or one stream. Does
not know SQL nor formats: `query/export/` does the work.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lineage_store.api.operations import SQL_TIMEOUT_S, Operations
from lineage_store.errors import LineageParamTypeError, LineageParamValueError
from lineage_store.paths import PathLike
from lineage_store.plain_values import LARGEST_INTEGER, LEAST_INTEGER
from lineage_store.query.export.file_formats import FORMATS
from lineage_store.store.database.session import Session
from lineage_store.texts import check_text

if TYPE_CHECKING:
    from lineage_store.query.export.exporting import ExportProgress, ExportReport
    from lineage_store.query.export.sources import Since


EXPORT_FORMATS = tuple(FORMATS)
_NAME = re.compile(r"\s*\w+\s*")


class Exports(Operations):
    """A store whose content can be exported."""

    def export(
        self,
        what: str | None = None,
        *,
        to: PathLike | BinaryIO,
        format: str = "parquet",  # noqa: A002 - what everybody calls it
        since: int | PathLike | None = None,
        timeout_s: float = SQL_TIMEOUT_S,
        progress: Callable[[ExportProgress], None] = lambda _: None,
    ) -> ExportReport:
        """Write views, or the answer to a statement, as files.

        Args:
            what: a view, or an SQL statement that only reads; None: all views, from one snapshot.
            to: a new or empty directory, which has a manifest.json once the export is complete; or a binary stream,
                which takes one view or statement, or the run events.
            format: parquet or arrow (with the extra `export`), csv, jsonl; openlineage: run events of jobs.
            since: a revision, or the directory or manifest.json of an earlier export: views about jobs and run events
                are restricted to jobs that changed behind it; other views are written whole.
            timeout_s: how long a statement may take until its first row.
            progress: called after every batch of rows.

        Raises:
            LineageParamTypeError, LineageParamValueError: there is no such view or format, the directory is not empty,
                or `since` is neither a revision nor an export.
            LineageStoreError: pyarrow is missing, or a statement's column holds values of several types.
            LineageQuerySummaryDataError: the database refuses the statement, or fails.
        """
        from lineage_store.query.export import exporting, file_formats
        from lineage_store.query.export.sources import of_view
        from lineage_store.store.schema.views import VIEWS

        if what is not None:
            check_text("what", what)
        check_text("format", format)
        found, is_directory = (
            file_formats.find_format(format),
            isinstance(to, str) or hasattr(to, "__fspath__"),
        )
        if not is_directory and (isinstance(to, io.TextIOBase) or not hasattr(to, "write")):
            raise LineageParamTypeError(f"to = {to!r} is neither a directory nor a stream of bytes.")
        behind, is_statement = _since(since), what is not None and _NAME.fullmatch(what) is None
        is_lineage = found.name == "openlineage"
        if is_lineage and what is not None:
            raise LineageParamValueError(
                f"The format {format} is of all jobs: name no view and no statement."
            )
        if is_statement and behind is not None:
            raise LineageParamValueError("since is for views; a statement says itself which rows it wants.")
        if what is None and not is_directory and not is_lineage:
            raise LineageParamValueError(
                "A stream takes one view or statement.", hint="Name it, or a directory."
            )
        if is_statement:
            with self.sql(what or "", timeout_s=timeout_s) as answer:
                sources = exporting.statement(answer.columns, answer.rows, found)
                sources = exporting.watched(sources, None, None, progress)
                return exporting.written(to, found, sources, exporting.facts(None, found, None))
        with self._long_reading() as session:
            facts = exporting.facts(session, found, behind)
            named = [view.name for view in VIEWS] if what is None else [what.strip()]
            sources = (
                exporting.openlineage_source(session, behind)
                if is_lineage
                else exporting.views(session, list(map(of_view, named)), found, behind)
            )
            sources = exporting.watched(sources, session, behind, progress)
            return exporting.written(to, found, sources, facts)

    @contextmanager
    def _long_reading(self) -> Iterator[Session]:
        """Open a read transaction without a statement timeout."""
        from lineage_store.store.database import connections, db

        url = self.read_engine.url.render_as_string(hide_password=False)
        apart = db.open_engine(url, read_only=True, allow_network_filesystem=True, statement_timeout_s=0)
        try:
            with self._reading(apart) as session:
                yield session
        finally:
            connections.close(apart)


def _since(since: int | PathLike | None) -> Since | None:
    """Return a revision, or the revisions in the manifest of an earlier export.

    Raises LineageParamTypeError, LineageParamValueError.
    """
    if isinstance(since, bool):
        raise LineageParamTypeError(f"since = {since!r} is neither a revision nor an export.")
    if since is None or isinstance(since, int):
        return None if since is None else max(LEAST_INTEGER, min(since, LARGEST_INTEGER))
    from lineage_store.plain_values import is_integer, is_text
    from lineage_store.query.export.exporting import MANIFEST

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
    from lineage_store.query.export.exporting import MANIFEST

    if isinstance(error, FileNotFoundError):
        return f"there is no {MANIFEST} in {since.removesuffix(MANIFEST) or 'this directory'}"
    if isinstance(error, OSError):
        return f"its {MANIFEST} cannot be read: {error.strerror}"
    return f"it has no {MANIFEST} with revisions"
