"""`compare`: jobs side by side, with their differences marked."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lineage_store.api.places import find_job
from lineage_store.cli.option_values import PATH
from lineage_store.cli.output import Style, listing_options, write_rows
from lineage_store.cli.session import Session, pass_session
from lineage_store.cli.verbs.jobs import base_dir_option

DIFFERS = "*"


@click.command("compare")
@click.argument("jobs", type=PATH, metavar="JOB JOB...", nargs=-1, required=True)
@click.option("--differing", is_flag=True, help="Only what differs.")
@base_dir_option
@listing_options
@pass_session
def compare_verb(
    session: Session, jobs: Sequence[str], differing: bool, base_dir: str | None, style: Style
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
        table = store.compare([find_job(store, job, base_dir) for job in jobs], alike=not differing)
    rows = [
        (DIFFERS if len(set(map(repr, values))) > 1 else "", name, *values) for name, *values in table.rows
    ]
    write_rows(("differs", *table.columns), rows, style)
