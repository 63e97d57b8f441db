"""`tail`: one line per change, until the user ends it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from helpers import faults
from helpers.log_writer import Log
from helpers.program import PROGRAM, Run
from lineage_store import LineageStore
from lineage_store.config import Settings


@dataclass
class Tail:
    """A `tail` at work."""

    process: subprocess.Popen[str]
    lines: dict[str, queue.Queue[str]] = field(
        default_factory=lambda: {"out": queue.Queue(), "err": queue.Queue()}
    )

    def __post_init__(self) -> None:
        for name, stream in (("out", self.process.stdout), ("err", self.process.stderr)):
            assert stream is not None
            threading.Thread(target=self._read, args=(name, stream), daemon=True).start()

    def _read(self, name: str, stream: IO[str]) -> None:
        for line in stream:
            self.lines[name].put(line)

    def next(self, name: str = "out") -> str:
        return self.lines[name].get(timeout=60)


@contextmanager
def tail(*arguments: str) -> Iterator[Tail]:
    command = [str(PROGRAM), "tail", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Tail(process)
        finally:
            process.kill()


@pytest.fixture
def store(on_each: str, base_dir: Path) -> Iterator[LineageStore]:
    with LineageStore(on_each, settings=Settings()) as store:
        store.ingest(base_dir)
        yield store


def told(text: str) -> list[tuple[str, str, str]]:
    """Kind, state and job of each line."""
    lines = [line.split() for line in text.splitlines()]
    return [(kind, state, Path(job).name) for _day, _time, kind, state, job in lines]


def test_all_that_is_there_is_a_line_a_job(run: Run, store: LineageStore) -> None:
    finished = run("tail", "--since", "all", "--no-follow")
    assert finished.code == 0
    assert sorted(told(finished.out)) == [("changed", "finished", "good"), ("changed", "finished", "poor")]
    assert run("tail", "--no-follow").out == ""


def test_each_line_of_json_says_where_to_go_on(run: Run, store: LineageStore, base_dir: Path) -> None:
    lines = run("tail", "--since", "all", "--no-follow", "--json").out.splitlines()
    first, second = map(json.loads, lines)
    assert set(first) == {"kind", "base_dir", "train_id", "state", "revision", "at", "since"}
    rest = run("tail", "--since", first["since"], "--no-follow", "--json").out
    assert [json.loads(line)["train_id"] for line in rest.splitlines()] == [second["train_id"]]
    assert run("tail", "--since", second["since"], "--no-follow", "--json").out == ""
    store.job((base_dir, "./poor")).annotate(label=1)
    again = json.loads(run("tail", "--since", second["since"], "--no-follow", "--json").out)
    assert (again["kind"], again["train_id"]) == ("changed", "./poor")


def test_conditions_choose_jobs(run: Run, store: LineageStore) -> None:
    chosen = run("tail", "--since", "all", "--no-follow", "metric/accuracy>0.8", "network=LeNet5")
    assert [job for _, _, job in told(chosen.out)] == ["good"]


def test_a_name_that_no_job_has_yet_is_told_and_followed(run: Run, store: LineageStore) -> None:
    finished = run("tail", "--no-follow", "metric/acc>0.8")
    assert (finished.code, finished.out) == (0, "")
    assert "Did you mean metric/accuracy?" in finished.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--since", "yesterday"], "is no token of changes"),
        (["accuracy"], "is no comparison"),
        (["losss>1"], "'losss' is not a field"),
        (["--since", "all", "state=lve"], "Did you mean live?"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    run: Run, store: LineageStore, words: list[str], message: str
) -> None:
    refused = run("tail", "--no-follow", *words)
    assert refused.code == 2
    assert refused.err.count(message) == 1


def test_changes_are_told_as_they_come_until_it_is_interrupted(store: LineageStore, base_dir: Path) -> None:
    with tail("--since", "all", "--json") as following:
        assert {json.loads(following.next())["train_id"] for _ in range(2)} == {"./good", "./poor"}
        Log().train(network="New").write_lineage(base_dir / "new")
        store.ingest(base_dir)
        assert json.loads(following.next())["train_id"] == "./new"
        following.process.send_signal(signal.SIGINT)
        assert following.process.wait(timeout=60) == 128 + signal.SIGINT
        assert following.lines["err"].empty()


def test_it_waits_for_a_database_that_is_away(store: LineageStore, base_dir: Path) -> None:
    with tail("--since", "all") as following:
        assert len({following.next() for _ in range(2)}) == 2
        with faults.down(store.engine):
            assert "Will retry." in following.next("err")
        store.engine.dispose()  # what it had open was ended too
        store.job((base_dir, "./poor")).annotate(label=1)
        assert "/poor" in following.next()
        assert following.next("err") == "The database is available again.\n"


def test_it_ends_when_nobody_reads_any_more(on_sqlite: str, stored: Path) -> None:
    script = f"{PROGRAM} tail --since all | head -1"
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": on_sqlite}
    with subprocess.Popen(["bash", "-c", script], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"changed" in process.stdout.readline()
        with LineageStore(on_sqlite, settings=Settings()) as store:
            store.job((stored, "./good")).annotate(label=1)
        assert process.wait(timeout=60) == 0
