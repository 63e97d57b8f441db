"""`tags`, `evaluations` and `scalars`: what a job recorded, as rows or as a plot."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from lineage_store.cli.output import Style, listing_given, listing_options, write_rows
from lineage_store.cli.session import PATH, CliSession, pass_session
from lineage_store.cli.verbs.jobs import base_dir_option
from lineage_store.errors import ExitCode, PayloadUnavailableError
from lineage_store.output_files import OutputDirectory
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api.job import Chosen
    from lineage_store.api.reports import PayloadSample, Table


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --start, --stop and --device, which the verb gets under these names."""
    start = click.option("--start", type=int, metavar="STEP", help="First step.")
    stop = click.option("--stop", type=int, metavar="STEP", help="End before this step.")
    device = click.option("--device", type=int, metavar="N", help="Only this device.")
    return start(stop(device(command)))


@click.command("tags")
@click.argument("job", type=PATH)
@base_dir_option
@listing_options
@pass_session
def tags_verb(session: CliSession, job: str, base_dir: str | None, style: Style) -> None:
    """List the tags of a job.

    \b
    lineage-store tags ./run_7
    lineage-store tags /shared/summaries/run_7 --json
    """
    with session.open_store() as store:
        found = store.job(job, base_dir=base_dir).tags()
    write_rows(("plugin", "tag"), [(plugin, tag) for plugin, tags in found.items() for tag in tags], style)


@click.command("evaluations")
@click.argument("job", type=PATH)
@click.argument("metric", required=False)
@base_dir_option
@listing_options
@pass_session
def evaluations_verb(
    session: CliSession, job: str, metric: str | None, base_dir: str | None, style: Style
) -> None:
    """List what every evaluation of a job measured.

    Of METRIC, or of every one.

    \b
    lineage-store evaluations ./run_7
    lineage-store evaluations ./run_7 accuracy --csv
    """
    with session.open_store() as store:
        found = store.job(job, base_dir=base_dir).evaluations(metric)
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
    session: CliSession,
    jobs: Sequence[str],
    tag: str,
    drawn: bool,
    base_dir: str | None,
    style: Style,
    **chosen: Unpack[Chosen],
) -> None:
    """Print or draw every step of a scalar, of one job or several.

    What a restart wrote again replaces what was superseded. Rows of several jobs name the job. Several devices of a job
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
        named = [store.job(job, base_dir=base_dir) for job in jobs]
        places = [(job.base_dir, job.id) for job in named]
        found = store.curves(named, tag, **chosen)
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


# ---- `images` and `histograms`: write the payloads of a tag to files, one per step


_AT_A_TIME = 1000
to_option = click.option(
    "--to",
    "directory",
    type=PATH,
    metavar="DIR",
    required=True,
    help="Output directory; created if missing.",
)


@click.command("images")
@click.argument("job", type=PATH)
@click.argument("tag")
@to_option
@step_options
@base_dir_option
@pass_session
def images_verb(
    session: CliSession, job: str, tag: str, directory: str, base_dir: str | None, **chosen: Unpack[Chosen]
) -> int:
    """Write the images of a tag to files.

    STEP.png each; a file of that name is replaced, a symbolic link is refused.

    \b
    lineage-store images ./run_7 input_data/auto --to pictures --stop 100
    """
    with session.open_store() as store:
        found = _all(partial(store.job(job, base_dir=base_dir).images, tag), chosen)
        return _write(session, found, Path(directory), "png", lambda each: each.read().png)


@click.command("histograms")
@click.argument("job", type=PATH)
@click.argument("tag")
@to_option
@step_options
@base_dir_option
@pass_session
def histograms_verb(
    session: CliSession, job: str, tag: str, directory: str, base_dir: str | None, **chosen: Unpack[Chosen]
) -> int:
    """Write the histograms of a tag to files.

    STEP.csv each, with left, width and count of its buckets; a file of that name is replaced, a symbolic link is
    refused.

    \b
    lineage-store histograms ./run_7 conv1.weight/auto --to buckets
    """
    with session.open_store() as store:
        found = _all(partial(store.job(job, base_dir=base_dir).histograms, tag), chosen)
        return _write(session, found, Path(directory), "csv", _buckets)


def _all(some: Callable[..., list[PayloadSample]], chosen: Chosen) -> Iterator[PayloadSample]:
    """Yield payloads, described some at a time. An unknown tag is told at once, before there is a directory."""
    found = some(**chosen, limit=_AT_A_TIME)

    def rest() -> Iterator[PayloadSample]:
        part = found
        while part:
            yield from part
            behind: Chosen = {**chosen, "start": part[-1].step + 1}
            part = some(**behind, limit=_AT_A_TIME) if len(part) == _AT_A_TIME else []

    return rest()


def _buckets(sample: PayloadSample) -> bytes:
    buckets = sample.read()
    columns = (buckets.left.tolist(), buckets.width.tolist(), buckets.count.tolist())
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("left", "width", "count"))
    rows.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def _write(
    session: CliSession,
    samples: Iterable[PayloadSample],
    directory: Path,
    suffix: str,
    content: Callable[[PayloadSample], bytes],
) -> int:
    """Write one file per step, and report payloads that cannot be read from their log file. Return the exit code."""
    written = failed = 0
    try:
        with OutputDirectory.made(directory) as files:
            for sample in samples:
                try:
                    files.write(f"{sample.step}.{suffix}", content(sample), replace=True)
                    written += 1
                except PayloadUnavailableError as error:
                    failed += 1
                    session.note(str(error))
    except OSError as error:
        raise click.FileError(str(error.filename or directory), hint=error.strerror) from error
    session.note(f"{written:,} files are in {directory}; {failed:,} could not be read.")
    return ExitCode.PARTLY_DONE if failed else ExitCode.OK
