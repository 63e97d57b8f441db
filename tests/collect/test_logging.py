"""A script without MindSpore that logs about itself, and how its job records its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from helpers.log_contents import log_files, told
from lineage_store import LineageStore
from lineage_store.collect import SummaryRecord
from lineage_store.errors import LineageParamTypeError


def asked(url: str, base: Path, statement: str) -> list[tuple[Any, ...]]:
    with LineageStore(url) as store:
        store.ingest(base)
        with store.sql(statement) as answer:
            return [tuple(row) for row in answer.rows]


def test_what_a_script_logs_is_asked_for_as_any_lineage(tmp_path: Path, sqlite_url: str) -> None:
    base = tmp_path / "base"
    with SummaryRecord(base / "run") as record:
        record.log_params({"optimizer": {"name": "sgd", "nesterov": True}, "layers": [64, np.int64(10)]})
        record.log_metrics({"accuracy": 0.5}, step=1)
        record.log_metrics({"accuracy": np.float32(0.75), "classes": ["cat"]}, step=7)
    with LineageStore(sqlite_url) as store:
        store.ingest(base)
        condition = {"metric/accuracy": {"gt": 0.7}, "user_defined/optimizer/nesterov": {"eq": True}}
        assert store.lineage.filter(condition, base_dir=base)["count"] == 1
        curve = store.job((base, "./run")).scalars("accuracy")
        assert (curve.steps.tolist(), curve.values.tolist()) == ([1, 7], [0.5, 0.75])
    said = asked(sqlite_url, base, "SELECT key, text, value FROM v_user_info ORDER BY key")
    assert said == [
        ("end/last_step", None, 7),
        ("end/outcome", "completed", None),
        ("layers", "[64, 10]", None),
        ("optimizer/name", "sgd", None),
        ("optimizer/nesterov", None, 1),
    ]


def test_a_script_that_raises_says_so_and_its_error_goes_on(tmp_path: Path, sqlite_url: str) -> None:
    base = tmp_path / "base"

    def train() -> None:
        with SummaryRecord(base / "run") as record:
            record.log_params({"lr": 0.1})
            record.add_value("scalar", "loss", 1.0)
            record.record(3)
            raise FloatingPointError("password=hunter2")

    with pytest.raises(FloatingPointError):
        train()
    rows = asked(sqlite_url, base, "SELECT outcome, state FROM v_job")
    assert rows == [("failed", "finished")]
    said = asked(
        sqlite_url, base, "SELECT key, text, value FROM v_user_info WHERE key LIKE 'end/%' ORDER BY key"
    )
    assert said == [
        ("end/error_class", "FloatingPointError", None),
        ("end/last_step", None, 3),
        ("end/outcome", "failed", None),
    ]
    assert not any(b"hunter2" in path.read_bytes() for path in log_files(base / "run"))


def test_metrics_say_when_they_were_measured(tmp_path: Path, sqlite_url: str) -> None:
    with SummaryRecord(tmp_path / "base" / "run") as record:
        record.log_metrics({"accuracy": 0.5}, step=40, epoch=2)
        record.log_metrics({"accuracy": 0.75}, epoch=3)
        record.log_metrics({"accuracy": 0.25})
    rows = asked(
        sqlite_url, tmp_path / "base", "SELECT value, epoch, step FROM v_metric ORDER BY evaluation_no"
    )
    assert rows == [(0.5, 2, 40), (0.75, 3, None), (0.25, None, None)]


def test_a_metric_may_be_a_count_of_64_bits_and_without_a_name_costs_itself(
    tmp_path: Path, sqlite_url: str
) -> None:
    with SummaryRecord(tmp_path / "base" / "run") as record:
        record.log_metrics({"tokens": 2**40, "": 1, "vast": 2**63}, step=1)
        record.log_params(MappingProxyType({"optimizer": MappingProxyType({"name": "sgd"}), "": 1}))
    counted = asked(sqlite_url, tmp_path / "base", "SELECT name, value FROM v_metric")
    assert counted == [("tokens", 2.0**40)]
    keys = asked(sqlite_url, tmp_path / "base", "SELECT key FROM v_user_info WHERE key NOT LIKE 'end/%'")
    assert keys == [("optimizer/name",)]


def test_one_bad_value_costs_itself_with_its_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = SummaryRecord(tmp_path)
    record.log_params({"good": 1, "model": object(), "seed": 2**40, "nested": {"bad": None, "fine": "x"}})
    record.close()
    said = [each.getMessage() for each in caplog.records]
    assert [name for name in ("'model'", "'seed'", "'nested/bad'") if any(name in each for each in said)] == [
        "'model'",
        "'seed'",
        "'nested/bad'",
    ]
    (event,) = told(tmp_path)
    assert event.content["user_info"] == [{"map_int32": {"good": 1}}, {"map_str": {"nested/fine": "x"}}]


def test_a_value_that_cannot_even_be_shown_costs_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    record = SummaryRecord(tmp_path)
    record.log_params(
        {"vast": 10**5000, "list": [10**5000], "broken": Broken(), "large": {1} | set(range(10**5))}
    )
    record.log_params({"array": np.array(0.5), "good": 1})
    record.close()
    assert sum(len(each.getMessage()) for each in caplog.records) < 1000
    (event,) = told(tmp_path)
    assert event.content["user_info"] == [{"map_double": {"array": 0.5}}, {"map_int32": {"good": 1}}]


def test_a_value_that_fails_while_it_is_read_costs_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(list[int]):
        def __iter__(self) -> Iterator[int]:
            raise RuntimeError

    bad = {"vast": 10**5000, "vast numbers": [10**5000], "failing": Failing([1])}
    with SummaryRecord(tmp_path) as record:
        record.log_params({**bad, "good": 1})
        record.log_metrics({**bad, "accuracy": 0.5})
    said = [each.getMessage() for each in caplog.records]
    assert [any(repr(name) in each for each in said) for name in bad] == [True] * 3
    params, metrics, _ = told(tmp_path)
    assert params.content["user_info"] == [{"map_int32": {"good": 1}}]
    assert json.loads(metrics.content["metric"]) == {"accuracy": 0.5}


def test_a_record_that_logs_nothing_of_itself_writes_what_mindspores_writes(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path) as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(1)
    assert [path.name.endswith("_lineage") for path in log_files(tmp_path)] == [False]


def test_what_is_no_dict_is_refused(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path) as record:
        for log in (record.log_params, record.log_metrics):
            with pytest.raises(LineageParamTypeError, match="must be a dict"):
                log([("lr", 0.1)])  # type: ignore[arg-type]
    assert log_files(tmp_path) == []
