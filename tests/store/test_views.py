"""Views: their columns as promised, and their values for known rows. The cookbook's tests cover the rest."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, text

from helpers.built_store import add_evaluation, add_file, add_payloads, add_scalars, derive
from helpers.stored_jobs import NOW, StoredJob, add_base_dir, add_job
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import tables
from lineage_store.store.schema.views import VIEWS
from lineage_store.store.writes import file_rows

T = 1_700_000_000
_PG_TYPES = """
SELECT column_name, replace(data_type, 'timestamp with time zone', 'timestamptz')
FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = :view ORDER BY ordinal_position
"""


def test_views_have_the_columns_they_describe(engine: Engine) -> None:
    with reading(engine) as session:
        for view in VIEWS:
            rows = session.connection.execute(text(f"SELECT * FROM {view.name}"))
            assert list(rows.keys()) == [column.name for column in view.columns]
            assert rows.all() == []
            if engine.dialect.name == "postgresql":
                types = [tuple(row) for row in session.rows(text(_PG_TYPES), {"view": view.name})]
                assert types == [(column.name, column.type) for column in view.columns]


def test_every_view_shows_a_filled_store(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, base_dir_id = _job(
            session, "./a", {"train_dataset_path": "/data"}, {"acc": 0.5}, {"owner": "ana"}
        )
        graph = {"digest": "d", "mark": "m", "content": "{}"}
        making = tables.dataset_graph.insert().values(graph).returning(tables.dataset_graph.c.id)
        graph_id = session.value(making)
        node = {"dataset_graph_id": graph_id, "item_no": 0, "node": 0}
        session.change(tables.dataset_node.insert().values(node))
        session.change(tables.lineage.update().values(dataset_graph_id=graph_id))
        file = add_file(session, job_id, T)
        add_scalars(session, file, "loss", {1: 0.5})
        bucket = {"first_step": 1, "last_step": 1, "count": 1, "nan_count": 0, "inf_count": 0}
        made = session.one(tables.series.select())
        key = {"job_id": made.job_id, "series_no": made.series_no}
        session.change(tables.scalar_bucket.insert().values(**key, **bucket))
        add_payloads(session, file, "histogram", "w", {1: {"count": 1}})
        add_evaluation(session, add_file(session, job_id, T, kind="lineage"), 1, {"acc": 0.5})
        _problem(session, base_dir_id, job_id, None)
        cycle = dict.fromkeys(
            ("files_found", "files_read", "bytes_read", "events", "samples", "pending_bytes"), 0
        )
        times = {"started_at": NOW, "finished_at": NOW}
        session.change(
            tables.ingest_cycle.insert().values(
                base_dir_id=base_dir_id, holder="me", problems=0, **times, **cycle
            )
        )
        lease = {"holder": "me", "epoch": 1, "mode": "once", "acquired_at": NOW, "expires_at": NOW}
        session.change(tables.ingest_lease.insert().values(base_dir_id=base_dir_id, **lease))
    for view in VIEWS:
        assert _rows(engine, f"SELECT * FROM {view.name}"), view.name


def test_superseded_samples_are_flagged_and_counted(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, _ = _job(session, "./a")
        add_scalars(session, add_file(session, job_id, T), "loss", {1: 1.0, 2: 2.0, 3: math.nan})
        add_scalars(session, add_file(session, job_id, T + 100), "loss", {2: 20.0, 3: math.inf})
        add_scalars(session, add_file(session, job_id, T + 200), "loss", {4: 4.0})
        derive(session, NOW)
    samples = "SELECT step, elapsed_s, value, is_effective FROM v_scalar ORDER BY elapsed_s"
    assert _rows(engine, samples) == [
        (1, 1.0, 1.0, True),
        (2, 2.0, 2.0, False),
        (3, 3.0, None, False),
        (2, 101.0, 20.0, True),
        (3, 102.0, math.inf, True),
        (4, 201.0, 4.0, True),
    ]
    in_short = "SELECT first_step, superseded_count, nan_count, inf_count, steps_per_s FROM v_series ORDER BY last_at"
    assert _rows(engine, in_short) == [(1, 2, 1, 0, 1.0), (2, 0, 0, 1, 1.0), (4, 0, 0, 0, None)]
    assert _rows(engine, "SELECT restart_count, duration_s FROM v_job") == [(1, 201.0)]


def test_a_roll_over_and_another_device_are_no_restarts(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, _ = _job(session, "./a")
        add_scalars(session, add_file(session, job_id, T, device=0), "loss", {1: 1.0, 2: 2.0})
        add_scalars(session, add_file(session, job_id, T + 100, device=0), "loss", {3: 3.0})
        add_scalars(session, add_file(session, job_id, T + 100, device=1), "loss", {1: 1.0})
        derive(session, NOW)
    assert _rows(engine, "SELECT restart_count FROM v_job") == [(0,)]
    assert _rows(engine, "SELECT count(*) FROM v_scalar WHERE NOT is_effective") == [(0,)]


def test_rows_of_generations_that_are_not_current_are_hidden(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, _ = _job(session, "./a")
        for generation, current, state in (
            (1, False, "replaced"),
            (2, True, "open"),
            (3, False, "replacing"),
        ):
            place: dict[str, Any] = {"generation": generation, "current": current, "state": state}
            file = add_file(session, job_id, T, **place)
            add_scalars(session, file, "loss", {1: float(generation)})
            add_payloads(session, file, "histogram", "w", {generation: {"count": 1}})
            lineage = add_file(session, job_id, T, kind="lineage", **place)
            add_evaluation(session, lineage, 1, {"acc": generation})
    assert _rows(engine, "SELECT value FROM v_scalar") == [(2.0,)]
    assert _rows(engine, "SELECT step FROM v_histogram") == [(2,)]
    assert _rows(engine, "SELECT step FROM v_payload") == [(2,)]
    assert _rows(engine, "SELECT value, evaluation_no FROM v_metric") == [(2.0, 1)]
    assert _rows(engine, "SELECT count(*) FROM v_lineage_event") == [(1,)]
    known = "SELECT generation, is_current FROM v_log_file WHERE kind = 'summary' ORDER BY generation"
    assert _rows(engine, known) == [(2, True), (3, False)]


def test_what_was_wrong_with_a_generation_goes_when_another_takes_its_place(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, base_dir_id = _job(session, "./a")
        states = [(1, True, "open"), (2, False, "replacing")]
        for generation, current, state in states:
            file = add_file(session, job_id, T, generation=generation, current=current, state=state)
            _problem(session, base_dir_id, job_id, file.file_no)
    shown = "SELECT train_id, problem_count FROM v_job", "SELECT open_problems FROM v_base_dir"
    assert [_rows(engine, sql) for sql in shown] == [[("./a", 2)], [(2,)]]
    with writing(engine) as session:
        (newest,) = registry.known_files(session, base_dir_id)
        file_rows.make_current(session, newest)
    assert [_rows(engine, sql) for sql in shown] == [[("./a", 1)], [(1,)]]
    assert _rows(engine, "SELECT count(*) FROM v_ingest_problem") == [(1,)]


def test_evaluations_are_numbered_by_file_and_place(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, _ = _job(session, "./a", {}, {"acc": 0.3})
        later = add_file(session, job_id, T + 100, kind="lineage")
        add_evaluation(session, later, 10, {"acc": 0.3})
        earlier = add_file(session, job_id, T, kind="lineage")
        add_evaluation(session, earlier, 5, {"acc": 0.1, "note": "odd"})
        add_evaluation(session, earlier, 20, {"acc": 0.2})
    rows = _rows(
        engine,
        "SELECT evaluation_no, name, value, text, is_latest FROM v_metric ORDER BY evaluation_no, name",
    )
    assert rows == [
        (1, "acc", 0.1, None, False),
        (1, "note", None, "odd", False),
        (2, "acc", 0.2, None, False),
        (3, "acc", 0.3, None, True),
    ]


def test_no_evaluation_is_latest_when_a_later_training_outdated_it(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, _ = _job(session, "./a")
        add_evaluation(session, add_file(session, job_id, T, kind="lineage"), 1, {"acc": 0.5})
    assert _rows(engine, "SELECT is_latest FROM v_metric") == [(False,)]


def test_best_metrics_are_finite_per_network_and_ties_go_to_the_first_job(engine: Engine) -> None:
    with writing(engine) as session:
        base_dir_id = add_base_dir(session)
        for name, network, value in (
            ("./c", "A", 0.75), ("./b", "A", 0.75), ("./d", "A", 0.25), ("./e", "A", math.inf),
            ("./f", "A", math.nan), ("./g", "A", "high"), ("./h", None, 3), ("./i", "B", True),
        ):  # fmt: skip
            add_job(session, StoredJob(name, {"network": network}, {"acc": value}), base_dir_id)
    assert sorted(_rows(engine, "SELECT * FROM v_metric_best"), key=str) == [
        ("/logs", "A", "acc", 0.75, "./b", 0.25, "./d"),
        ("/logs", None, "acc", 3.0, "./h", 3.0, "./h"),
    ]


def test_job_shows_lineage_kinds_label_and_remark(engine: Engine) -> None:
    with writing(engine) as session:
        fields = {"network": "A", "loss": math.nan, "learning_rate": math.inf, "model_size": 7}
        add_job(session, StoredJob("./a", fields, label=3, remark="keep"), add_base_dir(session))
    columns = "network, loss, loss_kind, learning_rate, learning_rate_kind, model_size_bytes, label, remark"
    row = ("A", None, "nan", math.inf, "+inf", 7, 3, "keep")
    assert _rows(engine, f"SELECT {columns} FROM v_job") == [row]


def test_dataset_has_a_row_for_each_role_that_is_known(engine: Engine) -> None:
    with writing(engine) as session:
        base_dir_id = add_base_dir(session)
        both = {
            "train_dataset_path": "/a",
            "train_dataset_count": 6,
            "test_dataset_count": 4,
            "dataset_mark": "m",
        }
        add_job(session, StoredJob("./both", both), base_dir_id)
        add_job(
            session,
            StoredJob("./pipeline", {"dataset_mark": "n"}, graph={"op_type": "Batch"}),
            base_dir_id,
        )
        add_job(session, StoredJob("./nothing"), base_dir_id)
    assert _rows(
        engine, "SELECT train_id, role, mark, path, count, graph FROM v_dataset ORDER BY train_id, role"
    ) == [
        ("./both", "test", None, None, 4, None),
        ("./both", "train", "m", "/a", 6, None),
        ("./pipeline", "train", "n", None, None, json.dumps({"op_type": "Batch"})),
    ]


def test_wall_times_become_points_in_time_or_null(engine: Engine) -> None:
    shown = {
        0.0: "1970-01-01T00:00:00.000000Z",
        1_700_000_000.1234567: "2023-11-14T22:13:20.123457Z",
        1_700_000_000.9999997: "2023-11-14T22:13:21.000000Z",
        253_402_300_799.0: "9999-12-31T23:59:59.000000Z",
        253_402_300_800.0: None,
        -1.0: None,
        math.inf: None,
        math.nan: None,
    }
    with writing(engine) as session:
        job_id, _ = _job(session, "./a")
        add_scalars(session, add_file(session, job_id, T), "loss", dict.fromkeys(range(len(shown)), 1.0))
        for step, seconds in enumerate(shown):
            of_step = tables.scalar_sample.c.step == step
            session.change(tables.scalar_sample.update().where(of_step).values(wall_time=seconds))
    assert _rows(engine, "SELECT wall_at FROM v_scalar ORDER BY step") == [
        (instant,) for instant in shown.values()
    ]


@pytest.mark.parametrize("moment", ["2024-02-29T23:59:59.5Z", "2025-03-01T00:00:00Z", "2025-12-31T12:30:00Z"])
def test_ages_are_seconds_since_a_moment(moment: str, engine: Engine) -> None:
    then = datetime.fromisoformat(moment)
    with writing(engine) as session:
        _job(session, "./a")
        session.change(tables.train_job.update().values(last_grown_at=then))
    ((quiet_s,),) = _rows(engine, "SELECT quiet_s FROM v_job")
    assert quiet_s == pytest.approx((datetime.now(UTC) - then).total_seconds(), abs=60)


def test_histograms_have_the_mean_of_finite_values(engine: Engine) -> None:
    counts = {
        "count": 10,
        "nan_count": 1,
        "pos_inf_count": 2,
        "neg_inf_count": 3,
        "min": -1.0,
        "max": 4.0,
        "sum": 6.0,
    }
    empty = {"count": 1, "nan_count": 1, "pos_inf_count": 0, "neg_inf_count": 0, "sum": 0.0}
    with writing(engine) as session:
        job_id, _ = _job(session, "./a")
        add_payloads(session, add_file(session, job_id, T), "histogram", "w", {1: counts, 2: empty})
    rows = _rows(engine, "SELECT count, nan_count, inf_count, min, max, mean FROM v_histogram ORDER BY step")
    assert rows == [(10, 1, 5, -1.0, 4.0, 1.5), (1, 1, 0, None, None, None)]


def test_payloads_of_a_missing_file_are_not_available(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, _ = _job(session, "./a")
        for time, state in ((T, "closed"), (T + 1, "missing")):
            add_payloads(session, add_file(session, job_id, time, state=state), "image", "x", {1: {}})
    assert _rows(engine, "SELECT available FROM v_payload ORDER BY wall_at") == [(True,), (False,)]


def test_ledger_of_a_log_file_closes(engine: Engine) -> None:
    with writing(engine) as session:
        job_id, _ = _job(session, "./a")
        add_file(session, job_id, T, size_bytes=100, byte_offset=80, quarantined_bytes=30)
    ledger = (
        "SELECT size_bytes, ingested_bytes, quarantined_bytes, pending_bytes, bookmark_bytes FROM v_log_file"
    )
    assert _rows(engine, ledger) == [(100, 50, 30, 20, 80)]


def test_base_dir_sums_up_jobs_lag_and_problems(engine: Engine) -> None:
    with writing(engine) as session:
        base_dir_id = add_base_dir(session)
        for name, state in (("./a", "live"), ("./b", "live"), ("./c", "stalled"), ("./d", "missing")):
            job_id = add_job(session, StoredJob(name), base_dir_id)
            of_job = tables.train_job.c.id == job_id
            session.change(tables.train_job.update().where(of_job).values(state=state))
            file_state = "missing" if state == "missing" else "open"
            add_file(session, job_id, T, byte_offset=900, quarantined_bytes=1, state=file_state)
            _problem(session, base_dir_id, job_id, None)
        _problem(session, base_dir_id, None, None, resolved_at=NOW)
        lease = {"holder": "host:1:x", "epoch": 1, "mode": "daemon", "acquired_at": NOW}
        far = datetime(9999, 1, 1, tzinfo=UTC)
        session.change(tables.ingest_lease.insert().values(base_dir_id=base_dir_id, expires_at=far, **lease))
    columns = (
        "jobs, live_jobs, stalled_jobs, finished_jobs, missing_jobs, log_files, log_bytes, pending_bytes,"
        " quarantined_bytes, open_problems, leader, last_cycle_at"
    )
    row = (4, 2, 1, 0, 1, 3, 3000, 300, 3, 4, "host:1:x", None)
    assert _rows(engine, f"SELECT {columns} FROM v_base_dir") == [row]


def test_expired_lease_leads_nothing(engine: Engine) -> None:
    with writing(engine) as session:
        lease = {"holder": "h", "epoch": 1, "mode": "daemon", "acquired_at": NOW}
        past = datetime(2001, 1, 1, tzinfo=UTC)
        base_dir_id = add_base_dir(session)
        session.change(tables.ingest_lease.insert().values(base_dir_id=base_dir_id, expires_at=past, **lease))
    assert _rows(engine, "SELECT leader, jobs FROM v_base_dir") == [(None, 0)]


def _job(session: Session, train_id: str, *lineage: Any) -> tuple[int, int]:
    """A job, with fields, metrics and user-defined values if given; its id and its base dir's."""
    base_dir_id = add_base_dir(session)
    job_id = add_job(session, StoredJob(train_id, *lineage), base_dir_id)
    session.change(tables.train_job.update().values(first_file_time=T))
    return job_id, base_dir_id


def _problem(
    session: Session, base_dir_id: int, job_id: int | None, file_no: int | None, **columns: Any
) -> None:
    row = {
        "path": "a",
        "kind": "damaged",
        "reason": "r",
        "remedy": "m",
        "first_seen_at": NOW,
        "last_seen_at": NOW,
    }
    owners = {"base_dir_id": base_dir_id, "job_id": job_id, "file_no": file_no}
    session.change(tables.ingest_problem.insert().values(**row, **owners, **columns))


def _rows(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    """The rows, with points in time as SQLite gives them. (SQLite's 1 and 0 equal True and False.)"""
    with reading(engine) as session:
        return [tuple(map(_plain, row)) for row in session.rows(sql)]


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value
