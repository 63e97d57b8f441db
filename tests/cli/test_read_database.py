"""Verbs that ask are answered by a hot standby; verbs that write also read from the primary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.program import Run
from helpers.standby import on_standby, paused, wait_until_caught_up
from helpers.waiting import wait_until


@pytest.fixture
def standby_url(
    standby_server: str, postgres_url: str, run: Run, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Of the store of two jobs that the program uses."""
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", postgres_url)
    assert run("ingest", base_dir).code == 0
    url = on_standby(standby_server, postgres_url)
    monkeypatch.setenv("LINEAGE_STORE_READ_DATABASE_URL", url)
    return url


def jobs(run: Run, *options: object) -> int:
    return len(json.loads(run(*options, "jobs", "--json").out))


def test_a_standby_that_lags_shows_what_was_and_every_verb_knows_whom_to_ask(
    run: Run, standby_url: str, base_dir: Path, postgres_url: str
) -> None:
    with paused(standby_url):
        assert run("annotate", "./good", "--label", "3").code == 0
        assert run("forget", base_dir, "--yes").code == 0
        assert (jobs(run), jobs(run, "--read-database", "")) == (2, 0)
        shown = run("status")
        assert "Standby: postgresql" in shown.out
        assert "holds no base dir yet" in shown.err  # as the primary has it
        assert json.loads(run("status", "--json").out)["standby"]["lag_bytes"] > 0
        checked = run("status", "--check", "--within", "0s")
        assert "the standby: It shows the store as it was" in checked.out
        assert "pg_wal_replay_resume" in checked.out
    wait_until_caught_up(postgres_url, standby_url)
    assert jobs(run) == 0
    wait_until(lambda: "0.0 s (0 bytes) behind" in run("doctor").out)


def test_while_the_primary_is_away_verbs_that_ask_go_on(
    run: Run, standby_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", "postgresql://nobody@/nowhere?host=/nowhere")
    asked = run("jobs", "--json")
    assert (asked.code, len(json.loads(asked.out))) == (0, 2)
    assert "Questions are answered by" in asked.err
    assert run("status").code == 0
    assert run("status", "--check").code == 1
    refused = run("annotate", "./good", "--label", "3")
    assert (refused.code, "Is the server up" in refused.err) == (5, True)
    monkeypatch.setenv("LINEAGE_STORE_READ_DATABASE_URL", "postgresql://nobody@/nowhere?host=/nowhere")
    assert run("jobs").code == 5
