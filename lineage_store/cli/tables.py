"""Values and rows as text for people: a table if it fits the line, else one record per row, one field per line. Pure.

In: values; columns of cells, and the width of a line in characters (None: unlimited, as in a file). Out: cells; lines.
Promises: cells have no terminal escapes. Numbers, times, ids, names and remedies are never cut or broken. If a table is
too wide, columns with equal cells move above it; then the end of prose and the beginning of paths are cut, marked by
`…`. Records, and tables in a file, are complete. Prose is wrapped between words.
Does not know: what programs get (`json_values`, `csv_values`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property

from lineage_store.plain_values import spelled
from lineage_store.texts import escaped

GAP = "  "
LEAST_TEXT = 24
"""How much of a cut text is left at least; shorter texts are never cut."""
_SENTENCES = frozenset({"reason", "remedy", "meaning", "finding"})
"""Columns whose text is never cut."""


def cell_text(value: object) -> str:
    """Return a value as a cell: `-` for None, times in UTC to the second, floats to six digits."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float() | Decimal():
            return spelled(value) or f"{value:.6g}"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return escaped(str(value))


@dataclass(frozen=True)
class ShownColumn:
    """A column of a table; `cells` are texts as `shown` returns them."""

    name: str
    cells: Sequence[str]
    is_numeric: bool = False

    @cached_property
    def width(self) -> int:
        """The width that the column needs if nothing is cut."""
        return max(map(width_of, (self.name, *self.cells)))

    @cached_property
    def least(self) -> int:
        """The width that the column needs if everything is cut that may be."""
        if self.name in _SENTENCES:
            return self.width
        kept = (
            min(width_of(cell), LEAST_TEXT) if _may_be_cut(cell) else width_of(cell) for cell in self.cells
        )
        return max((width_of(self.name), *kept))

    @property
    def is_constant(self) -> bool:
        """Whether there are several cells and all are equal."""
        return len(self.cells) > 1 and len(set(self.cells)) == 1

    def placed(self, cell: str, width: int) -> str:
        """Return a cell, or the name, cut or padded to `width` characters."""
        cell = _cut(cell, width)
        blanks = " " * (width - width_of(cell))
        return blanks + cell if self.is_numeric else cell + blanks


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The columns whose one value stands above the table, the columns of the table, and the widths of the latter."""

    above: Sequence[ShownColumn]
    table: Sequence[ShownColumn]
    widths: Sequence[int]

    def heading(self) -> str:
        """Return the line with the names of the columns."""
        return self._line([column.name for column in self.table])

    def rule(self) -> str:
        """Return the rule below the names."""
        return GAP.join("─" * width for width in self.widths)

    def rows(self) -> Iterator[str]:
        """Return the lines of the rows."""
        return map(self._line, zip(*(column.cells for column in self.table), strict=True))

    def _line(self, cells: Iterable[str]) -> str:
        placed = map(ShownColumn.placed, self.table, cells, self.widths)
        return GAP.join(placed).rstrip()


def table_layout(columns: Sequence[ShownColumn], room: int | None) -> TableLayout | None:
    """Lay out a table for lines of `room` characters (None: unlimited); return None if no readable table fits."""
    whole = [column.width for column in columns]
    if room is None or _total(whole) <= room or not any(column.cells for column in columns):
        return TableLayout((), columns, whole)
    varying = [column for column in columns if not column.is_constant]
    if not varying:
        return None
    for most in range(room, LEAST_TEXT - 1, -1):
        widths = [max(column.least, min(column.width, most)) for column in varying]
        if _total(widths) <= room:
            return TableLayout([column for column in columns if column.is_constant], varying, widths)
    return None


def records(columns: Sequence[ShownColumn], room: int | None) -> Iterator[str]:
    """Yield the lines of one record per row, as `pairs` does, with a blank line between records."""
    names = [column.name for column in columns]
    for number, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if number:
            yield ""
        yield from pairs(list(zip(names, cells, strict=True)), room)


def pairs(fields: Sequence[tuple[str, str]], room: int | None, indent: str = "") -> Iterator[str]:
    """Yield a line for each name and value. Long prose is wrapped beside its name; other long values stand below it."""
    width = max((width_of(name) for name, _ in fields), default=0)
    for name, value in fields:
        start = f"{indent}{name}{' ' * (width - width_of(name))}{GAP}"
        if room is None or width_of(start) + width_of(value) <= room:
            yield f"{start}{value}".rstrip()
            continue
        below = " " * width_of(start)
        if not _is_prose(value) or room - len(below) < LEAST_TEXT:
            yield f"{indent}{name}"
            start = below = f"{indent}{GAP}"
        for line in _broken(value, room - len(below)):
            yield f"{start}{line}"
            start = below


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _is_path(cell: str) -> bool:
    return cell.startswith("/")


def _is_prose(cell: str) -> bool:
    return " " in cell and not cell.startswith(("./", "/"))  # an id may have blanks too


def _may_be_cut(cell: str) -> bool:
    return _is_path(cell) or _is_prose(cell)


def _cut(cell: str, width: int) -> str:
    if width_of(cell) <= width:
        return cell
    from rich.cells import set_cell_size

    if _is_path(cell):
        return "…" + set_cell_size(cell[::-1], width - 1)[::-1]
    return set_cell_size(cell, width - 1).rstrip() + "…"


def _broken(value: str, room: int) -> list[str]:
    if not _is_prose(value):
        return [value]
    return textwrap.wrap(value, max(room, LEAST_TEXT), break_long_words=False, break_on_hyphens=False)
