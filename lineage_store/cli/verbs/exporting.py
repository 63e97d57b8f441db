"""`export`: views, the answer to a query or run events, written as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lineage_store.api.exports import EXPORT_FORMATS
from lineage_store.cli.option_values import PATH, one_of
from lineage_store.cli.session import Session, pass_session

if TYPE_CHECKING:
    from lineage_store.api.reports import ExportProgress

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
    callback=one_of(EXPORT_FORMATS),
    help=f"One of {', '.join(EXPORT_FORMATS)}.",
)
@click.option(
    "--since",
    metavar="REVISION|DIR",
    help="Only jobs that changed behind this revision, or behind the export in that directory.",
)
@pass_session
def export_verb(session: Session, what: str | None, to: str, format_: str, since: str | None) -> None:
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
