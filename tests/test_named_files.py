"""Files and folders that README.md, CONTRIBUTING.md, docs/ and docstrings of the package name exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.base_dirs import ROOT

PACKAGE = ROOT / "lineage_store"
NAMED = re.compile(r"(?<![\w./*-])((?:[\w-]+/)*\w+\.(?:py|md))\b|`((?:[a-z_]+/)+)`")
"""Modules and pages by their names, and folders between backticks."""

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def docstrings(module: Path) -> Iterator[str]:
    """Those of a module and of all that is in it, and the strings below attributes."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def missing(text: str, here: Path) -> list[str]:
    """What a text names that is neither beside it, nor below the project or the package."""
    named = [file or folder for file, folder in NAMED.findall(text)]
    return [name for name in named if not any((place / name).exists() for place in (here, ROOT, PACKAGE))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8"), page.parent) == []


def test_every_room_is_on_the_map() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = [module.parent.relative_to(PACKAGE) for module in PACKAGE.glob("*/**/__init__.py")]
    assert [str(room) for room in rooms if len(room.parts) < 3 and f"`{room}/`" not in page] == []


def test_what_docstrings_name_is_there() -> None:
    modules = PACKAGE.rglob("*.py")
    found = {module: missing("\n".join(docstrings(module)), module.parent) for module in modules}
    assert {str(module.relative_to(ROOT)): names for module, names in found.items() if names} == {}
