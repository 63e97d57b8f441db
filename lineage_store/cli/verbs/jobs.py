"""`jobs`, `show` and `annotate`: list the jobs, print or annotate one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_store.api import combined
from lineage_store.cli.output import (
    PAGE_ROWS,
    Style,
    columns_option,
    listing_options,
    style_options,
    write_json,
    write_mappings,
    write_pairs,
    write_rows,
)
from lineage_store.cli.session import PATH, CliSession, choice_of, pass_session, refusal
from lineage_store.fields import (
    LARGEST_LABEL,
    LISTED,
    METRIC_PREFIX,
    OF_JOBS,
    PREFIXES,
    PRINTED,
    SUMMARY_PREFIXES,
)
from lineage_store.plain_values import NUMBER_BY_KIND
from lineage_store.states import JobState, Outcome
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api import LineageStore
    from lineage_store.api.reports import JobPage, JobReport, JobRow


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
    "--state", callback=choice_of(tuple(JobState)), help=f"Only jobs in this state: {', '.join(JobState)}."
)
@click.option(
    "--outcome",
    callback=choice_of(tuple(Outcome)),
    help=f"Only jobs with this outcome of the training: {', '.join(Outcome)}.",
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Jobs per page.")
@click.option("--page", type=click.IntRange(min=1), default=1, show_default=True, help="Page number, from 1.")
@click.option(
    "--after", metavar="CURSOR", help="Continue after this cursor, which the previous page printed."
)
@columns_option
@style_options
@pass_session
def jobs_verb(
    session: CliSession,
    base_dir: str | None,
    state: str | None,
    outcome: str | None,
    limit: int,
    page: int,
    after: str | None,
    style: Style,
) -> None:
    """List jobs, most recently updated first, a page at a time.

    Those of BASE_DIR, or of all base dirs. If there are more, stderr shows the cursor for --after.

    \b
    lineage-store jobs
    lineage-store jobs /shared/summaries --state live --json
    lineage-store jobs --outcome failed
    lineage-store jobs --limit 50 --after WzE3MzE2...
    """
    with session.open_store() as store:
        of_these = partial(store.lineage.jobs, base_dir, state=state, outcome=outcome)
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
def show_verb(session: CliSession, job: str, base_dir: str | None, as_json: bool) -> None:
    """Print everything about one job.

    What was trained, metrics, tags, log files, problems. JOB is its directory or its id, ./name.

    \b
    lineage-store show /shared/summaries/run_7
    lineage-store show ./run_7 --base-dir /shared/summaries --json
    """
    with session.open_store() as store:
        report = store.job(job, base_dir=base_dir).report()
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
@click.option("--remark", help="Text of up to 128 characters; an empty one deletes the remark.")
@base_dir_option
@pass_session
def annotate_verb(
    session: CliSession, job: str, label: int | None, remark: str | None, base_dir: str | None
) -> None:
    """Label a job or add a remark.

    \b
    lineage-store annotate ./run_7 --label 3 --remark "diverges after epoch 5"
    lineage-store filter --sort tag:desc
    """
    if label is None and remark is None:
        raise click.UsageError("Give --label, --remark, or both.")
    with session.open_store(writes=True) as store:
        found = store.job(job, base_dir=base_dir)
        found.annotate(label=label, remark=remark)
    session.note(f"{found.id}: noted.")


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


# ---- `filter`: the jobs that match a condition, with their lineage


ALL_COLUMNS = (
    *("summary_dir", "base_dir", "tag", "remark", "dataset_graph"),
    *(field.name for field in (*LISTED, *OF_JOBS) if field.table != "annotation"),
)
NAME_PREFIXES = (*PREFIXES.values(), *SUMMARY_PREFIXES)
COLUMNS = tuple(field.name for field in PRINTED)
_ATTRIBUTES = {
    "summary_dir": "train_id",
    "base_dir": "base_dir",
    "tag": "label",
    "remark": "remark",
    "dataset_graph": "dataset_graph",
}
"""Attributes of a `JobRow` that columns show."""
_OF_JOBS = tuple(field.name for field in OF_JOBS if field.table == "train_job")


@click.command("filter")
@click.argument("base_dir", type=PATH, required=False)
@click.option("--where", "wheres", multiple=True, metavar="TEXT", help="A comparison; repeat it for more.")
@click.option(
    "--condition", metavar="JSON|@FILE", help="A search_condition as JSON, or a file that holds one."
)
@click.option("--sort", "sorts", multiple=True, metavar="NAME[:desc]", help="Sort by it; repeat it for ties.")
@click.option("--limit", type=int, help=f"Jobs per page, 1 to 100.  [default: {PAGE_ROWS}]")
@click.option("--page", type=click.IntRange(min=1), help="Page number, from 1.  [default: 1]")
@click.option("--all", "everything", is_flag=True, help="All matching jobs, on one page.")
@click.option(
    "--columns", metavar="NAME,...", help="Columns to show, such as network,metric/accuracy,state,updated_at."
)
@click.option("--refresh/--no-refresh", default=None, help="Ingest BASE_DIR first, or not at all.")
@click.option("--count/--no-count", default=True, help="Count all matches (slow for very many).")
@click.option("--explain", is_flag=True, help="Show the SQL and the database's plan instead of running it.")
@style_options
@pass_session
def filter_verb(
    session: CliSession,
    base_dir: str | None,
    wheres: Sequence[str],
    condition: str | None,
    sorts: Sequence[str],
    limit: int | None,
    page: int | None,
    everything: bool,
    columns: str | None,
    refresh: bool | None,
    count: bool,
    explain: bool,
    style: Style,
) -> None:
    """List the jobs that match, with their lineage.

    Those of BASE_DIR, or of all base dirs. With BASE_DIR, new lineage is read first if no daemon does that. --json
    gives MindInsight's answer.

    \b
    lineage-store filter --sort metric/accuracy:desc --limit 5
    lineage-store filter --where 'loss is not null' --sort loss --limit 1
    lineage-store filter --where 'metric/accuracy>=0.9' --where 'optimizer in Adam,SGD'
    lineage-store filter /shared/summaries --condition '{"or": [{"epoch": {"gt": 10}}, {"loss": {"lt": 0.1}}]}'
    """
    from lineage_store.api import answer_of, refreshed_page

    wanted = combined(read_condition(condition), wheres, sorts)
    names = [name.strip() for name in columns.split(",")] if columns else []
    if everything and (limit or page):
        raise click.UsageError("--all has one page: leave out --limit and --page.")
    if not everything:
        _set_page(wanted, limit, page)
    with session.open_store() as store:
        if explain:
            click.echo(escaped(str(store.explain(wanted, base_dir=base_dir, count=count)), keep_lines=True))
            return
        beside = [name for name in names if name in _OF_JOBS or name.startswith(tuple(SUMMARY_PREFIXES))]
        if base_dir is None:
            found = store.lineage.page(wanted, beside, count=count)
        else:
            found = refreshed_page(base_dir, wanted, beside, store=store, refresh=refresh, count=count)
        # Only now: the log files that were just read may have brought the names.
        _refuse_unknown_columns(names, found)
        store.lineage.require_names(wanted, filter(_is_named, names), base_dir=base_dir)
        if found.count == 0 and _matches_without_lineage(store, base_dir, wanted):
            session.note("What matches has no lineage: `lineage-store jobs` lists it.")
    if style == "json":
        write_json(answer_of(found, wanted, base_dir))
    else:
        names = names or _default_columns(found)
        write_rows(names, [[_cell(job, name) for name in names] for job in found.rows], style)
    session.note(_footer(wanted, found.count))


def _matches_without_lineage(store: LineageStore, base_dir: str | None, condition: Mapping[str, Any]) -> bool:
    unsorted = {name: value for name, value in condition.items() if not name.startswith("sorted_")}
    return len(store.jobs(unsorted, columns=["summary_dir"], base_dir=base_dir, limit=1)) > 0


def read_condition(text: str | None) -> dict[str, Any] | None:
    """Read the JSON object of --condition, given as text or as @FILE. Raises click.BadParameter."""
    if text is None:
        return None
    try:
        content = Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
        found = json.loads(content, object_pairs_hook=_each_once)
    except (OSError, ValueError, RecursionError) as error:
        told = f"{text[:200]!r} cannot be read: {error}."
        raise click.BadParameter(told, param_hint="--condition") from error
    if not isinstance(found, dict):
        raise click.BadParameter("A search_condition is a JSON object.", param_hint="--condition")
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises ValueError if it has a name twice: of two comparisons, the first would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(
            f"it has {twice!r} twice; put both comparisons into one object, or into a list of `and`"
        )
    return found


def _set_page(wanted: dict[str, Any], limit: int | None, page: int | None) -> None:
    """Put the page into the condition; the flags override the condition's own limit and offset."""
    if limit is not None or "limit" not in wanted:
        wanted["limit"] = PAGE_ROWS if limit is None else limit
    if page is not None or "offset" not in wanted:
        wanted["offset"] = 0 if page is None else page - 1


def _default_columns(found: JobPage) -> list[str]:
    metrics = [name for name in _names_in(found) if name.startswith(METRIC_PREFIX)]
    annotated = [
        name for name in ("tag", "remark") if any(_cell(job, name) is not None for job in found.rows)
    ]
    return [*COLUMNS, *metrics, *annotated, *(["base_dir"] if found.several else [])]


def _names_in(found: JobPage) -> list[str]:
    """Return the metrics and user-defined values that the jobs have, in order of appearance."""
    lineages = [job.model_lineage or {} for job in found.rows]
    groups = ((prefix, each.get(group, {})) for each in lineages for group, prefix in PREFIXES.items())
    return list(dict.fromkeys(f"{prefix}{name}" for prefix, known in groups for name in known))


def _refuse_unknown_columns(names: Iterable[str], found: JobPage) -> None:
    for name in names:
        if not (name in ALL_COLUMNS or _is_named(name)):
            known = [*ALL_COLUMNS, *(f"{prefix}<name>" for prefix in NAME_PREFIXES)]
            raise click.BadParameter(refusal(name, known, also=_names_in(found)), param_hint="--columns")


def _is_named(column: str) -> bool:
    return any(column.startswith(prefix) and column != prefix for prefix in NAME_PREFIXES)


def _cell(job: JobRow, name: str) -> object:
    """Return a job's value under a public name, or None."""
    lineage = job.model_lineage or {}
    for group, prefix in PREFIXES.items():
        if name.startswith(prefix):
            return lineage[group].get(name.removeprefix(prefix))
    if name in job.values:
        return job.values[name]
    return getattr(job, _ATTRIBUTES[name]) if name in _ATTRIBUTES else lineage.get(name)


def _footer(wanted: Mapping[str, Any], count: int | None) -> str:
    if count is None:
        return f"page {wanted['offset'] + 1:,}, how many match was not counted"
    if "limit" not in wanted and "offset" not in wanted:
        return f"{count:,} jobs."
    page, pages = wanted["offset"] + 1, max(1, -(-count // wanted["limit"]))
    if page > pages:
        return f"There is no page {page:,}: the last one is {pages:,} ({count:,} jobs)."
    return f"page {page:,} of {pages:,} ({count:,} jobs)"


# ---- `compare`: jobs side by side, with their differences marked


DIFFERS = "*"


@click.command("compare")
@click.argument("jobs", type=PATH, metavar="JOB JOB...", nargs=-1, required=True)
@click.option("--differing", is_flag=True, help="Only what differs.")
@base_dir_option
@listing_options
@pass_session
def compare_verb(
    session: CliSession, jobs: Sequence[str], differing: bool, base_dir: str | None, style: Style
) -> None:
    """Put jobs side by side and mark what differs.

    Hyper-parameters, metrics and user-defined values; `*` marks those that differ.

    \b
    lineage-store compare ./run_7 ./run_8
    lineage-store compare ./run_7 ./run_8 ./run_9 --differing --csv
    """
    if len(jobs) < 2:
        raise click.UsageError("Name at least two jobs.")
    with session.open_store() as store:
        table = store.compare([store.job(job, base_dir=base_dir) for job in jobs], alike=not differing)
    rows = [
        (DIFFERS if len(set(map(repr, values))) > 1 else "", name, *values) for name, *values in table.rows
    ]
    write_rows(("differs", *table.columns), rows, style)
