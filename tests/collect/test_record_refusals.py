"""What a SummaryRecord refuses, and with which class of error; nothing is written then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.log_contents import log_files, told
from lineage_store.collect import SummaryRecord
from lineage_store.errors import InvalidTagError, MindInsightException, RecorderInUseError
from lineage_store.eventlog.mindspore.wire import lineage_pb2


class NoNetwork:
    """Whatever it is, no Cell of MindSpore."""


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"log_dir": 3}, TypeError, "log_dir must be a str"),
        ({"log_dir": b"bytes"}, TypeError, "log_dir must be a str"),
        ({"log_dir": "  "}, ValueError, "log_dir must name a directory"),
        ({"log_dir": "a\0b"}, ValueError, "log_dir must name a directory"),
        ({"log_dir": "a\ud800b"}, ValueError, "log_dir must name a directory"),
        ({"file_prefix": None}, TypeError, "file_prefix must be a str"),
        ({"file_suffix": 3}, TypeError, "file_suffix must be a str"),
        ({"file_prefix": ""}, ValueError, "file_prefix must be of ASCII"),
        ({"file_prefix": "a/b"}, ValueError, "file_prefix must be of ASCII"),
        ({"file_prefix": "événement"}, ValueError, "file_prefix must be of ASCII"),
        ({"file_suffix": "_MS\n"}, ValueError, "file_suffix must be of ASCII"),
        ({"file_suffix": "_lineage"}, ValueError, "readers do not recognise as a summary file"),
        ({"file_suffix": "_explain"}, ValueError, "readers do not recognise as a summary file"),
        ({"file_suffix": "_MS.pb"}, ValueError, "readers do not recognise as a summary file"),
        ({"file_suffix": "_MS.bak"}, ValueError, r"must not end in '.bak', .*Choose an ending"),
        ({"file_suffix": "_exp.1"}, ValueError, r"must not end in '.1'"),
        ({"file_suffix": "_MS.GZ"}, ValueError, r"must not end in '.GZ'"),
        ({"file_suffix": "_MS.md5"}, ValueError, r"must not end in '.md5'"),
        ({"max_file_size": 1.5}, TypeError, "max_file_size must be an int"),
        ({"max_file_size": "1"}, TypeError, "max_file_size must be an int"),
        ({"raise_exception": 1}, TypeError, "raise_exception must be bool"),
        ({"network": NoNetwork()}, TypeError, "network must be a MindSpore Cell or None, but is a NoNetwork"),
        ({"num_process": 0}, ValueError, "num_process must be greater than 0"),
        ({"num_process": 1.0}, TypeError, "num_process must be int"),
        ({"export_options": "npy"}, TypeError, "export_options must be a dict"),
        ({"export_options": {3: "npy"}}, TypeError, "export_options must map a str"),
        ({"export_options": {"tensor_format": 3}}, TypeError, "export_options must map a str"),
        ({"export_options": {"image_format": "png"}}, ValueError, "export_options can be"),
        ({"export_options": {"tensor_format": "csv"}}, ValueError, "export_options can be"),
    ],
)
def test_an_argument_that_will_not_do(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as refused:
        SummaryRecord(**({"log_dir": str(tmp_path / "job")} | arguments))
    assert isinstance(refused.value, MindInsightException)
    assert not (tmp_path / "job").exists()
    with SummaryRecord(tmp_path):
        pass  # a refused one does not count as open


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "job").touch()
    with pytest.raises(OSError, match=r"job' cannot be made: File exists"):
        SummaryRecord(tmp_path / "job")


@pytest.mark.parametrize("limit", [-1, None])
def test_a_limit_below_zero_is_no_limit(
    tmp_path: Path, limit: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    with SummaryRecord(tmp_path, max_file_size=limit) as record:
        record.add_value("tensor", "weights", np.zeros(1000))
        record.record(1)
    assert len(told(tmp_path)) == 2
    assert ("files have no limit" in caplog.text) == (limit == -1)


@pytest.mark.parametrize(
    ("plugin", "name", "value", "error"),
    [
        ("scalars", "a", 1.0, ValueError),
        ("explainer", "a", 1.0, ValueError),
        ("scalar", "a", "0.5", TypeError),
        ("scalar", "a", None, TypeError),
        ("scalar", "a", [0.5], TypeError),
        ("scalar", "a", 1j, TypeError),
        ("scalar", "a", np.array(["x"]), TypeError),
        ("scalar", "a", np.zeros(2), ValueError),
        ("scalar", "a", np.zeros(0), ValueError),
        ("image", "a", np.zeros((3, 4, 4)), ValueError),
        ("tensor", "a", 1.0, ValueError),
        ("histogram", "a", np.float32(1), ValueError),
        ("tensor", "a", np.zeros(2, complex), TypeError),
        ("train_lineage", "a", lineage_pb2.EvaluationLineage(), TypeError),
        ("eval_lineage", "a", {"accuracy": 1}, TypeError),
        ("dataset_graph", "a", None, TypeError),
        ("custom_lineage_data", "a", {"owner": "vision"}, TypeError),
        ("landscape", "a", np.zeros(2), TypeError),
        ("graph", "a", "text", TypeError),
        ("graph", "a", b"\xff no graph", ValueError),
    ],
)
def test_a_value_that_its_plugin_does_not_take(
    tmp_path: Path, plugin: str, name: str, value: object, error: type[Exception]
) -> None:
    with SummaryRecord(tmp_path) as record:
        with pytest.raises(error) as refused:
            record.add_value(plugin, name, value)
        assert isinstance(refused.value, MindInsightException)
        record.record(1)
    assert log_files(tmp_path) == []


@pytest.mark.parametrize("name", ["", None, 3, b"loss", "\udcff"])
def test_a_name_that_is_no_text_is_both_errors(tmp_path: Path, name: object) -> None:
    with SummaryRecord(tmp_path) as record, pytest.raises(InvalidTagError) as refused:
        record.add_value("scalar", name, 1.0)  # type: ignore[arg-type]
    assert isinstance(refused.value, TypeError)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda record: record.record("1"), TypeError),
        (lambda record: record.record(1.0), TypeError),
        (lambda record: record.record(True), TypeError),
        (lambda record: record.record(None), TypeError),
        (lambda record: record.record(2**63), ValueError),
        (lambda record: record.record(1, NoNetwork()), TypeError),
        (lambda record: record.set_mode("test"), ValueError),
        (lambda record: record.set_mode(["train"]), ValueError),
    ],
)
def test_a_call_that_will_not_do(
    tmp_path: Path, call: Callable[[SummaryRecord], object], error: type[Exception]
) -> None:
    with SummaryRecord(tmp_path) as record, pytest.raises(error):
        call(record)


def test_a_second_open_recorder_in_the_process(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path / "one") as record:
        with pytest.raises(RuntimeError, match="already has an open SummaryRecord") as refused:
            SummaryRecord(tmp_path / "two")
        assert record.log_dir in str(refused.value)
        assert isinstance(refused.value, RecorderInUseError)
    assert not (tmp_path / "two").exists()
    with SummaryRecord(tmp_path / "two"):
        pass


def test_a_closed_recorder_cannot_be_entered(tmp_path: Path) -> None:
    record = SummaryRecord(tmp_path)
    record.close()
    with pytest.raises(ValueError, match="closed"), record:
        pass
