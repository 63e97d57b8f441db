"""docs/faults.md names only proofs and tests that exist."""

from __future__ import annotations

import re

from helpers.base_dirs import ROOT

PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
PROOF = re.compile(r"\bproof ([a-z-]+)")
TEST = re.compile(r"`(test_\w+)`")


def test_every_test_that_is_named_exists() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = TEST.findall(PAGE)
    assert len(named) > 30
    assert [name for name in named if f"\ndef {name}(" not in code] == []


def test_every_proof_is_named_and_exists() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "proofs").glob("*.py"))
    proofs = set(re.findall(r'^PROOF = Proof\(\n    "([a-z-]+)"', code, re.MULTILINE))
    assert len(proofs) >= 12
    assert set(PROOF.findall(PAGE)) == proofs


def test_every_line_shows_something() -> None:
    faults, _, _ = PAGE.partition("## What is found, and what to do")
    rows = [line for line in faults.splitlines() if line.startswith("| ") and not line.startswith("| fault")]
    assert [row for row in rows if not (PROOF.search(row) or TEST.search(row))] == []
