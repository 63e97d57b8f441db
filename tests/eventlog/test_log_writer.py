"""The scripted writer itself, on which other tests rely."""

from __future__ import annotations

import itertools
from pathlib import Path

from helpers.frames import read_frames
from helpers.log_writer import GrowingFile, Log
from lineage_store.eventlog.tfrecord import NeedData, Suspect


def test_same_calls_give_the_same_bytes() -> None:
    logs = [Log().version().scalars(1, {"a": 1.0, "b": 2.0}).user_info(x=1, y="z") for _ in range(2)]
    assert logs[0].content == logs[1].content


def test_spans_are_where_the_frames_stand() -> None:
    log = Log().raw(b"junk").version().scalar(1, "loss", 0.5)
    frames, _ = read_frames(log.content, 4)
    assert [(frame.position, frame.length) for frame in frames] == log.spans


def test_torn_log_ends_inside_its_last_frame() -> None:
    frames, outcome = read_frames(Log().version().scalar(1, "loss", 0.5).torn(20).content)
    assert len(frames) == 1
    assert isinstance(outcome, NeedData)
    assert outcome.length > 20


def test_damaged_frame_is_the_one_named() -> None:
    frames, outcome = read_frames(Log().version().version().version().damaged(1).content)
    assert len(frames) == 1
    assert isinstance(outcome, Suspect)


def test_files_get_the_names_of_mindspore(tmp_path: Path) -> None:
    summary = Log().version().write_summary(tmp_path / "run", timestamp=5, device=3)
    lineage = Log().train().write_lineage(tmp_path / "run", timestamp=6)
    assert summary.name == "events.out.events.summary.5.3.host_MS"
    assert lineage.name == "events.out.events.summary.6.0.host_lineage"


def test_growing_file_reveals_its_content_slice_by_slice(tmp_path: Path) -> None:
    growing = GrowingFile(tmp_path / "run" / "log", b"0123456789")
    assert growing.path.read_bytes() == b""
    assert list(growing.slices(itertools.cycle([3, 4]))) == [3, 7, 10]
    assert growing.path.read_bytes() == b"0123456789"
    assert not growing.reveal(1)
    growing.close()
    assert growing.path.stat().st_mode & 0o777 == 0o400
