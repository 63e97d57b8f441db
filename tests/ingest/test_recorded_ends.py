"""A recorded end closes a job whatever the modes of its log files: git, scp and object stores lose them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.ingesting import ingest, rows
from helpers.log_writer import FIRST_WALL_TIME, Log

EXAMPLES = Path(__file__).parents[2] / "examples" / "summary_base"
BEGUN = int(FIRST_WALL_TIME)
LONG_AGO = BEGUN + 10_000
GRAPH: dict[str, Any] = {"op_type": "Batch", "parameter": {"batch_size": 4}}
FAILED: dict[str, Any] = {"end/outcome": "failed"}


def begun(*, at: float = BEGUN) -> Log:
    return Log(at).dataset_graph(GRAPH)


def trained(*, at: float = BEGUN, lasts_s: float = 100) -> Log:
    return begun(at=at).train(network="Net", wall_time=at + lasts_s)


def curve(*, at: float = BEGUN, steps: int = 50) -> Log:
    log = Log(at).version()
    for step in range(steps):
        log.scalar(step, "loss", 1 / (step + 1))
    return log


@pytest.fixture
def job(base_dir: Path) -> Path:
    """The directory of a job whose training has ended, all of whose log files may be written."""
    directory = base_dir / "job"
    curve().write_summary(directory, BEGUN)
    trained().write_lineage(directory, BEGUN)
    return directory


def state_of(engine: Engine, base_dir: Path, **settings: Any) -> tuple[str, str | None]:
    ingest(engine, base_dir, **settings)
    (row,) = rows(engine, "SELECT state, outcome FROM v_job")
    return row.state, row.outcome


def test_an_ended_job_is_finished_though_all_its_files_may_be_written(
    engine: Engine, base_dir: Path, job: Path
) -> None:
    assert state_of(engine, base_dir) == ("finished", "completed")


def test_a_recorded_failure_ends_a_job_too(engine: Engine, base_dir: Path) -> None:
    curve().write_summary(base_dir / "job", BEGUN)
    begun().user_info(**FAILED, wall_time=BEGUN + 100).write_lineage(base_dir / "job", BEGUN)
    assert state_of(engine, base_dir) == ("finished", "failed")


def test_a_word_that_is_no_outcome_ends_nothing(engine: Engine, base_dir: Path) -> None:
    splendid: dict[str, Any] = {"end/outcome": "splendid"}
    begun().user_info(**splendid).write_lineage(base_dir / "job", BEGUN)
    assert state_of(engine, base_dir) == ("live", None)


def _clone(source: Path, target: Path) -> None:
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q"], cwd=source, check=True)
    subprocess.run([*git, "add", "."], cwd=source, check=True)
    subprocess.run([*git, "commit", "-qm", "Jobs"], cwd=source, check=True)
    subprocess.run([*git, "clone", "-q", source, target], check=True)


def _copy(source: Path, target: Path) -> None:
    """As scp, and clients of object stores do: contents, names, and times of now."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)


def _writable(source: Path, target: Path) -> None:
    source.rename(target)
    subprocess.run(["chmod", "-R", "u+w", target], check=True)


@pytest.mark.parametrize("bring", [_clone, _copy, _writable])
@pytest.mark.parametrize("old", [False, True])
def test_examples_are_finished_wherever_they_come_from(
    bring: Callable[[Path, Path], None], old: bool, engine: Engine, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(EXAMPLES, source)
    for path in source.rglob("*summary.*"):
        path.chmod(0o400)
    bring(source, target)
    for path in target.rglob("*summary.*"):
        assert path.stat().st_mode & 0o200
        if old:
            os.utime(path, (LONG_AGO, LONG_AGO))
    ingest(engine, target)
    found = {row.train_id: row.state for row in rows(engine, "SELECT train_id, state FROM v_job")}
    assert found == dict.fromkeys(found, "finished")
    assert len(found) == 7


def test_finished_jobs_stay_finished_when_they_are_made_writable(
    engine: Engine, base_dir: Path, job: Path
) -> None:
    for path in job.iterdir():
        path.chmod(0o400)
    assert state_of(engine, base_dir)[0] == "finished"
    for path in job.iterdir():
        path.chmod(0o644)
    assert state_of(engine, base_dir) == ("finished", "completed")


def test_growth_behind_the_end_reopens_a_job(engine: Engine, base_dir: Path, job: Path) -> None:
    assert state_of(engine, base_dir)[0] == "finished"
    (path,) = job.glob("*_MS")
    with path.open("ab") as stream:
        stream.write(Log(BEGUN + 110).scalar(99, "loss", 0.5).content)
    assert state_of(engine, base_dir) == ("live", None)


def test_what_was_written_long_after_the_end_reopens_a_job_at_first_sight(
    engine: Engine, base_dir: Path, job: Path
) -> None:
    (path,) = job.glob("*_MS")
    with path.open("ab") as stream:
        stream.write(Log(BEGUN + 5000).scalar(99, "loss", 0.5).content)
    for each in job.iterdir():
        os.utime(each, (LONG_AGO, LONG_AGO))
    assert state_of(engine, base_dir)[0] == "stalled"


def test_what_a_writer_flushed_last_does_not_reopen_its_job(
    engine: Engine, base_dir: Path, job: Path
) -> None:
    (path,) = job.glob("*_MS")
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    ingest(engine, base_dir)
    path.write_bytes(content)
    assert state_of(engine, base_dir) == ("finished", "completed")


@pytest.mark.parametrize("newer", [curve, begun])
def test_a_newer_log_file_reopens_a_job(
    newer: Callable[..., Log], engine: Engine, base_dir: Path, job: Path
) -> None:
    log = newer(at=BEGUN + 1000)
    (log.write_summary if newer is curve else log.write_lineage)(job, BEGUN + 1000)
    assert state_of(engine, base_dir) == ("live", None)


def test_a_resumed_training_that_ends_too_finishes_the_job_again(
    engine: Engine, base_dir: Path, job: Path
) -> None:
    curve(at=BEGUN + 1000).write_summary(job, BEGUN + 1000)
    lineage = begun(at=BEGUN + 1000).write_lineage(job, BEGUN + 1000)
    assert state_of(engine, base_dir)[0] == "live"
    lineage.write_bytes(trained(at=BEGUN + 1000).content)
    assert state_of(engine, base_dir) == ("finished", "completed")


def test_a_second_training_in_the_same_files_reopens_the_job_until_it_ends(
    engine: Engine, base_dir: Path, job: Path
) -> None:
    (path,) = job.glob("*_lineage")
    with path.open("ab") as stream:
        stream.write(begun(at=BEGUN + 200).content)
    assert state_of(engine, base_dir)[0] == "live"
    with path.open("ab") as stream:
        stream.write(Log(BEGUN + 300).train(network="Net").content)
    assert state_of(engine, base_dir) == ("finished", "completed")


def test_evaluations_after_the_end_do_not_reopen_a_job(engine: Engine, base_dir: Path, job: Path) -> None:
    Log(BEGUN + 2000).evaluation({"accuracy": 0.5}).write_lineage(job, BEGUN + 2000)
    (path,) = job.glob(f"*{BEGUN}*_lineage")
    with path.open("ab") as stream:
        stream.write(Log(BEGUN + 3000).evaluation({"accuracy": 0.6}).content)
    assert state_of(engine, base_dir) == ("finished", "completed")


def test_a_device_that_has_not_ended_keeps_its_job_open(engine: Engine, base_dir: Path, job: Path) -> None:
    curve().write_summary(job, BEGUN, device=1)
    lineage = begun().write_lineage(job, BEGUN, device=1)
    assert state_of(engine, base_dir)[0] == "live"
    lineage.write_bytes(trained().content)
    assert state_of(engine, base_dir) == ("finished", "completed")


def test_a_lineage_that_says_nothing_of_an_end_leaves_it_to_the_modes(engine: Engine, base_dir: Path) -> None:
    path = begun().write_lineage(base_dir / "job", BEGUN)
    os.utime(path, (time.time() - 7200,) * 2)
    assert state_of(engine, base_dir) == ("stalled", None)
    path.chmod(0o400)
    assert state_of(engine, base_dir) == ("finished", "interrupted")


def test_evaluations_alone_say_nothing_of_an_end(engine: Engine, base_dir: Path) -> None:
    Log(BEGUN).evaluation({"accuracy": 0.7}).write_lineage(base_dir / "job", BEGUN)
    assert state_of(engine, base_dir) == ("live", None)
    assert state_of(engine, base_dir, live_within_s=0.0)[0] == "stalled"
