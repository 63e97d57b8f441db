"""`problems`, `retry` and `reingest`: list the problems of ingest, and read log files again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lineage_store import paths
from lineage_store.cli.output import (
    Style,
    asked_columns,
    columns_option,
    page_arguments,
    page_options,
    style_options,
    write_json,
    write_mappings,
    write_pairs,
    write_rows,
)
from lineage_store.cli.session import PATH, CliSession, pass_session
from lineage_store.errors import ExitCode, LineageParamSummaryPathError
from lineage_store.findings import Finding
from lineage_store.plain_values import instant
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api import LineageStore
    from lineage_store.api.reports import FileVerdict, Reread
    from lineage_store.eventlog.formats import LogFormat
    from lineage_store.eventlog.inspection import FilePart
    from lineage_store.eventlog.values import FileKind


SHOWN_PROBLEMS = 100
"""Number of problems in a table without --limit."""
SHOWN_LEFT = 10
"""Number of problems shown after reading again."""

_COLUMNS = [field.name for field in fields(Finding)]


@click.command("problems")
@click.argument("base_dir", type=PATH, required=False)
@click.option("--all", "everything", is_flag=True, help="Include resolved problems.")
@page_options
@columns_option
@style_options
@pass_session
def problems_verb(
    session: CliSession,
    base_dir: str | None,
    everything: bool,
    limit: int | None,
    page: int | None,
    style: Style,
) -> None:
    """List the problems of log files, and the remedies.

    What, where, since when, and what to do: the open problems of BASE_DIR, or of all base dirs, the newest first. One
    problem is about all places of a log file that have it. Without --limit, a table has 100 of them, some of every job.

    \b
    lineage-store problems
    lineage-store problems /shared/summaries --all --json
    """
    in_words = style == "table" and asked_columns() is None
    with session.open_store() as store:
        if in_words and limit is None and page is None:
            found = store.repair.some_problems(base_dir, resolved=everything, most=SHOWN_PROBLEMS + 1)
        else:
            found = store.repair.problems(base_dir, resolved=everything, **page_arguments(limit, page))
    if style == "json" and asked_columns() is None:
        write_json([asdict(problem) for problem in found])
        return
    if not in_words:
        write_mappings(_COLUMNS, map(asdict, found), style)
        return
    shown = found if limit or page else found[:SHOWN_PROBLEMS]
    for problem in shown:
        write_pairs(_lines(problem), title=problem.subject)
    if len(found) > len(shown):
        session.note(
            "... and more: `lineage-store problems --limit 100 --page 2`, or --json, has all of them."
        )
    if not found and page in (None, 1):
        session.note("No open problems." if not everything else "No problems, open or resolved.")


@click.command("retry")
@click.argument("path", type=PATH, required=False)
@pass_session
def retry_verb(session: CliSession, path: str | None) -> int:
    """Retry log files that have problems.

    Log files that could not be read, are gone, torn, or have bytes that make no frame; those that lost bytes are read
    from the start. PATH is a log file, a job's directory or a base dir; without it, all base dirs. A daemon gives way
    meanwhile. Exits 3 while problems are left there.

    \b
    lineage-store retry
    lineage-store retry /shared/summaries/run_7
    """
    with session.open_store(writes=True) as store:
        with session.working("Reading again"):
            done = store.repair.retry(path)
        left = store.repair.problems_below(path)
    return _tell(session, done, left)


@click.command("reingest")
@click.argument("job", type=PATH)
@click.option("--base-dir", type=PATH, metavar="DIR", help="Base dir of the job, if its id is ambiguous.")
@pass_session
def reingest_verb(session: CliSession, job: str, base_dir: str | None) -> int:
    """Read a job again from its first byte.

    JOB is a directory or an id such as ./run_7; one that `gc` removed comes back. Readers see what was read before
    until each file has been read anew; labels and remarks stay. A daemon gives way meanwhile. Exits 3 while the job
    has problems.

    \b
    lineage-store reingest ./run_7
    lineage-store reingest /shared/summaries/run_7
    """
    with session.open_store(writes=True) as store:
        found = store.job(job, base_dir=base_dir, removed=True)
        with session.working("Reading again"):
            done = found.reingest()
        left = store.repair.problems_below(found.path)
    return _tell(session, done, left)


def _tell(session: CliSession, done: Reread, left: Sequence[Finding]) -> int:
    click.echo(
        f"{done.tried:,} log files retried, {done.from_start:,} of them from the start; "
        f"read {done.events:,} events ({done.bytes_read:,} bytes)."
    )
    if done.kept_back:
        session.note(
            f"{done.kept_back:,} of them show what was read before: they now have less, and bytes that make no frame. "
            "That ends when those are read, or given up after suspect_grace_s."
        )
    for problem in left[:SHOWN_LEFT]:
        session.note(f"{problem.subject}: {problem.what} {problem.remedy}")
    if more := sum(problem.problems for problem in left[SHOWN_LEFT:]):
        session.note(f"... and {more:,} more: see `lineage-store problems`.")
    return ExitCode.PARTLY_DONE if left else 0


def _lines(problem: Finding) -> list[tuple[str, object]]:
    lines: list[tuple[str, object]] = [("what", f"{problem.kind}: {problem.what}")]
    if problem.range_start is not None:
        lines.append(("where", _where(problem)))
    lines += [("since", problem.since), ("remedy", problem.remedy)]
    if problem.until is not None:
        lines.append(("until", problem.until))
    return lines


def _where(problem: Finding) -> str:
    """Return which bytes a problem is about."""
    if problem.count == 1:
        return f"bytes {problem.range_start} to {problem.range_end}"
    first = f"bytes {problem.range_start} to {problem.first_range_end}"
    last = f"bytes {problem.last_range_start} to {problem.range_end}"
    return f"{problem.count:,} places with {problem.bytes:,} bytes, the first {first}, the last {last}"


# ---- `verify`: compares the log files with the store


SHOWN_OF_A_FILE = 10
_SUMMED = ("thinned_series", "size_bytes", "ingested_bytes", "quarantined_bytes", "pending_bytes")
_LEDGER = (
    "{files:,} log files, {size_bytes:,} bytes = {ingested_bytes:,} ingested + {quarantined_bytes:,} quarantined "
    "+ {pending_bytes:,} pending; {different:,} differ, {unreadable:,} could not be verified."
)


@click.command("verify")
@click.argument("place", type=PATH, metavar="[BASE_DIR|JOB]", required=False)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    help="Check only this many log files per base dir, chosen at random.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@pass_session
def verify_verb(session: CliSession, place: str | None, sample: int | None, as_json: bool) -> int:
    """Compare the store with the log files.

    Reads them again, frame by frame, and compares: every byte is ingested, quarantined or pending; samples, statistics,
    lineage and payload references are as the file says. Changes nothing. Exits 1 when something differs, 3 when files
    could not be read.

    \b
    lineage-store verify
    lineage-store verify /shared/summaries --sample 100
    lineage-store verify ./run_7
    """
    totals = dict.fromkeys(("files", "different", "unreadable", *_SUMMED), 0)
    shown = []
    with session.open_store() as store, session.working("Verifying") as tell:
        for verdict in _verdicts(store, place, sample):
            totals["files"] += 1
            totals["different"] += bool(verdict.differences)
            totals["unreadable"] += verdict.unreadable is not None
            for name in _SUMMED:
                totals[name] += getattr(verdict, name)
            tell(f"{totals['files']:,} log files, {totals['size_bytes']:,} bytes")
            if as_json:
                shown += [verdict] if verdict.differences or verdict.unreadable else []
            else:
                _print(session, verdict)
    if as_json:
        write_json({**totals, "verdicts": [asdict(verdict) for verdict in shown]})
    else:
        click.echo(_LEDGER.format(**totals))
        if thinned := totals["thinned_series"]:
            click.echo(f"{thinned:,} series are thinned: few of their samples are left.")
    if totals["different"]:
        return ExitCode.FAILED
    return ExitCode.PARTLY_DONE if totals["unreadable"] else ExitCode.OK


def _verdicts(store: LineageStore, place: str | None, sample: int | None) -> Iterator[FileVerdict]:
    from lineage_store.api import known_base_dirs

    if place is None or known_base_dirs(store, [place]):
        return store.repair.verify(place, sample=sample)
    return store.job(place).verify(sample=sample)


def _print(session: CliSession, verdict: FileVerdict) -> None:
    if verdict.unreadable:
        session.note(str(verdict.unreadable))
    for difference in verdict.differences[:SHOWN_OF_A_FILE]:
        at = "" if difference.range_start is None else f" at byte {difference.range_start}"
        click.echo(escaped(f"{difference.subject}{at}: {difference.what}"))
    if verdict.differences:
        more = len(verdict.differences) - SHOWN_OF_A_FILE
        click.echo(escaped(f"  {f'and {more:,} more; ' if more > 0 else ''}{verdict.differences[0].remedy}"))


# ---- `inspect` and `why`: what a log file contains, and why a file or job is (not) in the store


SHOWN_FRAMES = 20
COLUMNS = ("position", "length", "state", "step", "wall_at", "content")


@click.command("inspect")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=SHOWN_FRAMES,
    show_default=True,
    help="Show at most this many valid frames.",
)
@click.option("--all", "everything", is_flag=True, help="Every frame, not only the first.")
@columns_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON, every frame included.")
@pass_session
def inspect_verb(session: CliSession, file: str, limit: int, everything: bool, as_json: bool) -> None:
    """List the frames of a log file.

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
def why_verb(session: CliSession, path: str, as_json: bool) -> None:
    """Explain why a file or job is (not) in the store.

    PATH is a log file or a job's directory.

    \b
    lineage-store why /shared/summaries/run_7
    lineage-store why /shared/summaries/run_7/events.out.events.summary.1795251905.0.host_MS
    """
    with session.open_store() as store:
        verdict = store.repair.why(path)
    if as_json:
        write_json(asdict(verdict))
        return
    click.echo(escaped(f"{verdict.path}: {verdict.verdict}."))
    for found in verdict.findings:
        whose = "" if found.subject == verdict.path else f"{found.subject}: "
        click.echo(escaped(f"- {whose}{found.what}"))
        if found.remedy:
            click.echo(escaped(f"  {found.remedy}"))


def _parts(session: CliSession, file: str, log_format: LogFormat, kind: FileKind) -> Iterator[FilePart]:
    from lineage_store.eventlog.inspection import inspect

    settings = session.settings().settings
    path = Path(os.path.abspath(file))
    base_dirs = {os.path.realpath(base_dir) for base_dir in settings.base_dirs}
    # Outside of base dirs it is read as in one: the directory above its job's directory.
    as_in_one = path.parent.parent, os.path.join(path.parent.name, path.name)
    base_dir, below = paths.base_dir_above(path, base_dirs) or as_in_one
    try:
        with (
            paths.opened(base_dir, follow_symlinks=settings.follow_symlinks) as root,
            root.file(below) as descriptor,
            open(descriptor, "rb", closefd=False) as stream,
        ):
            yield from inspect(stream, log_format, kind, max_frame_bytes=settings.max_frame_bytes)
    except OSError as error:
        is_link = isinstance(error, paths.LinkError)
        hint = "Name the file itself: symbolic links to a log file or its directory are not followed."
        raise LineageParamSummaryPathError(
            f"{file} cannot be read: {error.strerror or error}.", hint=hint if is_link else None
        ) from error


def _shown(parts: Iterator[FilePart], limit: int | None) -> Iterator[FilePart]:
    """Yield the first `limit` parts (None: all), and of the rest those that are not good frames."""
    yield from islice(parts, limit)
    yield from (part for part in parts if part.state != "good")


def _row(part: FilePart) -> tuple[object, ...]:
    return part.position, part.length, part.state, part.step, instant(part.wall_time), part.content


def _ledger(totals: dict[str, int]) -> str:
    bytes_by_state = (
        (name.removesuffix("_bytes"), count) for name, count in totals.items() if name != "frames"
    )
    return ", ".join(f"{count:,} bytes {state}" for state, count in bytes_by_state if count) or "empty"
