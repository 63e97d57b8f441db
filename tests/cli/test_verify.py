"""`verify`: the exit code says whether the store agrees with its log files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from helpers.engines import opened
from helpers.program import Run


def test_a_sound_store_exits_0(run: Run, stored: Path) -> None:
    done = run("verify")
    assert done.code == 0
    assert done.out.startswith("3 log files")
    assert "0 differ" in done.out


@pytest.mark.parametrize("place", ["{stored}", "./good", "{stored}/good"])
def test_what_differs_exits_1_with_the_place_and_the_remedy(
    run: Run, stored: Path, on_sqlite: str, place: str
) -> None:
    with opened(on_sqlite) as engine, engine.begin() as connection:
        connection.execute(text("UPDATE scalar_sample SET value = 9 WHERE step = 2"))
    found = run("verify", place.format(stored=stored))
    assert found.code == 1
    assert f"{stored}/good/" in found.out
    assert "Step 2 of scalar 'loss'" in found.out
    assert "lineage-store reingest" in found.out
    report = json.loads(run("verify", "--json").out)
    assert (report["different"], report["files"]) == (1, 3)
    assert run("reingest", "./good").code == 0
    assert run("verify").code == 0


def test_what_cannot_be_read_exits_3(run: Run, stored: Path) -> None:
    next((stored / "poor").iterdir()).unlink()
    gone = run("verify", stored)
    assert gone.code == 3
    assert "1 could not be verified" in gone.out


def test_a_sample_is_a_part(run: Run, stored: Path) -> None:
    assert json.loads(run("verify", "--sample", "2", "--json").out)["files"] == 2
