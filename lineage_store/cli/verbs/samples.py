"""`tags`, `evaluations` and `scalars`: what a job recorded, as rows or as a plot."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import click

from lineage_store.api.places import find_job
from lineage_store.cli.option_values import PATH
from lineage_store.cli.output import Style, listing_given, listing_options, write_rows
from lineage_store.cli.session import Session, pass_session
from lineage_store.cli.verbs.jobs import base_dir_option
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api.reports import Table
    from lineage_store.api.samples import Chosen


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --start, --stop and --device, which the verb gets under these names."""
    start = click.option("--start", type=int, metavar="STEP", help="From this step on.")
    stop = click.option("--stop", type=int, metavar="STEP", help="Up to but not including this step.")
    device = click.option("--device", type=int, metavar="N", help="Only this device.")
    return start(stop(device(command)))


@click.command("tags")
@click.argument("job", type=PATH)
@base_dir_option
@listing_options
@pass_session
def tags_verb(session: Session, job: str, base_dir: str | None, style: Style) -> None:
    """List the tags of a job.

    \b
    lineage-store tags ./run_7
    lineage-store tags /shared/summaries/run_7 --json
    """
    with session.open_store() as store:
        found = store.tags(*find_job(store, job, base_dir))
    write_rows(("plugin", "tag"), [(plugin, tag) for plugin, tags in found.items() for tag in tags], style)


@click.command("evaluations")
@click.argument("job", type=PATH)
@click.argument("metric", required=False)
@base_dir_option
@listing_options
@pass_session
def evaluations_verb(
    session: Session, job: str, metric: str | None, base_dir: str | None, style: Style
) -> None:
    """List what every evaluation of a job measured.

    Of METRIC, or of every one.

    \b
    lineage-store evaluations ./run_7
    lineage-store evaluations ./run_7 accuracy --csv
    """
    with session.open_store() as store:
        found = store.evaluations(find_job(store, job, base_dir), metric)
    write_rows(found.columns, found.rows, style)


@click.command("scalars")
@click.argument("jobs", type=PATH, metavar="JOB...", nargs=-1, required=True)
@click.argument("tag")
@click.option("--plot", "drawn", is_flag=True, help="Draw the curves in the terminal, in one plot.")
@step_options
@base_dir_option
@listing_options
@pass_session
def scalars_verb(
    session: Session,
    jobs: Sequence[str],
    tag: str,
    drawn: bool,
    base_dir: str | None,
    style: Style,
    **chosen: Unpack[Chosen],
) -> None:
    """Print or draw every step of a scalar, of one job or several.

    What a restart wrote again replaces what was superseded. Rows of several jobs tell which. Several devices of a job
    interleave unless --device names one: a step that several wrote is the later log file's, and a note says so.

    \b
    lineage-store scalars ./run_7 loss/auto --plot
    lineage-store scalars ./run_7 ./run_8 ./run_9 loss/auto --plot
    lineage-store scalars /shared/summaries/run_7 loss/auto --start 1000 --csv > loss.csv
    """
    if drawn and (given := listing_given(style)):
        raise click.UsageError(
            f"--plot draws and writes no rows: leave out {', '.join(given)}. --start and --stop say which steps."
        )
    with session.open_store() as store:
        places = [find_job(store, job, base_dir) for job in jobs]
        found = store.curves(places, tag, **chosen)
    if found.note:
        session.note(found.note)
    if drawn:
        click.echo(_plot(found, places, tag))
        return
    about = ("base_dir", "summary_dir") if len(set(places)) > 1 else ()
    columns = (*about, "step", "wall_at", "value")
    write_rows(columns, zip(*(found[name] for name in columns), strict=True), style)


def _plot(found: Table, places: Sequence[tuple[str, str]], tag: str) -> str:
    import numpy as np

    from lineage_store.cli.plot import LETTERS, plot, plot_together

    columns, lines = shutil.get_terminal_size((80, 24))
    width, height = min(columns, 110), max(6, min(15, lines - 6))
    steps, values = np.asarray(found["step"]), np.asarray(found["value"])
    names = list(dict.fromkeys(places))
    if len(names) == 1:
        title = escaped(f"{tag} of {names[0][1]}")
        return plot(steps, values, width=width, height=height, title=title)
    if len(names) > len(LETTERS):
        raise click.UsageError(f"One plot has room for {len(LETTERS)} jobs.")
    ids = [train_id for _, train_id in names]
    of_row = list(zip(found["base_dir"], found["summary_dir"], strict=True))
    curves = {}
    for base_dir, train_id in names:
        mine = np.array([row == (base_dir, train_id) for row in of_row], bool)
        title = train_id if ids.count(train_id) == 1 else f"{train_id} of {base_dir}"
        curves[escaped(title)] = (steps[mine], values[mine])
    return plot_together(curves, width=width, height=height, title=escaped(tag))
