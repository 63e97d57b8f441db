"""The queries of docs/cookbook.md as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

_COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"


def _queries() -> dict[str, str]:
    """The SQL of the cookbook by question number; a question's second query has a `b`."""
    queries: dict[str, str] = {}
    for number, section in re.findall(
        r"^## (\d+)\. (.*?)(?=^## |\Z)", _COOKBOOK.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        blocks = re.findall(r"^```sql\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        queries |= {
            number + suffix: block.strip().rstrip(";")
            for block, suffix in zip(blocks, ("", "b"), strict=False)
        }
    return queries


QUERIES = _queries()
