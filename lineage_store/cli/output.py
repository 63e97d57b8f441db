"""Rows on stdout: a table for people, JSON or CSV for programs.

In: column names and rows of plain values. Out: text on stdout and nothing else. On a terminal a table is no wider than
that, or a record a row (`tables`), and goes through a pager where it is longer; rich makes its heading bold. Elsewhere
it is plain columns, however wide, with every value whole. JSON and CSV are written as rows come.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Literal, TypedDict

import click

from lineage_store.cli import tables
from lineage_store.cli.option_values import refusal
from lineage_store.cli.tables import Column, Layout, layout, records, shown
from lineage_store.csv_values import csv_text, for_csv, rows_for_csv
from lineage_store.json_values import for_json
from lineage_store.texts import escaped

Style = Literal["table", "json", "csv"]
Row = Sequence[object]
PAGE_ROWS = 20
"""Of a page, where nobody says how many."""
_CSV_ROWS_AT_A_TIME = 1000


_COLUMNS, _LIMIT = f"{__name__}.columns", f"{__name__}.limit"
"""Where a context keeps which of the rows are shown, which verbs need not know."""


def columns_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --columns, which `write_rows` obeys."""
    return click.option(
        "--columns",
        metavar="NAME,...",
        expose_value=False,
        callback=_set_columns,
        help="What to show of each.",
    )(command)


def listing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --limit and --columns, which `write_rows` obeys, and --json and --csv, which arrive as `style`."""
    limit = click.option(
        "--limit",
        type=click.IntRange(min=1),
        expose_value=False,
        callback=_set_limit,
        help="Rows at most.  [default: all]",
    )
    return limit(columns_option(style_options(command)))


def _set_columns(context: click.Context, _option: click.Parameter, names: str | None) -> None:
    context.meta[_COLUMNS] = None if names is None else [name.strip() for name in names.split(",")]


def _set_limit(context: click.Context, _option: click.Parameter, limit: int | None) -> None:
    context.meta[_LIMIT] = limit


def first(rows: Iterable[Row], limit: int | None) -> Iterable[Row]:
    """So many rows at most."""
    return islice(rows, limit and min(limit, sys.maxsize))


def asked_columns() -> Sequence[str] | None:
    """What --columns names; None where it is not given."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_COLUMNS) if context else None


def listing_given(style: Style) -> list[str]:
    """Which of the options of a list are given, for verbs that may show something else instead."""
    limit = click.get_current_context().meta[_LIMIT]
    names = {"--limit": limit is not None, "--columns": asked_columns() is not None}
    return [name for name, given in {**names, f"--{style}": style != "table"}.items() if given]


def _as_asked(columns: Sequence[str], rows: Iterable[Row]) -> tuple[Sequence[str], Iterable[Row]]:
    """What --columns and --limit leave of rows. Raises click.BadParameter."""
    context = click.get_current_context(silent=True)
    rows = first(rows, context.meta.get(_LIMIT) if context else None)
    names = asked_columns()
    if names is None:
        return columns, rows
    for name in names:
        if name not in columns:
            raise click.BadParameter(refusal(name, columns), param_hint="--columns")
    places = [columns.index(name) for name in names]
    return names, ([row[place] for place in places] for row in rows)


def style_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --json and --csv, of which one may be given; they arrive as `style`."""
    for name in ("csv", "json"):
        flag = click.option(
            f"--{name}", is_flag=True, expose_value=False, callback=_set_style, help=f"Write {name.upper()}."
        )
        command = flag(command)
    return command


def _set_style(context: click.Context, option: click.Parameter, given: bool) -> None:
    style = context.params.setdefault("style", "table")
    if given and style != "table":
        raise click.UsageError("--json and --csv exclude each other: give one of them.")
    if given:
        context.params["style"] = option.name


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --limit and --page, which arrive as `limit` (None: all) and `page` (from 1, or None)."""
    limit = click.IntRange(min=1)
    command = click.option("--page", type=limit, help="Which page, from 1.  [default: 1]")(command)
    return click.option(
        "--limit", type=limit, help=f"Rows in a page.  [default: all; with --page {PAGE_ROWS}]"
    )(command)


class PageArguments(TypedDict):
    """A page as the API takes it, from 0."""

    limit: int | None
    page: int


def page_arguments(limit: int | None, page: int | None) -> PageArguments:
    """What the options said, for the API."""
    return {"limit": limit or (None if page is None else PAGE_ROWS), "page": (page or 1) - 1}


def write_rows(
    columns: Sequence[str], rows: Iterable[Row], style: Style, *, title: str | None = None
) -> None:
    """Write rows in the style asked for, those that --columns and --limit leave; only a table has a title."""
    columns, rows = _as_asked(columns, rows)
    if style == "json":
        _write_json_rows(columns, rows)
    elif style == "csv":
        _write_csv(columns, rows)
    else:
        write_table(columns, rows, title=title)


def write_table(columns: Sequence[str], rows: Iterable[Row], *, title: str | None = None) -> None:
    """A table for people."""
    rows = list(rows)
    found = [_column(name, [row[index] for row in rows]) for index, name in enumerate(columns)]
    if title:
        click.echo(f"\n{escaped(title)}")
    room = _room()
    if (fitting := layout(found, room)) is None:
        lines = list(records(found, room))
    else:
        lines = [*_heading(fitting, room), *fitting.rows()]
    _write_lines(lines, room)


def write_json(value: object) -> None:
    """One JSON document."""
    click.echo(json.dumps(for_json(value), indent=2, allow_nan=False))


def write_pairs(pairs: Iterable[tuple[str, object]], *, title: str | None = None) -> None:
    """Names and values, one a line, below a title."""
    if title:
        click.echo(f"\n{escaped(title)}")
    fields = [(escaped(name), shown(value)) for name, value in pairs]
    for line in tables.pairs(fields, _room(), indent="  "):
        click.echo(line)


def _column(name: str, values: Sequence[object]) -> Column:
    is_numeric = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return Column(escaped(name), [shown(value) for value in values], is_numeric)


def _room() -> int | None:
    """How many characters a line has; None where nobody counts."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _heading(table: Layout, room: int | None) -> list[str]:
    if room is None:
        return [table.heading()]
    from rich.console import Console
    from rich.text import Text

    above = tables.pairs([(column.name, column.cells[0]) for column in table.above], room)
    console = Console(file=sys.stdout)
    with console.capture() as heading:
        console.print(Text(table.heading(), "bold"), soft_wrap=True, end="")
    return [*above, *([""] if table.above else []), heading.get(), table.rule()]


def _write_lines(lines: Sequence[str], room: int | None) -> None:
    """Write lines; on a terminal that they do not fit on, a page at a time, by the program that PAGER names or less."""
    if room is None or len(lines) < shutil.get_terminal_size().lines:
        for line in lines:
            click.echo(line)
        return
    os.environ.setdefault(
        "LESS", "FRSX"
    )  # escapes are shown, long lines are not folded, all stays when it ends
    click.echo_via_pager("\n".join(lines), color=True)


def _write_csv(columns: Sequence[str], rows: Iterable[Row]) -> None:
    sys.stdout.write(csv_text([[for_csv(name) for name in columns]]))
    rest = iter(rows)
    while some := list(islice(rest, _CSV_ROWS_AT_A_TIME)):
        sys.stdout.write(csv_text(list(rows_for_csv(some))))


def _write_json_rows(columns: Sequence[str], rows: Iterable[Row]) -> None:
    separator = "[\n"
    for row in rows:
        item = dict(zip(columns, map(for_json, row), strict=True))
        sys.stdout.write(f"{separator}  {json.dumps(item, allow_nan=False)}")
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")
