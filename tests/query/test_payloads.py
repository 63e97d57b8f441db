"""Payloads are read from the log files that the store points to, and refused when those have changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import google.protobuf
import numpy as np
import pytest

from helpers import bombs
from helpers.log_writer import Log
from lineage_store import LineageParamValueError, LineageStore, PayloadUnavailableError
from lineage_store.errors import PayloadTooCostlyError
from lineage_store.eventlog.mindspore import payloads
from lineage_store.query.samples import HistogramSummary, PayloadSample
from lineage_store.worker import ReadingFailedError, Worker

TALL = np.array([[3.0], [4.0]], np.float32)
EARLY, LATE = 1_700_000_000, 1_700_000_100


@pytest.fixture
def store(database_url: str) -> Iterator[LineageStore]:
    with LineageStore(database_url) as store:
        yield store


@pytest.fixture
def path(store: LineageStore, tmp_path: Path) -> Path:
    """A log file with a tensor at steps 1 and 2, ingested; its base dir is `tmp_path / "base"`."""
    log = Log().version().tensor(1, "t", [1.0, 2.0]).tensor(2, "t", TALL)
    path = log.write_summary(tmp_path / "base" / "run")
    store.ingest(tmp_path / "base")
    return path


def _tensors(store: LineageStore, path: Path) -> list[PayloadSample]:
    return store.job((path.parent.parent, "./run")).tensors("t")


def test_each_plugin_reads_back_what_was_written(store: LineageStore, tmp_path: Path) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    log = (
        Log()
        .tensor(1, "t", np.array([[1, 2, 3]], np.int64))
        .image(2, "i", pixels)
        .histogram(3, "h", [0.0, 1.0, np.nan])
    )
    log.landscape("l", [[1.0, 2.0], [3.0, 4.0]]).graph("Conv2D", "ReLU").write_summary(tmp_path / "run")
    store.ingest(tmp_path)

    (tensor,) = store.job((tmp_path, "./run")).tensors("t")
    assert (tensor.dtype, tensor.shape, tensor.step, tensor.wall_time) == ("int64", (1, 3), 1, EARLY)
    np.testing.assert_array_equal(tensor.read(), [[1, 2, 3]])

    (image,) = store.job((tmp_path, "./run")).images("i")
    read = image.read()
    assert (image.dtype, image.shape) == ("png", (2, 4, 3))
    assert (read.height, read.width, read.png[:4]) == (2, 4, b"\x89PNG")

    (histogram,) = store.job((tmp_path, "./run")).histograms("h/histogram")
    assert histogram.statistics == HistogramSummary(3, 1, 0, 0, 0.0, 1.0, 1.0)
    assert histogram.read().count.sum() == 2

    (landscape,) = store.job((tmp_path, "./run")).landscapes("l")
    np.testing.assert_array_equal(landscape.read().surface.z, [[1.0, 2.0], [3.0, 4.0]])

    (name,) = store.job((tmp_path, "./run")).tags()["graph"]
    (graph,) = store.job((tmp_path, "./run")).graphs(name)
    assert [node["op_type"] for node in graph.read()["nodes"]] == ["Conv2D", "ReLU"]


def test_payloads_of_a_range_ascend_each_step_once(store: LineageStore, tmp_path: Path) -> None:
    old, new = Log(), Log()
    for step in (3, 1, 2, 2):
        old.tensor(step, "t", [float(len(old.spans))])
    new.tensor(2, "t", [-1.0])
    old.write_summary(tmp_path / "run", EARLY)
    new.write_summary(tmp_path / "run", LATE)
    new.write_summary(tmp_path / "run", EARLY, device=5)
    store.ingest(tmp_path)
    values = {sample.step: float(sample.read()[0]) for sample in store.job((tmp_path, "./run")).tensors("t")}
    assert values == {1: 1.0, 2: -1.0}
    samples = store.job((tmp_path, "./run")).tensors("t", start=2, device=0)
    assert [(sample.step, sample.device) for sample in samples] == [(2, 0)]
    assert [sample.step for sample in store.job((tmp_path, "./run")).tensors("t", stop=2)] == [1]


def test_a_vanished_file_is_named(store: LineageStore, path: Path) -> None:
    (sample, _) = _tensors(store, path)
    path.unlink()
    with pytest.raises(PayloadUnavailableError, match=rf"{path.name} cannot be read: No such file"):
        sample.read()


def test_a_shortened_file_is_refused(store: LineageStore, path: Path) -> None:
    (first, second) = _tensors(store, path)
    os.truncate(path, path.stat().st_size - 1)
    np.testing.assert_array_equal(first.read(), [1.0, 2.0])
    with pytest.raises(PayloadUnavailableError, match="shorter"):
        second.read()


@pytest.mark.parametrize("place", [0, 9, 14, -2])
def test_a_changed_byte_is_refused(store: LineageStore, path: Path, place: int) -> None:
    (sample, _) = _tensors(store, path)
    frame = sample.place
    content = bytearray(path.read_bytes())
    content[frame.frame_offset + place % frame.frame_length] ^= 1
    path.write_bytes(content)
    with pytest.raises(PayloadUnavailableError, match=rf"bytes {frame.frame_offset} to .*not the frame"):
        sample.read()


def test_another_valid_frame_of_the_same_length_is_refused(store: LineageStore, path: Path) -> None:
    (sample, _) = _tensors(store, path)
    Log().version().tensor(1, "t", [1.0, 9.0]).tensor(2, "t", TALL).write(path)
    with pytest.raises(PayloadUnavailableError, match="not the frame"):
        sample.read()


def test_a_link_out_of_the_base_dir_is_not_followed(store: LineageStore, path: Path, tmp_path: Path) -> None:
    (sample, _) = _tensors(store, path)
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(PayloadUnavailableError, match="out of the base dir"):
        sample.read()
    path.unlink()
    path.parent.rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "outside").rename(tmp_path / "elsewhere" / path.name)
    path.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PayloadUnavailableError, match="out of the base dir"):
        sample.read()


def test_a_moved_file_is_still_read_through_a_link_inside_the_base_dir(
    store: LineageStore, path: Path
) -> None:
    (sample, _) = _tensors(store, path)
    path.rename(path.parent.parent / "moved")
    path.symlink_to(path.parent.parent / "moved")
    np.testing.assert_array_equal(sample.read(), [1.0, 2.0])


def test_what_is_no_regular_file_is_refused(store: LineageStore, path: Path) -> None:
    (sample, _) = _tensors(store, path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(PayloadUnavailableError, match="no regular file"):
        sample.read()


def test_scalars_are_no_payloads(store: LineageStore, path: Path) -> None:
    from lineage_store.query.samples import payloads
    from lineage_store.store.database.db import open_engine, reading

    engine = open_engine("sqlite://")
    with (
        reading(engine) as session,
        pytest.raises(LineageParamValueError, match=r"plugin = 'scalar'.*histogram"),
    ):
        payloads(session, (str(path), "./run"), 1, ("scalar", "loss"))
    engine.dispose()


def test_the_first_so_many_are_those_of_all_files_together(store: LineageStore, tmp_path: Path) -> None:
    for device, steps in enumerate((range(0, 20, 2), range(1, 20, 3))):
        log = Log()
        for step in steps:
            log.tensor(step, "t", [float(device)])
        log.write_summary(tmp_path / "run", device=device)
    store.ingest(tmp_path)
    every = store.job((tmp_path, "./run")).tensors("t")
    assert store.job((tmp_path, "./run")).count_payloads("tensor", "t") == len(every) == 14
    for limit in (1, 5, 13, 14, 100):
        assert store.job((tmp_path, "./run")).tensors("t", limit=limit) == every[:limit]
    chosen = [each for each in every if 3 <= each.step < 11]
    assert store.job((tmp_path, "./run")).tensors("t", start=3, stop=11, limit=2) == chosen[:2]
    assert store.job((tmp_path, "./run")).count_payloads("tensor", "t", start=3, stop=11) == len(chosen)
    assert store.job((tmp_path, "./run")).count_payloads("tensor", "t", device=1) == 7
    for wrong in (0, -1, "1"):
        with pytest.raises(LineageParamValueError, match="limit = "):
            store.job((tmp_path, "./run")).tensors("t", limit=wrong)  # type: ignore[arg-type]


def test_what_a_restart_wrote_again_counts_once(store: LineageStore, tmp_path: Path) -> None:
    for number, steps in enumerate((range(10), range(5, 8))):
        log = Log()
        for step in steps:
            log.tensor(step, "t", [float(number)])
        log.write_summary(tmp_path / "run", EARLY + number)
    store.ingest(tmp_path)
    assert store.job((tmp_path, "./run")).count_payloads("tensor", "t") == 8
    values = [float(each.read()[0]) for each in store.job((tmp_path, "./run")).tensors("t", start=4, limit=2)]
    assert values == [0.0, 1.0]


def test_a_payload_that_takes_too_much_memory_is_refused_by_name(store: LineageStore, tmp_path: Path) -> None:
    path = Log().frame(bombs.graph_event(1_900_000)).write_summary(tmp_path / "run")
    store.ingest(tmp_path)
    (graph,) = store.job((tmp_path, "./run")).graphs(path.name)
    with pytest.raises(PayloadTooCostlyError, match=rf"The graph at bytes .*{path.name} is not read: .* MiB"):
        graph.read()


def test_how_much_memory_a_payload_may_take_is_for_the_caller_to_say(store: LineageStore, path: Path) -> None:
    (sample, _) = _tensors(store, path)
    with pytest.raises(PayloadTooCostlyError, match="more than"):
        sample.read(most_bytes=10)
    np.testing.assert_array_equal(sample.read(most_bytes=None), [1.0, 2.0])


@pytest.mark.skipif(google.protobuf.__version__ < "7", reason="older protobuf does not say why")
def test_too_little_memory_is_not_taken_for_a_damaged_payload() -> None:
    """Protobuf tells both by the same exception."""
    with (
        closing(Worker(60, 200 << 20)) as worker,
        pytest.raises(ReadingFailedError, match="more than 200 MiB of memory"),
    ):
        worker.submit(payloads.decode_graph, bombs.graph_event(1_900_000)).result()
