"""SummaryRecord with plain numpy arrays and numbers: the files have what was recorded, and MindSpore is not needed."""

from __future__ import annotations

import gc
import math
import os
import stat
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest

from helpers.log_contents import log_files, told
from lineage_store import LineageStore
from lineage_store.collect import SummaryRecord
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2


def scalars(directory: Path) -> list[tuple[int | None, str, float]]:
    """(step, tag, value) of every scalar, in the order of the files."""
    return [
        (event.step, value["tag"], float(value["scalar_value"]))
        for event in told(directory, "summary")
        if event.what == "summary"
        for value in event.content["value"]
    ]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class FakeTorchTensor:
    """Behaves as a PyTorch tensor that keeps a gradient: an array only after detach() and cpu()."""

    def __init__(self, array: np.ndarray, ready: bool = False) -> None:
        self.array, self.ready = array, ready

    def detach(self) -> FakeTorchTensor:
        return FakeTorchTensor(self.array, ready=True)

    def cpu(self) -> FakeTorchTensor:
        return self

    def numpy(self) -> np.ndarray:
        assert self.ready
        return self.array

    def item(self) -> float:
        raise RuntimeError("a Tensor with 1 element only, in some versions, on some devices")


def test_numbers_and_arrays_of_any_library_are_scalars(tmp_path: Path) -> None:
    given = [0.5, 2, True, np.float32(0.25), np.array([[4]]), FakeTorchTensor(np.array(8.0)), 10**400]
    with SummaryRecord(str(tmp_path)) as record:
        for step, value in enumerate(given):
            record.add_value("scalar", "loss", value)
            record.record(step)
    assert [value for _, _, value in scalars(tmp_path)] == [0.5, 2, 1, 0.25, 4, 8, math.inf]


def test_the_version_opens_the_summary_file_and_no_lineage_file(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path)) as record:
        record.add_value("scalar", "loss", 1.0)
        record.add_value("eval_lineage", "eval", lineage_pb2.EvaluationLineage(metric="{}"))
        record.record(3)
    assert [event.what for event in told(tmp_path, "summary")] == ["version", "summary"]
    assert told(tmp_path, "summary")[0].content == "MindSpore.Event:1"
    assert [event.what for event in told(tmp_path, "lineage")] == ["evaluation_lineage"]


def test_all_values_of_a_call_are_one_event_and_graphs_and_lineage_have_their_own(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path)) as record:
        record.add_value("scalar", "loss", 1.0)
        record.add_value("tensor", "weights", np.zeros((2, 3)))
        record.add_value("scalar", "rate", 2.0)
        record.add_value("graph", "net", anf_ir_pb2.GraphProto(name="net"))
        record.add_value("LANDSCAPE", "landscape_[1, 2]", summary_pb2.LossLandscape())
        record.record(np.int64(7))
    version, graph, values = told(tmp_path)
    assert (version.what, graph.what, graph.step) == ("version", "graph_def", None)
    assert values.step == 7
    tags = [value["tag"] for value in values.content["value"]]
    assert tags == ["loss", "rate", "weights", "landscape_[1, 2]"]


def test_a_file_is_made_when_there_is_something_for_it(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path)) as record:
        assert record.record(1)
        record.flush()
        assert log_files(tmp_path) == []
        record.add_value("dataset_graph", "graph", lineage_pb2.DatasetGraph())
        record.record(2)
        record.flush()
        assert [path.name.endswith("_lineage") for path in log_files(tmp_path)] == [True]


def test_no_protobuf_is_loaded_before_the_first_value_is_recorded(tmp_path: Path) -> None:
    # MindSpore 2.7 to 2.9 choose the implementation of protobuf that their messages need, unless one is loaded.
    script = (
        "import sys\n"
        "import numpy\n"
        "import lineage_store, lineage_store.collect\n"
        "from lineage_store import LineageStore\n"
        "from lineage_store.collect import SummaryRecord\n"
        "with SummaryRecord(sys.argv[1]) as record:\n"
        "    record.add_value('scalar', 'loss', 1.0)\n"
        "    record.add_value('histogram', 'weights', numpy.ones(9))\n"
        "    print('google.protobuf' in sys.modules)\n"
        "    record.record(1)\n"
        "print('google.protobuf' in sys.modules)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    assert finished.stdout.split() == ["False", "True"]


def test_files_are_private_while_open_and_read_only_when_closed(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path / "new")) as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(1)
        record.flush()
        assert mode_of(Path(record.log_dir)) == 0o600
    assert mode_of(Path(record.log_dir)) == 0o400
    assert mode_of(tmp_path / "new") == 0o700


def test_modes_can_be_set_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        with SummaryRecord(str(tmp_path), file_mode=0o644, closed_file_mode=0o444) as record:
            record.add_value("scalar", "loss", 1.0)
            record.record(1)
            record.flush()
            assert mode_of(Path(record.log_dir)) == 0o644
    finally:
        os.umask(umask)
    assert mode_of(Path(record.log_dir)) == 0o444


def test_flush_makes_values_readable_for_others(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path)) as record:
        for step in range(10):
            record.add_value("scalar", "loss", step)
            record.add_value("histogram", "weights", np.arange(1000) * step)
            record.record(step)
            record.flush()
            assert len(told(tmp_path)) == step + 2


def test_values_keep_what_they_were_when_the_array_changes(tmp_path: Path) -> None:
    array = np.zeros(1000, np.float32)
    with SummaryRecord(str(tmp_path)) as record:
        record.add_value("tensor", "weights", array)
        array += 1
        record.record(1)
        array += 1
    (value,) = told(tmp_path)[1].content["value"]
    assert set(value["tensor"]["float_data"]) == {0.0}


def test_the_order_of_calls_is_the_order_in_the_file(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path)) as record:
        for step in range(200):
            if step % 3 == 0:  # heavier than its successors
                record.add_value("histogram", "weights", np.arange(50_000))
            record.add_value("scalar", "loss", step)
            record.record(step)
    assert [event.step for event in told(tmp_path)[1:]] == list(range(200))


def test_threads_that_record_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    steps, threads = 60, 8
    together = Barrier(threads)

    def train(record: SummaryRecord, first: int) -> None:
        together.wait()
        for step in range(first, first + steps):
            record.add_value("scalar", "loss", step)
            record.record(step)

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for attempt in range(6):
            with SummaryRecord(tmp_path / str(attempt)) as record:
                running = [Thread(target=train, args=(record, steps * each)) for each in range(threads)]
                for thread in running:
                    thread.start()
                for thread in running:
                    thread.join()
            values = sorted(value for _, _, value in scalars(tmp_path / str(attempt)))
            assert values == list(range(steps * threads))
            assert len(log_files(tmp_path / str(attempt))) == 1
    finally:
        sys.setswitchinterval(switching)


def test_a_plugin_filter_drops_the_values_of_other_plugins(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path)) as record:
        for step in (1, 2):
            record.add_value("scalar", "loss", 1.0)
            record.add_value("tensor", "weights", np.zeros(2))
            record.record(step, plugin_filter=lambda plugin: plugin == "scalar")
    assert [(step, tag) for step, tag, _ in scalars(tmp_path)] == [(1, "loss"), (2, "loss")]


def test_a_full_file_is_followed_by_another_that_begins_with_the_version(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path), max_file_size=500) as record:
        for step in range(50):
            record.add_value("scalar", "loss", step)
            record.record(step)
    files = log_files(tmp_path)
    assert len(files) > 4
    assert all(path.stat().st_size <= 500 for path in files)
    assert {mode_of(path) for path in files} == {0o400}
    assert [event.what for event in told(tmp_path)].count("version") == len(files)
    assert [step for step, _, _ in scalars(tmp_path)] == list(range(50))


def test_exports_tensors_as_read_only_npy_files(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    with SummaryRecord(str(tmp_path), export_options={"tensor_format": "npy"}) as record:
        for factor in (1, 2):
            record.add_value("tensor", "layer/weights", array * factor)
            record.add_value("histogram", "layer/weights", array)
            record.record(9)
    (path,) = tmp_path.glob("export_*/tensor/*")
    assert path.name == "layer%2Fweights_9.npy"
    assert mode_of(path) == 0o400
    np.testing.assert_array_equal(np.load(path), array * 2, strict=True)


def test_two_recorders_of_one_second_have_files_of_their_own(tmp_path: Path) -> None:
    for value in range(3):
        with SummaryRecord(str(tmp_path)) as record:
            record.add_value("scalar", "loss", value)
            record.record(1)
    assert len(log_files(tmp_path)) == 3
    assert sorted(value for _, _, value in scalars(tmp_path)) == [0, 1, 2]


def test_a_file_of_another_process_is_not_written_into(tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path)) as record:
        taken = Path(record.log_dir)
        taken.write_bytes(b"of another process that took the name meanwhile")
        record.add_value("scalar", "loss", 1.0)
        record.record(1)
        record.flush()
        assert Path(record.log_dir) != taken
    assert taken.read_bytes() == b"of another process that took the name meanwhile"


def test_mindspores_positional_order_is_taken_too(tmp_path: Path) -> None:
    in_their_order: Any = ("pre", "_suf", 4, None, 400, False, {"tensor_format": "npy"})
    with SummaryRecord(str(tmp_path), *in_their_order) as record:
        for step in range(20):
            record.add_value("tensor", "weights", np.zeros(1))
            record.record(step)
    assert Path(record.log_dir).name.startswith("pre.out.events.summary.")
    assert Path(record.log_dir).name.endswith("_suf")
    assert len(log_files(tmp_path)) > 2
    assert len(list(tmp_path.glob("export_*/tensor/*"))) == 20


def test_the_log_dir_is_the_full_path_of_the_file_under_both_names(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path) as record:
        assert record.full_file_name == record.log_dir
        assert Path(record.log_dir).parent == tmp_path


@pytest.mark.parametrize(("rank", "device"), [("3", "3"), ("", "0"), ("three", "0")])
def test_the_rank_of_a_launcher_is_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str, device: str
) -> None:
    monkeypatch.setenv("RANK", rank)
    with SummaryRecord(tmp_path) as record:
        assert Path(record.log_dir).name.split(".")[5] == device


def test_a_recorder_that_is_dropped_writes_its_values_and_frees_the_place(tmp_path: Path) -> None:
    record = SummaryRecord(tmp_path)
    record.add_value("scalar", "loss", 1.0)
    record.record(1)
    writer = record._writer._thread
    assert writer is not None
    del record
    gc.collect()
    writer.join()
    assert [mode_of(path) for path in log_files(tmp_path)] == [0o400]
    with SummaryRecord(tmp_path / "next"):
        pass


def test_a_recorder_left_open_is_closed_at_exit(tmp_path: Path) -> None:
    script = (
        "import sys, numpy\n"
        "from lineage_store.collect import SummaryRecord\n"
        "record = SummaryRecord(sys.argv[1])\n"
        "for step in range(100):\n"
        "    record.add_value('scalar', 'loss', step)\n"
        "    record.add_value('histogram', 'weights', numpy.arange(20_000))\n"
        "    record.record(step)\n"
        "assert not {'mindspore', 'sqlalchemy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert len(told(tmp_path)) == 101
    assert [mode_of(path) for path in log_files(tmp_path)] == [0o400]


def test_the_store_reads_what_was_recorded(tmp_path: Path, sqlite_url: str) -> None:
    with SummaryRecord(tmp_path / "base" / "job") as record:
        for step in range(1, 4):
            record.add_value("scalar", "loss", 1 / step)
            record.add_value("histogram", "weights", np.linspace(0, step, 100))
            record.add_value("image", "sample", np.random.default_rng(step).random((4, 3, 8, 8)))
            record.record(step)
        model = lineage_pb2.TrainLineage()
        model.algorithm.network = "Net"
        record.add_value("train_lineage", "train", model)
        record.record(3)
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
        losses = store.job((tmp_path / "base", "./job")).scalars("loss")
        np.testing.assert_array_equal(losses.values, np.array([1, 1 / 2, 1 / 3], np.float32))
        assert set(store.job((tmp_path / "base", "./job")).tags()) == {"scalar", "histogram", "image"}
        (job,) = store.lineage.filter(base_dir=tmp_path / "base")["object"]
        assert job["model_lineage"]["network"] == "Net"
