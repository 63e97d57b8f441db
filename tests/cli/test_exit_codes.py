"""Exit codes, errors, signals and streams: what a script around the program relies on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helpers.engines import opened
from helpers.log_writer import Log
from helpers.program import PROGRAM, Run, on_terminal
from helpers.waiting import wait_until
from lineage_store.cli.app import VERBS, report
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.lease import register as register_base_dir
from lineage_store.store import leases
from lineage_store.store.database.db import open_engine, writing

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.mark.usefixtures("on_sqlite")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ingest"], 2, "Missing argument"),
        (["nonsense"], 2, "No such command"),
        (["jobs", "--nonsense"], 2, "No such option"),
        (["ingest", "/does/not/exist"], 2, "/does/not/exist cannot be listed"),
        (["ingest", "/does/not/exist"], 2, "directory of the job directories"),
        (["filter", "--where", "color=red"], 2, "network"),
        (["filter", "--where", "optimiser=Adam"], 2, "Did you mean optimizer?"),
        (["filter", "--columns", "optimiser"], 2, "Did you mean optimizer?"),
        (["filter", "--columns", "network,metric/"], 2, "metric/<name>"),
        (["filter", "--where", "metric/accuracy>0.5"], 2, "No job has any metric."),
        (["jobs", "--state", "running"], 2, "none of reading, live, stalled, finished, missing"),
        (["jobs", "--state", "finishd"], 2, "Did you mean finished?"),
        (["jobs", "--json", "--csv"], 2, "--json and --csv exclude each other"),
        (["sql", "VALUES(1)", "--csv", "--json"], 2, "--json and --csv exclude each other"),
        (["filter", "--limit", "0"], 2, "1 to 100"),
        (["filter", "--condition", "{"], 2, "--condition"),
        (["filter", "--condition", "[]"], 2, "JSON object"),
        (["filter", "--condition", "[" * 90_000], 2, "recursion"),
        (["filter", "--all", "--page", "2"], 2, "--all"),
        (["--config", "/no/file.toml", "jobs"], 2, "/no/file.toml"),
        (["--database", "mysql://host/db", "jobs"], 2, "mysql"),
        (["daemon"], 2, "base_dirs"),
        (["backup", "/nowhere/x.db"], 1, "/nowhere/x.db"),
        (["backup", "x.db", "--mode", "9"], 2, "--mode"),
        (["restore", "/nowhere/x.db"], 1, "/nowhere/x.db"),
        (["db", "copy", "sqlite:////nowhere/x.db", "sqlite:///y.db"], 5, "/nowhere"),
        (["scalars", "./run", "loss"], 1, "empty"),
        (["inspect", "none"], 2, "none"),
        (["why", "/none"], 2, "/none"),
    ],
)
def test_mistakes_exit_with_the_documented_code(
    run: Run, arguments: list[str], code: int, message: str
) -> None:
    finished = run(*arguments)
    assert finished.code == code
    assert message in finished.err
    assert "Traceback" not in finished.err
    assert finished.out == ""


def test_a_foreign_database_exits_4_and_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a database, but long enough to be taken for one: " * 100)
    assert run("--database", f"sqlite:///{other}", "jobs").code == 4
    assert other.read_text().startswith("not a database")


def test_an_old_schema_exits_4_and_says_what_to_do(run: Run, on_sqlite: str) -> None:
    with opened(on_sqlite) as engine, writing(engine) as session:
        session.change("UPDATE lineage_store_version SET version_num = '0000'")
    finished = run("jobs")
    assert finished.code == 4
    assert "db upgrade" in finished.err
    assert run("db", "check").code == 4
    assert run("db", "current").out == "0000\n"


def test_a_database_that_is_down_exits_5_without_the_password(run: Run) -> None:
    finished = run("--database", "postgresql://me:secret@127.0.0.1:1/db", "jobs")
    assert finished.code == 5
    assert "secret" not in finished.err


def test_a_locked_database_exits_5(run: Run, on_sqlite: str, base_dir: Path) -> None:
    with opened(on_sqlite) as engine, writing(engine):
        finished = run("ingest", base_dir)
    assert finished.code == 5
    assert "locked" in finished.err


def test_another_leader_exits_6(run: Run, on_sqlite: str, base_dir: Path) -> None:
    with (
        opened(on_sqlite) as engine,
        hold_lease(engine, register_base_dir(engine, base_dir), 60, mode="daemon"),
    ):
        finished = run("ingest", base_dir)
    assert finished.code == 6
    assert "holds the lease" in finished.err


def test_a_signal_ends_the_wait_for_a_lead(run: Run, on_sqlite: str, base_dir: Path) -> None:
    engine = open_engine(on_sqlite)
    base_dir_id = register_base_dir(engine, base_dir)
    with writing(engine) as session:
        leases.acquire(session, base_dir_id, "elsewhere:1:abc", 600, "once")
    engine.dispose()
    process = _start("ingest", base_dir, url=on_sqlite)
    assert process.stderr is not None
    assert "waiting for a sign of life" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130


@pytest.mark.usefixtures("on_sqlite")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_statement_at_work(run: Run, number: signal.Signals, code: int) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), number))
    timer.start()
    finished = run("sql", ENDLESS)
    timer.join()
    assert (finished.code, finished.out, finished.err.strip()) == (code, "", "")


def test_a_signal_lets_the_transaction_at_hand_finish(run: Run, on_sqlite: str, corpus: Path) -> None:
    small = {"LINEAGE_STORE_LIMITS": "chunk_bytes=4096 batch_bytes=4096 batch_files=1"}
    process = _start("ingest", corpus, url=on_sqlite, environment=small)
    wait_until(lambda: _count_events(run) > 0)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "continues where this one ended" in err
    assert run("ingest", corpus).code in (0, 3)


def test_the_daemon_ends_with_0(run: Run, on_sqlite: str, base_dir: Path) -> None:
    process = _start("daemon", base_dir, url=on_sqlite)
    wait_until(lambda: _count_events(run) == 10)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert '"message": "stopped"' in err


def test_a_reader_that_goes_away_is_no_error(on_sqlite: str) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT i FROM n"
    process = _start("sql", many, "--csv", url=on_sqlite)
    assert process.stdout is not None
    assert process.stdout.readline() == "i\n"
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_a_surprise_is_one_line_and_a_way_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ZeroDivisionError("so\x1bmehow"), verbosity=0) == 1
    terse = capsys.readouterr().err
    assert report(ZeroDivisionError("somehow"), verbosity=1) == 1
    assert terse.splitlines()[0] == "Error: Unexpected ZeroDivisionError: so\\x1bmehow"
    assert "report it" in terse.splitlines()[1]
    assert "Traceback" not in terse
    assert "ZeroDivisionError: somehow" in capsys.readouterr().err


def test_on_a_terminal_tables_are_drawn_and_no_color_is_honoured(stored: Path, on_sqlite: str) -> None:
    coloured = on_terminal("jobs", url=on_sqlite)
    plain = on_terminal("jobs", url=on_sqlite, environment={"NO_COLOR": "1"})
    assert "─" in coloured
    assert "\x1b[" in coloured
    assert "\x1b[3" not in plain
    assert "./good" in plain


def test_on_a_terminal_ingest_shows_its_progress(base_dir: Path, on_sqlite: str) -> None:
    assert "10 events" in on_terminal("ingest", base_dir, url=on_sqlite)


def test_on_a_terminal_what_may_take_long_says_what_it_does_and_for_how_long(
    stored: Path, on_sqlite: str, tmp_path: Path
) -> None:
    for what, *verb in (
        ("Backing up", "backup", "kept.db"),
        ("Restoring", "restore", "kept.db", "--replace"),
        ("Upgrading", "db", "upgrade"),
        ("Copying", "db", "copy", on_sqlite, f"sqlite:///{tmp_path}/copy.db"),
        ("Moving", "move", stored, stored.rename(tmp_path / "new")),
        ("Forgetting", "forget", "--yes", tmp_path / "new"),
    ):
        shown = on_terminal(*verb, url=on_sqlite)
        assert f"0:00:00 {what}" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown), shown


def test_shells_can_ask_for_completions() -> None:
    script = {
        "_LINEAGE_STORE_COMPLETE": "bash_complete",
        "COMP_WORDS": "lineage-store sca",
        "COMP_CWORD": "1",
    }
    asked = subprocess.run(
        [PROGRAM], env={**os.environ, **script}, capture_output=True, text=True, check=True
    )
    assert asked.stdout.split() == ["plain,scalars"]


@pytest.mark.parametrize(
    "typed", ["ingest /sha", "move /old /n", "show ru", "jobs --base-dir /sha", "export --to /d"]
)
def test_shells_are_told_what_is_a_path(typed: str) -> None:
    words = f"lineage-store {typed}"
    script = {"_LINEAGE_STORE_COMPLETE": "bash_complete", "COMP_WORDS": words}
    environment = {**os.environ, **script, "COMP_CWORD": str(words.count(" "))}
    asked = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == f"file,{typed.split()[-1]}"


def test_a_misspelt_verb_is_told_with_the_closest_one(run: Run) -> None:
    refused = run("mov", "a", "b")
    assert refused.code == 2
    assert "No such command 'mov'. Did you mean move?" in refused.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_what_the_shell_reads(run: Run, shell: str) -> None:
    printed = run("completion", shell)
    assert printed.code == 0
    assert f"_LINEAGE_STORE_COMPLETE={shell}_complete" in printed.out
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=printed.out, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes_by_the_script() -> None:
    """As bash calls it: the function that the script binds to the program, with the words typed so far."""
    script = (
        f'PATH="{PROGRAM.parent}:$PATH"; eval "$(lineage-store completion bash)"; '
        "COMP_WORDS=(lineage-store ann) COMP_CWORD=1; _lineage_store_completion lineage-store; echo ${COMPREPLY[@]}"
    )
    asked = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert asked.stdout.split() == ["annotate"]


def test_a_table_longer_than_the_terminal_goes_through_a_pager(
    on_sqlite: str, base_dir: Path, tmp_path: Path, run: Run
) -> None:
    for number in range(30):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"job_{number:02}")
    pager = tmp_path / "pager"
    pager.write_text('#!/bin/sh\necho "paged with $LESS"; cat\n')
    pager.chmod(0o755)
    assert run("ingest", base_dir).code == 0
    environment = {"PAGER": str(pager), "LINES": "20"}
    long = on_terminal("jobs", url=on_sqlite, environment=environment)
    assert "paged with FRSX" in long
    assert all(f"./job_{number:02}" in long for number in range(30))
    assert "paged" not in on_terminal("jobs", "--limit", "5", url=on_sqlite, environment=environment)


def test_the_package_run_as_a_module_is_the_program() -> None:
    for words, code in ((["--version"], 0), (["nonsense"], 2)):
        by_script, by_module = (
            subprocess.run([*command, *words], capture_output=True, text=True)
            for command in ([PROGRAM], [sys.executable, "-m", "lineage_store"])
        )
        assert by_module.returncode == by_script.returncode == code
        assert (by_module.stdout, by_module.stderr) == (by_script.stdout, by_script.stderr)


def test_help_costs_no_heavy_library() -> None:
    script = (
        "import sys; from lineage_store.cli import main; main(['--help'])\n"
        "print('loaded', *{'sqlalchemy', 'numpy', 'rich', 'google.protobuf', 'alembic'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert shown.stdout.splitlines()[-1] == "loaded"


def test_every_verb_has_help_with_an_example(run: Run) -> None:
    listed = run("--help").out
    groups = {"db": ["upgrade", "current", "check", "partition", "distribute", "grant"], "config": ["show"]}
    for verb in VERBS:
        assert f"\n  {verb} " in listed
        for words in [[verb, word] for word in groups.get(verb, [])] or [[verb]]:
            shown = run(*words, "--help")
            assert shown.code == 0
            assert f"lineage-store {' '.join(words)}" in shown.out.split("\n\n", 1)[1], words
    assert "..." not in listed.split("Commands:")[1]


def _start(*arguments: object, url: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    settings = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url, **(environment or {})}
    command = [str(PROGRAM), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=settings)


def _count_events(run: Run) -> int:
    counted = run("sql", "SELECT coalesce(sum(event_count), 0) AS n FROM v_log_file", "--csv")
    return int(counted.out.split()[1])
