"""`inspect` and `why`: what a log file contains, and why a file or job is (not) in the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lineage_store import beneath
from lineage_store.cli.option_values import PATH
from lineage_store.cli.output import columns_option, write_json, write_rows
from lineage_store.cli.session import Session, pass_session
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.texts import escaped
from lineage_store.times import instant

if TYPE_CHECKING:
    from lineage_store.eventlog.formats import LogFormat
    from lineage_store.eventlog.inspection import Part
    from lineage_store.eventlog.values import FileKind

SHOWN_FRAMES = 20
COLUMNS = ("position", "length", "state", "step", "wall_at", "content")


@click.command("inspect")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=SHOWN_FRAMES,
    show_default=True,
    help="Good frames at most.",
)
@click.option("--all", "everything", is_flag=True, help="Every frame, not only the first.")
@columns_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON, every frame included.")
@pass_session
def inspect_verb(session: Session, file: str, limit: int, everything: bool, as_json: bool) -> None:
    """Take a log file apart, frame by frame.

    Where frames stand, whether their checksums hold, what they contain. What is no frame is always listed: suspect
    ranges, and the pending end of a live file. Needs no store.

    \b
    lineage-store inspect events.out.events.summary.1795251905.0.host_MS
    lineage-store inspect --json FILE
    """
    from lineage_store.eventlog import formats
    from lineage_store.eventlog.inspection import summarise

    name = Path(file).name
    log_format, kind = formats.assumed(name)
    totals = summarise(_parts(session, file, log_format, kind))
    if as_json:
        parts = [asdict(part) for part in _parts(session, file, log_format, kind)]
        about = {"file": file, "format": log_format.name, "kind": kind}
        write_json({**about, "totals": totals, "parts": parts})
        return
    if reason := formats.ignored_reason(name):
        session.note(f"Ingest leaves it out: {reason}. Read as a {kind} file.")
    shown = _shown(_parts(session, file, log_format, kind), None if everything else limit)
    write_rows(COLUMNS, map(_row, shown), "table")
    click.echo(f"\n{kind} file, {totals['frames']:,} frames: {_ledger(totals)}.")


@click.command("why")
@click.argument("path", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@pass_session
def why_verb(session: Session, path: str, as_json: bool) -> None:
    """Tell why a file or job is (not) in the store.

    PATH is a log file or a job's directory.

    \b
    lineage-store why /shared/summaries/run_7
    lineage-store why /shared/summaries/run_7/events.out.events.summary.1795251905.0.host_MS
    """
    with session.open_store() as store:
        verdict = store.why(path)
    if as_json:
        write_json(asdict(verdict))
        return
    click.echo(escaped(f"{verdict.path}: {verdict.verdict}."))
    for found in verdict.findings:
        whose = "" if found.subject == verdict.path else f"{found.subject}: "
        click.echo(escaped(f"- {whose}{found.what}"))
        if found.remedy:
            click.echo(escaped(f"  {found.remedy}"))


def _parts(session: Session, file: str, log_format: LogFormat, kind: FileKind) -> Iterator[Part]:
    from lineage_store.eventlog.inspection import inspect

    settings = session.settings().settings
    path = Path(os.path.abspath(file))
    base_dirs = {os.path.realpath(base_dir) for base_dir in settings.base_dirs}
    # Outside of base dirs it is read as in one: the directory above its job's directory.
    as_in_one = path.parent.parent, os.path.join(path.parent.name, path.name)
    base_dir, below = beneath.base_dir_above(path, base_dirs) or as_in_one
    try:
        with (
            beneath.opened(base_dir, follow_symlinks=settings.follow_symlinks) as root,
            root.file(below) as descriptor,
            open(descriptor, "rb", closefd=False) as stream,
        ):
            yield from inspect(stream, log_format, kind, max_frame_bytes=settings.max_frame_bytes)
    except OSError as error:
        is_link = isinstance(error, beneath.LinkError)
        hint = "Name the file itself: symbolic links to a log file or its directory are not followed."
        raise LineageParamSummaryPathError(
            f"{file} cannot be read: {error.strerror or error}.", hint=hint if is_link else None
        ) from error


def _shown(parts: Iterator[Part], limit: int | None) -> Iterator[Part]:
    """Yield the first `limit` parts (None: all), and of the rest those that are not good frames."""
    yield from islice(parts, limit)
    yield from (part for part in parts if part.state != "good")


def _row(part: Part) -> tuple[object, ...]:
    return part.position, part.length, part.state, part.step, instant(part.wall_time), part.content


def _ledger(totals: dict[str, int]) -> str:
    bytes_by_state = (
        (name.removesuffix("_bytes"), count) for name, count in totals.items() if name != "frames"
    )
    return ", ".join(f"{count:,} bytes {state}" for state, count in bytes_by_state if count) or "empty"
