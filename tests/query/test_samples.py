"""Scalars of a job as columns, from log files that are ingested."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.log_writer import Log
from lineage_store import LineageParamTypeError, LineageStore, SampleNotFoundError
from lineage_store.errors import LineageStoreError

EARLY, LATE = 1_700_000_000, 1_700_000_100


@pytest.fixture
def store(database_url: str) -> Iterator[LineageStore]:
    with LineageStore(database_url) as store:
        yield store


def _curve(steps: range, tag: str = "loss", plus: float = 0.0) -> Log:
    log = Log().version()
    for step in steps:
        log.scalar(step, tag, step + plus)
    return log


def _ingested(store: LineageStore, base_dir: Path) -> Path:
    store.ingest(base_dir)
    return base_dir


def test_every_step_comes_back_in_order_with_its_time_and_value(store: LineageStore, tmp_path: Path) -> None:
    log = Log().scalar(20, "loss", 0.5).scalar(-3, "loss", float("nan")).scalar(7, "loss", float("-inf"))
    log.scalar(2**63 - 1, "loss", 1e-45).scalar(7, "loss", float("inf")).write_summary(tmp_path / "run")
    found = store.job((_ingested(store, tmp_path), "./run")).scalars("loss")
    assert found.steps.dtype == np.int64
    assert found.steps.tolist() == [-3, 7, 20, 2**63 - 1]
    np.testing.assert_array_equal(found.values, [np.nan, np.inf, 0.5, float(np.float32(1e-45))])
    assert found.wall_times.tolist() == [EARLY + 1, EARLY + 4, EARLY, EARLY + 3]
    assert len(found) == 4


RANGES: list[tuple[Any, Any, list[int]]] = [
    (None, None, [0, 1, 2, 3, 4]),
    (2, None, [2, 3, 4]),
    (None, 2, [0, 1]),
    (1, 3, [1, 2]),
    (np.int64(4), 99, [4]),
    (3, 1, []),
    (-(10**30), 10**30, [0, 1, 2, 3, 4]),
    (10**30, None, []),
    (None, -(10**30), []),
]


def test_a_range_includes_its_start_and_not_its_stop(store: LineageStore, tmp_path: Path) -> None:
    _curve(range(5)).write_summary(tmp_path / "run")
    _ingested(store, tmp_path)
    for start, stop, steps in RANGES:
        found = store.job((tmp_path, "./run")).scalars("loss", start=start, stop=stop)
        assert found.steps.tolist() == steps, (start, stop)
        assert [found.steps.dtype, found.values.dtype] == [np.dtype(np.int64), np.dtype(np.float64)]


def test_a_step_must_be_a_whole_number(store: LineageStore, tmp_path: Path) -> None:
    _curve(range(5)).write_summary(tmp_path / "run")
    with pytest.raises(LineageParamTypeError, match=r"start = 1\.5"):
        store.job((_ingested(store, tmp_path), "./run")).scalars("loss", start=1.5)  # type: ignore[arg-type]


def test_a_restart_replaces_the_curve_from_its_first_step(store: LineageStore, tmp_path: Path) -> None:
    _curve(range(10)).write_summary(tmp_path / "run", EARLY)
    _curve(range(6, 9), plus=100).write_summary(tmp_path / "run", LATE)
    found = store.job((_ingested(store, tmp_path), "./run")).scalars("loss")
    assert found.values.tolist() == [0, 1, 2, 3, 4, 5, 106, 107, 108]
    late = store.job((tmp_path, "./run")).scalars("loss", start=5, stop=8)
    assert late.values.tolist() == [5, 106, 107]


def test_devices_interleave_and_the_later_name_wins_a_step(store: LineageStore, tmp_path: Path) -> None:
    even, middle = range(0, 600, 2), range(100, 400)
    _curve(even).write_summary(tmp_path / "run", EARLY, device=0)
    _curve(middle, plus=1000).write_summary(tmp_path / "run", EARLY, device=1)
    expected = {step: float(step) for step in even} | {step: step + 1000.0 for step in middle}
    found = store.job((_ingested(store, tmp_path), "./run")).scalars("loss")
    assert list(zip(found.steps.tolist(), found.values.tolist(), strict=True)) == sorted(expected.items())
    assert found.replaced_count == 150
    assert "150 samples are left out" in store.curves([(tmp_path, "./run")], "loss").note
    alone = store.job((tmp_path, "./run")).scalars("loss", device=0)
    assert (alone.values.tolist(), alone.replaced_count) == (list(even), 0)
    assert store.curves([(tmp_path, "./run")], "loss", device=0).note == ""
    with pytest.raises(SampleNotFoundError, match="device 7; there are: 0, 1"):
        store.job((tmp_path, "./run")).scalars("loss", device=7)


def test_a_long_series_is_read_whole(store: LineageStore, tmp_path: Path) -> None:
    _curve(range(45_000)).write_summary(tmp_path / "run")
    found = store.job((_ingested(store, tmp_path), "./run")).scalars("loss")
    np.testing.assert_array_equal(found.steps, np.arange(45_000))
    np.testing.assert_array_equal(found.values, np.arange(45_000))


def test_a_tag_is_found_with_and_without_suffix_the_exact_one_first(
    store: LineageStore, tmp_path: Path
) -> None:
    log = Log().scalars(1, {"loss": 1.0, "acc/scalar": 2.0, "acc": 3.0})
    log.landscape("plane", [[1.0, 2.0]]).write_summary(tmp_path / "run")
    _ingested(store, tmp_path)
    for tag, value in (("loss", 1.0), ("loss/scalar", 1.0), ("acc/scalar", 2.0), ("acc", 3.0)):
        assert store.job((tmp_path, "./run")).scalars(tag).values.tolist() == [value]
    for tag in ("plane", "plane/landscape", "plane/loss_landscape"):
        assert len(store.job((tmp_path, "./run")).landscapes(tag)) == 1


def test_an_unknown_tag_is_refused_with_close_ones(store: LineageStore, tmp_path: Path) -> None:
    Log().scalars(1, {"loss/auto": 1.0, "accuracy": 2.0}).histogram(1, "weights", [1.0]).write_summary(
        tmp_path / "run"
    )
    _ingested(store, tmp_path)
    with pytest.raises(SampleNotFoundError, match=r"no scalar 'loss'.*Close: loss/auto\."):
        store.job((tmp_path, "./run")).scalars("loss")
    with pytest.raises(SampleNotFoundError, match="There is a histogram of that name"):
        store.job((tmp_path, "./run")).scalars("weights")
    with pytest.raises(SampleNotFoundError, match="no image at all"):
        store.job((tmp_path, "./run")).images("x")


def test_tags_are_sorted_by_plugin_and_come_back_as_written(store: LineageStore, tmp_path: Path) -> None:
    log = Log().scalars(1, {"b\0": 1.0, "a \\x41": 2.0, "ü": 3.0}).tensor(1, "t", [1.0]).graph("Add")
    name = log.write_summary(tmp_path / "run").name
    tags = store.job((_ingested(store, tmp_path), "./run")).tags()
    assert tags == {"graph": [name], "scalar": ["a \\x41", "b\0", "ü"], "tensor": ["t"]}
    assert list(tags) == sorted(tags)
    for tag in tags["scalar"]:
        assert len(store.job((tmp_path, "./run")).scalars(tag)) == 1


@pytest.mark.parametrize(("package", "extra"), [("pandas", "pandas"), ("pyarrow", "arrow")])
def test_a_package_that_cannot_be_imported_is_said_with_its_remedy(
    package: str, extra: str, store: LineageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(tmp_path / "job")
    found = store.job((_ingested(store, tmp_path), "./job")).scalars("loss")
    monkeypatch.setitem(sys.modules, package, None)
    expected = rf"{package} cannot be imported: .*{package}.* pip install 'lineage-store\[{extra}\]'"
    with pytest.raises(LineageStoreError, match=expected):
        getattr(found, f"to_{extra}")()


def test_columns_go_into_pandas_and_arrow(store: LineageStore, tmp_path: Path) -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    Log().scalar(1, "loss", 0.5).scalar(2, "loss", float("nan")).write_summary(tmp_path / "run")
    found = store.job((_ingested(store, tmp_path), "./run")).scalars("loss")
    frame, table = found.to_pandas(), found.to_arrow()
    expected = {"step": [1, 2], "wall_time": [EARLY + 0.0, EARLY + 1.0], "value": [0.5, float("nan")]}
    pandas.testing.assert_frame_equal(frame, pandas.DataFrame(expected))
    assert table.schema.names == list(expected)
    assert table.schema.types == [pyarrow.int64(), pyarrow.float64(), pyarrow.float64()]
    assert table["step"].to_pylist() == [1, 2]


def test_a_curve_without_matplotlib_says_what_to_install(
    store: LineageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(tmp_path / "job")
    found = store.job((_ingested(store, tmp_path), "./job")).scalars("loss")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(LineageStoreError, match="pip install 'matplotlib'"):
        found.plot()
