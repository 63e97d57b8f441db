"""`gc`: removes jobs from the store by rule, lists the removed jobs, and lets ingest read one again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from lineage_store.api.places import find_job
from lineage_store.api.where import combined, read_removal
from lineage_store.cli.option_values import PATH, seconds
from lineage_store.cli.output import (
    Style,
    columns_option,
    first,
    page_arguments,
    page_options,
    style_options,
    write_mappings,
)
from lineage_store.cli.session import Session, agreed, pass_session
from lineage_store.cli.verbs.search import read_condition
from lineage_store.texts import escaped
from lineage_store.times import instant

if TYPE_CHECKING:
    from lineage_store.api import LineageStore
    from lineage_store.api.reports import CleanUp, ThinTotal, Total

COLUMNS = ("base_dir", "train_id", "state", "last_event_at", "log_bytes")
EXPIRED_COLUMNS = (
    *("base_dir", "train_id", "policy", "state", "begun_at", "last_event_at", "on_disk"),
    *("log_bytes", "samples", "store_bytes", "tag"),
)
REMOVED_COLUMNS = ("base_dir", "train_id", "removed_at", "reason")


@click.command("gc")
@click.argument("base_dir", type=PATH, required=False)
@click.option(
    "--older-than",
    callback=seconds,
    metavar="TIME",
    help="Jobs without an event, growth or a new log file for so long, such as 90d.",
)
@click.option("--where", "wheres", multiple=True, metavar="TEXT", help="Jobs that match, as in filter.")
@click.option("--condition", metavar="JSON|@FILE", help="Jobs that match a search_condition.")
@click.option("--missing", is_flag=True, help="Jobs of which no log file is left on disk.")
@click.option("--policies", is_flag=True, help="What the settings keep_… name, as a daemon removes it.")
@click.option("--dry-run", is_flag=True, help="List the jobs that would go, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--removed", is_flag=True, help="List the jobs that were removed, and by which rule.")
@click.option("--restore", metavar="JOB", help="Let ingest read a removed job again.")
@page_options
@columns_option
@style_options
@pass_session
def gc_verb(
    session: Session,
    base_dir: str | None,
    older_than: float | None,
    wheres: Sequence[str],
    condition: str | None,
    missing: bool,
    policies: bool,
    dry_run: bool,
    yes: bool,
    removed: bool,
    restore: str | None,
    limit: int | None,
    page: int | None,
    style: Style,
) -> int:
    """Remove jobs from the store by rule; log files stay.

    Jobs of BASE_DIR, or of all base dirs, for which all that is given holds; live jobs never go. Labels and remarks are
    kept. Ingest leaves removed jobs alone until a newer log file shows up in their directory, or --restore.

    One line on stderr says how the rules were understood. A --where that can be read in two ways is refused: put the
    value in quotes. So is a metric or user-defined value that no job has.

    --policies does at once what a daemon does once an hour: jobs go that the settings keep_days, keep_jobs and
    keep_store_bytes name, but none with a label or remark, unless keep_labelled is false; of long scalars of jobs that
    keep_every_step_days names, few samples and keep_thinned_buckets buckets stay.

    \b
    lineage-store gc --older-than 90d --dry-run
    lineage-store gc /shared/summaries --older-than 90d --where 'metric/accuracy<0.5' --yes
    lineage-store gc --where "user_defined/note='this is null'" --dry-run
    lineage-store gc --missing
    lineage-store gc --policies --dry-run
    lineage-store gc --restore ./run_7
    """
    from lineage_store.api.reports import CleanUp

    if removed or restore is not None:
        rules_given = {
            "--older-than": older_than is not None,
            "--where": wheres,
            "--condition": condition is not None,
            "--missing": missing,
            "--policies": policies,
            "--dry-run": dry_run,
        }
        _require_alone(removed, restore, [name for name, given in rules_given.items() if given])
    if page and not removed:
        raise click.UsageError("--page is for the list of --removed.")
    if limit and not (removed or dry_run):
        raise click.UsageError("--limit is for the lists of --removed and --dry-run.")
    wanted = combined(read_condition(condition), wheres, [], read_removal)
    rules = CleanUp(older_than_s=older_than, condition=wanted or None, missing=missing)
    with session.open_store(writes=True) as store:
        if restore is not None:
            _restore(store, restore, base_dir)
            return 0
        if removed:
            found = store.removed_jobs(base_dir, **page_arguments(limit, page))
            write_mappings(REMOVED_COLUMNS, map(asdict, found), style)
            return 0
        if policies == (older_than is not None or bool(wanted) or missing):
            raise click.UsageError(
                "Say which jobs: --older-than, --where, --condition or --missing; or --policies alone."
            )
        if dry_run and policies:
            write_mappings(EXPIRED_COLUMNS, first(_expired(store, base_dir), limit), style)
        elif dry_run:
            session.note(f"Would remove {store.removal_plan(rules, base_dir)}.")
            write_mappings(COLUMNS, first(_removable(store, rules, base_dir), limit), style)
        else:
            return _remove(session, store, None if policies else rules, base_dir, yes=yes)
        return 0


def _require_alone(removed: bool, restore: str | None, others: Sequence[str]) -> None:
    """Raise click.UsageError if --removed or --restore comes with options that it would ignore."""
    if removed and restore is not None:
        raise click.UsageError("--removed and --restore exclude each other: give one of them.")
    if not others:
        return
    if removed:
        raise click.UsageError(
            f"--removed lists what went before, of BASE_DIR or of all: leave out {', '.join(others)}."
        )
    raise click.UsageError(
        f"--restore takes one job by its name, at once, with BASE_DIR or without: leave out {', '.join(others)}."
    )


def _remove(
    session: Session, store: LineageStore, rules: CleanUp | None, base_dir: str | None, *, yes: bool
) -> int:
    """Remove the jobs that the rules name; None: those that the policies of the settings name. Return the exit code."""
    thins = rules is None and store.settings.keep_every_step_days > 0
    plan = store.removal_plan(rules, base_dir) if rules else None
    if plan:
        session.note(f"Removes {plan}.")
    if not yes:
        from lineage_store.api.reports import total

        going = _shown(plan.going if plan else total(store.expired_jobs(base_dir)))
        series = f", and thin {sum(1 for _ in store.long_series(base_dir)):,} series" if thins else ""
        rule = f" {plan.rules}" if plan else ""
        if not agreed(
            f"Remove {going}{rule} from the store{series}? Log files stay.", "say --yes, or --dry-run"
        ):
            session.note("Nothing was removed.")
            return 1
    remove = partial(store.remove_jobs, rules) if rules else store.remove_expired_jobs
    with session.working("Removing") as tell:
        done = remove(base_dir, progress=lambda total: tell(_shown(total)))
    click.echo(f"{_shown(done)} removed.")
    if thins:
        with session.working("Thinning") as tell:
            thinned = store.thin_series(base_dir, progress=lambda total: tell(_thinned(total)))
        click.echo(_thinned(thinned))
    return 0


def _thinned(total: ThinTotal) -> str:
    return f"{total.series:,} series thinned: {total.samples:,} samples went."


def _shown(total: Total) -> str:
    return f"{total.jobs:,} jobs ({total.log_bytes:,} bytes of log files)"


def _removable(store: LineageStore, rules: CleanUp, base_dir: str | None) -> Iterator[Mapping[str, object]]:
    for job in store.removable_jobs(rules, base_dir):
        yield {**asdict(job), "last_event_at": instant(job.last_wall_time)}


def _expired(store: LineageStore, base_dir: str | None) -> Iterator[Mapping[str, object]]:
    """Yield the jobs that would go, and the series that would be thinned of those that stay."""
    going = set[tuple[str, str]]()
    for job in store.expired_jobs(base_dir):
        going.add((job.base_dir, job.train_id))
        times = {"begun_at": instant(job.begun), "last_event_at": instant(job.last_wall_time)}
        yield {**asdict(job), **times}
    for each in store.long_series(base_dir):
        if (each.base_dir, each.train_id) not in going:
            yield asdict(each)


def _restore(store: LineageStore, job: str, base_dir: str | None) -> None:
    place, train_id = find_job(store, job, base_dir, removed=True)
    store.restore_job(place, train_id)
    click.echo(escaped(f"{train_id} is read again by the next ingest of {place}."))
