"""Writes rows to stdout: a table for people, JSON or CSV for programs.

In: column names and rows of plain values. Out: text on stdout. On a terminal, a table is fitted to its width or becomes
one record per row (`tables`), and is shown in a pager if it is too long; its heading is bold. Elsewhere a table has
plain columns of any width with uncut values. Promises: JSON and CSV are written as the rows arrive.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypedDict, TypeVar

import click

from lineage_store.cli import tables
from lineage_store.cli.session import refusal
from lineage_store.cli.tables import ShownColumn, TableLayout, cell_text, records, table_layout
from lineage_store.plain_values import csv_text, for_csv, for_json, rows_for_csv
from lineage_store.texts import escaped

Style = Literal["table", "json", "csv"]
Row = Sequence[object]
T = TypeVar("T")
PAGE_ROWS = 20
"""Rows of a page by default."""
_CSV_ROWS_AT_A_TIME = 1000


_COLUMNS, _LIMIT = f"{__name__}.columns", f"{__name__}.limit"
"""Keys of click's context under which --columns and --limit are passed to `write_rows`, past the verbs."""


def columns_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --columns, which `write_rows` obeys."""
    return click.option(
        "--columns",
        metavar="NAME,...",
        expose_value=False,
        callback=_set_columns,
        help="Columns to show.",
    )(command)


def listing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --limit and --columns, which `write_rows` obeys, and --json and --csv, which the verb gets as `style`."""
    limit = click.option(
        "--limit",
        type=click.IntRange(min=1),
        expose_value=False,
        callback=_set_limit,
        help="Show at most this many rows.  [default: all]",
    )
    return limit(columns_option(style_options(command)))


def _set_columns(context: click.Context, _option: click.Parameter, names: str | None) -> None:
    context.meta[_COLUMNS] = None if names is None else [name.strip() for name in names.split(",")]


def _set_limit(context: click.Context, _option: click.Parameter, limit: int | None) -> None:
    context.meta[_LIMIT] = limit


def first(rows: Iterable[T], limit: int | None) -> Iterable[T]:
    """Return at most `limit` rows; None: all."""
    return islice(rows, limit and min(limit, sys.maxsize))


def asked_columns() -> Sequence[str] | None:
    """Return the names in --columns, or None without the option."""
    names: Sequence[str] | None = click.get_current_context().meta.get(_COLUMNS)
    return names


def listing_given(style: Style) -> list[str]:
    """Return which of the `listing_options` are given, so that a verb can refuse them where it writes no rows."""
    limit = click.get_current_context().meta[_LIMIT]
    names = {"--limit": limit is not None, "--columns": asked_columns() is not None}
    return [name for name, given in {**names, f"--{style}": style != "table"}.items() if given]


def _as_asked(columns: Sequence[str], rows: Iterable[Row]) -> tuple[Sequence[str], Iterable[Row]]:
    """Apply --columns and --limit to rows. Raises click.BadParameter for an unknown column."""
    rows = first(rows, click.get_current_context().meta.get(_LIMIT))
    names = asked_columns()
    if names is None:
        return columns, rows
    for name in names:
        if name not in columns:
            raise click.BadParameter(refusal(name, columns), param_hint="--columns")
    places = [columns.index(name) for name in names]
    return names, ([row[place] for place in places] for row in rows)


def style_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options --json and --csv, which exclude each other; the verb gets them as `style`."""
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
    """Add the options --limit and --page; the verb gets `limit` (None: all) and `page` (from 1, or None)."""
    limit = click.IntRange(min=1)
    command = click.option("--page", type=limit, help="Page number, from 1.  [default: 1]")(command)
    return click.option(
        "--limit", type=limit, help=f"Rows per page.  [default: all; with --page {PAGE_ROWS}]"
    )(command)


class PageArguments(TypedDict):
    """The API's arguments for a page; `page` counts from 0."""

    limit: int | None
    page: int


def page_arguments(limit: int | None, page: int | None) -> PageArguments:
    """Convert the values of `page_options` to arguments of the API."""
    return {"limit": limit or (None if page is None else PAGE_ROWS), "page": (page or 1) - 1}


def write_rows(
    columns: Sequence[str], rows: Iterable[Row], style: Style, *, title: str | None = None
) -> None:
    """Write rows in a style, after applying --columns and --limit; only a table has a title."""
    columns, rows = _as_asked(columns, rows)
    if style == "json":
        _write_json_rows(columns, rows)
    elif style == "csv":
        _write_csv(columns, rows)
    else:
        _write_table(columns, rows, title)


def _write_table(columns: Sequence[str], rows: Iterable[Row], title: str | None) -> None:
    rows = list(rows)
    found = [_column(name, [row[index] for row in rows]) for index, name in enumerate(columns)]
    if title:
        click.echo(f"\n{escaped(title)}")
    room = _room()
    if (fitting := table_layout(found, room)) is None:
        lines = list(records(found, room))
    else:
        lines = [*_heading(fitting, room), *fitting.rows()]
    _write_lines(lines, room)


def write_mappings(
    columns: Sequence[str],
    rows: Iterable[Mapping[str, Any]],
    style: Style = "table",
    *,
    title: str | None = None,
) -> None:
    """Write the values that rows have under the names in `columns`, as `write_rows` does; None where one has none."""
    write_rows(columns, ([row.get(name) for name in columns] for row in rows), style, title=title)


def write_json(value: object) -> None:
    """Write one JSON document."""
    click.echo(json.dumps(for_json(value), indent=2, allow_nan=False))


def write_pairs(pairs: Iterable[tuple[str, object]], *, title: str | None = None) -> None:
    """Write names and values, one per line, below a title."""
    if title:
        click.echo(f"\n{escaped(title)}")
    fields = [(escaped(name), cell_text(value)) for name, value in pairs]
    for line in tables.pairs(fields, _room(), indent="  "):
        click.echo(line)


def _column(name: str, values: Sequence[object]) -> ShownColumn:
    is_numeric = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return ShownColumn(escaped(name), [cell_text(value) for value in values], is_numeric)


def _room() -> int | None:
    """Return the width of the terminal, or None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _heading(table: TableLayout, room: int | None) -> list[str]:
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
    """Write lines; through a pager (PAGER, or less) if they do not fit on the terminal."""
    if room is None or len(lines) < shutil.get_terminal_size().lines:
        for line in lines:
            click.echo(line)
        return
    # Of less: show escapes, do not wrap long lines, leave the text on the screen at the end.
    os.environ.setdefault("LESS", "FRSX")
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
