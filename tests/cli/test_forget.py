"""`forget` asks for confirmation first, and says what it deletes."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from helpers.engines import opened
from helpers.program import Run
from lineage_store.ingest.lease import hold_lease, register


class Terminal(io.StringIO):
    """A terminal on which somebody has typed."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_it_wants_yes(run: Run, stored: Path) -> None:
    refused = run("forget", stored)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert "./good" in run("jobs").out


def test_yes_forgets_and_log_files_stay(run: Run, stored: Path) -> None:
    run("annotate", "./poor", "--remark", "why?")
    done = run("forget", "--yes", stored)
    assert (done.code, done.out) == (
        0,
        f"{stored} is forgotten (2 jobs, 1 of them with a label or remark).\n",
    )
    assert "no jobs" in run("jobs").err
    assert "2 jobs, 3 log files; read 10 events" in run("ingest", stored).out


def test_labels_of_removed_jobs_are_told_apart(run: Run, stored: Path) -> None:
    for job in ("./good", "./poor"):
        run("annotate", job, "--remark", "why?")
    shutil.rmtree(stored / "poor")
    run("ingest", stored)
    assert run("gc", "--missing", "--yes").code == 0
    what = "1 jobs, 1 of them with a label or remark, and those of 1 removed jobs"
    elsewhere = stored.with_name("elsewhere")
    shutil.copytree(stored, elsewhere)
    assert f"({what};" in run("move", "--dry-run", stored, elsewhere).out
    run("annotate", "./good", "--remark", "")
    done = run("forget", "--yes", stored)
    assert f"({what.replace('1 of', '0 of')})" in done.out


@pytest.mark.parametrize(("answer", "code", "jobs_left"), [("y\n", 0, 0), ("n\n", 1, 2), ("\n", 1, 2)])
def test_on_a_terminal_it_asks(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, jobs_left: int
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    asked = run("forget", stored)
    assert asked.code == code
    assert f"Forget {stored} (2 jobs" in asked.err + asked.out
    assert len(run("jobs", "--csv").out.splitlines()) == 1 + jobs_left


def test_a_base_dir_that_is_unknown_is_wrong_usage(run: Run, stored: Path) -> None:
    refused = run("forget", "--yes", "/elsewhere")
    assert refused.code == 2
    assert str(stored) in refused.err


def test_while_a_daemon_leads_it_exits_6(run: Run, stored: Path, on_sqlite: str) -> None:
    with opened(on_sqlite) as engine, hold_lease(engine, register(engine, stored), 60, mode="daemon"):
        assert run("forget", "--yes", stored).code == 6
    assert "./good" in run("jobs").out
