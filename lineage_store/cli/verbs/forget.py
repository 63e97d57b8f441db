"""`forget`: a base dir leaves the store."""

from __future__ import annotations

import sys

import click

from lineage_store.cli.cells import escaped
from lineage_store.cli.session import Session, pass_session


@click.command("forget")
@click.argument("base_dir")
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
        what = f"{found.jobs:,} jobs, {found.annotated:,} of them with a label or remark"
        if not (yes or _agreed(f"Forget {path} ({what})? Its log files stay.")):
            session.note("Nothing was forgotten.")
            return 1
        with session.working("Forgetting"):
            store.forget(path)
    click.echo(escaped(f"{path} is forgotten ({what})."))
    return 0


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("Nobody is there to be asked: say --yes.")
    return click.confirm(escaped(question), err=True)
