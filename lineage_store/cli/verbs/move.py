"""`move`: a base dir whose mount was renamed keeps what the store holds of it."""

from __future__ import annotations

import click

from lineage_store.cli.cells import escaped
from lineage_store.cli.session import Session, pass_session


@click.command("move")
@click.argument("old")
@click.argument("new")
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and change nothing.")
@click.option("--force", is_flag=True, help="Also where log files that were read are not below NEW.")
@pass_session
def move_verb(session: Session, old: str, new: str, dry_run: bool, force: bool) -> None:
    """Tell the store that a base dir is at another path.

    For a mount that was renamed: jobs, samples, labels, remarks and what gc removed stay, and nothing is read again.
    Log files are not touched: NEW must hold them already. Exits 6 while an ingester leads OLD: stop the daemon, and let
    it follow NEW afterwards.

    \b
    lineage-store move /mnt/old/summaries /shared/summaries --dry-run
    lineage-store move /mnt/old/summaries /shared/summaries
    """
    with session.open_store(writes=True) as store, session.working("Moving"):
        done = store.plan_move(old, new) if dry_run else store.move(old, new, force=force)
    jobs, annotated = done.holdings.jobs, done.holdings.annotated
    what = f"{jobs:,} jobs, {annotated:,} of them with a label or remark; {done.files:,} log files"
    lacking = f", {done.absent:,} of which are not there, such as {done.example}" if done.absent else ""
    said = "would be at" if dry_run else "is at"
    click.echo(escaped(f"{done.old} {said} {done.new} now ({what}{lacking})."))
