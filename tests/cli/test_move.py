"""`move` says what it did, or would do; the old path is reported as moved."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.program import Run
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.store.database.db import open_engine


def test_a_renamed_base_dir_keeps_what_people_wrote(run: Run, stored: Path, tmp_path: Path) -> None:
    run("annotate", "./poor", "--remark", "why?")
    new = stored.rename(tmp_path / "new")
    what = "2 jobs, 1 of them with a label or remark; 3 log files"
    assert run("move", stored, new, "--dry-run").out == f"{stored} would be at {new} now ({what}).\n"
    done = run("move", stored, new)
    assert (done.code, done.out) == (0, f"{stored} is at {new} now ({what}).\n")
    assert "read 0 events" in run("ingest", new).out
    assert "why?" in run("show", "./poor").out
    refused = run("status", stored)
    assert (refused.code, f"was moved to {new}" in refused.err) == (2, True)


def test_status_tells_of_jobs_that_are_known_in_another_base_dir(
    run: Run, stored: Path, tmp_path: Path
) -> None:
    assert "known in" not in run("status").err
    new = stored.rename(tmp_path / "new")
    run("ingest", new)
    hint = f"{stored}: 2 of its jobs are known in the base dir {new} too."
    assert hint in run("status").err
    assert "lineage-store move OLD NEW" in run("status", new).err
    (told,) = json.loads(run("status", stored, "--json").out)["known_twice"]
    assert told["subject"] == str(stored)


def test_without_the_log_files_it_wants_force(run: Run, stored: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    refused = run("move", stored, tmp_path / "new")
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert "3 of which are missing" in run("move", stored, tmp_path / "new", "--force").out


def test_while_a_daemon_leads_it_exits_6(run: Run, stored: Path, tmp_path: Path, on_sqlite: str) -> None:
    new, engine = stored.rename(tmp_path / "new"), open_engine(on_sqlite)
    with hold_lease(engine, register(engine, stored), 60, mode="daemon") as lease:
        refused = run("move", stored, new)
    engine.dispose()
    assert (refused.code, lease.holder in refused.err) == (6, True)
