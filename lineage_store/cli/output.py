"""Rows on stdout: a table for people, JSON or CSV for programs.

In: column names and rows of plain values. Out: text on stdout and nothing else. On a terminal tables are drawn by rich
(which honours NO_COLOR); elsewhere they are plain columns, two blanks apart. JSON and CSV are written as rows come.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Literal

import click

from lineage_store.cli.cells import escaped, for_csv, for_json, rows_for_csv, shown

Style = Literal["table", "json", "csv"]
Row = Sequence[object]
_CSV_ROWS_AT_A_TIME = 1000


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


def write_rows(
    columns: Sequence[str], rows: Iterable[Row], style: Style, *, title: str | None = None
) -> None:
    """Write rows in the style asked for; only a table has a title."""
    if style == "json":
        _write_json_rows(columns, rows)
    elif style == "csv":
        _write_csv(columns, rows)
    else:
        write_table(columns, rows, title=title)


def write_table(columns: Sequence[str], rows: Iterable[Row], *, title: str | None = None) -> None:
    """A table for people."""
    rows = list(rows)
    numeric = [
        any(isinstance(row[index], int | float) and not isinstance(row[index], bool) for row in rows)
        for index in range(len(columns))
    ]
    cells = [[shown(value) for value in row] for row in rows]
    names = [escaped(name) for name in columns]
    if sys.stdout.isatty():
        _draw(names, cells, numeric, title)
    else:
        _align(names, cells, numeric, title)


def write_json(value: object) -> None:
    """One JSON document."""
    click.echo(json.dumps(for_json(value), indent=2, allow_nan=False))


def write_pairs(pairs: Iterable[tuple[str, object]], *, title: str | None = None) -> None:
    """Names and values, one a line, below a title."""
    lines = [(escaped(name), shown(value)) for name, value in pairs]
    width = max((len(name) for name, _ in lines), default=0)
    if title:
        click.echo(f"\n{escaped(title)}")
    for name, value in lines:
        click.echo(f"  {name:<{width}}  {value}")


def _write_csv(columns: Sequence[str], rows: Iterable[Row]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([for_csv(name) for name in columns])
    rest = iter(rows)
    while some := list(islice(rest, _CSV_ROWS_AT_A_TIME)):
        writer.writerows(rows_for_csv(some))


def _write_json_rows(columns: Sequence[str], rows: Iterable[Row]) -> None:
    separator = "[\n"
    for row in rows:
        item = dict(zip(columns, map(for_json, row), strict=True))
        sys.stdout.write(f"{separator}  {json.dumps(item, allow_nan=False)}")
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def _draw(
    names: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], title: str | None
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(escaped(title)) if title else None, title_justify="left", box=box.SIMPLE_HEAD)
    for name, is_numeric in zip(names, numeric, strict=True):
        table.add_column(Text(name), justify="right" if is_numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console(file=sys.stdout, highlight=False).print(table)


def _align(
    names: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], title: str | None
) -> None:
    lines = [list(names), *cells]
    widths = [max(len(line[index]) for line in lines) for index in range(len(names))]
    if title:
        click.echo(f"\n{escaped(title)}")
    for line in lines:
        padded = (
            cell.rjust(width) if is_numeric else cell.ljust(width)
            for cell, width, is_numeric in zip(line, widths, numeric, strict=True)
        )
        click.echo("  ".join(padded).rstrip())
