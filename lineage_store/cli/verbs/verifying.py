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
    files = different = unreadable = size = ingested = quarantined = pending = thinned = 0
    shown = []
    with session.open_store() as store, session.working("Verifying") as tell:
        for verdict in _verdicts(store, place, sample):
            files, size = files + 1, size + verdict.size_bytes
            ingested, quarantined = ingested + verdict.ingested_bytes, quarantined + verdict.quarantined_bytes
            pending, thinned = pending + verdict.pending_bytes, thinned + verdict.thinned_series
            tell(f"{files:,} log files, {size:,} bytes")
            different += bool(verdict.differences)
            unreadable += verdict.unreadable is not None
            if as_json:
                shown += [verdict] if verdict.differences or verdict.unreadable else []
            else:
                _print(session, verdict)
    totals = {"files": files, "different": different, "unreadable": unreadable, "thinned_series": thinned}
    ledger = {"size_bytes": size, "ingested_bytes": ingested}
    ledger |= {"quarantined_bytes": quarantined, "pending_bytes": pending}
    if as_json:
        write_json({**totals, **ledger, "verdicts": [asdict(verdict) for verdict in shown]})
    else:
        click.echo(
            f"{files:,} log files, {size:,} bytes = {ingested:,} ingested + {quarantined:,} quarantined + "
            f"{pending:,} pending; {different:,} differ, {unreadable:,} could not be verified."
        )
        if thinned:
            click.echo(f"{thinned:,} series are thinned: few of their samples are left.")
    if different:
        return ExitCode.FAILED
    return ExitCode.PARTLY_DONE if unreadable else ExitCode.OK


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
