"""`gc`: removes jobs from the store by rule, lists what was removed, and lets ingest read it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lineage_store.api import combined, read_removal
from lineage_store.cli.output import (
    Style,
    columns_option,
    first,
    page_arguments,
    page_options,
    style_options,
    write_mappings,
)
from lineage_store.cli.session import PATH, CliSession, agreed, pass_session, seconds
from lineage_store.cli.verbs.jobs import read_condition
from lineage_store.plain_values import instant
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api import LineageStore
    from lineage_store.api.reports import CleanUp, ExpiredJob, Holdings, ThinTotal, Total


COLUMNS = ("base_dir", "train_id", "state", "last_event_at", "log_bytes")
EXPIRED_COLUMNS = (
    *("base_dir", "train_id", "policy", "state", "begun_at", "last_event_at", "on_disk"),
    *("log_bytes", "samples", "store_bytes", "waits", "tag"),
)
REMOVED_COLUMNS = ("base_dir", "train_id", "removed_at", "reason", "removal")
REMOVAL_COLUMNS = ("number", "base_dir", "removed_at", "reason", "by", "holder", "jobs", "restorable")
_GONE_SHOWN = 5
"""How many of the jobs that cannot come back are named."""


@click.command("gc")
@click.argument("base_dir", type=PATH, required=False)
@click.option(
    "--older-than",
    callback=seconds,
    metavar="TIME",
    help="Only jobs without an event or growth for this long, such as 90d.",
)
@click.option("--where", "wheres", multiple=True, metavar="TEXT", help="Only jobs that match, as in filter.")
@click.option("--condition", metavar="JSON|@FILE", help="Only jobs that match a search_condition.")
@click.option("--missing", is_flag=True, help="Only jobs whose log files are all gone.")
@click.option("--policies", is_flag=True, help="Apply the retention settings (keep_…) now.")
@click.option(
    "--confirm",
    is_flag=True,
    help="With --policies: also jobs beyond the daily limit, and although the clock looks wrong.",
)
@click.option("--dry-run", is_flag=True, help="Dry run: list the jobs that would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--removed", is_flag=True, help="List removed jobs, and the rule that removed each.")
@click.option("--restore", metavar="JOB", help="Restore a removed job: ingest reads it again.")
@click.option(
    "--removals", is_flag=True, help="List removals, with their numbers and how many jobs each removed."
)
@click.option(
    "--restore-removal",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Restore all jobs of a removal: ingest reads them again.",
)
@page_options
@columns_option
@style_options
@pass_session
def gc_verb(
    session: CliSession,
    base_dir: str | None,
    older_than: float | None,
    wheres: Sequence[str],
    condition: str | None,
    missing: bool,
    policies: bool,
    confirm: bool,
    dry_run: bool,
    yes: bool,
    removed: bool,
    restore: str | None,
    removals: bool,
    restore_removal: int | None,
    limit: int | None,
    page: int | None,
    style: Style,
) -> int:
    """Remove jobs from the store by rule; log files stay.

    Jobs of BASE_DIR, or of all base dirs, for which all that is given holds; live jobs never go. Labels and remarks are
    kept. Ingest leaves removed jobs alone until a newer log file shows up in their directory, or --restore; each gc
    prints the number by which --restore-removal brings back all that it removed.

    One line on stderr shows how the rules were understood. A --where that can be read in two ways is refused: put the
    value in quotes. So is a metric or user-defined value that no job has.

    --policies does now what a daemon does once an hour: it removes the jobs that keep_days, keep_jobs and
    keep_store_bytes select, but none with a label or remark, unless keep_labelled is false; of long scalars of jobs
    that keep_every_step_days selects, few samples and keep_thinned_buckets buckets stay. In 24 hours policies remove no
    more than 10 jobs of a base dir, or a tenth of its jobs if that is more; the others wait for --confirm.

    Nothing is removed by age while the clock differs by more than eight days from the store's last write; --confirm
    says that the clock is right.

    \b
    lineage-store gc --older-than 90d --dry-run
    lineage-store gc /shared/summaries --older-than 90d --where 'metric/accuracy<0.5' --yes
    lineage-store gc --where "user_defined/note='this is null'" --dry-run
    lineage-store gc --missing
    lineage-store gc --policies --dry-run
    lineage-store gc --policies --confirm
    lineage-store gc --restore ./run_7
    lineage-store gc --removals
    lineage-store gc --restore-removal 12
    """
    from lineage_store.api.reports import CleanUp

    asked = {
        "--removed": removed,
        "--restore": restore is not None,
        "--removals": removals,
        "--restore-removal": restore_removal is not None,
    }
    if any(asked.values()):
        rules_given = {
            "--older-than": older_than is not None,
            "--where": wheres,
            "--condition": condition is not None,
            "--missing": missing,
            "--policies": policies,
            "--confirm": confirm,
            "--dry-run": dry_run,
        }
        _require_alone(*([name for name, given in of.items() if given] for of in (asked, rules_given)))
    lists = removed or removals
    _require_of_use("--page", page and not lists, "is for the lists of --removed and --removals")
    _require_of_use(
        "--limit", limit and not (lists or dry_run), "is for the lists of --removed, --removals, --dry-run"
    )
    aged = policies or older_than is not None
    _require_of_use(
        "--confirm", confirm and not aged, "goes with --policies or --older-than: no other rule waits"
    )
    wanted = combined(read_condition(condition), wheres, [], read_removal)
    rules = CleanUp(older_than_s=older_than, condition=wanted or None, missing=missing)
    with session.open_store(writes=True) as store:
        if restore is not None:
            return _restore(session, store, restore, base_dir)
        if restore_removal is not None:
            return _restore_removal(session, store, restore_removal)
        if lists:
            listed, columns = (
                (store.removal.history, REMOVAL_COLUMNS)
                if removals
                else (store.removal.removed, REMOVED_COLUMNS)
            )
            rows: Iterable[Any] = listed(base_dir, **page_arguments(limit, page))
            write_mappings(columns, map(asdict, rows), style)
            return 0
        if policies == (older_than is not None or bool(wanted) or missing):
            raise click.UsageError(
                "Say which jobs: --older-than, --where, --condition or --missing; or --policies alone."
            )
        if dry_run and policies:
            write_mappings(EXPIRED_COLUMNS, first(_expired(store, base_dir), limit), style)
        elif dry_run:
            session.note(f"Would remove {store.removal.plan(rules, base_dir)}.")
            write_mappings(COLUMNS, first(_removable(store, rules, base_dir), limit), style)
        else:
            return _remove(session, store, None if policies else rules, base_dir, yes=yes, confirm=confirm)
        return 0


_ALONE = {
    "--removed": "lists what went before, of BASE_DIR or of all",
    "--restore": "takes only a job, with or without BASE_DIR",
    "--removals": "lists what went before, of BASE_DIR or of all",
    "--restore-removal": "takes only the number of a removal",
}


def _require_of_use(option: str, is_useless: object, use: str) -> None:
    """Raise click.UsageError if an option is given without those that it goes with."""
    if is_useless:
        raise click.UsageError(f"{option} {use}.")


def _require_alone(asked: Sequence[str], others: Sequence[str]) -> None:
    """Raise click.UsageError if what looks back comes with another such option, or with some that it would ignore."""
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} exclude each other: give one of them.")
    if others:
        raise click.UsageError(f"{asked[0]} {_ALONE[asked[0]]}: leave out {', '.join(others)}.")


def _remove(
    session: CliSession,
    store: LineageStore,
    rules: CleanUp | None,
    base_dir: str | None,
    *,
    yes: bool,
    confirm: bool,
) -> int:
    """Remove the jobs that the rules name; None: those that the policies of the settings name. Return the exit code."""
    thins = rules is None and store.opened.settings.keep_every_step_days > 0
    plan = store.removal.plan(rules, base_dir) if rules else None
    if plan:
        session.note(f"Removes {plan}.")
    if not yes:
        from lineage_store.api.reports import total_of

        going = _shown(plan.going if plan else total_of(_going(store, base_dir, confirm)))
        series = f", and thin {sum(1 for _ in store.removal.long_series(base_dir)):,} series" if thins else ""
        rule = f" {plan.rules}" if plan else ""
        if not agreed(
            f"Remove {going}{rule} from the store{series}? Log files stay.", "say --yes, or --dry-run"
        ):
            session.note("No job was removed.")
            return 1
    remove = partial(store.removal.remove, rules) if rules else store.removal.remove_expired
    with session.working("Removing") as tell:
        done = remove(base_dir, confirm=confirm, progress=lambda total: tell(_shown(total)))
    back = " and ".join(f"`lineage-store gc --restore-removal {number}`" for number in done.removals)
    click.echo(f"{_shown(done)} removed{back and ': back with '}{back}.")
    if rules is None and (waiting := sum(each.waits for each in store.removal.expired(base_dir))):
        session.note(
            f"{waiting:,} more need confirmation: retention has a daily limit. `lineage-store gc --policies "
            "--dry-run` lists them; --confirm removes them."
        )
    if thins:
        with session.working("Thinning") as tell:
            thinned = store.removal.thin(base_dir, progress=lambda total: tell(_thinned(total)))
        click.echo(_thinned(thinned))
    return 0


def _thinned(total: ThinTotal) -> str:
    return f"{total.series:,} series thinned: {total.samples:,} samples went."


def _shown(total: Total) -> str:
    return f"{total.jobs:,} jobs ({total.log_bytes:,} bytes of log files)"


def _removable(store: LineageStore, rules: CleanUp, base_dir: str | None) -> Iterator[Mapping[str, object]]:
    for job in store.removal.find(rules, base_dir):
        yield {**asdict(job), "last_event_at": instant(job.last_wall_time)}


def _expired(store: LineageStore, base_dir: str | None) -> Iterator[Mapping[str, object]]:
    """Yield the jobs that would go, and the series that would be thinned of those that stay."""
    going = set[tuple[str, str]]()
    for job in store.removal.expired(base_dir):
        going.add((job.base_dir, job.train_id))
        times = {"begun_at": instant(job.begun), "last_event_at": instant(job.last_wall_time)}
        yield {**asdict(job), **times}
    for each in store.removal.long_series(base_dir):
        if (each.base_dir, each.train_id) not in going:
            yield asdict(each)


def _going(store: LineageStore, base_dir: str | None, confirm: bool) -> Iterator[ExpiredJob]:
    return (job for job in store.removal.expired(base_dir) if confirm or not job.waits)


def _restore(session: CliSession, store: LineageStore, job: str, base_dir: str | None) -> int:
    found = store.job(job, base_dir=base_dir, removed=True)
    is_there = store.removal.restore(found.base_dir, found.id)
    click.echo(escaped(f"{found.id} is read again by the next ingest of {found.base_dir}."))
    if not is_there:
        session.note("Its log files are gone: it comes back only when one is there again.")
    return 0


def _restore_removal(session: CliSession, store: LineageStore, number: int) -> int:
    done = store.removal.undo(number)
    click.echo(escaped(f"{done.jobs:,} jobs are read again by the next ingest of {done.base_dir}."))
    if not done.gone:
        return 0
    some = ", ".join(done.gone[:_GONE_SHOWN]) + (", …" if len(done.gone) > _GONE_SHOWN else "")
    session.note(escaped(f"{len(done.gone):,} cannot be restored: their log files are gone, such as {some}"))
    return 3


# ---- `forget` and `move`: remove a base dir from the store, or change its path; log files are not touched


@click.command("forget")
@click.argument("base_dir", type=PATH)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_session
def forget_verb(session: CliSession, base_dir: str, yes: bool) -> int:
    """Remove a base dir from the store; log files stay.

    Everything that the store holds of its jobs goes, their labels and remarks included, which exist nowhere else. Log
    files are not touched: what they hold comes back with the next ingest. Exits 6 while an ingester holds its lease.

    \b
    lineage-store forget /shared/summaries/run_7
    lineage-store forget --yes /shared/old
    """
    from lineage_store.api import known_base_dirs

    with session.open_store(writes=True) as store:
        found = store.base_dirs.holdings(base_dir)
        (path,) = known_base_dirs(store, [base_dir])
        what = _summary(found)
        if not (yes or agreed(f"Forget {path} ({what})? Its log files stay.")):
            session.note("No base dir was forgotten.")
            return 1
        with session.working("Forgetting"):
            store.base_dirs.forget(path)
    click.echo(escaped(f"{path} is forgotten ({what})."))
    return 0


@click.command("move")
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@click.option("--dry-run", is_flag=True, help="Dry run.")
@click.option("--force", is_flag=True, help="Move even if ingested log files are missing below NEW.")
@pass_session
def move_verb(session: CliSession, old: str, new: str, dry_run: bool, force: bool) -> None:
    """Record that a base dir has moved.

    For a mount that was renamed: jobs, samples, labels, remarks and what gc removed stay, and nothing is read again.
    Log files are not touched: NEW must hold them already. Exits 6 while an ingester holds the lease of OLD: stop the
    daemon, and let it follow NEW afterwards.

    \b
    lineage-store move /mnt/old/summaries /shared/summaries --dry-run
    lineage-store move /mnt/old/summaries /shared/summaries
    """
    with session.open_store(writes=True) as store, session.working("Moving"):
        done = store.base_dirs.plan_move(old, new) if dry_run else store.base_dirs.move(old, new, force=force)
    what = f"{_summary(done.holdings)}; {done.files:,} log files"
    lacking = f", {done.absent:,} of which are missing, such as {done.example}" if done.absent else ""
    said = "would be at" if dry_run else "is at"
    click.echo(escaped(f"{done.old} {said} {done.new} now ({what}{lacking})."))


def _summary(found: Holdings) -> str:
    removed = f", and those of {found.of_removed:,} removed jobs" if found.of_removed else ""
    return f"{found.jobs:,} jobs, {found.annotated:,} of them with a label or remark{removed}"
