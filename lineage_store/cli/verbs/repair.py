"""`problems`, `retry` and `reingest`: list the problems of ingest, and read log files again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import click

from lineage_store.api.places import find_job
from lineage_store.cli.option_values import PATH
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
)
from lineage_store.cli.session import Session, pass_session
from lineage_store.errors import ExitCode
from lineage_store.findings import Finding

if TYPE_CHECKING:
    from lineage_store.api.reports import Reread


SHOWN_PROBLEMS = 100
"""Number of problems in a table without --limit."""
SHOWN_LEFT = 10
"""Number of problems shown after reading again."""

_COLUMNS = [field.name for field in fields(Finding)]


@click.command("problems")
@click.argument("base_dir", type=PATH, required=False)
@click.option("--all", "everything", is_flag=True, help="Those that went away too.")
@page_options
@columns_option
@style_options
@pass_session
def problems_verb(
    session: Session,
    base_dir: str | None,
    everything: bool,
    limit: int | None,
    page: int | None,
    style: Style,
) -> None:
    """List what ingest could not do, and the remedies.

    What, where, since when, and what to do: the open problems of BASE_DIR, or of all base dirs, the newest first. One
    problem is about all places of a log file that have it. Without --limit, a table has 100 of them, some of every job.

    \b
    lineage-store problems
    lineage-store problems /shared/summaries --all --json
    """
    in_words = style == "table" and asked_columns() is None
    with session.open_store() as store:
        if in_words and limit is None and page is None:
            found = store.some_problems(base_dir, resolved=everything, most=SHOWN_PROBLEMS + 1)
        else:
            found = store.problems(base_dir, resolved=everything, **page_arguments(limit, page))
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
        session.note("No problem is open." if not everything else "There never was a problem.")


@click.command("retry")
@click.argument("path", type=PATH, required=False)
@pass_session
def retry_verb(session: Session, path: str | None) -> int:
    """Try again what is in trouble, now.

    Log files that could not be read, are gone, torn, or have bytes that make no frame; those that lost bytes are read
    from the start. PATH is a log file, a job's directory or a base dir; without it, all base dirs. A daemon gives way
    meanwhile. Exits 3 while problems are left there.

    \b
    lineage-store retry
    lineage-store retry /shared/summaries/run_7
    """
    with session.open_store(writes=True) as store:
        with session.working("Reading again"):
            done = store.retry(path)
        left = store.problems_below(path)
    return _tell(session, done, left)


@click.command("reingest")
@click.argument("job", type=PATH)
@click.option(
    "--base-dir", type=PATH, metavar="DIR", help="Base dir of the job, where its id alone does not tell."
)
@pass_session
def reingest_verb(session: Session, job: str, base_dir: str | None) -> int:
    """Read a job again from its first byte.

    JOB is a directory or an id such as ./run_7; one that `gc` removed comes back. Readers see what was read before
    until each file has been read anew; labels and remarks stay. A daemon gives way meanwhile. Exits 3 while the job
    has problems.

    \b
    lineage-store reingest ./run_7
    lineage-store reingest /shared/summaries/run_7
    """
    with session.open_store(writes=True) as store:
        place, train_id = find_job(store, job, base_dir, removed=True)
        with session.working("Reading again"):
            done = store.reingest(place, train_id)
        left = store.problems_below(f"{place}/{train_id}")
    return _tell(session, done, left)


def _tell(session: Session, done: Reread, left: Sequence[Finding]) -> int:
    click.echo(
        f"{done.tried:,} log files tried again, {done.from_start:,} of them from the start; "
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
