"""The documentation of `make` is true, and .ci/run leaves no tier out."""

from __future__ import annotations

import re

from helpers.base_dirs import ROOT

TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
TIERS = {target for target in TARGETS if re.fullmatch(r"check|prove|test(-.*)?", target)}
NAMED = re.compile(r"(?:`|^ *)make ([a-z-]+)", re.MULTILINE)
TIER = re.compile(r"^\| `make ([a-z-]+)` \|", re.MULTILINE)
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def test_every_target_that_a_page_names_exists() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "proofs" / "README.md"]
    named = {target for page in pages for target in NAMED.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 8
    assert named - TARGETS == set()


def test_whatever_a_tier_chooses_is_there() -> None:
    chosen = re.findall(r"\btests/[\w./]+", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert len(chosen) > 8
    assert [path for path in chosen if not (ROOT / path).exists()] == []


def test_every_tier_is_told_and_run() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    tiers = re.search(r"^tiers=\((.*)\)$", script, re.MULTILINE)
    assert tiers is not None
    assert set(tiers[1].split()) == TIERS
    assert set(TIER.findall(CONTRIBUTING.read_text(encoding="utf-8"))) == TIERS
