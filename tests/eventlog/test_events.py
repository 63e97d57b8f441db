"""What the frames of summary and lineage files decode to."""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.frames import read_frames
from helpers.log_writer import FIRST_WALL_TIME, Log, scalar, tensor
from lineage_store.eventlog.mindspore import payloads
from lineage_store.eventlog.mindspore.events import decode_event, decode_lineage, decode_summary
from lineage_store.eventlog.mindspore.filenames import parse_name
from lineage_store.eventlog.mindspore.wire import lineage_pb2, summary_pb2
from lineage_store.eventlog.values import (
    EventDecodeError,
    HistogramStatistics,
    LineageEvent,
    PayloadValue,
    ScalarValue,
    SummaryValue,
    Version,
)

EXPECTED = Path(__file__).resolve().parents[1] / "golden" / "expected"


def values_of(log: Log) -> list[Any]:
    frames, _ = read_frames(log.content)
    return [value for frame in frames for value in decode_summary(frame.payload)]


def summary_payload(*values: summary_pb2.Summary.Value) -> bytes:
    event = summary_pb2.Event(wall_time=1.0, summary=summary_pb2.Summary(value=values))
    return event.SerializePartialToString()


def test_version_opens_a_summary_file() -> None:
    assert values_of(Log().version()) == [Version(FIRST_WALL_TIME, "MindSpore.Event:1")]


def test_scalars_of_one_event_share_step_and_wall_time() -> None:
    values = values_of(Log().scalars(12, {"loss": 0.5, "accuracy": 0.25}))
    assert values == [
        ScalarValue(FIRST_WALL_TIME, 12, "loss", 0.5),
        ScalarValue(FIRST_WALL_TIME, 12, "accuracy", 0.25),
    ]


def test_float32_is_widened_exactly() -> None:
    (value,) = values_of(Log().scalar(1, "loss", 0.1))
    assert value.value == 0.100000001490116119384765625


def test_values_that_are_not_finite_are_kept() -> None:
    values = values_of(Log().scalars(1, {"a": math.nan, "b": math.inf, "c": -math.inf, "d": -0.0}))
    assert math.isnan(values[0].value)
    assert [value.value for value in values[1:3]] == [math.inf, -math.inf]
    assert math.copysign(1, values[3].value) == -1


@pytest.mark.parametrize("step", [-(2**63), -1, 0, 2**63 - 1])
def test_steps_are_signed_64_bit(step: int) -> None:
    assert values_of(Log().scalar(step, "loss", 1.0))[0].step == step


def test_missing_step_reads_as_zero() -> None:
    assert decode_summary(summary_payload(scalar("loss", 1.0))) == [ScalarValue(1.0, 0, "loss", 1.0)]


def test_histogram_is_described_with_its_statistics() -> None:
    (value,) = values_of(Log().histogram(3, "w", [1.0, 2.0, 6.0, math.nan, math.inf, -math.inf, -math.inf]))
    assert (value.plugin, value.tag, value.step, value.dtype, value.shape) == (
        "histogram",
        "w",
        3,
        None,
        (5,),
    )
    assert value.statistics == HistogramStatistics(7, 1, 1, 2, 1.0, 6.0, 9.0)


def test_image_is_described_by_height_width_and_channels() -> None:
    (value,) = values_of(Log().image(3, "input", [[[0, 0, 0]] * 5] * 4))
    assert (value.plugin, value.dtype, value.shape, value.statistics) == ("image", "png", (4, 5, 3), None)
    assert value.size_bytes > 50


@pytest.mark.parametrize(
    ("data_type", "dtype"),
    [
        (0, "undefined"),
        (1, "bool"),
        (5, "int64"),
        (10, "float16"),
        (11, "float32"),
        (46, "bfloat16"),
        (99, "undefined"),
    ],
)
def test_tensor_is_described_by_its_declared_type(data_type: int, dtype: str) -> None:
    value = summary_pb2.Summary.Value(tag="t")
    value.tensor.MergeFromString(bytes([0x08, 2, 0x08, 3, 0x10, data_type]))  # dims 2 and 3, data_type
    (described,) = decode_summary(summary_payload(value))
    assert isinstance(described, PayloadValue)
    assert (described.plugin, described.dtype, described.shape) == ("tensor", dtype, (2, 3))


def test_landscape_is_described_by_its_surface() -> None:
    (value,) = values_of(Log().landscape("landscape_[1, 3]", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert (value.plugin, value.tag, value.step, value.shape) == ("landscape", "landscape_[1, 3]", 0, (3, 2))
    assert value.dtype == "float32"


def test_graph_has_no_tag_and_no_step() -> None:
    (value,) = values_of(Log().graph("Conv2D", "ReLU"))
    assert value == PayloadValue(FIRST_WALL_TIME, 0, "graph", None, 0, None, (2,), value.size_bytes)


def test_value_index_counts_every_value_of_the_event() -> None:
    unknown = summary_pb2.Summary.Value(tag="of the future")
    payload = summary_payload(
        scalar("a", 1.0), unknown, tensor("t", [1.0]), scalar("b", 2.0), tensor("u", [2.0])
    )
    values = decode_summary(payload)
    assert [getattr(value, "value_index", None) for value in values] == [None, 2, None, 4]
    assert [getattr(value, "tag", None) for value in values] == ["a", "t", "b", "u"]


@pytest.mark.parametrize(
    ("on_the_wire", "tag"),
    [
        ("损失 <b>&</b>".encode(), "损失 <b>&</b>"),
        (b"", ""),
        (b"nul\x00here", "nul\\x00here"),
        (b"not utf-8 \xff\xfe", "not utf-8 \\xff\\xfe"),
    ],
)
def test_tags_come_in_their_stored_form(on_the_wire: bytes, tag: str) -> None:
    payload = summary_payload(scalar("~" * len(on_the_wire), 1.0)).replace(
        b"~" * len(on_the_wire), on_the_wire
    )
    if on_the_wire:
        assert on_the_wire in payload
    assert decode_summary(payload) == [ScalarValue(1.0, 0, tag, 1.0)]


def test_explanation_in_a_summary_file_is_ignored() -> None:
    explanation = bytes([0x32, 2, 0x08, 7])  # field 6: {sample_id: 7}
    payload = summary_pb2.Event(wall_time=1.0).SerializeToString() + explanation
    assert decode_summary(payload) == []


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "wall_time"),
        (summary_pb2.Event(version="x").SerializePartialToString(), "wall_time"),
        (summary_pb2.Event(graph_def={}).SerializePartialToString(), "wall_time"),
        (b"\x09\x00\x00", "no Event"),
        (b"\xff" * 20, "no Event"),
        (summary_payload(summary_pb2.Summary.Value(scalar_value=1.0)), "tag"),
        (summary_payload(summary_pb2.Summary.Value(tag="i", image={"height": 1})), "width"),
        (
            summary_payload(summary_pb2.Summary.Value(tag="h", histogram={"buckets": [{"left": 1.0}]})),
            "count",
        ),
    ],
)
def test_payload_that_is_no_complete_event_is_refused_with_the_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(EventDecodeError, match=reason):
        decode_summary(payload)


def test_lineage_event_without_wall_time_is_refused() -> None:
    payload = lineage_pb2.LineageEvent(train_lineage=lineage_pb2.TrainLineage()).SerializePartialToString()
    with pytest.raises(EventDecodeError, match="wall_time"):
        decode_lineage(payload)


def test_every_kind_of_lineage_event_is_told_apart() -> None:
    log = Log().dataset_graph({}).user_info(owner="vision").train(loss=0.5).evaluation({"accuracy": 1.0})
    events = [event for frame in read_frames(log.content)[0] for event in decode_lineage(frame.payload)]
    assert [event.kind for event in events] == ["dataset_graph", "user_info", "train", "eval"]
    assert [event.wall_time for event in events] == [FIRST_WALL_TIME + n for n in range(4)]


@pytest.mark.parametrize("event", [{"version": "x"}, {}], ids=["version", "nothing"])
def test_lineage_event_of_no_known_kind_holds_nothing(event: dict[str, Any]) -> None:
    assert decode_lineage(lineage_pb2.LineageEvent(wall_time=1.0, **event).SerializeToString()) == []


def test_lineage_inside_the_event_of_mindinsight_0_1_is_read() -> None:
    # There it was field 6 of Event, with the fields of today's TrainLineage.
    train = lineage_pb2.TrainLineage(algorithm={"network": "LeNet5"}).SerializeToString()
    payload = summary_pb2.Event(wall_time=9.0).SerializeToString() + bytes([0x32, len(train)]) + train
    assert decode_event(payload, "lineage") == [
        LineageEvent(9.0, "train", {"algorithm": {"network": "LeNet5"}})
    ]
    assert decode_event(payload, "summary") == []


SPECIMENS = [
    frame.payload
    for log in (
        Log().version().scalar(1, "loss", 0.5).histogram(1, "w", [1.0, 2.0]).image(1, "i", [[[1, 2, 3]]]),
        Log().tensor(1, "t", [1, 2]).landscape("l", [[1.0]]).graph("ReLU"),
        Log().train(network="N", loss=0.5, size=3).evaluation({"acc": 1.0}, path="/val", size=2),
        Log().dataset_graph({"a": 1, "b": ["x"], "operations": [{"size": [1]}]}).user_info(a=1, b="x", c=0.5),
    )
    for frame in read_frames(log.content)[0]
]


@settings(max_examples=500)
@given(st.sampled_from(SPECIMENS), st.data())
def test_damaged_payload_is_decoded_or_refused_and_nothing_else(specimen: bytes, data: st.DataObject) -> None:
    damaged = bytearray(specimen)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(specimen) - 1))] = data.draw(st.integers(0, 255))
    for decode_kind in (decode_summary, decode_lineage):
        try:
            values = decode_kind(bytes(damaged))
        except EventDecodeError:
            continue
        for value in values:
            if isinstance(value, LineageEvent):
                json.dumps(value.content, allow_nan=False)
            elif isinstance(value, PayloadValue):
                read_back(bytes(damaged), value)


def read_back(payload: bytes, value: PayloadValue) -> None:
    with contextlib.suppress(EventDecodeError):
        if value.plugin == "graph":
            payloads.decode_graph(payload)
        else:
            getattr(payloads, f"decode_{value.plugin}")(payload, value.value_index)


def test_scalars_of_the_corpus_are_those_that_mindinsight_reads(corpus: Path) -> None:
    expected = json.loads((EXPECTED / "scalars.json").read_text())
    for train_id, tags in expected.items():
        found: dict[str, list[list[float | None]]] = {}
        for value in corpus_values(corpus / train_id):
            if isinstance(value, ScalarValue):
                number = value.value if math.isfinite(value.value) else None
                found.setdefault(f"{value.tag}/scalar", []).append([value.step, value.wall_time, number])
        for tag, samples in tags.items():
            # What a later file or event supersedes is for the store to decide; here every expected sample is there.
            assert all(sample in found[tag] for sample in samples), (train_id, tag)
        assert found.keys() == tags.keys()


def test_every_frame_of_the_corpus_decodes(corpus: Path) -> None:
    counts = Counter(type(value).__name__ for job in corpus.iterdir() for value in corpus_values(job))
    assert counts == {"Version": 30, "ScalarValue": 16829, "PayloadValue": 2345, "LineageEvent": 78}


def corpus_values(job: Path) -> Iterator[SummaryValue | LineageEvent]:
    for path in sorted(job.glob("events.*")):
        content = path.read_bytes()
        name = parse_name(path.name)
        assert name is not None
        frames, outcome = read_frames(content)
        assert outcome.position == len(content)
        for frame in frames:
            yield from decode_event(frame.payload, name.kind)


def test_event_without_a_sensible_wall_time_keeps_its_values() -> None:
    event = summary_pb2.Event(wall_time=math.nan, step=3)
    event.summary.value.add(tag="loss", scalar_value=0.5)
    (value,) = decode_summary(event.SerializeToString())
    assert isinstance(value, ScalarValue)
    assert math.isnan(value.wall_time)
    assert (value.step, value.tag, value.value) == (3, "loss", 0.5)
