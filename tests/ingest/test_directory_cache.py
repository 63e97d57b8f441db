"""The cache of a base dir's directories: it saves looking at unchanged ones, and never hides a change."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, event, insert

from helpers.base_dirs import path_meant
from helpers.ingesting import column, visible_scalars
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest import pipeline
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.pipeline import Ingester
from lineage_store.ingest.scan.directory_cache import RESTING_PER_SEARCH, DirectoryCache, Signs
from lineage_store.ingest.scan.survey import Scope, Survey, survey_changes
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import writing
from lineage_store.store.schema.tables import tombstone, train_job

NEVER_S = 1e9
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOG = Log().scalar(1, "loss", 0.5)
FINISHED = 0o400
NO_SIGNS = Signs(set(), [])


class Search:
    """Searches of one base dir, one after the other, by an ingester that leads it all the time."""

    def __init__(self, this: Ingester, **cache: Any) -> None:
        self._this, self.cache = this, DirectoryCache(**{"settled_after_ns": 0, **cache})

    def signs(self, relist_after_s: float = NEVER_S, *, thorough: bool = False) -> Signs:
        return self.cache.signs(self._this.base_dir, relist_after_s=relist_after_s, thorough=thorough)

    def survey(self, signs: Signs | None = None) -> Survey:
        this, signs = self._this, self.signs() if signs is None else signs
        place = this.engine, this.base_dir, this.lease.base_dir_id, this.settings
        return survey_changes(Scope(*place), self.cache, signs)

    def search(self, signs: Signs | None = None) -> int:
        """Search and ingest; the number of events that were read."""
        return pipeline.ingest_survey(self._this, self.survey(signs), searched=True).events

    def until_nothing_shows(self) -> None:
        """Search until the store has everything and the cache knows it."""
        for _ in range(10):
            if (signs := self.signs()) == NO_SIGNS:
                return
            self.search(signs)
        raise AssertionError(f"there is no end: {signs}")


@pytest.fixture
def searching(sqlite_engine: Engine, base_dir: Path) -> Iterator[Callable[..., Search]]:
    with hold_lease(sqlite_engine, base_dirs.register(sqlite_engine, base_dir), 60.0, mode="once") as lease:

        def start(settings: Settings = Settings(), **cache: Any) -> Search:  # noqa: B008 - it is frozen
            return Search(Ingester(sqlite_engine, base_dir, lease, settings), **cache)

        yield start


@pytest.fixture
def engine(sqlite_engine: Engine) -> Engine:
    return sqlite_engine


def test_what_has_not_changed_is_neither_listed_nor_asked_for(
    searching: Callable[..., Search], engine: Engine, base_dir: Path
) -> None:
    LOG.write_summary(base_dir / "finished").chmod(FINISHED)
    LOG.write_summary(base_dir / "growing")
    (base_dir / "empty").mkdir()
    search = searching()
    search.until_nothing_shows()
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    assert search.signs() == NO_SIGNS
    assert not search.survey()
    assert statements == []


def test_a_file_that_grows_shows_without_a_listing(
    searching: Callable[..., Search], engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "job")
    search = searching()
    search.until_nothing_shows()
    for step in range(2, 5):
        log.scalar(step, "loss", 0.5).write(path)
        signs = search.signs()
        assert (signs.directories, [file.train_id for file in signs.files]) == (set(), ["./job"])
        assert search.search(signs) == 1
    path.chmod(FINISHED)
    search.until_nothing_shows()
    assert column(engine, "SELECT state FROM train_job") == ["finished"]


def test_what_was_seen_but_not_ingested_shows_again(searching: Callable[..., Search], base_dir: Path) -> None:
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "job")
    search = searching()
    assert [len(search.survey().new) for _ in range(2)] == [1, 1]
    search.until_nothing_shows()
    log.scalar(2, "loss", 0.5).write(path)
    assert [len(search.survey().changed) for _ in range(2)] == [1, 1]
    search.until_nothing_shows()
    path.unlink()
    assert [len(search.survey().missing) for _ in range(2)] == [1, 1]
    search.until_nothing_shows()
    LOG.write_summary(base_dir / "done").chmod(FINISHED)
    search.until_nothing_shows()
    shutil.rmtree(base_dir / "done")
    assert [len(search.survey().missing) for _ in range(2)] == [1, 1]
    search.until_nothing_shows()


def test_a_new_directory_and_a_new_file_in_a_resting_one_show(
    searching: Callable[..., Search], base_dir: Path
) -> None:
    LOG.write_summary(base_dir / "old").chmod(FINISHED)
    search = searching()
    search.until_nothing_shows()
    LOG.write_summary(base_dir / "new").chmod(FINISHED)
    assert search.signs().directories == {"./"}
    search.until_nothing_shows()
    LOG.write_summary(base_dir / "old", 1_700_000_001)
    assert search.signs().directories == {"./old"}


def test_a_directory_in_place_of_another_shows_though_its_time_is_the_same(
    searching: Callable[..., Search], engine: Engine, base_dir: Path, tmp_path: Path
) -> None:
    LOG.write_summary(base_dir / "job").chmod(FINISHED)
    search = searching()
    search.until_nothing_shows()
    modified_ns = (base_dir / "job").stat().st_mtime_ns
    Log().scalar(1, "loss", 0.25).write_summary(tmp_path / "job")
    shutil.rmtree(base_dir / "job")
    (tmp_path / "job").rename(base_dir / "job")
    os.utime(base_dir / "job", ns=(modified_ns, modified_ns))
    search.until_nothing_shows()
    assert visible_scalars(engine) == {1: 0.25}


def test_a_change_in_the_instant_of_the_look_is_not_missed(
    searching: Callable[..., Search], base_dir: Path
) -> None:
    """As if the file system's clock had stood still: a second change leaves no trace in the change time."""
    LOG.write_summary(base_dir / "job").chmod(FINISHED)
    search = searching(settled_after_ns=3600 * 10**9)
    for _ in range(3):
        search.search()
        assert search.signs().directories == {"./", "./job"}


def test_a_change_shortly_before_a_long_look_is_not_missed(
    searching: Callable[..., Search], base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LOG.write_summary(base_dir / "job").chmod(FINISHED)
    search, next_known = searching(settled_after_ns=10**9), registry.next_known

    def slow(*args: Any) -> Any:
        time.sleep(1.2)
        return next_known(*args)

    monkeypatch.setattr(registry, "next_known", slow)
    search.search()
    os.utime(base_dir / "job")
    search.search()
    assert search.signs().directories == {"./job"}


def test_a_finished_file_that_grows_is_read_when_its_directory_is_due(
    searching: Callable[..., Search], engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "job")
    path.chmod(FINISHED)
    search = searching()
    search.until_nothing_shows()
    path.chmod(0o600)
    log.scalar(2, "loss", 0.25).write(path)
    path.chmod(FINISHED)
    assert search.signs() == NO_SIGNS
    signs = search.signs(relist_after_s=0)
    assert signs.directories == {"./job"}
    assert search.search(signs) == 1
    assert visible_scalars(engine) == {1: 0.5, 2: 0.25}


def test_of_very_many_resting_directories_each_has_its_turn(
    searching: Callable[..., Search], base_dir: Path
) -> None:
    names = [f"{number:04d}" for number in range(2 * RESTING_PER_SEARCH + 1)]
    for name in names:
        (base_dir / name).mkdir()
    search = searching()
    search.until_nothing_shows()
    for name in names:
        os.utime(base_dir / name)
    shown = [set(search.signs().directories) for _ in range(4)]
    assert sorted(map(len, shown)) == [1, RESTING_PER_SEARCH, RESTING_PER_SEARCH, RESTING_PER_SEARCH]
    assert set.union(*shown) == {f"./{name}" for name in names}
    assert len(search.signs(thorough=True).directories) == len(names)
    assert len(search.signs(relist_after_s=0).directories) >= RESTING_PER_SEARCH


def test_in_a_recursive_search_new_and_vanished_trees_show(
    searching: Callable[..., Search], engine: Engine, base_dir: Path
) -> None:
    for place in ("a/b/c", "a/b", "d/e"):
        LOG.write_summary(base_dir / place).chmod(FINISHED)
    search = searching(Settings(recursive=True))
    search.until_nothing_shows()
    LOG.write_summary(base_dir / "a" / "b" / "c" / "f" / "g").chmod(FINISHED)
    search.until_nothing_shows()
    shutil.rmtree(base_dir / "a" / "b")
    shutil.rmtree(base_dir / "d")
    search.until_nothing_shows()
    assert set(column(engine, "SELECT train_id FROM train_job WHERE state = 'missing'")) == {
        "./a/b",
        "./a/b/c",
        "./a/b/c/f/g",
        "./d/e",
    }


def test_where_times_are_not_trusted_only_what_is_finished_rests(
    searching: Callable[..., Search], base_dir: Path
) -> None:
    LOG.write_summary(base_dir / "finished").chmod(FINISHED)
    LOG.write_summary(base_dir / "growing")
    search = searching(distrust=True)
    for _ in range(3):
        search.search()
    assert search.signs().directories == {"./", "./growing"}
    assert [file.train_id for file, _ in search.survey().changed] == ["./growing"]


def test_a_directory_that_cannot_be_listed_shows_until_it_can(
    searching: Callable[..., Search], base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LOG.write_summary(base_dir / "job").chmod(FINISHED)
    search, scandir = searching(), os.scandir

    def denied(of: int) -> object:
        if (path := path_meant(of)).endswith("/job"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(of)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", denied)
        for _ in range(3):
            assert search.search() == 0
            assert search.signs().directories == {"./job"}
    assert search.search() == 1


def test_jobs_whose_directories_went_while_nobody_looked_are_missing(
    searching: Callable[..., Search], engine: Engine, base_dir: Path
) -> None:
    LOG.write_summary(base_dir / "job").chmod(FINISHED)
    searching().until_nothing_shows()
    shutil.rmtree(base_dir / "job")
    searching().until_nothing_shows()
    assert column(engine, "SELECT state FROM train_job") == ["missing"]


def test_the_files_of_a_removed_job_rest_until_there_is_a_newer_one(
    searching: Callable[..., Search], engine: Engine, base_dir: Path
) -> None:
    LOG.write_summary(base_dir / "job").chmod(FINISHED)
    search = searching()
    search.until_nothing_shows()
    with writing(engine) as session:
        session.change(delete(train_job))
        stone = {"train_id": "./job", "last_file_time": 1_700_000_000, "removed_at": NOW, "reason": "old"}
        session.change(insert(tombstone).values(base_dir_id=1, **stone))
    search = searching()
    search.until_nothing_shows()
    assert column(engine, "SELECT count(*) FROM train_job") == [0]
    Log().scalar(2, "loss", 0.25).write_summary(base_dir / "job", 1_700_000_001)
    search.until_nothing_shows()
    assert visible_scalars(engine) == {1: 0.5, 2: 0.25}


def test_a_live_jobs_new_file_shows_among_the_jobs_asked_for(
    searching: Callable[..., Search], base_dir: Path
) -> None:
    for name in ("live", "other", "finished"):
        LOG.write_summary(base_dir / name).chmod(FINISHED if name == "finished" else 0o600)
    search = searching()
    search.until_nothing_shows()
    for name in ("live", "other", "finished"):
        LOG.write_summary(base_dir / name, 1_700_000_001)
    assert search.cache.signs_in(base_dir, {"./live", "./finished"}) == Signs(["./live"], [])
    assert search.cache.signs_in(base_dir, {"./unknown"}) == Signs(["./unknown"], [])


def test_names_that_are_not_utf8_are_remembered_like_others(
    searching: Callable[..., Search], base_dir: Path
) -> None:
    os.mkdir(os.fsencode(base_dir) + b"/\xff")
    with open(os.fsencode(base_dir) + b"/\xff/\xfe.summary.1", "wb") as stream:
        stream.write(LOG.content)
    search = searching()
    search.until_nothing_shows()
    with open(os.fsencode(base_dir) + b"/\xff/\xfe.summary.1", "ab") as stream:
        stream.write(Log().scalar(2, "loss", 0.5).content)
    assert [file.train_id for file in search.signs().files] == ["./\\xff"]
