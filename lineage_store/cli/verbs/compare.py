"""`compare`: some jobs side by side, with what differs marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from lineage_store.cli.output import Style, listing_options, write_rows
from lineage_store.cli.places import find_job
from lineage_store.cli.session import Session, pass_session
from lineage_store.cli.verbs.jobs import base_dir_option
from lineage_store.errors import LineageFileNotFoundError
from lineage_store.fields import PREFIXES

if TYPE_CHECKING:
    from lineage_store.api import LineageStore

DIFFERS = "*"


@click.command("compare")
@click.argument("jobs", metavar="JOB JOB...", nargs=-1, required=True)
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
        places = [find_job(store, job, base_dir) for job in jobs]
        lineages = [_lineage(store, *place) for place in places]
    names = list(dict.fromkeys(name for found in lineages for name in found))
    rows = [(_mark(name, lineages), name, *(found.get(name) for found in lineages)) for name in names]
    columns = ("differs", "name", *_titles(places))
    write_rows(columns, [row for row in rows if row[0] or not differing], style)


def _lineage(store: LineageStore, base_dir: str, train_id: str) -> dict[str, Any]:
    """What a job was trained with and came to, by public names."""
    answer = store.filter_lineage({"summary_dir": {"eq": train_id}}, base_dir=base_dir)
    if not answer["object"]:
        store.tags(base_dir, train_id)  # raises when there is no such job
        raise LineageFileNotFoundError(f"The job {train_id} has no lineage.")
    return dict(_flat(answer["object"][0]["model_lineage"]))


def _flat(lineage: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in lineage.items() if name not in PREFIXES)
    for group, prefix in PREFIXES.items():
        yield from ((f"{prefix}{name}", value) for name, value in lineage[group].items())


def _mark(name: str, lineages: Sequence[Mapping[str, Any]]) -> str:
    values = {repr(found.get(name)) for found in lineages}
    return DIFFERS if len(values) > 1 else ""


def _titles(places: Sequence[tuple[str, str]]) -> list[str]:
    """Ids, with the base dir where ids alone would be ambiguous; JSON needs them distinct."""
    ids = [train_id for _, train_id in places]
    return [
        f"{base_dir}/{train_id[2:]}" if ids.count(train_id) > 1 else train_id for base_dir, train_id in places
    ]
