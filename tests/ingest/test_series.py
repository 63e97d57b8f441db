"""Statistics of series compared with numpy, in whatever portions samples arrive; and what a restart supersedes."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, rows
from helpers.log_writer import GrowingFile, Log
from lineage_store.config import Settings
from lineage_store.ingest.lease import register
from lineage_store.operations.verify import verify
from lineage_store.store.records import Statistics, statistics
from lineage_store.store.writes.samples import supersession

VALUES = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.5, 2.5, 2.5, 7.0])
SAMPLES = st.lists(st.tuples(st.integers(-5, 30), VALUES), min_size=1, max_size=40)


def oracle(samples: dict[int, tuple[float, float]]) -> dict[str, object]:
    """The statistics of step -> (wall time, value), the plain way."""
    steps = sorted(samples)
    first, last = samples[steps[0]], samples[steps[-1]]
    finite = {step: samples[step][1] for step in steps if math.isfinite(samples[step][1])}
    least, most = min(finite.values(), default=None), max(finite.values(), default=None)
    values = np.array([value for _, value in samples.values()])
    return {
        "sample_count": len(steps),
        "first_step": steps[0],
        "first_wall_time": first[0],
        "first_value": None if math.isnan(first[1]) else first[1],
        "last_step": steps[-1],
        "last_wall_time": last[0],
        "last_value": None if math.isnan(last[1]) else last[1],
        "earliest_wall_time": min(time for time, _ in samples.values()),
        "latest_wall_time": max(time for time, _ in samples.values()),
        "min_value": least,
        "min_step": next((step for step in finite if finite[step] == least), None),
        "max_value": most,
        "max_step": next((step for step in finite if finite[step] == most), None),
        "nan_count": int(np.isnan(values).sum()),
        "inf_count": int(np.isinf(values).sum()),
    }


def of(*several: dict[int, tuple[float, float]]) -> list[Statistics]:
    """The statistics of some series, computed together."""
    rows = [
        (number, step, *samples[step]) for number, samples in enumerate(several) for step in sorted(samples)
    ]
    numbers, steps, times, values = zip(*rows, strict=True)
    return statistics(np.array(numbers), np.array(steps), np.array(times), np.array(values))


@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_statistics_of_series_computed_together_are_those_of_numpy(
    written: list[list[tuple[int, float]]],
) -> None:
    several = [
        {step: (float(number), value) for number, (step, value) in enumerate(samples)} for samples in written
    ]
    assert of(*several) == [Statistics(**oracle(samples)) for samples in several]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_stored_statistics_are_those_of_numpy_however_batches_cut_the_file(
    seed: int, engine: Engine, base_dir: Path
) -> None:
    chance = random.Random(seed)
    log, samples = Log(), dict[int, tuple[float, float]]()
    for _ in range(60):
        step, value = chance.randint(-3, 25), chance.choice([math.nan, math.inf, -math.inf, 1.0, -2.0, 0.5])
        samples[step] = log.wall_time, value
        log.scalar(step, "loss", value)
    file = GrowingFile(base_dir / "job" / "events.out.events.summary.1.0.h_MS", log.content)
    while file.reveal(chance.randint(100, 900)):
        ingest(engine, base_dir)
    expected = oracle(samples)
    (stored,) = rows(engine, f"SELECT {', '.join(expected)} FROM series")
    assert stored._asdict() == expected


@pytest.mark.parametrize("seed", range(4))
def test_statistics_of_appended_samples_are_those_of_the_whole(
    seed: int, engine: Engine, base_dir: Path
) -> None:
    chance = random.Random(seed)
    log, samples, path = Log(), dict[int, tuple[float, float]](), base_dir / "job" / "x.summary.1.0.h_MS"
    for step in range(12):
        value = chance.choice([math.nan, math.inf, -math.inf, 1.0, 1.0, -2.0, -2.0, 0.5])
        samples[step] = log.wall_time, value
        log.scalar(step, "loss", value)
        if chance.random() < 0.7:
            log.write(path)
            ingest(engine, base_dir)
            expected = oracle(samples)
            (stored,) = rows(engine, f"SELECT {', '.join(expected)} FROM series")
            assert stored._asdict() == expected


def test_a_step_written_again_in_a_later_batch_replaces_the_sample(engine: Engine, base_dir: Path) -> None:
    log = Log().scalar(1, "loss", 1.0).scalar(2, "loss", 9.0).scalar(3, "loss", 3.0)
    path = log.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    log.scalar(2, "loss", 2.0).write(path)
    ingest(engine, base_dir)
    assert rows(engine, "SELECT step, value FROM scalar_sample ORDER BY step") == [(1, 1), (2, 2), (3, 3)]
    assert rows(engine, "SELECT sample_count, max_value, max_step FROM series") == [(3, 3.0, 3)]


def test_a_payload_written_again_in_a_later_batch_is_the_later_one(engine: Engine, base_dir: Path) -> None:
    log = Log().tensor(1, "t", [1.0]).tensor(2, "t", [1.0])
    path = log.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    log.tensor(1, "t", [1.0, 2.0]).write(path)
    ingest(engine, base_dir)
    assert column(engine, "SELECT shape FROM payload_sample ORDER BY step") == ["[2]", "[1]"]
    assert rows(engine, "SELECT sample_count, first_value FROM series") == [(2, None)]


def test_every_int64_step_is_kept(engine: Engine, base_dir: Path) -> None:
    steps = [-(2**63), -1, 0, 2**31, 2**53 + 1, 2**63 - 1]
    log = Log()
    for step in steps:
        log.scalar(step, "loss", 1.0)
    log.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert column(engine, "SELECT step FROM scalar_sample ORDER BY step") == steps
    assert rows(engine, "SELECT first_step, last_step FROM series") == [(steps[0], steps[-1])]


# --- supersession ---


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow
def test_how_many_samples_are_superseded_is_counted_however_files_grow(
    seed: int, engine: Engine, base_dir: Path
) -> None:
    """Files of one device, the older ones too, that grow in turns and write steps again."""
    chance, files = random.Random(seed), []
    for time in (1, 2, 3):
        log = Log()
        for step in range(chance.choice([0, 10, 20]), 40):
            step = step if chance.random() < 0.9 else chance.randint(0, 40)
            log.scalar(step, "loss", 1.0).scalar(2 * step, "accuracy", 0.5).tensor(step, "weights", [1.0])
        files.append(GrowingFile(base_dir / "job" / f"events.out.events.summary.{time}.0.h_MS", log.content))
    counted = " UNION ALL ".join(
        f"SELECT count(*) AS n FROM {table} s WHERE s.job_id = r.job_id AND s.series_no = r.series_no"
        " AND s.step >= r.superseded_from"
        for table in ("scalar_sample", "payload_sample")
    )
    query = f"SELECT superseded_count AS stored, (SELECT sum(n) FROM ({counted}) c) AS there FROM series r"
    seen, base_dir_id = 0, register(engine, base_dir)
    while files:
        if not (file := chance.choice(files)).reveal(chance.randint(200, 1500)):
            files.remove(file)
        ingest(engine, base_dir)
        for row in rows(engine, query):
            assert row.stored == (row.there or 0)
            seen += row.stored
        assert [
            found for each in verify(engine, base_dir, base_dir_id, Settings()) for found in each.differences
        ] == []
    assert seen


FILES = st.lists(
    st.tuples(st.integers(1, 4), st.lists(st.integers(0, 12), min_size=1, max_size=6)), max_size=5
)


def mindinsight(files: list[tuple[int, list[int]]]) -> set[tuple[int, int]]:
    """(file, step) of what survives MindInsight's purge: files by timestamp; a step that is not above the last one
    drops equal and greater steps of files with a lesser timestamp. Equal timestamps are devices here."""
    kept: list[tuple[int, int, int]] = []
    for file, (time, steps) in sorted(enumerate(files), key=lambda item: item[1][0]):
        for step in steps:
            if kept and step <= max(old for _, _, old in kept):
                kept = [
                    (number, other, old)
                    for number, other, old in kept
                    if not (old >= step and other < time) and not (number == file and old == step)
                ]
            kept.append((file, time, step))
    return {(file, step) for file, _, step in kept}


@given(FILES)
def test_what_is_effective_is_what_mindinsight_keeps(files: list[tuple[int, list[int]]]) -> None:
    first = supersession([(time, min(steps)) for time, steps in files])
    effective = {
        (number, step)
        for number, (_, steps) in enumerate(files)
        for step in steps
        if (limit := first[number]) is None or step < limit
    }
    assert effective == mindinsight(files)


def superseded(engine: Engine) -> list[tuple[object, ...]]:
    query = (
        "SELECT file_time, series.device, superseded_from FROM series JOIN log_file f USING (job_id, file_no)"
        " ORDER BY 1, 2"
    )
    return [tuple(row) for row in rows(engine, query)]


def test_a_restart_supersedes_from_its_first_step_on(engine: Engine, base_dir: Path) -> None:
    for time, steps in ((100, range(10)), (200, range(6, 9)), (300, range(8, 12))):
        log = Log()
        for step in steps:
            log.scalar(step, "loss", float(time))
        log.write_summary(base_dir / "job", time)
    ingest(engine, base_dir)
    assert superseded(engine) == [(100, 0, 6), (200, 0, 8), (300, 0, None)]


def test_a_late_sample_of_a_restart_lowers_what_is_superseded(engine: Engine, base_dir: Path) -> None:
    Log().scalar(1, "loss", 1.0).scalar(5, "loss", 1.0).write_summary(base_dir / "job", 100)
    restart = Log().scalar(5, "loss", 2.0)
    path = restart.write_summary(base_dir / "job", 200)
    ingest(engine, base_dir)
    assert superseded(engine)[0] == (100, 0, 5)
    restart.scalar(3, "loss", 2.0).write(path)
    ingest(engine, base_dir)
    assert superseded(engine)[0] == (100, 0, 3)


def test_an_older_file_that_appears_late_is_superseded_on_arrival(engine: Engine, base_dir: Path) -> None:
    Log().scalar(5, "loss", 2.0).write_summary(base_dir / "job", 200)
    ingest(engine, base_dir)
    Log().scalar(1, "loss", 1.0).scalar(7, "loss", 1.0).write_summary(base_dir / "job", 100)
    ingest(engine, base_dir)
    assert superseded(engine) == [(100, 0, 5), (200, 0, None)]


def test_devices_and_tags_do_not_supersede_each_other(engine: Engine, base_dir: Path) -> None:
    Log().scalar(1, "loss", 1.0).write_summary(base_dir / "job", 100, device=0)
    Log().scalar(1, "loss", 1.0).write_summary(base_dir / "job", 200, device=1)
    Log().scalar(1, "other", 1.0).write_summary(base_dir / "job", 300, device=0)
    ingest(engine, base_dir)
    assert superseded(engine) == [(100, 0, None), (200, 1, None), (300, 0, None)]


def test_files_of_one_second_and_different_hosts_do_not_supersede_each_other(
    engine: Engine, base_dir: Path
) -> None:
    for host in ("a", "b"):
        Log().scalar(1, "loss", 1.0).write(base_dir / "job" / f"x.out.events.summary.100.0.{host}_MS")
    ingest(engine, base_dir)
    assert superseded(engine) == [(100, 0, None)] * 2
