"""`verify`: compares the log files with the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lineage_store.api.places import find_job
from lineage_store.cli.option_values import PATH
from lineage_store.cli.output import write_json
from lineage_store.cli.session import Session, pass_session
from lineage_store.errors import ExitCode
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api import LineageStore
    from lineage_store.api.reports import FileVerdict

SHOWN_OF_A_FILE = 10
_SUMMED = ("thinned_series", "size_bytes", "ingested_bytes", "quarantined_bytes", "pending_bytes")
_LEDGER = (
    "{files:,} log files, {size_bytes:,} bytes = {ingested_bytes:,} ingested + {quarantined_bytes:,} quarantined "
    "+ {pending_bytes:,} pending; {different:,} differ, {unreadable:,} could not be verified."
)


@click.command("verify")
@click.argument("place", type=PATH, metavar="[BASE_DIR|JOB]", required=False)
@click.option("--sample", type=click.IntRange(min=1), help="So many log files of each base dir, at random.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@pass_session
def verify_verb(session: Session, place: str | None, sample: int | None, as_json: bool) -> int:
    """Prove the store against the log files.

    Reads them again, frame by frame, and compares: every byte is ingested, quarantined or pending; samples, statistics,
    lineage and payload references are as the file says. Changes nothing. Exits 1 when something differs, 3 when files
    could not be read.

    \b
    lineage-store verify
    lineage-store verify /shared/summaries --sample 100
    lineage-store verify ./run_7
    """
    totals = dict.fromkeys(("files", "different", "unreadable", *_SUMMED), 0)
    shown = []
    with session.open_store() as store, session.working("Verifying") as tell:
        for verdict in _verdicts(store, place, sample):
            totals["files"] += 1
            totals["different"] += bool(verdict.differences)
            totals["unreadable"] += verdict.unreadable is not None
            for name in _SUMMED:
                totals[name] += getattr(verdict, name)
            tell(f"{totals['files']:,} log files, {totals['size_bytes']:,} bytes")
            if as_json:
                shown += [verdict] if verdict.differences or verdict.unreadable else []
            else:
                _print(session, verdict)
    if as_json:
        write_json({**totals, "verdicts": [asdict(verdict) for verdict in shown]})
    else:
        click.echo(_LEDGER.format(**totals))
        if thinned := totals["thinned_series"]:
            click.echo(f"{thinned:,} series are thinned: few of their samples are left.")
    if totals["different"]:
        return ExitCode.FAILED
    return ExitCode.PARTLY_DONE if totals["unreadable"] else ExitCode.OK


def _verdicts(store: LineageStore, place: str | None, sample: int | None) -> Iterator[FileVerdict]:
    from lineage_store.api import real_path

    if place is None or str(real_path(place)) in store.base_dirs():
        return store.verify(place, sample=sample)
    base_dir, train_id = find_job(store, place)
    return store.verify(base_dir, train_id, sample=sample)


def _print(session: Session, verdict: FileVerdict) -> None:
    if verdict.unreadable:
        session.note(str(verdict.unreadable))
    for difference in verdict.differences[:SHOWN_OF_A_FILE]:
        at = "" if difference.range_start is None else f" at byte {difference.range_start}"
        click.echo(escaped(f"{difference.subject}{at}: {difference.what}"))
    if verdict.differences:
        more = len(verdict.differences) - SHOWN_OF_A_FILE
        click.echo(escaped(f"  {f'and {more:,} more; ' if more > 0 else ''}{verdict.differences[0].remedy}"))
