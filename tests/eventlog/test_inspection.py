"""Log files taken apart."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.log_writer import Log
from lineage_store.eventlog import inspection
from lineage_store.eventlog.formats import format_of
from lineage_store.eventlog.inspection import FilePart, PartState, inspect, summarise
from lineage_store.eventlog.values import FileKind

MINDSPORE = format_of("mindspore")


def parts_of(content: bytes, kind: FileKind = "summary", **limits: int) -> list[FilePart]:
    return list(inspect(io.BytesIO(content), MINDSPORE, kind, **limits))


def assert_covered(parts: list[FilePart], size: int) -> None:
    assert sum(part.length for part in parts) == size
    assert all(left.position + left.length == right.position for left, right in pairwise(parts))


def test_every_frame_says_where_it_stands_and_what_it_holds() -> None:
    log = Log().version().scalars(7, {"loss": 0.5, "rate": 2}).histogram(8, "w", [1.0]).graph("Add", "Mul")
    parts = parts_of(log.content)
    assert [(part.position, part.length) for part in parts] == log.spans
    assert {part.state for part in parts} == {PartState.GOOD}
    assert [part.content for part in parts] == [
        "version MindSpore.Event:1",
        "scalar loss = 0.5, scalar rate = 2",
        "histogram w [5]",
        "graph [2]",
    ]
    assert [part.step for part in parts] == [None, 7, 8, 0]


def test_lineage_files_are_read_as_such() -> None:
    content = Log().train(network="LeNet5").evaluation({"accuracy": 1}).content
    assert [part.content for part in parts_of(content, "lineage")] == ["lineage train", "lineage eval"]


def test_a_torn_end_is_pending() -> None:
    log = Log().version().scalar(1, "loss", 1.0).torn(20)
    parts = parts_of(log.content)
    assert (parts[-1].state, parts[-1].length) == (PartState.PENDING, 20)
    assert_covered(parts, len(log.content))


@pytest.mark.parametrize(
    "place", [0, 9, 14, -1], ids=["length", "its checksum", "payload", "its checksum too"]
)
def test_a_damaged_frame_is_suspect_and_the_next_one_is_found(place: int) -> None:
    log = Log().version().scalar(1, "loss", 1.0).scalar(2, "loss", 2.0).damaged(1, place)
    parts = parts_of(log.content)
    assert [part.state for part in parts] == [PartState.GOOD, PartState.SUSPECT, PartState.GOOD]
    assert [(part.position, part.length) for part in parts] == log.spans


def test_a_hole_at_the_end_is_suspect_to_the_end() -> None:
    parts = parts_of(Log().version().raw(bytes(5000)).content)
    assert [(part.state, part.length) for part in parts[1:]] == [(PartState.SUSPECT, 5000)]
    assert "all zero bytes" in parts[1].content


def test_a_frame_that_is_no_event_is_undecodable() -> None:
    (part,) = parts_of(Log().frame(b"\xff\xff").content)
    assert part.state is PartState.UNDECODABLE


def test_frames_and_damage_longer_than_a_chunk_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log().version().tensor(1, "big", [0.0] * 500).raw(bytes(1000)).tensor(2, "big", [0.0] * 500)
    whole = parts_of(log.content)
    monkeypatch.setattr(inspection, "CHUNK_BYTES", 64)
    assert parts_of(log.content) == whole
    assert [part.length for part in whole if part.state is PartState.SUSPECT] == [1000]


def test_a_frame_above_the_limit_is_suspect() -> None:
    log = Log().version().tensor(1, "big", [0.0] * 500).scalar(2, "loss", 1.0)
    parts = parts_of(log.content, max_frame_bytes=1000)
    assert [part.state for part in parts] == [PartState.GOOD, PartState.SUSPECT, PartState.GOOD]


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=8), st.integers(0, 400))
def test_parts_cover_the_file_whatever_is_in_it(changes: list[tuple[int, int]], length: int) -> None:
    log = (
        Log()
        .version()
        .scalar(1, "loss", 1.0)
        .image(2, "i", [[[0, 0, 0]]])
        .raw(bytes(20))
        .scalar(3, "loss", 1.0)
    )
    content = bytearray(log.content)
    for place, byte in changes:
        content[place % len(content)] = byte
    del content[length:]
    assert_covered(parts_of(bytes(content)), len(content))


def test_totals_add_up_over_the_corpus(corpus: Path) -> None:
    for path in corpus.glob("*/*summary.*"):
        kind: FileKind = "lineage" if path.name.endswith("_lineage") else "summary"
        with path.open("rb") as stream:
            totals = summarise(inspect(stream, MINDSPORE, kind))
        frames = totals.pop("frames")
        assert sum(totals.values()) == path.stat().st_size
        assert frames or not path.stat().st_size
