"""Write the list of findings in docs/faults.md: every kind with its severity, text and remedy.

In: `finding_kinds/`. Out: the part of docs/faults.md between two marks, there or in the file given as the only
argument; the rest of the page is unchanged.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from lineage_store.finding_kinds import SECTIONS, Kind

FAULTS = Path(__file__).resolve().parent.parent / "docs" / "faults.md"
BEGIN = "<!-- Generated from lineage_store/finding_kinds/ by `make docs`; do not edit. -->"
END = "<!-- end of what is generated -->"

_PLACEHOLDER = re.compile(r"\{(\w+)[^}]*\}")


def markdown() -> str:
    """Return a table for each section of the kinds."""
    return "\n".join(line for title, kinds in SECTIONS.items() for line in _section(title, kinds))


def _section(title: str, kinds: tuple[Kind, ...]) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| kind | severity | what is said | what to do |"
    yield "|---|---|---|---|"
    for kind in kinds:
        remedies = " / ".join(filter(None, (kind.remedy, *kind.remedies.values()))) or "nothing"
        anchor = f'<a id="{kind.anchor.partition("#")[2]}"></a>'
        said = f"{kind.heading}: {kind.what}" if kind.heading else kind.what
        cells = (f"{anchor}`{kind.name}`", str(kind.severity), _plain(said), _plain(remedies))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _plain(template: str) -> str:
    """Return a text with its placeholders in capitals instead of braces."""
    return _PLACEHOLDER.sub(lambda match: match[1].upper(), template).replace("|", "\\|")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FAULTS
    before, rest = FAULTS.read_text(encoding="utf-8").split(BEGIN)
    target.write_text(f"{before}{BEGIN}\n\n{markdown()}\n{END}{rest.split(END)[1]}", encoding="utf-8")
