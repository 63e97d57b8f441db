"""`forget` and `move`: remove a base dir from the store, or change its path; log files are not touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_store.cli.option_values import PATH
from lineage_store.cli.session import Session, agreed, pass_session
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api.reports import Holdings


@click.command("forget")
@click.argument("base_dir", type=PATH)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def forget_verb(session: Session, base_dir: str, yes: bool) -> int:
    """Remove a base dir from the store; log files stay.

    Everything that the store holds of its jobs goes, their labels and remarks included, which exist nowhere else. Log
    files are not touched: what they hold comes back with the next ingest. Exits 6 while an ingester leads BASE_DIR.

    \b
    lineage-store forget /shared/summaries/run_7
    lineage-store forget --yes /shared/old
    """
    from lineage_store.api import real_path

    path = real_path(base_dir)
    with session.open_store(writes=True) as store:
        found = store.holdings(path)
        what = _summary(found)
        if not (yes or agreed(f"Forget {path} ({what})? Its log files stay.")):
            session.note("Nothing was forgotten.")
            return 1
        with session.working("Forgetting"):
            store.forget(path)
    click.echo(escaped(f"{path} is forgotten ({what})."))
    return 0


@click.command("move")
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
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
    what = f"{_summary(done.holdings)}; {done.files:,} log files"
    lacking = f", {done.absent:,} of which are not there, such as {done.example}" if done.absent else ""
    said = "would be at" if dry_run else "is at"
    click.echo(escaped(f"{done.old} {said} {done.new} now ({what}{lacking})."))


def _summary(found: Holdings) -> str:
    removed = f", and those of {found.of_removed:,} removed jobs" if found.of_removed else ""
    return f"{found.jobs:,} jobs, {found.annotated:,} of them with a label or remark{removed}"
