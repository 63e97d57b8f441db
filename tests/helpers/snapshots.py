"""Text that a reviewer has approved: compared with a file, which is rewritten when UPDATE_VARIABLE is set."""

from __future__ import annotations

import os
from pathlib import Path

SNAPSHOTS = Path(__file__).resolve().parent.parent / "snapshots"
UPDATE_VARIABLE = "LINEAGE_STORE_TEST_UPDATE_SNAPSHOTS"


def assert_matches_snapshot(name: str, text: str) -> None:
    """Fail unless the content of tests/snapshots/`name` is `text`."""
    path = SNAPSHOTS / name
    if os.environ.get(UPDATE_VARIABLE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    stored = path.read_text(encoding="utf-8") if path.exists() else ""
    assert text == stored, (
        f"{path} differs; if that is wanted, run the test with {UPDATE_VARIABLE}=1 and review the diff"
    )
