"""However files grow and passes end, the store ends up with what a single pass over the whole would store."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from helpers.contents import natural_contents
from helpers.ingesting import ingest, let_leases_expire
from helpers.log_writer import GrowingFile, Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest import refresh
from lineage_store.store.database.db import open_engine

SMALL_STEPS: dict[str, Any] = {"batch_rows": 1, "chunk_bytes": 4096, "batch_files": 2}
MOST_PARTS = 20
"""More passes than it takes to register what there is, so many files at a time."""
GOLDEN_JOBS = ("exp-mlp 23", "lineage_full", "odd_values", "restart", "exp-lenet 7")
SUM = {"op_type": "Batch", "batch_size": 32, "children": [{"op_type": "Map", "children": []}]}


class Killed(BaseException):
    """What kill -9 does: nothing of ours runs afterwards."""


@contextmanager
def killed_before_transaction(number: int) -> Iterator[None]:
    """The process dies when its transaction of this number begins; also clean-up can do nothing any more."""
    begun = 0

    def die(_: Any) -> None:
        nonlocal begun
        begun += 1
        if begun >= number:
            raise Killed

    event.listen(Engine, "begin", die)
    try:
        yield
    except Killed:
        pass
    finally:
        event.remove(Engine, "begin", die)


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small base dir of everything that could depend on order: restarts, devices, several evaluations."""
    base_dir = tmp_path_factory.mktemp("whole") / "base"
    base_dir.mkdir()
    for job in GOLDEN_JOBS:
        shutil.copytree(corpus / job, base_dir / job)
    for path in (base_dir / "exp-lenet 7").glob("*_MS"):
        path.unlink()  # its lineage is enough
    devices = base_dir / "devices"
    for device in range(3):
        log = Log(wall_time=1_700_000_000.5 + device).version()
        for step in range(8):
            log.scalars(step, {"loss": step / (device + 1), "acc": float("nan") if step == device else 1.0})
        log.histogram(3, "weights", [0.0, 1.0, float(device)]).tensor(3, "t", [[1.0]]).graph("Add", "Mul")
        log.scalar(2, "loss", -1.0).write_summary(devices, 1_700_000_000, device)
    Log().scalar(4, "loss", 9.0).scalar(3, "loss", 8.0).write_summary(devices, 1_700_000_100, 1)
    Log().train(network="A", loss=0.5).dataset_graph(SUM).write_lineage(devices, 1_700_000_000)
    Log().evaluation({"acc": 0.5}).dataset_graph({"op_type": "Take", "children": []}).user_info(
        team="x"
    ).write_lineage(devices, 1_700_000_050)
    Log().evaluation({"acc": 0.75, "loss": float("nan")}).user_info(team="y", n=3).dataset_graph(
        SUM
    ).write_lineage(devices, 1_700_000_060)
    damaged = Log().version().scalar(1, "loss", 1.0).scalar(2, "loss", 2.0).scalar(3, "loss", 3.0)
    damaged.damaged(2, 20).scalar(4, "loss", 4.0).torn(9).write_summary(base_dir / "damaged")
    for path in base_dir.glob("*/*summary.*"):
        os.utime(path, (1_700_000_500, 1_700_000_500))
        path.chmod(0o400)
    return base_dir


@pytest.fixture(scope="module")
def at_once(whole: Path, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the store holds after one pass over the finished files."""
    path = tmp_path_factory.mktemp("at_once") / "store.sqlite3"
    shutil.copy(sqlite_template, path)
    engine = open_engine(f"sqlite:///{path}")
    ingest(engine, whole)
    contents = natural_contents(engine)
    engine.dispose()
    assert contents["dataset_graph"]
    assert contents["ingest_problem"]
    return contents


def finish(files: list[GrowingFile]) -> None:
    """All bytes are there, and the writer closes the file."""
    for file in files:
        file.reveal_all()
        os.utime(file.path, (1_700_000_500, 1_700_000_500))
        file.close()


def growing(whole: Path, base_dir: Path, chance: random.Random) -> Iterator[list[GrowingFile]]:
    """The files appear in any order and grow in any slices; yields after each, and once they are whole."""
    sources = [path for path in sorted(whole.glob("*/*summary.*")) if path.is_file()]
    chance.shuffle(sources)
    files: list[GrowingFile] = []
    while len(files) < len(sources) or any(file.size < len(file.content) for file in files):
        if len(files) < len(sources):
            appearing = sources[len(files) : len(files) + chance.randint(1, 8)]
            files += [
                GrowingFile(base_dir / path.relative_to(whole), path.read_bytes()) for path in appearing
            ]
        for file in chance.sample(files, chance.randint(1, len(files))):
            file.reveal(chance.choice((1, 11, 12, 13, 100, 700, 5000, 20_000)))
        yield files
    finish(files)
    yield files


def stop_after(batches: int) -> Callable[[], bool]:
    """For `should_stop`: the pass ends after so many batches."""
    asked = iter([False] * batches)
    return lambda: next(asked, True)


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for table, contents in expected.items():
        assert found[table] == contents, table


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_random_slices_and_kills_between_any_two_transactions_leave_no_trace(
    seed: int, engine: Engine, database_url: str, whole: Path, base_dir: Path, at_once: dict[str, Any]
) -> None:
    chance = random.Random(seed)
    for _ in growing(whole, base_dir, chance):
        settings = SMALL_STEPS if chance.random() < 0.3 else {"batch_rows": 200}
        restarted = open_engine(database_url)
        asked_for_lineage = chance.random() < 0.2
        with killed_before_transaction(chance.choice((1, 2, 3, 5, 8, 13, 21, 34, 55, 10_000))):
            if asked_for_lineage:
                refresh.refresh_lineage(restarted, base_dir, Settings(**settings))
            else:
                ingest(restarted, base_dir, **settings)
        restarted.dispose()
        let_leases_expire(engine)
    ingest(engine, base_dir)
    assert_same(natural_contents(engine), at_once)


@pytest.mark.slow
def test_stopping_after_every_batch_leaves_no_trace(
    database_url: str, engine: Engine, whole: Path, tmp_path: Path, at_once: dict[str, Any]
) -> None:
    base_dir = tmp_path / "base"
    shutil.copytree(whole, base_dir)
    settings = Settings(**SMALL_STEPS)
    passes = idle = 0
    while idle < MOST_PARTS:  # at first, passes end while they register what they have found
        with LineageStore(database_url, settings=settings) as store:
            report = store.ingest(base_dir, should_stop=stop_after(1))
        passes += 1
        idle = idle + 1 if report.counts.events == 0 and report.counts.bytes_read == 0 else 0
    assert passes > 10
    assert_same(natural_contents(engine), at_once)


@pytest.mark.slow
def test_byte_by_byte_growth_leaves_no_trace(sqlite_engine: Engine, base_dir: Path, tmp_path: Path) -> None:
    logs = {
        "events.out.events.summary.1700000000.0.h_MS": Log().scalar(1, "a", 1.0).scalar(1, "a", 2.0).content,
        "events.out.events.summary.1700000000.0.h_lineage": Log().train(network="N").content,
    }
    files = [GrowingFile(base_dir / "job" / name, content) for name, content in logs.items()]
    while any(file.size < len(file.content) for file in files):
        for file in files:
            file.reveal(1)
            ingest(sqlite_engine, base_dir)
    finish(files)
    ingest(sqlite_engine, base_dir)
    grown = natural_contents(sqlite_engine)
    other = tmp_path / "other" / "base"
    shutil.copytree(base_dir, other)
    store = f"sqlite:///{tmp_path / 'once.sqlite3'}"
    with LineageStore(store, settings=Settings()) as once:
        once.ingest(other)
    engine = open_engine(store)
    assert_same(grown, natural_contents(engine))
    engine.dispose()
