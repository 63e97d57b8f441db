"""A second log format is one row of the table: everything that works for MindSpore's files works for its files too."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from helpers.ingesting import ledger_is_closed, open_problems, rows
from helpers.json_lines import JSON_LINES, about, append, finish, several, step
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import PayloadUnavailableError
from lineage_store.eventlog import formats, inspection
from lineage_store.ingest.lease import register
from lineage_store.operations import verify
from lineage_store.operations.why import why
from lineage_store.store.database.db import writing

SETTINGS = Settings(chunk_bytes=4096, suspect_grace_s=0)
TRAINED = about(1.0, train={"algorithm": {"network": "Transformer", "loss": 0.25}})
TESTED = about(2.0, eval={"metric": '{"accuracy": 0.75}'})


@pytest.fixture(autouse=True)
def two_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, JSON_LINES))


@pytest.fixture
def store(database_url: str) -> Iterator[LineageStore]:
    with LineageStore(database_url, settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def metrics(base_dir: Path) -> Path:
    """The samples of a job of the second format, beside a job of MindSpore's."""
    Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / "ms")
    Log().train(network="LeNet5", loss=0.5).write_lineage(base_dir / "ms")
    append(base_dir / "js" / "about-1700000000.jsonl", TRAINED, TESTED)
    (base_dir / "js" / "other.jsonl").touch()
    return append(
        base_dir / "js" / "metrics-1700000000-3.jsonl", step(1, loss=2.0, w=[1, 2]), step(2, loss=1.5)
    )


def faults(store: LineageStore, base_dir: Path) -> list[object]:
    """What verification finds wrong."""
    verdicts = list(verify.verify(store.engine, base_dir, register(store.engine, base_dir), SETTINGS))
    assert verdicts
    return [fault for each in verdicts for fault in (*each.differences, each.unreadable) if fault]


def test_both_formats_in_one_base_dir_are_found_read_and_asked_for(
    store: LineageStore, base_dir: Path, metrics: Path
) -> None:
    counts = store.ingest(base_dir).counts
    assert (counts.files_found, counts.ignored) == (4, {"JSON lines, but not of ours": 1})
    found = store.lineage.filter({"loss": {"lt": 1}, "sorted_name": "loss", "sorted_type": "ascending"})[
        "object"
    ]
    assert [job["model_lineage"]["network"] for job in found] == ["Transformer", "LeNet5"]
    (best,) = store.lineage.filter({"metric/accuracy": {"ge": 0.75}})["object"]
    assert best["model_lineage"]["network"] == "Transformer"
    assert store.job((base_dir, "./js")).scalars("loss").values.tolist() == [2.0, 1.5]
    assert store.job((base_dir, "./js")).scalars("loss", device=3).steps.tolist() == [1, 2]
    (weights,) = store.job((base_dir, "./js")).tensors("w")
    assert (weights.shape, weights.dtype, weights.read().tolist()) == ((2,), "float32", [1.0, 2.0])
    formats_of = rows(
        store.engine, "SELECT log_file, format FROM v_log_file WHERE train_id = './js' ORDER BY 1"
    )
    assert [tuple(row) for row in formats_of] == [
        ("about-1700000000.jsonl", "json-lines"),
        ("metrics-1700000000-3.jsonl", "json-lines"),
    ]
    assert faults(store, base_dir) == []


def test_a_torn_line_waits_across_restarts_and_is_read_once_when_it_is_whole(
    database_url: str, base_dir: Path, metrics: Path
) -> None:
    late = step(3, loss=1.25)
    append(metrics, late[:7])
    size, events = metrics.stat().st_size, []
    for more in (b"", b"", late[7:], step(4, loss=1.0)):
        append(metrics, more)
        with LineageStore(database_url, settings=SETTINGS) as store:
            events.append(store.ingest(base_dir).counts.events)
            if not more:
                known = "SELECT size_bytes, pending_bytes, state FROM v_log_file WHERE device = 3"
                assert [tuple(row) for row in rows(store.engine, known)] == [(size, 7, "open")]
            assert faults(store, base_dir) == []
            assert ledger_is_closed(store.engine)
    assert events == [7, 0, 1, 1]
    with LineageStore(database_url) as store:
        assert store.job((base_dir, "./js")).scalars("loss").values.tolist() == [2.0, 1.5, 1.25, 1.0]


def test_a_finished_file_ends_where_its_format_says(
    store: LineageStore, base_dir: Path, metrics: Path
) -> None:
    append(metrics, b'{"time": 3')
    finish(metrics)
    store.ingest(base_dir)
    assert open_problems(store.engine) == [("torn_file", "js/metrics-1700000000-3.jsonl")]


def test_lines_longer_than_a_chunk_are_read(store: LineageStore, base_dir: Path, metrics: Path) -> None:
    long = list(map(float, range(20_000)))
    append(metrics, step(5, w=long), step(6, loss=0.5))
    store.ingest(base_dir)
    assert store.job((base_dir, "./js")).tensors("w")[-1].read().tolist() == long
    assert store.job((base_dir, "./js")).scalars("loss").steps.tolist() == [1, 2, 6]
    assert faults(store, base_dir) == []


def test_a_line_that_is_no_event_is_lost_alone(store: LineageStore, base_dir: Path, metrics: Path) -> None:
    append(metrics, b"<html>\n", step(3, loss=1.0))
    store.ingest(base_dir)
    assert store.job((base_dir, "./js")).scalars("loss").steps.tolist() == [1, 2, 3]
    assert open_problems(store.engine) == [("undecodable_event", "js/metrics-1700000000-3.jsonl")]
    assert faults(store, base_dir) == []


def test_a_restart_in_the_other_format_supersedes_by_the_time_in_its_name(
    store: LineageStore, base_dir: Path, metrics: Path
) -> None:
    Log().scalar(2, "loss", 9.0).scalar(3, "loss", 8.0).write_summary(
        base_dir / "js", timestamp=1_700_000_001, device=3
    )
    store.ingest(base_dir)
    assert store.job((base_dir, "./js")).scalars("loss").values.tolist() == [2.0, 9.0, 8.0]


def test_a_rewritten_file_is_read_anew(store: LineageStore, base_dir: Path, metrics: Path) -> None:
    store.ingest(base_dir)
    metrics.write_bytes(step(1, loss=7.0))
    store.ingest(base_dir)
    assert store.job((base_dir, "./js")).scalars("loss").values.tolist() == [7.0]
    assert {row.format for row in rows(store.engine, "SELECT format FROM log_file WHERE device = 3")} == {
        "json-lines"
    }


def test_a_payload_that_has_changed_is_not_given_out(
    store: LineageStore, base_dir: Path, metrics: Path
) -> None:
    store.ingest(base_dir)
    (weights,) = store.job((base_dir, "./js")).tensors("w")
    metrics.write_bytes(metrics.read_bytes().replace(b"[1, 2]", b"[1, 3]"))
    with pytest.raises(PayloadUnavailableError, match="not the frame that was there"):
        weights.read()


def test_without_its_row_a_format_is_neither_guessed_nor_lost(
    store: LineageStore, base_dir: Path, metrics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.ingest(base_dir)
    (weights,) = store.job((base_dir, "./js")).tensors("w")
    monkeypatch.setattr(formats, "FORMATS", formats.FORMATS[:1])
    with pytest.raises(PayloadUnavailableError, match="no log format 'json-lines'"):
        weights.read()
    assert len(faults(store, base_dir)) == 2
    assert store.job((base_dir, "./js")).scalars("loss").values.tolist() == [2.0, 1.5]


def test_why_and_inspect_know_the_format(store: LineageStore, base_dir: Path, metrics: Path) -> None:
    assert why(store.engine, metrics.parent.parent, SETTINGS).verdict == "not stored"
    store.ingest(base_dir)
    assert why(store.engine, metrics, SETTINGS).verdict == "stored"
    told = why(store.engine, base_dir / "js" / "other.jsonl", SETTINGS)
    assert told.findings[0].what == "Its name does not count: JSON lines, but not of ours."
    log_format, kind = formats.assumed(metrics.name)
    parts = list(inspection.inspect(io.BytesIO(metrics.read_bytes() + b"{"), log_format, kind))
    assert [(part.state, part.step) for part in parts] == [("good", 1), ("good", 2), ("pending", None)]
    assert parts[0].content == "scalar loss = 2, tensor w float32 [2]"


EVENTS = (
    ("user_info", {"seed": 1, "author": "Ada"}),
    ("eval", {"metric": '{"accuracy": 0.5}', "epoch": 1}),
    ("eval", {"metric": '{"accuracy": 0.75}', "epoch": 2}),
    ("user_info", {"seed": 2}),
)


@pytest.mark.parametrize("ingests", [1, 2])
def test_several_lineage_events_of_one_frame_are_all_kept_in_their_order(
    store: LineageStore, base_dir: Path, ingests: int
) -> None:
    trained = ("train", {"algorithm": {"network": "Transformer"}})
    log = append(base_dir / "js" / "about-1700000000.jsonl", several(1.0, trained, *EVENTS[:2]))
    if ingests == 2:
        store.ingest(base_dir)
    append(log, several(2.0, *EVENTS), several(3.0, *EVENTS[2:]))
    store.ingest(base_dir)
    (job,) = store.lineage.filter({})["object"]
    assert job["model_lineage"]["metric"] == {"accuracy": 0.75}
    assert job["model_lineage"]["user_defined"] == {"seed": 2, "author": "Ada"}
    kept = rows(
        store.engine, "SELECT kind, value_index FROM v_lineage_event ORDER BY byte_offset, value_index"
    )
    assert [tuple(row) for row in kept] == [
        *(("train", 0), ("user_info", 1), ("eval", 2)),
        *(("user_info", 0), ("eval", 1), ("eval", 2), ("user_info", 3)),
        *(("eval", 0), ("user_info", 1)),
    ]
    asked = "SELECT evaluation_no, epoch, value, is_latest FROM v_metric ORDER BY evaluation_no"
    assert [tuple(row) for row in rows(store.engine, asked)] == [
        *((1, 1, 0.5, False), (2, 1, 0.5, False), (3, 2, 0.75, False), (4, 2, 0.75, True)),
    ]
    assert faults(store, base_dir) == []


def test_of_several_lineage_events_of_one_frame_those_beyond_the_bounds_are_one_problem(
    database_url: str, base_dir: Path
) -> None:
    log = append(base_dir / "js" / "about-1700000000.jsonl", several(1.0, *EVENTS))
    settings = replace(SETTINGS, most_lineage_events=2)
    with LineageStore(database_url, settings=settings) as store:
        store.ingest(base_dir)
        places = rows(store.engine, "SELECT kind, range_start, range_end FROM ingest_problem")
        assert [tuple(row) for row in places] == [("beyond_bounds", 0, log.stat().st_size)]
        kept = rows(store.engine, "SELECT kind FROM v_lineage_event ORDER BY value_index")
        assert [tuple(row) for row in kept] == [("user_info",), ("eval",)]
        assert faults(store, base_dir) == []


@pytest.mark.parametrize("apart", [False, True], ids=["in one file", "and in a lineage file"])
@pytest.mark.parametrize("ingests", [1, 2])
def test_lineage_among_the_samples_of_a_file_counts_as_in_a_file_of_its_own(
    store: LineageStore, base_dir: Path, ingests: int, apart: bool
) -> None:
    log = append(base_dir / "js" / "metrics-1700000000-0.jsonl", step(1, loss=2.0, w=[1, 2]), TRAINED)
    if apart:
        append(base_dir / "js" / "about-1700000001.jsonl", about(3.0, user_info={"seed": 3}))
    if ingests == 2:
        store.ingest(base_dir)
    append(log, step(2, loss=1.5), TESTED)
    store.ingest(base_dir)
    (job,) = store.lineage.filter({})["object"]
    assert job["model_lineage"]["network"] == "Transformer"
    assert job["model_lineage"]["metric"] == {"accuracy": 0.75}
    assert job["model_lineage"]["user_defined"] == ({"seed": 3} if apart else {})
    assert store.job((base_dir, "./js")).scalars("loss").values.tolist() == [2.0, 1.5]
    (weights,) = store.job((base_dir, "./js")).tensors("w")
    assert weights.read().tolist() == [1.0, 2.0]
    assert faults(store, base_dir) == []
    with writing(store.engine) as session:
        session.change(text("UPDATE lineage SET model_lineage = '{}'"))
    assert len(faults(store, base_dir)) == 1


def test_lineage_of_a_new_generation_does_not_count_before_the_generation_does(
    database_url: str, base_dir: Path
) -> None:
    log = base_dir / "js" / "metrics-1700000000-0.jsonl"
    append(log, step(1, loss=2.0), step(2, loss=1.5), step(3, loss=1.0))
    settings = replace(SETTINGS, max_frame_bytes=256, suspect_grace_s=3600)
    with LineageStore(database_url, settings=settings) as store:
        store.ingest(base_dir)
        log.unlink()
        append(log, TRAINED, b"x" * 1000)
        store.ingest(base_dir)
        assert store.lineage.filter({})["object"] == []
        assert store.job((base_dir, "./js")).scalars("loss").values.tolist() == [2.0, 1.5, 1.0]
        append(log, b"\n", *(step(number, loss=9.0) for number in range(9)))
    with LineageStore(database_url, settings=replace(settings, suspect_grace_s=0)) as store:
        store.ingest(base_dir)
        assert [job["model_lineage"]["network"] for job in store.lineage.filter({})["object"]] == [
            "Transformer"
        ]
