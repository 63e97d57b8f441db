"""Rewritten log files: readers see the old content until the new is read, and never both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.frames import read_frames
from helpers.ingesting import column, ingest, ledger_is_closed, open_problems, rows, visible_scalars
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.eventlog.mindspore import events
from lineage_store.eventlog.values import ScalarValue
from lineage_store.ingest import pipeline as refresh


def curve(steps: int, factor: float, first: int = 0) -> Log:
    log = Log().version()
    for step in range(first, first + steps):
        log.scalar(step, "loss", factor * step)
    return log


OLD = curve(20, 1.0)
REWRITES = {
    "smaller": curve(10, 2.0),
    "of_the_same_size": curve(20, 2.0),
    "larger": curve(40, 2.0),
    "larger_with_the_same_beginning_but_other_middle": curve(10, 1.0).scalar(9, "loss", 5.0),
}

IN_PARTS = Settings(chunk_bytes=4096, batch_rows=50)


def rewritten(engine: Engine, base_dir: Path) -> Path:
    """A log file of 400 samples that was read, then rewritten with doubled values."""
    path = curve(400, 1.0).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    curve(400, 2.0).write(path)
    return path


def read_in_part(engine: Engine, base_dir: Path) -> None:
    asked = iter([False, False, False])
    refresh.ingest(engine, base_dir, IN_PARTS, should_stop=lambda: next(asked, True))


@pytest.mark.parametrize("new", REWRITES.values(), ids=REWRITES)
@pytest.mark.parametrize("way", ["in_place", "by_another_inode"])
def test_a_rewritten_file_is_read_anew(new: Log, way: str, sqlite_engine: Engine, base_dir: Path) -> None:
    path = OLD.write_summary(base_dir / "job")
    ingest(sqlite_engine, base_dir)
    if way == "by_another_inode":
        new.write(base_dir / "elsewhere.tmp").replace(path)
    else:
        new.write(path)
    ingest(sqlite_engine, base_dir)
    steps = {step for step, _ in _written(new)}
    assert visible_scalars(sqlite_engine) == dict(_written(new))
    assert column(sqlite_engine, "SELECT sample_count FROM series") == [len(steps)]
    assert rows(sqlite_engine, "SELECT generation, current FROM log_file") == [(2, True)]
    assert column(sqlite_engine, "SELECT count(*) FROM scalar_sample") == [len(steps)], (
        "old rows were left behind"
    )
    assert ledger_is_closed(sqlite_engine)


def _written(log: Log) -> list[tuple[int, float]]:
    frames, _ = read_frames(log.content)
    values = [value for frame in frames for value in events.decode_summary(frame.payload)]
    return [(value.step, value.value) for value in values if isinstance(value, ScalarValue)]


def test_equal_size_and_equal_modification_time_do_not_hide_a_rewrite(engine: Engine, base_dir: Path) -> None:
    path = OLD.write_summary(base_dir / "job")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    ingest(engine, base_dir)
    curve(20, 3.0).write(path)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    ingest(engine, base_dir)
    assert visible_scalars(engine)[19] == 57.0


def test_a_reader_sees_the_old_content_until_the_new_is_read_to_its_end(
    engine: Engine, base_dir: Path
) -> None:
    rewritten(engine, base_dir)
    seen: list[dict[int, float]] = []
    refresh.ingest(engine, base_dir, IN_PARTS, progress=lambda _: seen.append(visible_scalars(engine)))
    old, new = {n: 1.0 * n for n in range(400)}, {n: 2.0 * n for n in range(400)}
    switch = seen.index(new)
    assert switch > 2
    assert seen == [old] * switch + [new] * (len(seen) - switch)


def test_a_pass_that_stops_in_a_rewritten_file_leaves_the_old_content_in_place(
    engine: Engine, base_dir: Path
) -> None:
    rewritten(engine, base_dir)
    read_in_part(engine, base_dir)
    assert visible_scalars(engine)[399] == 399.0
    assert column(engine, "SELECT state FROM log_file ORDER BY generation") == ["open", "replacing"]
    ingest(engine, base_dir)
    assert visible_scalars(engine)[399] == 798.0


def test_a_file_rewritten_again_before_it_was_read_shows_only_the_last(
    engine: Engine, base_dir: Path
) -> None:
    path = rewritten(engine, base_dir)
    read_in_part(engine, base_dir)
    curve(300, 3.0).write(path)
    ingest(engine, base_dir)
    assert visible_scalars(engine) == {n: 3.0 * n for n in range(300)}
    assert rows(engine, "SELECT generation, current FROM log_file") == [(3, True)]
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [300]


def test_a_file_truncated_to_nothing_keeps_its_old_content_until_it_has_a_new_one(
    engine: Engine, base_dir: Path
) -> None:
    path = OLD.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    path.write_bytes(b"")
    ingest(engine, base_dir)
    ingest(engine, base_dir)
    assert len(visible_scalars(engine)) == 20
    curve(3, 5.0).write(path)
    ingest(engine, base_dir)
    assert visible_scalars(engine) == {0: 0.0, 1: 5.0, 2: 10.0}
    assert open_problems(engine) == []


def test_a_truncated_file_that_vanishes_leaves_its_job_missing_and_its_rows_kept(
    engine: Engine, base_dir: Path
) -> None:
    path = OLD.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    path.write_bytes(b"")
    ingest(engine, base_dir)
    path.unlink()
    ingest(engine, base_dir)
    assert rows(engine, "SELECT state, source_present FROM train_job") == [("missing", False)]
    assert len(visible_scalars(engine)) == 20


def test_the_lineage_is_folded_again_from_the_new_content(engine: Engine, base_dir: Path) -> None:
    pipeline = {"op_type": "Batch", "batch_size": 8, "children": []}
    path = Log().train(network="A", loss=1.0).dataset_graph(pipeline).write_lineage(base_dir / "job")
    Log().evaluation({"acc": 0.5}).write_lineage(base_dir / "job", 1_700_000_001)
    ingest(engine, base_dir)
    Log().train(network="B", loss=2.0).user_info(team="x").write(path)
    ingest(engine, base_dir)
    assert rows(engine, "SELECT network, loss, dataset_graph_id FROM lineage") == [("B", 2.0, None)]
    assert rows(engine, "SELECT name, value FROM metric") == [("acc", 0.5)]
    assert column(engine, "SELECT text FROM user_info") == ["x"]
    assert column(engine, "SELECT kind FROM lineage_event ORDER BY kind") == ["eval", "train", "user_info"]
    assert column(engine, "SELECT count(*) FROM dataset_graph") == [0], "nobody has this pipeline any more"


def test_what_a_rewritten_file_superseded_is_effective_again(engine: Engine, base_dir: Path) -> None:
    curve(10, 1.0).write_summary(base_dir / "job", 1_700_000_000)
    newer = curve(5, 9.0, first=5).write_summary(base_dir / "job", 1_700_000_100)
    ingest(engine, base_dir)
    query = "SELECT superseded_from FROM series JOIN log_file f USING (job_id, file_no) ORDER BY f.file_time"
    assert column(engine, query) == [5, None]
    curve(2, 9.0, first=8).write(newer)
    ingest(engine, base_dir)
    assert column(engine, query) == [8, None]


def test_old_rows_go_in_bounded_steps(engine: Engine, base_dir: Path) -> None:
    path = curve(30, 1.0).scalar(1, "other", 1.0).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    curve(5, 2.0).write(path)
    ingest(engine, base_dir, batch_rows=7)
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [5]
    assert column(engine, "SELECT count(*) FROM series") == [1]
    assert column(engine, "SELECT count(*) FROM log_file") == [1]


def test_a_file_that_takes_over_the_inode_of_another_is_not_mistaken_for_it(
    engine: Engine, base_dir: Path
) -> None:
    first = OLD.write_summary(base_dir / "job", 1_700_000_000)
    ingest(engine, base_dir)
    first.rename(base_dir / "job" / "events.out.events.summary.1700000999.0.host_MS")
    ingest(engine, base_dir)
    stored = rows(engine, "SELECT file_time, state, generation FROM log_file ORDER BY file_time")
    assert stored == [(1_700_000_000, "missing", 1), (1_700_000_999, "open", 1)]


def test_problems_go_with_the_content_that_had_them(engine: Engine, base_dir: Path) -> None:
    path = curve(5, 1.0).damaged(3, 20).write_summary(base_dir / "job")
    path.chmod(0o400)
    ingest(engine, base_dir)
    assert len(open_problems(engine)) == 1
    path.chmod(0o600)
    curve(5, 1.0).write(path).chmod(0o400)
    assert len(visible_scalars(engine)) == 4
    curve(5, 2.0).write(path)
    assert ingest(engine, base_dir).complete
    assert len(visible_scalars(engine)) == 5
    assert open_problems(engine) == []


def test_a_new_generation_that_begins_with_damage_is_shown_once_there_is_something_to_show(
    engine: Engine, base_dir: Path
) -> None:
    path = OLD.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    curve(5, 2.0).damaged(0, 20).write(path)
    ingest(engine, base_dir)
    assert len(visible_scalars(engine)) == 20
    assert [kind for kind, _ in open_problems(engine)] == ["suspect_bytes"]
    ingest(engine, base_dir, suspect_grace_s=0)
    assert visible_scalars(engine) == {n: 2.0 * n for n in range(5)}
    assert [kind for kind, _ in open_problems(engine)] == ["damaged_bytes"]
