"""`sql`: runs a read-only SQL statement of the user."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice

import click

from lineage_store.api.operations import SQL_TIMEOUT_S
from lineage_store.cli.output import Style, asked_columns, listing_options, write_rows
from lineage_store.cli.session import Session, pass_session

MOST_ROWS = 1000


@click.command("sql")
@click.argument("query")
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, 86_400),
    default=SQL_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="End a statement that has no row after so long.",
)
@listing_options
@pass_session
def sql_verb(session: Session, query: str, timeout: float, style: Style) -> None:
    """Run one SQL statement that only reads.

    `-` takes it from stdin. docs/schema.md describes the views. A table shows the first 1,000 rows and six digits of a
    number; --csv and --json give all of both.

    \b
    lineage-store sql "SELECT train_id, value FROM v_metric WHERE name = 'accuracy' ORDER BY value DESC LIMIT 5"
    lineage-store sql - --csv < question.sql > answer.csv
    """
    statement = sys.stdin.read() if query == "-" else query
    with session.open_store() as store, store.sql(statement, timeout_s=timeout) as answer:
        _require_own_names(answer.columns, style)
        if style != "table":
            write_rows(answer.columns, answer.rows, style)
            return
        write_rows(answer.columns, list(islice(answer.rows, MOST_ROWS)), style)
        if next(answer.rows, None) is not None:
            session.note(f"Only the first {MOST_ROWS:,} rows are shown: --csv and --json give all.")


def _require_own_names(columns: Sequence[str], style: Style) -> None:
    """Raise click.UsageError if JSON or --columns needs names of columns, and two columns have the same name."""
    named = asked_columns() or (columns if style == "json" else ())
    for name in named:
        if columns.count(name) > 1:
            raise click.UsageError(
                f"The statement has several columns of the name {name!r}. Give each a name by AS."
            )
