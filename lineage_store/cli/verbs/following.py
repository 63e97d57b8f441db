"""`tail`: the changes of the store as they happen, one per line."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from lineage_store.api.where import combined
from lineage_store.cli.session import Session, pass_session
from lineage_store.cli.tables import shown
from lineage_store.errors import LineageQuerySummaryDataError, LineageSearchConditionParamError
from lineage_store.json_values import for_json
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api.reports import Change

ALL = "all"
LOOKS_EVERY_S, TRIES_AGAIN_EVERY_S = 0.25, 1.0


@click.command("tail")
@click.argument("conditions", metavar="[CONDITION]...", nargs=-1)
@click.option(
    "--since",
    default="now",
    show_default=True,
    metavar="TOKEN",
    help="Go on behind a `since` of --json; 'all' begins with all jobs.",
)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object a line.")
@click.option("--follow/--no-follow", default=True, help="Wait for more, or end when all is told.")
@pass_session
def tail_verb(session: Session, conditions: Sequence[str], since: str, as_json: bool, follow: bool) -> None:
    """Tell what changes in the store, a line a change.

    Jobs that are new or grew, or got a label or remark, and those that were removed; a job that changed several times
    since the last look is told once. With CONDITION, as in `filter --where`, of the jobs that are there only those that
    match when they change. While the database is away it is waited for. Whoever goes on with the `since` of the last
    line misses nothing and is told nothing twice.

    \b
    lineage-store tail
    lineage-store tail 'metric/accuracy>=0.9' 'network=LeNet5'
    lineage-store tail --since all --no-follow --json
    """
    condition = combined(None, conditions, []) or None
    trouble = ""
    with (
        session.open_store() as store,
        store.follow(None if since == ALL else since, condition=condition) as follower,
    ):
        try:
            store.require_names(condition)
        except LineageSearchConditionParamError as error:
            session.note(str(error))  # a later job may bring the name
        while True:
            try:
                for answer in follower.look():
                    for change in answer.changes:
                        click.echo(_as_json(change) if as_json else _as_line(change))
            except LineageQuerySummaryDataError as error:
                if not follow:
                    raise
                if error.message != trouble:
                    session.note(f"{error} It is tried again.")
                trouble = error.message
                time.sleep(TRIES_AGAIN_EVERY_S)
                continue
            if trouble:
                session.note("The database answers again.")
                trouble = ""
            if not follow:
                return
            time.sleep(LOOKS_EVERY_S)


def _as_line(change: Change) -> str:
    job = str(PurePath(change.base_dir, change.train_id or ""))
    return f"{shown(change.at):19}  {change.kind:9}  {shown(change.state):8}  {escaped(job)}"


def _as_json(change: Change) -> str:
    names = ("kind", "base_dir", "train_id", "state", "revision", "at", "since")
    return json.dumps({name: for_json(getattr(change, name)) for name in names}, allow_nan=False)
