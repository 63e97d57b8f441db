"""Write the table of what `LineageStore`, its nouns and `Job` offer in docs/python.md: every name with the first
sentence of its docstring.

In: the classes. Out: the part of docs/python.md between two marks, there or in the file given as the only argument; the
rest of the page is unchanged.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from lineage_store import LineageStore
from lineage_store.api.job import Job
from lineage_store.api.store import Lineage
from lineage_store.operations.base_dirs import BaseDirs
from lineage_store.operations.health import Health
from lineage_store.operations.removal import Removal
from lineage_store.operations.repair import Repair
from lineage_store.query.changes import Changes

PYTHON = Path(__file__).resolve().parent.parent / "docs" / "python.md"
BEGIN = "<!-- Generated from the classes by `make docs`; do not edit. -->"
END = "<!-- end of what is generated -->"
NOUNS: dict[str, type] = {
    "lineage": Lineage,
    "base_dirs": BaseDirs,
    "changes": Changes,
    "health": Health,
    "repair": Repair,
    "removal": Removal,
}


def public(of: type) -> list[str]:
    """Return the public names of a class, sorted; iterating over it counts as one."""
    return sorted(name for name in dir(of) if not name.startswith("_") or name == "__iter__")


def markdown() -> str:
    """Return the table."""
    rows = (*_rows("store", LineageStore), *_of_nouns(), *_rows("job", Job))
    return "\n".join(("| name | what it does |", "|---|---|", *rows))


def _of_nouns() -> Iterator[str]:
    for noun, of in NOUNS.items():
        yield from _rows(f"store.{noun}", of)


def _rows(prefix: str, of: type) -> Iterator[str]:
    for name in public(of):
        member = getattr(of, name)
        text = inspect.getdoc(member) or ""
        sentence = re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]
        if name == "__iter__":
            shown = f"for base_dir in {prefix}"
        else:
            shown = f"{prefix}.{name}" + ("" if isinstance(member, property) else "()")
        yield f"| `{shown}` | {sentence.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PYTHON
    before, rest = PYTHON.read_text(encoding="utf-8").split(BEGIN)
    target.write_text(f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")
