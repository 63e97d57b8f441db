"""`images` and `histograms`: write the payloads of a tag to files, one per step."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from lineage_store.api.places import find_job
from lineage_store.cli.option_values import PATH
from lineage_store.cli.session import Session, pass_session
from lineage_store.cli.verbs.jobs import base_dir_option
from lineage_store.cli.verbs.samples import step_options
from lineage_store.errors import ExitCode, PayloadUnavailableError
from lineage_store.output_files import OutputDirectory

if TYPE_CHECKING:
    from lineage_store.api.reports import PayloadSample
    from lineage_store.api.samples import Chosen

_AT_A_TIME = 1000
to_option = click.option(
    "--to",
    "directory",
    type=PATH,
    metavar="DIR",
    required=True,
    help="Where to; it is made if it is not there.",
)


@click.command("images")
@click.argument("job", type=PATH)
@click.argument("tag")
@to_option
@step_options
@base_dir_option
@pass_session
def images_verb(
    session: Session, job: str, tag: str, directory: str, base_dir: str | None, **chosen: Unpack[Chosen]
) -> int:
    """Write the images of a tag to files.

    STEP.png each; a file of that name is replaced, a symbolic link is refused.

    \b
    lineage-store images ./run_7 input_data/auto --to pictures --stop 100
    """
    with session.open_store() as store:
        found = _all(partial(store.images, *find_job(store, job, base_dir), tag), chosen)
        return _write(session, found, Path(directory), "png", lambda each: each.read().png)


@click.command("histograms")
@click.argument("job", type=PATH)
@click.argument("tag")
@to_option
@step_options
@base_dir_option
@pass_session
def histograms_verb(
    session: Session, job: str, tag: str, directory: str, base_dir: str | None, **chosen: Unpack[Chosen]
) -> int:
    """Write the histograms of a tag to files.

    STEP.csv each, with left, width and count of its buckets; a file of that name is replaced, a symbolic link is
    refused.

    \b
    lineage-store histograms ./run_7 conv1.weight/auto --to buckets
    """
    with session.open_store() as store:
        found = _all(partial(store.histograms, *find_job(store, job, base_dir), tag), chosen)
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
    session: Session,
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
