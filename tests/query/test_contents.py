"""The contents of jobs' log files, and in which files a tag was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from helpers.log_writer import Log
from lineage_store import LineageStore, SampleNotFoundError
from lineage_store.config import Settings
from lineage_store.plugins import HISTOGRAM
from lineage_store.query.samples import Recorded


@pytest.fixture
def store(database_url: str) -> Iterator[LineageStore]:
    with LineageStore(database_url, settings=Settings(suspect_grace_s=0)) as opened:
        yield opened


def test_contents_are_files_and_tags_in_the_order_of_their_first_appearance(
    store: LineageStore, tmp_path: Path
) -> None:
    log = Log().version().scalar(1, "z", 0.5).histogram(1, "w", [1.0]).scalar(2, "a", 0.5)
    log.write_summary(tmp_path / "a", 1_700_000_000)
    Log().scalar(2, "z", 0.5).scalar(3, "new", 1.0).write_summary(tmp_path / "a", 1_700_000_001)
    Log().train(network="A").write_lineage(tmp_path / "a")
    Log().train(network="B").write_lineage(tmp_path / "b")
    store.ingest(tmp_path)
    found = store.lineage.contents(tmp_path, ["./a", "./b", "./none"])
    assert found.keys() == {"./a", "./b"}
    assert (found["./a"].summary_files, found["./a"].lineage_files, found["./a"].is_intact) == (2, 1, True)
    scalars = [tag for plugin, tag in found["./a"].tags if plugin != HISTOGRAM]
    assert scalars == ["z", "a", "new"]
    assert (HISTOGRAM, "w") in found["./a"].tags
    assert (found["./b"].summary_files, found["./b"].tags) == (0, [])


def test_a_job_with_damage_in_a_summary_file_is_not_intact(store: LineageStore, tmp_path: Path) -> None:
    path = Log().scalar(1, "a", 0.5).scalar(2, "a", 0.5).torn(5).write_summary(tmp_path / "torn")
    path.chmod(0o400)
    Log().scalar(1, "a", 0.5).raw(b"junk" * 10).scalar(2, "a", 0.5).write_summary(tmp_path / "junk")
    Log().scalar(1, "a", 0.5).write_summary(tmp_path / "whole")
    for _ in range(2):  # bytes that make no frame are suspect first
        store.ingest(tmp_path)
    found = store.lineage.contents(tmp_path, ["./torn", "./junk", "./whole"])
    assert {train_id: contents.is_intact for train_id, contents in found.items()} == {
        "./torn": False,
        "./junk": False,
        "./whole": True,
    }


def test_what_is_recorded_includes_what_a_restart_wrote_again(store: LineageStore, tmp_path: Path) -> None:
    for number, steps in enumerate((range(4), range(2, 6))):
        log = Log()
        for step in steps:
            log.scalar(step, "loss", number).histogram(step, "w", [float(number)])
        log.write_summary(tmp_path / "a", 1_700_000_000 + number)
    store.ingest(tmp_path)
    scalars = store.job((tmp_path, "./a")).recorded("loss")
    assert [(each.file_time, each.samples.steps.tolist()) for each in scalars] == [
        (1_700_000_000, [0, 1, 2, 3]),
        (1_700_000_001, [2, 3, 4, 5]),
    ]
    chosen = [(0, 3), (1, 0), (0, 0)]
    given = list[list[list[int]]]()

    def choose(recorded: Sequence[Recorded[np.ndarray]]) -> Sequence[tuple[int, int]]:
        given.append([part.samples.tolist() for part in recorded])
        return chosen

    histograms = store.job((tmp_path, "./a")).recorded_payloads(HISTOGRAM, "w", choose)
    assert given == [[[0, 1, 2, 3], [2, 3, 4, 5]]]
    assert [sample.step for sample in histograms] == [3, 2, 0]
    assert histograms[0].read().left.tolist() == [-0.5, -0.3, -0.1, 0.1, 0.3][:1] + [
        pytest.approx(value) for value in (-0.3, -0.1, 0.1, 0.3)
    ]
    with pytest.raises(SampleNotFoundError):
        store.job((tmp_path, "./a")).recorded("los")


def test_jobs_are_counted_and_found_by_id_and_by_what_they_hold(store: LineageStore, tmp_path: Path) -> None:
    for name in "abc":
        Log().train(network=name).write_lineage(tmp_path / name)
    Log().scalar(1, "loss", 0.5).write_summary(tmp_path / "b")
    store.ingest(tmp_path)
    assert store.lineage.count(tmp_path) == store.lineage.count() == 3
    assert {job.train_id for job in store.lineage.jobs(tmp_path, train_ids=["./a", "./c", "./d"])} == {
        "./a",
        "./c",
    }
    assert [job.train_id for job in store.lineage.jobs(tmp_path, with_samples=True)] == ["./b"]
