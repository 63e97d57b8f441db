"""Failures during a training: one warning, the training goes on, and files contain only complete frames."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from helpers.log_contents import log_files, told
from helpers.waiting import wait_until
from lineage_store.collect import SummaryRecord

FILE_LIMIT = 10_000


@contextmanager
def full_disk() -> Iterator[None]:
    """No file grows beyond FILE_LIMIT bytes: a write there is cut off, as it is at the end of a disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def record_scalars(record: SummaryRecord, steps: range) -> None:
    for step in steps:
        record.add_value("scalar", "loss", step)
        assert record.record(step)


def steps_of(directory: Path) -> list[int | None]:
    """The steps in the files; `told` fails on a file that does not end with a whole frame."""
    return [event.step for event in told(directory) if event.what != "version"]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]


def test_a_full_disk_costs_values_and_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SummaryRecord(tmp_path) as record:
        with full_disk():
            record_scalars(record, range(1000))
            record.flush()
            kept = len(steps_of(tmp_path))
            assert 0 < kept < 1000
            assert steps_of(tmp_path) == list(range(kept))
        record_scalars(record, range(2000, 2010))
    assert steps_of(tmp_path) == [*range(kept), *range(2000, 2010)]
    first, total = warnings_of(caplog)
    assert "Not recorded: an event in" in first
    assert "File too large" in first
    assert f"{1000 - kept} × summary events" in total  # noqa: RUF001


def test_what_still_fits_is_written_behind_what_does_not(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path) as record, full_disk():
        record_scalars(record, range(10))
        record.add_value("tensor", "weights", np.zeros(FILE_LIMIT))
        record.record(10)
        record_scalars(record, range(11, 20))
        record.flush()
    assert steps_of(tmp_path) == [*range(10), *range(11, 20)]


def test_a_full_disk_is_raised_where_that_was_asked_for(tmp_path: Path) -> None:
    record = SummaryRecord(tmp_path, raise_exception=True)
    with full_disk():
        record.add_value("tensor", "weights", np.zeros(FILE_LIMIT))
        record.record(1)
        with pytest.raises(OSError, match="File too large"):
            record.flush()
    record_scalars(record, range(2, 4))  # each failure is raised once
    record.close()
    assert steps_of(tmp_path) == [2, 3]


def test_exports_without_room_are_no_half_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SummaryRecord(tmp_path, export_options={"tensor_format": "npy"}) as record, full_disk():
        for step in range(3):
            record.add_value("tensor", "weights", np.zeros(FILE_LIMIT))
            record.record(step)
        record.flush()
    assert [path for path in tmp_path.glob("export_*/tensor/*") if path.is_file()] == []
    assert [path for path in tmp_path.glob("export_*/tensor/.*") if path.is_file()] == []
    assert sum("weights_0.npy" in message for message in warnings_of(caplog)) == 1


def test_a_frame_larger_than_any_file_may_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SummaryRecord(tmp_path, max_file_size=1000) as record:
        record_scalars(record, range(3))
        record.add_value("tensor", "weights", np.zeros(1000))
        record.record(3)
        record_scalars(record, range(4, 6))
    assert steps_of(tmp_path) == [0, 1, 2, 4, 5]
    assert "do not fit into a file of 1000" in warnings_of(caplog)[0]


def test_a_limit_that_nothing_fits_in_makes_no_file(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path, max_file_size=0) as record:
        record_scalars(record, range(3))
    assert log_files(tmp_path) == []


def test_a_directory_that_vanished_before_the_first_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "job"
    with SummaryRecord(directory) as record:
        directory.rmdir()
        record_scalars(record, range(3))
        record.flush()
        assert len(warnings_of(caplog)) == 1
        directory.mkdir()
        record_scalars(record, range(3, 5))
    assert steps_of(directory) == [3, 4]


def test_a_directory_that_vanishes_with_its_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "job"
    with SummaryRecord(directory) as record:
        record_scalars(record, range(3))
        record.flush()
        shutil.rmtree(directory)
        record_scalars(record, range(3, 6))
    assert not directory.exists()
    first, total = warnings_of(caplog)
    assert "was removed while it was written" in first
    assert "3 × summary events" in total  # noqa: RUF001


def test_a_read_only_directory_is_refused() -> None:
    script = (
        "import os, sys\n"
        "from lineage_store.collect import SummaryRecord\n"
        "if os.geteuid() == 0:\n"
        "    os.setuid(65534)\n"  # root may write anywhere
        "try:\n"
        "    SummaryRecord(sys.argv[1])\n"
        "except OSError as error:\n"
        "    print(error)\n"
    )
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o555)
        for place, complaint in ((directory, "cannot be written to"), (f"{directory}/job", "cannot be made")):
            command = [sys.executable, "-c", script, place]
            assert complaint in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_an_image_that_is_none_costs_no_other_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SummaryRecord(tmp_path, raise_exception=True) as record:
        for step in range(3):
            record.add_value("image", "input", np.zeros((2, 2, 4, 4)))
            record.add_value("scalar", "loss", step)
            record.record(step)
    assert [len(event.content["value"]) for event in told(tmp_path)[1:]] == [1, 1, 1]
    first, total = warnings_of(caplog)
    assert "the image 'input' of step 0" in first
    assert "3 × values" in total  # noqa: RUF001


def test_a_closed_recorder_says_so_once_and_takes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = SummaryRecord(tmp_path)
    record_scalars(record, range(3))
    record.close()
    for step in range(3, 6):
        record.add_value("scalar", "loss", 1.0)
        assert record.record(step) is False
        record.flush()
        record.close()
    assert steps_of(tmp_path) == [0, 1, 2]
    assert len(warnings_of(caplog)) == 1


def test_a_forked_child_leaves_the_recorder_alone(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from lineage_store.collect import SummaryRecord\n"
        "record = SummaryRecord(sys.argv[1])\n"
        "for step in range(50):\n"
        "    record.add_value('scalar', 'loss', step)\n"
        "    record.record(step)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    record.add_value('scalar', 'loss', -1)\n"
        "    assert record.record(-1) is False\n"
        "    record.flush()\n"
        "    record.close()\n"
        "    with SummaryRecord(sys.argv[1]) as own:\n"
        "        own.add_value('scalar', 'own', 1)\n"
        "        own.record(1000)\n"
        "    sys.exit()\n"  # with all that runs at exit
        "assert os.waitpid(child, 0)[1] == 0\n"
        "for step in range(50, 100):\n"
        "    record.add_value('scalar', 'loss', step)\n"
        "    assert record.record(step)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert finished.stderr.count("records nothing more") == 1
    assert len(log_files(tmp_path)) == 2
    assert sorted(step for step in steps_of(tmp_path) if step is not None) == [*range(100), 1000]


KILLS = {
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "SIGINT without Python's handler": "signal.signal(signal.SIGINT, 0); os.kill(os.getpid(), signal.SIGINT)",
    "its process group": "os.killpg(0, signal.SIGKILL)",
    "os._exit": "os._exit(3)",
}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS.keys())
def test_a_training_that_is_killed_loses_no_number_and_its_files_are_closed(
    kill: str, tmp_path: Path
) -> None:
    script = (
        "import os, signal, sys\n"
        "from lineage_store.collect import SummaryRecord\n"
        "from lineage_store.eventlog.mindspore.wire import lineage_pb2\n"
        "record = SummaryRecord(sys.argv[1])\n"
        "for step in range(20):\n"
        "    record.add_value('scalar', 'loss', step)\n"
        "    record.record(step)\n"
        "record.add_value('eval_lineage', 'eval', lineage_pb2.EvaluationLineage(metric='{}'))\n"
        f"record.record(20)\n{kill}\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    subprocess.run(command, check=False, start_new_session=True)
    assert steps_of(tmp_path) == [*range(20), None]
    wait_until(lambda: {path.stat().st_mode & 0o777 for path in log_files(tmp_path)} == {0o400})
    assert len(log_files(tmp_path)) == 2


def test_a_training_that_is_killed_loses_the_arrays_of_its_last_record_at_most(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "import numpy as np\n"
        "from lineage_store.collect import SummaryRecord\n"
        "record = SummaryRecord(sys.argv[1])\n"
        "for step in range(20):\n"
        "    record.add_value('histogram', 'weights', np.arange(100_000) * step)\n"
        "    record.record(step)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert steps_of(tmp_path)[:19] == list(range(19))


def test_a_training_goes_on_where_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with SummaryRecord(tmp_path / "job") as record:
        record_scalars(record, range(3))
    assert steps_of(tmp_path / "job") == [0, 1, 2]


def test_a_closed_file_has_no_process_left(tmp_path: Path) -> None:
    of_others = children()
    with SummaryRecord(tmp_path, max_file_size=1000) as record:
        record_scalars(record, range(100))
        record.flush()
        assert len(children() - of_others) == 1
    assert len(log_files(tmp_path)) > 2
    assert children() <= of_others


def children() -> set[str]:
    """The processes that this one has started and not waited for."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
