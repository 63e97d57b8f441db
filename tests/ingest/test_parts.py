"""A base dir is compared with the store in parts: only a part is in memory, and the result is the same."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from helpers.contents import natural_contents
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import register
from lineage_store.ingest.scan import survey
from lineage_store.ingest.scan.discovery import FoundFiles, scan, search_files
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import open_engine

JOBS = [".", *(f"{letter}{end}" for letter in "abcde" for end in ("", "-b", "/b", "/b/c", "0"))]
"""Whose order as ids is not the order of a walk: `./a`, `./a-b`, `./a/b`, `./a0`."""
LOG = Log().version().scalar(1, "loss", 0.5)


def write_jobs(base_dir: Path) -> None:
    for job in JOBS:
        LOG.write_summary(base_dir / job)
        LOG.write_summary(base_dir / job, 1_700_000_001)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "search_files", partial(search_files, files_at_once=3))
    monkeypatch.setattr(survey, "FILES_AT_ONCE", 3)
    monkeypatch.setattr(registry, "JOBS_AT_ONCE", 2)


def change(base_dir: Path) -> None:
    """Remove, add and lengthen some of the jobs."""
    chance = random.Random(7)
    for number, job in enumerate(sorted(JOBS[1:], key=len, reverse=True)):
        match number % 4:
            case 0:
                shutil.rmtree(base_dir / job, ignore_errors=True)
            case 1:
                LOG.write_summary(base_dir / f"{job}+new{chance.random()}")
            case 2:
                longer = Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25)
                longer.write_summary(base_dir / job)


@pytest.mark.parametrize("recursive", [False, True])
def test_the_parts_of_a_search_are_the_whole_in_the_order_of_ids_and_names(
    recursive: bool, base_dir: Path
) -> None:
    write_jobs(base_dir)
    parts = list(search_files(base_dir, recursive=recursive, files_at_once=3))
    files = [file for part in parts for file in part.files]
    assert [(file.train_id, file.name) for file in files] == sorted(
        (file.train_id, file.name) for file in scan(base_dir, recursive=recursive).files
    )
    assert len(files) == 2 * len(JOBS if recursive else [job for job in JOBS if "/" not in job])
    assert all(len(part.files) <= 4 for part in parts)
    assert [part.upto is None for part in parts] == [False] * (len(parts) - 1) + [True]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("by_daemon", [False, True])
@pytest.mark.slow
def test_what_comes_of_parts_is_what_comes_of_the_whole(
    by_daemon: bool, engine: Engine, base_dir: Path, tmp_path: Path, sqlite_template: Path
) -> None:
    write_jobs(base_dir)
    ingest(engine, base_dir, recursive=True)
    assert column(engine, "SELECT count(*) FROM log_file") == [2 * len(JOBS)]
    change(base_dir)
    if by_daemon:
        follower = Follower(engine, base_dir, Settings(recursive=True))
        follower.tick()
        follower.close()
    else:
        report = ingest(engine, base_dir, recursive=True)
        assert report.counts.files_found == len(list(base_dir.rglob("*_MS")))
    shutil.copy(sqlite_template, tmp_path / "other.sqlite3")
    other = open_engine(f"sqlite:///{tmp_path / 'other.sqlite3'}")
    ingest(other, base_dir, recursive=True)
    present = (
        "SELECT train_id, step FROM v_scalar JOIN v_job USING (train_id) WHERE source_present ORDER BY 1, 2"
    )
    assert column(engine, present) == column(other, present)
    gone = set(column(engine, "SELECT train_id FROM train_job")) - set(
        column(other, "SELECT train_id FROM train_job")
    )
    assert gone
    missing = "SELECT DISTINCT train_id FROM v_log_file WHERE state = 'missing'"
    assert set(column(engine, missing)) == gone
    other.dispose()


@pytest.mark.usefixtures("small_parts")
def test_of_what_is_known_one_page_is_held(sqlite_engine: Engine, base_dir: Path) -> None:
    write_jobs(base_dir)
    base_dir_id = register(sqlite_engine, base_dir)
    ingest(sqlite_engine, base_dir, recursive=True)
    for job in JOBS:
        shutil.rmtree(base_dir / job, ignore_errors=True)
    base_dir.mkdir()
    (base_dir / "events.out.events.summary.9.0.host_MS").write_bytes(b"")
    parts = survey.survey(survey.Scope(sqlite_engine, base_dir, base_dir_id, Settings(recursive=True)))
    asked = list[str]()
    event.listen(sqlite_engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    first = next(parts)
    assert len(first.missing) <= 3
    assert sum("FROM log_file" in statement for statement in asked) <= 2
    rest = list(parts)
    assert all(len(part.missing) <= 3 for part in rest)
    assert len(first.missing) + sum(len(part.missing) for part in rest) == 2 * len(JOBS)


@pytest.mark.usefixtures("small_parts")
def test_what_lies_below_a_directory_that_cannot_be_listed_is_not_missing_in_later_parts(
    sqlite_engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jobs(base_dir)
    ingest(sqlite_engine, base_dir, recursive=True)
    before = natural_contents(sqlite_engine)
    shutil.rmtree(base_dir / "c")

    def denied(*args: object, **more: object) -> Iterator[FoundFiles]:
        for part in search_files(*args, files_at_once=3, **more):  # type: ignore[arg-type]
            if any(file.train_id >= "./b" for file in part.files):
                part.unreadable["./c"] = PermissionError(13, "denied")
            yield part

    monkeypatch.setattr(survey, "search_files", denied)
    ingest(sqlite_engine, base_dir, recursive=True)
    assert column(sqlite_engine, "SELECT count(*) FROM log_file WHERE state = 'missing'") == [0]
    assert column(sqlite_engine, "SELECT kind FROM ingest_problem WHERE resolved_at IS NULL") == [
        "unreadable_path"
    ]
    assert natural_contents(sqlite_engine)["scalar_sample"] == before["scalar_sample"]


@pytest.mark.usefixtures("small_parts")
def test_a_takeover_that_fails_midway_looks_at_everything_again(
    sqlite_engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jobs(base_dir)
    follower = Follower(sqlite_engine, base_dir, Settings(recursive=True, discovery_interval_s=0.05))
    next_known, pages = registry.next_known, iter(range(3))

    def failing(*args: object) -> object:
        if next(pages, None) is None:
            monkeypatch.setattr(registry, "next_known", next_known)
            raise OSError("the share went away")
        return next_known(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(registry, "next_known", failing)
    follower.tick()
    assert follower.status.finding is not None
    follower._backoff.wait(0)  # time passes
    follower.tick()
    follower.close()
    assert column(sqlite_engine, "SELECT count(*) FROM log_file WHERE event_count = 2") == [2 * len(JOBS)]


@pytest.mark.parametrize("only", [None, {"./growing", "./finished"}], ids=["all", "some jobs"])
def test_on_a_network_filesystem_every_file_that_is_still_written_is_looked_at(
    only: set[str] | None, sqlite_engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LOG.write_summary(base_dir / "growing")
    LOG.write_summary(base_dir / "finished").chmod(0o400)
    ingest(sqlite_engine, base_dir)
    scope = survey.Scope(sqlite_engine, base_dir, register(sqlite_engine, base_dir), Settings())

    def changed() -> list[str]:
        return [file.train_id for part in survey.survey(scope, only) for file, _ in part.changed]

    assert changed() == []
    monkeypatch.setattr(survey, "is_network", lambda kind: True)
    assert changed() == ["./growing"]
