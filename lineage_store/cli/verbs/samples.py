"""`scalars`: one curve, as rows or drawn."""

from __future__ import annotations

import shutil

import click

from lineage_store.api.places import find_job
from lineage_store.cli.cells import escaped
from lineage_store.cli.output import Style, style_options, write_rows
from lineage_store.cli.session import Session, pass_session
from lineage_store.cli.verbs.jobs import base_dir_option
from lineage_store.times import instant


@click.command("scalars")
@click.argument("job")
@click.argument("tag")
@click.option("--plot", "drawn", is_flag=True, help="Draw the curve in the terminal.")
@click.option("--start", type=int, metavar="STEP", help="From this step on.")
@click.option("--stop", type=int, metavar="STEP", help="Up to but not including this step.")
@click.option("--device", type=int, metavar="N", help="Only this device.")
@base_dir_option
@style_options
@pass_session
def scalars_verb(
    session: Session,
    job: str,
    tag: str,
    drawn: bool,
    start: int | None,
    stop: int | None,
    device: int | None,
    base_dir: str | None,
    style: Style,
) -> None:
    """Print or draw a scalar, every step of it.

    What a restart wrote again replaces what was superseded.

    \b
    lineage-store scalars ./run_7 loss/auto --plot
    lineage-store scalars /shared/summaries/run_7 loss/auto --start 1000 --csv > loss.csv
    """
    with session.open_store() as store:
        place, train_id = find_job(store, job, base_dir)
        found = store.scalars(place, train_id, tag, start=start, stop=stop, device=device)
    if drawn:
        from lineage_store.cli.plot import plot

        width, height = _size()
        click.echo(
            plot(found.steps, found.values, width=width, height=height, title=escaped(f"{tag} of {train_id}"))
        )
        return
    columns = (found.steps.tolist(), found.wall_times.tolist(), found.values.tolist())
    rows = ((step, instant(wall_time), value) for step, wall_time, value in zip(*columns, strict=True))
    write_rows(("step", "wall_at", "value"), rows, style)


def _size() -> tuple[int, int]:
    columns, lines = shutil.get_terminal_size((80, 24))
    return min(columns, 110), max(6, min(15, lines - 6))
