"""`export`: views, the answer to a query or run events, written as files."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from lineage_store.api import combined
from lineage_store.api.store import EXPORT_FORMATS, SQL_TIMEOUT_S
from lineage_store.cli.output import Style, asked_columns, listing_options, write_rows
from lineage_store.cli.session import PATH, CliSession, choice_of, pass_session
from lineage_store.cli.tables import cell_text
from lineage_store.errors import LineageQuerySummaryDataError, LineageSearchConditionParamError
from lineage_store.plain_values import for_json
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api.reports import Change, ExportProgress


_SUFFIXES = {".parquet", ".arrow", ".arrows", ".csv", ".json", ".jsonl"}


@click.command("export")
@click.argument("what", metavar="[VIEW|QUERY]", required=False)
@click.option("--to", type=PATH, required=True, metavar="DIR|-", help="A new or empty directory, or stdout.")
@click.option(
    "--format",
    "format_",
    default=EXPORT_FORMATS[0],
    show_default=True,
    metavar="FORMAT",
    callback=choice_of(EXPORT_FORMATS),
    help=f"One of {', '.join(EXPORT_FORMATS)}.",
)
@click.option(
    "--since",
    metavar="REVISION|DIR",
    help="Only jobs that changed after this revision, or after the export in that directory.",
)
@pass_session
def export_verb(session: CliSession, what: str | None, to: str, format_: str, since: str | None) -> None:
    """Write a view, the answer to a query, or all views as files.

    Files are divided by base dir, and by month where a view has times. manifest.json comes last, with rows, bytes and
    SHA-256 of each file: a directory without it is an unfinished export. openlineage writes run events of all jobs.

    \b
    lineage-store export --to /data/lineage
    lineage-store export --since /data/lineage --to /data/lineage-2
    lineage-store export v_metric --format csv --to - > metrics.csv
    lineage-store export --format openlineage --to - > events.jsonl
    """
    if Path(to).suffix in _SUFFIXES:
        raise click.BadParameter(
            f"{to} is named as a file is; give a directory, or --to - > {to}.", param_hint="--to"
        )
    behind = int(since) if since is not None and since.isdecimal() else since
    to_terminal = to == "-" and sys.stdout.isatty()
    with session.open_store() as store, session.working("Exporting", wanted=not to_terminal) as tell:
        target = sys.stdout.buffer if to == "-" else to
        report = store.export(
            what, to=target, format=format_, since=behind, progress=lambda far: tell(_shown(far))
        )
    if to == "-":
        sys.stdout.buffer.flush()
        return
    files = len(report.files)
    click.echo(f"{report.rows:,} rows in {files:,} {'file' if files == 1 else 'files'} in {to}.")


def _shown(far: ExportProgress) -> str:
    of = "" if far.expected_rows is None else f" of {far.expected_rows:,}"
    return f"{far.name}, {far.rows:,}{of} rows"


# ---- `sql`: runs a read-only SQL statement of the user


MOST_ROWS = 1000


@click.command("sql")
@click.argument("query")
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, 86_400),
    default=SQL_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="Cancel the statement if no row arrives within this time.",
)
@listing_options
@pass_session
def sql_verb(session: CliSession, query: str, timeout: float, style: Style) -> None:
    """Run one SQL statement that only reads.

    `-` takes it from stdin. docs/schema.md describes the views. A table shows the first 1,000 rows and six digits of a
    number; --csv and --json give all of both.

    \b
    lineage-store sql "SELECT train_id, value FROM v_metric WHERE name = 'accuracy' ORDER BY value DESC LIMIT 5"
    lineage-store sql - --csv < question.sql > answer.csv
    """
    statement = sys.stdin.read() if query == "-" else query
    with session.open_store() as store, store.sql(statement, timeout_s=timeout) as answer:
        _require_own_names(answer.columns, style)
        if style != "table":
            write_rows(answer.columns, answer.rows, style)
            return
        write_rows(answer.columns, list(islice(answer.rows, MOST_ROWS)), style)
        if next(answer.rows, None) is not None:
            session.note(f"Only the first {MOST_ROWS:,} rows are shown: --csv and --json give all.")


def _require_own_names(columns: Sequence[str], style: Style) -> None:
    """Raise click.UsageError if JSON or --columns needs names of columns, and two columns have the same name."""
    named = asked_columns() or (columns if style == "json" else ())
    for name in named:
        if columns.count(name) > 1:
            raise click.UsageError(
                f"The statement has several columns of the name {name!r}. Give each a name by AS."
            )


# ---- `tail`: the changes of the store as they happen, one per line


ALL = "all"
LOOKS_EVERY_S, TRIES_AGAIN_EVERY_S = 0.25, 1.0


@click.command("tail")
@click.argument("conditions", metavar="[CONDITION]...", nargs=-1)
@click.option(
    "--since",
    default="now",
    show_default=True,
    metavar="TOKEN",
    help="Continue after this `since` token; 'all' starts with every job.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@click.option("--follow/--no-follow", default=True, help="Keep following, or exit after the current changes.")
@pass_session
def tail_verb(
    session: CliSession, conditions: Sequence[str], since: str, as_json: bool, follow: bool
) -> None:
    """Follow changes of the store, one per line.

    Jobs that are new or grew, or got a label or remark, and those that were removed; a job that changed several times
    since the last check is listed once. With CONDITION, as in `filter --where`, only jobs that match when they
    change, and all removed ones. While the database is unavailable it waits. Continuing with the `since` of the last
    line misses nothing and repeats nothing.

    \b
    lineage-store tail
    lineage-store tail 'metric/accuracy>=0.9' 'network=LeNet5'
    lineage-store tail --since all --no-follow --json
    """
    condition = combined(None, conditions, []) or None
    trouble = ""
    with (
        session.open_store() as store,
        store.changes.follow(None if since == ALL else since, condition=condition) as follower,
    ):
        try:
            store.lineage.require_names(condition)
        except LineageSearchConditionParamError as error:
            session.note(str(error))  # a later job may bring the name
        while True:
            try:
                for answer in follower.look():
                    for change in answer.changes:
                        click.echo(_as_json(change) if as_json else _as_line(change))
            except LineageQuerySummaryDataError as error:
                if not follow:
                    raise
                if error.message != trouble:
                    session.note(f"{error} Will retry.")
                trouble = error.message
                time.sleep(TRIES_AGAIN_EVERY_S)
                continue
            if trouble:
                session.note("The database is available again.")
                trouble = ""
            if not follow:
                return
            time.sleep(LOOKS_EVERY_S)


def _as_line(change: Change) -> str:
    job = str(PurePath(change.base_dir, change.train_id or ""))
    return f"{cell_text(change.at):19}  {change.kind:9}  {cell_text(change.state):8}  {escaped(job)}"


def _as_json(change: Change) -> str:
    names = ("kind", "base_dir", "train_id", "state", "revision", "at", "since")
    return json.dumps({name: for_json(getattr(change, name)) for name in names}, allow_nan=False)
