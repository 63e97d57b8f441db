"""Text that SQL cannot store, names that are no text, and times that are no times: all of them are ingested."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text

from helpers.ingesting import column, ingest, open_problems, rows
from helpers.log_writer import Log
from lineage_store import LineageStore, texts
from lineage_store.eventlog.mindspore.wire import lineage_pb2, summary_pb2
from lineage_store.ingest.decode import lineage_fold, sample_columns
from lineage_store.ingest.problems import unreadable_file
from lineage_store.store.writes import lineage, samples
from lineage_store.texts import from_stored

ODD = "nul\0, surrogate \ud800, slash \\x00, 损失 🙂 ' \" ; --"
STORED = "nul\\x00, surrogate \\ud800, slash \\x5cx00, 损失 🙂 ' \" ; --"
USER: dict[str, Any] = {"k\0ey": "v\0alue"}
NOT_UTF8 = b"t\xe9g\xff"


def raw_string(payload: bytes, plain: bytes, odd: bytes) -> bytes:
    """A payload in which a string of the same length is replaced, past what protobuf would write."""
    assert payload.count(plain) == 1
    assert len(plain) == len(odd)
    return payload.replace(plain, odd)


def test_odd_tags_are_stored_under_a_reversible_escape(engine: Engine, base_dir: Path) -> None:
    event = summary_pb2.Event(wall_time=1.0, step=1)
    event.summary.value.add(tag="XYZW", scalar_value=2.0)
    log = Log().scalar(1, "a\0b", 1.0).frame(raw_string(event.SerializeToString(), b"XYZW", NOT_UTF8))
    log.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert open_problems(engine) == []
    tags = column(engine, "SELECT tag FROM series ORDER BY tag")
    assert [os.fsencode(from_stored(tag)) for tag in tags] == [b"a\0b", NOT_UTF8]


def test_odd_metric_names_and_texts_arrive(engine: Engine, base_dir: Path) -> None:
    Log().evaluation({ODD: 1.0, "text": ODD, "list": [ODD]}).write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    found = rows(engine, "SELECT name, text FROM metric ORDER BY position")
    assert [row.name for row in found] == [STORED, "text", "list"]
    assert found[1].text == STORED
    assert column(engine, "SELECT name FROM evaluation_metric ORDER BY position") == [STORED, "text", "list"]


def test_names_that_share_a_key_are_one_and_harm_no_other_job(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def colliding(name: str) -> int:
        return texts.key("a" if name == "b" else name)

    for module in (lineage_fold, sample_columns, lineage, samples):
        monkeypatch.setattr(module, "key", colliding)
    Log().evaluation({"a": 1, "b": 2, "c": 3}).user_info(a="x", b="y").write_lineage(base_dir / "job")
    log = Log().scalars(1, {"a": 1.0, "b": 2.0}).scalar(2, "b", 3.0)
    log.write_summary(base_dir / "job")
    Log().evaluation({"a": 1}).write_lineage(base_dir / "other")
    ingest(engine, base_dir)
    log.scalar(3, "a", 4.0).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert column(engine, "SELECT name FROM metric ORDER BY job_id, position") == ["b", "c", "a"]
    assert column(engine, "SELECT text FROM user_info") == ["y"]
    assert len(column(engine, "SELECT tag FROM series")) == 1
    assert column(engine, "SELECT value FROM scalar_sample ORDER BY step") == [2.0, 3.0, 4.0]


def test_odd_train_fields_and_user_values_arrive(engine: Engine, database_url: str, base_dir: Path) -> None:
    event = lineage_pb2.LineageEvent(wall_time=1.0)
    event.train_lineage.algorithm.network = "XYZW"
    log = Log().frame(raw_string(event.SerializeToString(), b"XYZW", NOT_UTF8))
    log.user_info(**USER).write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    assert os.fsencode(from_stored(column(engine, "SELECT network FROM lineage")[0])) == NOT_UTF8
    assert [tuple(row) for row in rows(engine, "SELECT name, text FROM user_info")] == [
        ("k\\x00ey", "v\\x00alue")
    ]
    with LineageStore(database_url) as store:
        (found,) = store.lineage.filter({"user_defined/k\0ey": {"eq": "v\0alue"}})["object"]
    assert found["model_lineage"]["user_defined"] == {"k\0ey": "v\0alue"}


def test_file_and_job_names_that_are_not_utf8_are_read_again_and_again(
    engine: Engine, base_dir: Path
) -> None:
    job = os.fsencode(base_dir) + b"/j\xff\\x41b"
    os.mkdir(job)
    path = job + b"/\xfe.summary.1700000000.0.h\xff_MS"
    log = Log().scalar(1, "loss", 1.0)
    for step in (2, 3):
        with open(path, "wb") as stream:
            stream.write(log.content)
        ingest(engine, base_dir)
        log.scalar(step, "loss", 2.0)
    (found,) = rows(
        engine, "SELECT train_id, f.name, event_count FROM log_file f JOIN train_job t ON t.id = job_id"
    )
    assert (os.fsencode(from_stored(found.train_id)), found.event_count) == (b"./j\xff\\x41b", 2)
    assert os.fsencode(from_stored(found.name)) == os.path.basename(path)
    assert column(engine, "SELECT host FROM log_file") == ["h\\xff"]


def test_a_base_dir_whose_name_is_not_utf8_is_a_base_dir(engine: Engine, tmp_path: Path) -> None:
    base_dir = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff"))
    path = Log().scalar(1, "loss", 1.0).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    os.mkfifo(base_dir / "job" / "fifo.summary.1")
    path.unlink()
    path.symlink_to("fifo.summary.1")
    ingest(engine, base_dir, follow_symlinks=True)
    assert column(engine, "SELECT path FROM base_dir") == [f"{tmp_path}/b\\xff"]
    assert [kind for kind, _ in open_problems(engine)] == ["missing_file"]


def test_what_went_wrong_can_be_told_whatever_the_text(engine: Engine, base_dir: Path) -> None:
    event = lineage_pb2.LineageEvent(wall_time=1.0)
    event.evaluation_lineage.metric = "nul\0 XYZW"
    Log().frame(raw_string(event.SerializeToString(), b"XYZW", NOT_UTF8)).write_lineage(base_dir / "job")
    Log().frame(b"\xff\0").write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert [kind for kind, _ in open_problems(engine)] == ["undecodable_event", "unreadable_metric"]


def test_an_error_that_names_a_path_that_is_not_utf8_can_be_stored(tmp_path: Path) -> None:
    found = unreadable_file(tmp_path, "./job", "\\xff", OSError(f"{tmp_path}/\udcff is no regular file"))
    assert found.what == f"{tmp_path}/\\xff is no regular file."


def test_very_long_tags_and_names_arrive(engine: Engine, base_dir: Path) -> None:
    tags = ["t" * 100_000 + ending for ending in "ab"]
    log = Log()
    for tag in tags:
        log.scalar(1, tag, 1.0)
    log.write_summary(base_dir / "job")
    Log().evaluation({tag: tag for tag in tags}).write_lineage(base_dir / "job")
    Log().train(network="n" * 50_000, optimizer="ö" * 50_000).write_lineage(base_dir / "long")
    ingest(engine, base_dir)
    assert column(engine, "SELECT tag FROM series ORDER BY tag") == tags
    assert column(engine, "SELECT name FROM metric ORDER BY name") == tags


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 1e300, -1e18, 0.0])
def test_wall_times_that_are_no_times_break_neither_ingest_nor_views(
    time: float, engine: Engine, base_dir: Path
) -> None:
    Log().scalar(1, "loss", 1.0, wall_time=time).tensor(1, "t", [1.0], wall_time=time).write_summary(
        base_dir / "job"
    )
    Log().train(network="N", wall_time=time).evaluation({"acc": 1.0}, wall_time=time).write_lineage(
        base_dir / "job"
    )
    ingest(engine, base_dir)
    stored = column(engine, "SELECT wall_time FROM scalar_sample")
    assert stored == [time if math.isfinite(time) else None]
    for view in inspect(engine).get_view_names():
        with engine.connect() as connection:
            connection.execute(text(f"SELECT * FROM {view}")).all()


def test_views_can_be_read_with_odd_text_in_every_place(engine: Engine, base_dir: Path) -> None:
    pipeline = {"op_type": "A\0", "p\0": "v\0", "children": [], "operations": [{"tensor_op_name": "\0"}]}
    Log().train(network="a\0b").evaluation({ODD: ODD}).user_info(**USER).dataset_graph(
        pipeline
    ).write_lineage(base_dir / "j\\x00")
    Log().scalar(1, "\0", 1.0).write_summary(base_dir / "j\\x00")
    ingest(engine, base_dir)
    for view in inspect(engine).get_view_names():
        with engine.connect() as connection:
            connection.execute(text(f"SELECT * FROM {view}")).all()
    assert column(engine, "SELECT value FROM dataset_node WHERE parameter = 'p\\x00'") == ['"v\\u0000"']


def test_extreme_numbers_in_a_train_event_arrive(engine: Engine, base_dir: Path) -> None:
    log = Log().train(epoch=-(2**31), batch_size=2**31 - 1, loss=3.4e38, learning_rate=1e-45)
    log.write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    assert [tuple(row) for row in rows(engine, "SELECT epoch, batch_size, loss FROM lineage")] == [
        (-(2**31), 2**31 - 1, 3.4e38)
    ]
