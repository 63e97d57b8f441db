"""`jobs`, `show` and `annotate`: list the jobs, print or annotate one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from lineage_store.api.places import find_job
from lineage_store.cli.option_values import PATH, one_of
from lineage_store.cli.output import (
    Style,
    columns_option,
    style_options,
    write_json,
    write_mappings,
    write_pairs,
    write_rows,
)
from lineage_store.cli.session import Session, pass_session
from lineage_store.extreme_numbers import NUMBER_BY_KIND
from lineage_store.fields import LARGEST_LABEL
from lineage_store.states import JobState, Outcome

if TYPE_CHECKING:
    from lineage_store.api.reports import JobReport

base_dir_option = click.option(
    "--base-dir", type=PATH, metavar="DIR", help="Base dir of the jobs, if the store has several."
)

JOB_COLUMNS = ("job", "state", "outcome", "started", "updated", "bytes", "host", "base_dir")
_job_row = attrgetter(
    "train_id", "state", "outcome", "first_started_at", "updated_at", "log_bytes", "host", "base_dir"
)
_SERIES_COLUMNS = (
    *("plugin", "tag", "device", "sample_count", "first_step", "last_step"),
    *("last_value", "min_value", "max_value", "nan_count", "superseded_count"),
)
SHOWN_PROBLEMS = 10
"""Number of problems that `show` prints."""
_FILE_COLUMNS = (
    *("log_file", "generation", "state", "size_bytes", "pending_bytes", "quarantined_bytes", "event_count"),
)


@click.command("jobs")
@click.argument("base_dir", type=PATH, required=False)
@click.option(
    "--state", callback=one_of(tuple(JobState)), help=f"Only jobs in this state: {', '.join(JobState)}."
)
@click.option(
    "--outcome",
    callback=one_of(tuple(Outcome)),
    help=f"Only jobs whose training ended so: {', '.join(Outcome)}.",
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Jobs in a page.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True, help="Which page, from 1.")
@click.option("--after", metavar="CURSOR", help="The page behind this cursor, which the page before tells.")
@columns_option
@style_options
@pass_session
def jobs_verb(
    session: Session,
    base_dir: str | None,
    state: str | None,
    outcome: str | None,
    limit: int,
    page: int,
    after: str | None,
    style: Style,
) -> None:
    """List jobs, most recently updated first, a page at a time.

    Those of BASE_DIR, or of all base dirs. Where there are more, stderr tells the cursor to go on with.

    \b
    lineage-store jobs
    lineage-store jobs /shared/summaries --state live --json
    lineage-store jobs --outcome failed
    lineage-store jobs --limit 50 --after WzE3MzE2...
    """
    with session.open_store() as store:
        of_these = partial(store.train_jobs, base_dir, state=state, outcome=outcome)
        jobs = of_these(limit=limit, page=page - 1, after=after)
        last = jobs[-1].cursor if len(jobs) == limit else None
        more = last and of_these(limit=1, after=last)
    write_rows(JOB_COLUMNS, map(_job_row, jobs), style)
    if more:
        session.note(f"There are more: --after {last}")
    if not jobs and (state, outcome, page, after) == (None, None, 1, None):
        session.note("The store holds no jobs: run `lineage-store ingest BASE_DIR`.")


@click.command("show")
@click.argument("job", type=PATH)
@base_dir_option
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@pass_session
def show_verb(session: Session, job: str, base_dir: str | None, as_json: bool) -> None:
    """Print everything about one job.

    What was trained, metrics, tags, log files, problems. JOB is its directory or its id, ./name.

    \b
    lineage-store show /shared/summaries/run_7
    lineage-store show ./run_7 --base-dir /shared/summaries --json
    """
    with session.open_store() as store:
        report = store.job_report(*find_job(store, job, base_dir))
    if as_json:
        write_json(asdict(report))
    else:
        _print_report(report)


@click.command("annotate")
@click.argument("job", type=PATH)
@click.option(
    "--label",
    type=click.IntRange(0, LARGEST_LABEL),
    help=f"A number from 0 to {LARGEST_LABEL} (MindInsight's tag).",
)
@click.option("--remark", help="Text of up to 128 characters; an empty one takes the remark away.")
@base_dir_option
@pass_session
def annotate_verb(
    session: Session, job: str, label: int | None, remark: str | None, base_dir: str | None
) -> None:
    """Put a label or a remark on a job, for good.

    \b
    lineage-store annotate ./run_7 --label 3 --remark "diverges after epoch 5"
    lineage-store filter --sort tag:desc
    """
    if label is None and remark is None:
        raise click.UsageError("Give --label, --remark, or both.")
    with session.open_store(writes=True) as store:
        place, train_id = find_job(store, job, base_dir)
        store.annotate(place, train_id, tag=label, remark=remark)
    session.note(f"{train_id}: noted.")


def _print_report(report: JobReport) -> None:
    known = [(name, value) for name, value in report.job.items() if value is not None]
    write_pairs(known, title=str(report.job["train_id"]))
    if report.metrics:
        write_pairs([(str(row["name"]), _value(row)) for row in report.metrics], title="Metrics")
    if report.user_info:
        write_pairs([(str(row["key"]), _value(row)) for row in report.user_info], title="User-defined")
    if report.series:
        write_mappings(_SERIES_COLUMNS, report.series, title="Tags")
    write_mappings(_FILE_COLUMNS, report.log_files, title="Log files")
    for problem in report.problems[:SHOWN_PROBLEMS]:
        write_pairs([("what", problem.what), ("remedy", problem.remedy)], title=f"Problem: {problem.subject}")
    if more := sum(problem.problems for problem in report.problems[SHOWN_PROBLEMS:]):
        click.echo(f"... and {more:,} more problems: see `lineage-store problems`.")


def _value(row: Mapping[str, Any]) -> object:
    """Return the value of a row of v_metric or v_user_info, in its own type."""
    if row["kind"] == "bool":
        return bool(row["value"])
    if row["kind"] == "int" and row["value"] is not None:
        return int(row["value"])
    if row["kind"] in NUMBER_BY_KIND:
        return NUMBER_BY_KIND[row["kind"]]
    return row["text"] if row["value"] is None else row["value"]
