"""Every example in README.md and docs/ runs, and the notebook in examples/.

Each document has a directory of its own with `examples/summary_base` in it, and a store that has ingested it, named
by LINEAGE_STORE_DATABASE_URL. Its blocks run in order:

    ```python    executed; later blocks see the names of earlier ones
    ```pycon     a session with >>> prompts; its output is compared
    ```console   each line after `$ ` runs in bash and must succeed; output that follows is compared

`...` in an expected output matches anything, white space counts as one blank. Blocks of any other language (`sh`,
`text`, `toml`) are not run.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.base_dirs import EXAMPLES, ROOT, copy_base_dir

BLOCK = re.compile(r"^```(python|pycon|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
COMPARE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True, slots=True)
class Block:
    """One example and where it stands."""

    place: str
    line: int
    language: str
    text: str


def blocks(document: Path) -> Iterator[Block]:
    content = document.read_text(encoding="utf-8")
    for match in BLOCK.finditer(content):
        line = content.count("\n", 0, match.start(2)) + 1
        yield Block(f"{document.relative_to(ROOT)}:{line}", line, match[1], match[2])


DOCUMENTS = [
    path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if any(blocks(path))
]


@pytest.fixture
def workplace(tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory like a fresh clone after `make demo`, and nobody's own settings."""
    from lineage_store import LineageStore

    base_dir = copy_base_dir(EXAMPLES, tmp_path / "examples" / "summary_base")
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
    monkeypatch.chdir(tmp_path)
    settings = {
        "LINEAGE_STORE_DATABASE_URL": sqlite_url,
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def _case(document: Path) -> Any:
    name = str(document.relative_to(ROOT))
    # It draws, with libraries that take seconds to import.
    return pytest.param(document, id=name, marks=[pytest.mark.slow] if name == "docs/notebooks.md" else [])


@pytest.mark.parametrize("document", [_case(document) for document in DOCUMENTS])
@pytest.mark.usefixtures("workplace")
def test_examples_run(document: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for block in blocks(document):
            RUN[block.language](block, names)
    finally:
        if "store" in names:
            names["store"].close()  # which a notebook leaves open


@pytest.mark.usefixtures("workplace")
def test_the_tour_runs() -> None:
    notebook = EXAMPLES.parent / "tour.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        assert not cell.get("outputs"), "outputs are not kept"
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook}:{number}", "exec"), names)
    assert len(names["losses"]) > 3


def run_python(block: Block, names: dict[str, Any]) -> None:
    # The empty lines make a traceback name the document's own line.
    exec(compile("\n" * (block.line - 1) + block.text, block.place, "exec"), names)


def run_session(block: Block, names: dict[str, Any]) -> None:
    session = doctest.DocTestParser().get_doctest(block.text, names, block.place, block.place, block.line - 1)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=COMPARE).run(session, out=report.append, clear_globs=False)
    names.update(session.globs)
    assert not report, "".join(report)


def run_console(block: Block, names: dict[str, Any]) -> None:
    for command, expected in COMMAND.findall(block.text):
        script = ["bash", "-eo", "pipefail", "-c", command]
        finished = subprocess.run(script, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert finished.returncode == 0, f"{block.place}: {command}\n{finished.stdout}{finished.stderr}"
        shown = doctest.OutputChecker().check_output(expected, finished.stdout, COMPARE)
        assert shown or not expected.strip(), f"{block.place}: {command}\n{finished.stdout}"


RUN = {"python": run_python, "pycon": run_session, "console": run_console}
