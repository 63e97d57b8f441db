"""Curves in buckets agree with those of all samples, and leave no spike out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from helpers.built_store import add_file, add_scalars, derive
from helpers.stored_jobs import add_bare_job, add_base_dir
from lineage_store import LineageStore, SampleNotFoundError
from lineage_store.api.store import MOST_POINTS
from lineage_store.errors import LineageParamValueError
from lineage_store.query.samples import Curve
from lineage_store.query.samples.buckets import BUCKET_COLUMNS
from lineage_store.store.database.db import writing
from lineage_store.store.database.sql import Session

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BASE = "/logs"
JOB = (BASE, "./a")
TAG = (JOB, "loss")


def store_with(url: str, *files: tuple[int | None, Mapping[int, float]]) -> LineageStore:
    """A store of one job; each file (device, scalars of `loss` by step) is newer than the one before."""
    store = LineageStore(url)
    with writing(store.engine) as session:
        _add(session, files)
    return store


def _add(session: Session, files: tuple[tuple[int | None, Mapping[int, float]], ...]) -> None:
    job_id = add_bare_job(session, "./a", add_base_dir(session, BASE))
    for number, (device, values) in enumerate(files):
        file = add_file(session, job_id, 1_700_000_000 + 1000 * number, device=device)
        add_scalars(session, file, "loss", values)
    derive(session, NOW)


def wave(count: int, start: int = 0) -> dict[int, float]:
    return {start + step: float(np.sin(step / 7) * step % 11) for step in range(count)}


def only(curves: list[Curve]) -> Curve:
    (curve,) = curves
    return curve


def test_where_a_training_was_started_again_is_told(database_url: str) -> None:
    files = (0, wave(50)), (0, wave(20, 30)), (1, wave(9)), (0, wave(9, 70))
    with store_with(database_url, *files) as store:
        told = {curve.device: curve.restarts for curve in store.buckets([TAG])}
    assert told == {0: (30, 70), 1: ()}


def test_when_a_tag_began_is_told_of_any_range_of_steps(database_url: str) -> None:
    with store_with(database_url, (0, wave(50)), (1, wave(50))) as store:
        first = min(curve.columns["wall_time"][0] for curve in store.buckets([TAG], stop=1))
        assert {curve.began_at for curve in store.buckets([TAG], start=40)} == {first}


def assert_tells(curve: Curve, steps: np.ndarray, values: np.ndarray) -> None:
    """What a curve of buckets says is true of the samples, bucket by bucket, and no sample is left out."""
    columns = curve.columns
    assert list(columns) == list(BUCKET_COLUMNS)
    assert columns["count"].sum() == len(steps)
    begins = np.searchsorted(steps, columns["first_step"])
    ends = np.searchsorted(steps, columns["last_step"], side="right")
    assert (begins[1:] == ends[:-1]).all()
    for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        of_bucket = values[begin:end]
        told = {name: column[row] for name, column in columns.items()}
        assert (told["count"], told["nan_count"]) == (len(of_bucket), np.isnan(of_bucket).sum())
        np.testing.assert_equal((told["first"], told["last"]), (of_bucket[0], of_bucket[-1]))
        if told["count"] > told["nan_count"]:
            assert told["min"] == np.nanmin(of_bucket)
            assert told["max"] == np.nanmax(of_bucket)
            assert told["min_step"] == steps[begin + np.nanargmin(of_bucket)]
            assert told["max_step"] == steps[begin + np.nanargmax(of_bucket)]
        else:
            assert np.isnan([told["min"], told["max"]]).all()
            assert told["first_step"] <= told["min_step"] <= told["last_step"]


def test_buckets_tell_what_all_samples_tell(database_url: str) -> None:
    values = wave(5000) | {1234: 1e6, 777: float("nan"), 778: float("inf"), 779: float("-inf")}
    values |= dict.fromkeys(range(3000, 3200), float("nan"))
    with store_with(database_url, (None, values)) as store:
        curve, whole = only(store.buckets([TAG], points=100)), store.job(JOB).scalars("loss")
        assert curve.is_bucketed
        assert 70 <= len(curve.columns["count"]) <= 100
        assert 1234 in curve.columns["max_step"]
        assert_tells(curve, whole.steps, whole.values)
        assert curve.columns["first_wall_time"][0] == whole.wall_times[0]


def test_few_samples_come_as_they_are(database_url: str) -> None:
    with store_with(database_url, (None, wave(200))) as store:
        curve, whole = only(store.buckets([TAG], points=100)), store.job(JOB).scalars("loss")
        assert not curve.is_bucketed
        np.testing.assert_equal(curve.columns["step"], whole.steps)
        np.testing.assert_equal(curve.columns["value"], whole.values)
        zoomed = only(store.buckets([TAG], points=10, start=50, stop=60))
        assert zoomed.columns["step"].tolist() == list(range(50, 60))


def test_a_restart_counts_once_and_what_it_wrote_again_is_there_on_request(database_url: str) -> None:
    with store_with(database_url, (None, wave(3000)), (None, wave(3000, start=2000))) as store:
        whole = store.job(JOB).scalars("loss")
        assert_tells(only(store.buckets([TAG], points=50)), whole.steps, whole.values)
        curve, again = store.buckets([TAG], points=50, superseded=True)
        assert (curve.superseded, again.superseded) == (False, True)
        assert (again.columns["first_step"][0], again.columns["last_step"][-1]) == (2000, 2999)


def test_each_device_has_a_curve_and_all_share_the_grid(database_url: str) -> None:
    files = [(device, wave(2000, start=100 * (device or 0))) for device in (0, 1)]
    with store_with(database_url, *files) as store:
        curves = store.buckets([TAG, TAG], points=20)
        assert [(curve.number, curve.device) for curve in curves] == [(0, 0), (0, 1), (1, 0), (1, 1)]
        begins = [set(curve.columns["first_step"].tolist()[1:]) for curve in curves]
        assert begins[0] & begins[1]
        assert begins[0] <= begins[1] | {0, 2000}
        assert only(store.buckets([TAG], points=20, device=1)).device == 1


def test_what_is_not_there_is_refused_or_left_out(database_url: str) -> None:
    with store_with(database_url, (None, wave(10))) as store:
        unknown = (JOB, "los")
        with pytest.raises(SampleNotFoundError, match="loss"):
            store.buckets([TAG, unknown])
        assert [curve.number for curve in store.buckets([unknown, TAG], skip_unknown=True)] == [1]
        assert store.buckets([TAG], start=100) == []
        for points in (1, MOST_POINTS + 1, True):
            with pytest.raises(LineageParamValueError, match="points"):
                store.buckets([TAG], points=points)


def test_any_number_of_curves_takes_one_transaction_and_few_statements(database_url: str) -> None:
    with store_with(database_url, (None, wave(10))) as store:
        begun, asked = list[object](), list[str]()
        event.listen(store.engine, "checkout", lambda *given: begun.append(given))
        store.buckets([TAG])
        event.listen(store.engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
        names = [((BASE, f"./{number}"), "loss") for number in range(20)]
        assert [curve.number for curve in store.buckets([*names, TAG], skip_unknown=True)] == [20]
    assert len(begun) == 2
    assert sum("train_job" in statement for statement in asked) <= 1


def test_steps_at_the_ends_of_what_a_database_holds(database_url: str) -> None:
    ends = {-(2**63): 1.0, 2**63 - 1: 2.0} | wave(50)
    with store_with(database_url, (None, ends)) as store:
        curve, whole = only(store.buckets([TAG], points=5)), store.job(JOB).scalars("loss")
        assert_tells(curve, whole.steps, whole.values)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(
        st.dictionaries(st.integers(-50, 200), st.floats(width=32), min_size=1, max_size=80),
        min_size=1,
        max_size=4,
    ),
    points=st.integers(2, 12),
)
def test_whatever_was_written_is_told(
    tmp_path: Path, files: list[dict[int, float]], points: int, sqlite_template: Path
) -> None:
    path = tmp_path / "each.sqlite3"
    path.write_bytes(sqlite_template.read_bytes())
    with store_with(f"sqlite:///{path}", *((None, values) for values in files)) as store:
        curve, whole = only(store.buckets([TAG], points=points)), store.job(JOB).scalars("loss")
        if curve.is_bucketed:
            assert_tells(curve, whole.steps, whole.values)
        else:
            np.testing.assert_equal(curve.columns["value"], whole.values)
    path.unlink()
