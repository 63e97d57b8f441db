"""No output or error of any verb contains the password: a canary is looked for."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from helpers.program import Run
from lineage_store import LineageStore, program
from lineage_store.cli import app
from lineage_store.cli.app import VERBS
from lineage_store.program import command_of
from lineage_store.texts import without_passwords

CANARY = "c4n4ry"

FAILING = [
    f"postgresql://me:{CANARY}@127.0.0.1:1/db",
    f"postgresql://me:{CANARY}/with:odd@signs@127.0.0.1:1/db",
    f"postgresql://127.0.0.1:1/db?user=me&password={CANARY}",
    f"mysql://me:{CANARY}@host/db",
    f"postgresql//me:{CANARY}@host/db://me:{CANARY}@x",
    f"nonsense://me:{CANARY}@host:port/db",
    f"sqlite://me:{CANARY}@host/db",
]
ODD = [
    f"postgresql://me:{CANARY} and a blank@127.0.0.1:1/db",
    f"postgresql://me:a'{CANARY}\"b@127.0.0.1:1/db",
    f"postgresql://me:%40{CANARY}%2F@127.0.0.1:1/db",
    f"postgresql://me:{CANARY}\n{CANARY}@127.0.0.1:1/db",
    f"postgresql://me:@{CANARY}@127.0.0.1:1/db",
    f"postgresql://me:{CANARY}#{CANARY}?{CANARY}@127.0.0.1:1/db",
    f"postgresql://me:{CANARY} x@127.0.0.1:port/db",
    f"postgresql://127.0.0.1:1/db?user=me&pass%77ord={CANARY}",
    f"postgresql://127.0.0.1:1/db?user=me&PASSWORD={CANARY}",
    f"postgresql://127.0.0.1:1/db?user=me&password={CANARY}%20{CANARY}+{CANARY}",
    f"postgresql://127.0.0.1:1/db?user=me&password='{CANARY} {CANARY}'",
    f"postgresql://127.0.0.1:1/db?user=me&sslpassword={CANARY}",
    f"postgresql://127.0.0.1:1/db?user=me&options=-c%20x={CANARY}",
    f"host=127.0.0.1 port=1 user=me password={CANARY} dbname=x",
    f"host=127.0.0.1 port=1 user=me password = '{CANARY}\\'{CANARY} {CANARY}' dbname=x",
    f"me:{CANARY}@host/db",
    f"postgresql:/me:{CANARY}@host/db",
    f"sqlite:///x.db?password={CANARY}",
]
"""Passwords that are written in other ways than they should be."""
VERB_LINES = [
    line.split()
    for line in (
        "jobs",
        "status",
        "doctor",
        "init",
        "db check",
        "db current",
        "db upgrade",
        "config show",
        "config show --json",
        "filter",
        "sql VALUES(1)",
        "problems",
        "retry",
        "verify",
        "gc --missing --yes",
        "ingest .",
        "db grant --analyst a",
    )
]


@pytest.mark.parametrize("url", FAILING)
@pytest.mark.parametrize("way", ["flag", "environment"])
def test_no_failure_shows_it(run: Run, monkeypatch: pytest.MonkeyPatch, url: str, way: str) -> None:
    shown = ["--database", url] if way == "flag" else []
    if way == "environment":
        monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", url)
    for words in VERB_LINES:
        for verbosity in ([], ["-vv"]):
            finished = run(*shown, *verbosity, *words)
            assert CANARY not in finished.out + finished.err, words


@pytest.mark.parametrize("url", ODD)
def test_no_odd_url_shows_it(run: Run, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", url)
    for words in ("jobs", "-vv jobs", "-vv doctor", "status --json", "config show", "config show --json"):
        finished = run(*words.split())
        assert CANARY not in finished.out + finished.err, words


def test_no_failure_shows_that_of_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", "postgresql://me@127.0.0.1:1/db")
    monkeypatch.setenv("PGPASSWORD", CANARY)
    for words in VERB_LINES:
        finished = run("-vv", *words)
        assert CANARY not in finished.out + finished.err, words


@pytest.mark.slow
def test_no_success_shows_it(run: Run, postgres_url: str, base_dir: Path) -> None:
    url = make_url(postgres_url).set(password=CANARY).render_as_string(hide_password=False)
    for words in (["ingest", str(base_dir)], *VERB_LINES[:-2], ["filter", "--explain"], ["status", "--json"]):
        finished = run("--database", url, "-vv", *words)
        assert CANARY not in finished.out + finished.err, words
    with LineageStore(url) as store:
        assert (
            CANARY not in f"{store!r} {store.opened.url} {store.engine!r} {store.opened.settings.base_dirs}"
        )


def test_a_password_on_the_command_line_is_warned_about(run: Run, on_sqlite: str) -> None:
    assert "process list" in run("--database", FAILING[0], "jobs").err
    assert "process list" not in run("jobs").err


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_no_setting_in_force(run: Run, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", FAILING[0])
    finished = run(verb, "--help")
    assert CANARY not in finished.out + finished.err


@pytest.mark.parametrize("style", ["console", "json"])
def test_log_lines_do_not_have_it(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    program.configure("info", style)
    try:
        raise ValueError(FAILING[0])
    except ValueError:
        logging.getLogger("x").exception("%s failed", FAILING[2], extra={"reason": FAILING[0]})
    finally:
        root.handlers[:], root.level = handlers, level
    line = capsys.readouterr().err
    assert CANARY not in line
    assert "***" in line
    if style == "json":
        assert json.loads(line)["message"].endswith("failed")


@pytest.mark.parametrize("style", ["console", "json"])
def test_log_lines_say_the_time_as_rfc_3339_writes_it(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    program.configure("info", style)
    begun = datetime.now(UTC)
    try:
        logging.getLogger("x").info("started")
    finally:
        root.handlers[:], root.level = handlers, level
    line = capsys.readouterr().err
    when = json.loads(line)["time"] if style == "json" else line.split()[0]
    assert when.endswith("Z")
    assert begun <= datetime.fromisoformat(when) <= datetime.now(UTC)


HOSTILE = "\x1b]0;mine\x07\nlineage-store: all is well \x9b2J \u202e"


@pytest.mark.parametrize(
    "start", [partial(program.configure, "info", "console"), partial(app._log_to_stderr, 0)]
)
def test_no_log_line_steers_a_terminal(start: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    start()
    try:
        logging.getLogger("x").warning("%s failed", HOSTILE, extra={"file": HOSTILE})
    finally:
        root.handlers[:], root.level = handlers, level
    line = capsys.readouterr().err
    assert "failed" in line
    assert all(char.isprintable() or char == "\n" for char in line)


def test_another_process_is_named_without_it(tmp_path: Path) -> None:
    script = "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, FAILING[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        shown = command_of(process.pid)
        process.communicate(b"\n")
    assert "postgresql://me:***@" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sh -c PGPASSWORD=x lineage-store", "sh -c PGPASSWORD=*** lineage-store"),
        ("dsn host=h password='a b\\'c' user=me", "dsn host=h password=*** user=me"),
        ("postgresql://me:a b@h/db: down", "postgresql://me:***@h/db: down"),
        ("postgresql://me:***@h/db: no user a@b", "postgresql://me:***@h/db: no user a@b"),
    ],
)
def test_a_password_in_a_sentence_is_starred_out_alone(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


@pytest.mark.parametrize(
    "text", ["https://host/a@b", "a:b@c", "sqlite:////var/lib/x.db", "password reset", "x://user@host"]
)
def test_what_is_no_password_stays(text: str) -> None:
    assert without_passwords(text) == text


def test_where_notifications_go_is_not_shown(
    run: Run, on_sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_STORE_NOTIFY_URL", "https://hooks.example/s3cret")
    monkeypatch.setenv("LINEAGE_STORE_NOTIFY_COMMAND", "tell s3cret")
    for style in ([], ["--json"]):
        shown = run("config", "show", *style)
        assert shown.code == 0
        assert "s3cret" not in shown.out + shown.err
