"""Rows as lines of text: a table where it fits, else a record a row, a field a line. Pure.

In: columns of cells for people, and how many characters a line has (None: no end, as in a file). Out: lines.
Promises: no number, time, id or name is ever cut or broken, nor a sentence about what to do. A table that is too wide
has columns in which all rows are alike above it, then loses the end of prose and the beginning of paths, marked by `…`;
where that does not do either, and in a file, everything is there. Prose is broken between words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

GAP = "  "
LEAST_TEXT = 24
"""What is left at least of a text that is cut; nothing shorter ever is."""
_SENTENCES = frozenset({"reason", "remedy", "meaning", "finding"})
"""Columns that are there to be read to the end."""


@dataclass(frozen=True)
class Column:
    """A column of a table, its cells as they are shown."""

    name: str
    cells: Sequence[str]
    is_numeric: bool = False

    @cached_property
    def width(self) -> int:
        """What it takes to be shown whole."""
        return max(map(width_of, (self.name, *self.cells)))

    @cached_property
    def least(self) -> int:
        """What it takes when what may be cut is."""
        if self.name in _SENTENCES:
            return self.width
        kept = (
            min(width_of(cell), LEAST_TEXT) if _may_be_cut(cell) else width_of(cell) for cell in self.cells
        )
        return max((width_of(self.name), *kept))

    @property
    def is_constant(self) -> bool:
        """Whether all of several rows are alike."""
        return len(self.cells) > 1 and len(set(self.cells)) == 1

    def placed(self, cell: str, width: int) -> str:
        """A cell, or the name, in that many characters."""
        cell = _cut(cell, width)
        blanks = " " * (width - width_of(cell))
        return blanks + cell if self.is_numeric else cell + blanks


@dataclass(frozen=True, slots=True)
class Layout:
    """What stands above the table, the table, and how wide each of its columns is."""

    above: Sequence[Column]
    table: Sequence[Column]
    widths: Sequence[int]

    def heading(self) -> str:
        """The names above the columns."""
        return self._line([column.name for column in self.table])

    def rule(self) -> str:
        """A line below the names."""
        return GAP.join("─" * width for width in self.widths)

    def rows(self) -> Iterator[str]:
        """The rows of the table."""
        return map(self._line, zip(*(column.cells for column in self.table), strict=True))

    def _line(self, cells: Iterable[str]) -> str:
        placed = map(Column.placed, self.table, cells, self.widths)
        return GAP.join(placed).rstrip()


def layout(columns: Sequence[Column], room: int | None) -> Layout | None:
    """A table for lines of `room` characters; None where there is none that can be read."""
    whole = [column.width for column in columns]
    if room is None or _total(whole) <= room or not any(column.cells for column in columns):
        return Layout((), columns, whole)
    varying = [column for column in columns if not column.is_constant]
    if not varying:
        return None
    for most in range(room, LEAST_TEXT - 1, -1):
        widths = [max(column.least, min(column.width, most)) for column in varying]
        if _total(widths) <= room:
            return Layout([column for column in columns if column.is_constant], varying, widths)
    return None


def records(columns: Sequence[Column], room: int | None) -> Iterator[str]:
    """A record a row, its fields as `pairs` has them, a blank line between records."""
    names = [column.name for column in columns]
    for number, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if number:
            yield ""
        yield from pairs(list(zip(names, cells, strict=True)), room)


def pairs(fields: Sequence[tuple[str, str]], room: int | None, indent: str = "") -> Iterator[str]:
    """Names and values, a line each. Long prose goes on beside its name, any other long value stands below it."""
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
    """How many columns of a terminal a text takes."""
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
