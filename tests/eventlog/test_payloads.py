"""Payloads, decoded again from the frames that contain them."""

from __future__ import annotations

import dataclasses
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.frames import read_frames
from helpers.log_writer import Log, histogram, image, landscape, png, scalar, tensor
from lineage_store.eventlog.mindspore import payloads
from lineage_store.eventlog.mindspore.events import decode_summary
from lineage_store.eventlog.mindspore.payloads import GraphInput, GraphType
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, summary_pb2
from lineage_store.eventlog.values import EventDecodeError, Image, PayloadValue


def payload_of(*values: summary_pb2.Summary.Value) -> bytes:
    ((frame,), _) = read_frames(Log().summary(1, *values).content)
    return frame.payload


def graph_payload(graph: anf_ir_pb2.GraphProto) -> bytes:
    return summary_pb2.Event(wall_time=1.0, graph_def=graph).SerializeToString()


def tensor_payload(**fields: Any) -> bytes:
    message = anf_ir_pb2.TensorProto(**fields)
    return payload_of(summary_pb2.Summary.Value(tag="t", tensor=message))


def test_histogram_buckets_come_as_arrays() -> None:
    found = payloads.decode_histogram(
        payload_of(histogram("w", [0.0, 1.0, 1.0, 4.0, math.nan], bucket_count=4)), 0
    )
    assert found.left.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert found.width.tolist() == [1.0] * 4
    assert found.count.tolist() == [1, 2, 0, 1]
    assert (found.count.dtype.name, found.left.dtype.name) == ("int64", "float64")
    assert (found.statistics.count, found.statistics.nan_count, found.statistics.sum) == (5, 1, 6.0)


def test_histogram_without_a_finite_value_has_no_buckets() -> None:
    found = payloads.decode_histogram(payload_of(histogram("w", [math.nan])), 0)
    assert found.left.shape == found.width.shape == found.count.shape == (0,)


def test_image_bytes_come_unchanged() -> None:
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    found = payloads.decode_image(payload_of(image("input", pixels)), 0)
    assert found == Image(png(pixels), 4, 5, 3)


@pytest.mark.parametrize(
    "values", [np.array([[1.5, -0.0], [math.inf, 1e-45]], np.float32), np.zeros((0, 3), np.float32)]
)
def test_tensor_comes_in_its_shape_and_bit_for_bit(values: NDArray[np.float32]) -> None:
    found = payloads.decode_tensor(payload_of(tensor("t", values)), 0)
    assert found.dtype == np.float32
    assert found.shape == values.shape
    assert found.tobytes() == values.tobytes()


def test_tensor_without_dims_is_a_single_element() -> None:
    assert payloads.decode_tensor(payload_of(tensor("t", np.float32(2.5))), 0) == np.float32(2.5)


def test_tensor_has_float32_elements_whatever_type_is_declared() -> None:
    found = payloads.decode_tensor(payload_of(tensor("t", np.array([1, 2, 2**24 + 1]))), 0)
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, 2.0, float(2**24)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"data_type": "DT_INT32", "int32_data": [-1, 2]}, np.array([-1, 2], np.int32)),
        ({"data_type": "DT_INT64", "int64_data": [2**62, -1]}, np.array([2**62, -1], np.int64)),
        ({"data_type": "DT_FLOAT64", "double_data": [0.1, 0.2]}, np.array([0.1, 0.2], np.float64)),
        ({"data_type": "DT_UINT64", "uint64_data": [2**63, 1]}, np.array([2**63, 1], np.uint64)),
        (
            {"data_type": "DT_FLOAT16", "raw_data": np.array([0.5, 2], np.float16).tobytes()},
            np.array([0.5, 2], np.float16),
        ),
        ({"data_type": "DT_BFLOAT16", "raw_data": b"\x80\x3f\x00\xc0"}, np.array([1.0, -2.0], np.float32)),
    ],
    ids=["int32", "int64", "double", "uint64", "raw float16", "raw bfloat16"],
)
def test_tensor_elements_are_read_from_whichever_list_holds_them(
    fields: dict[str, Any], expected: Any
) -> None:
    found = payloads.decode_tensor(tensor_payload(dims=[2], **fields), 0)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"dims": [3], "float_data": [1.0, 2.0]}, "shape"),
        ({"dims": [-1, -2], "float_data": [1.0, 2.0]}, "shape"),
        ({"dims": [2**62, 2**62]}, "shape"),
        ({"dims": [0, 2**62, 2**62]}, "shape"),
        ({"dims": [1] * 65, "float_data": [1.0]}, "shape"),
        ({"dims": [1], "data_type": "DT_BFLOAT16", "raw_data": b"\x00" * 3}, "raw bytes"),
        ({"dims": [1], "data_type": "DT_INT32", "raw_data": b"\x00" * 5}, "raw bytes"),
        ({"dims": [1], "data_type": "DT_STRING", "raw_data": b"\x00" * 4}, "shape|raw bytes"),
    ],
)
def test_tensor_that_contradicts_itself_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(EventDecodeError, match=reason):
        payloads.decode_tensor(tensor_payload(**fields), 0)


def test_landscape_comes_with_its_path() -> None:
    surface = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    found = payloads.decode_landscape(payload_of(landscape("landscape_[1, 3]", surface)), 0)
    assert found.surface.z.tolist() == surface.tolist()
    assert found.surface.x.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert found.path is not None
    assert found.path.z.tolist() == [1, 2, 3]
    assert found.intervals == (0, 1, 2)
    assert (found.decomposition, found.unit, found.step_per_epoch) == ("PCA", "step", 4)
    assert found.convergence is None


def test_value_is_found_by_its_index() -> None:
    payload = payload_of(scalar("a", 1.0), tensor("t", [1.0]), tensor("u", [2.0]))
    assert payloads.decode_tensor(payload, 2).tolist() == [2.0]


@pytest.mark.parametrize("index", [-1, 3])
def test_index_outside_of_the_event_is_refused(index: int) -> None:
    with pytest.raises(EventDecodeError, match=f"none at place {index}"):
        payloads.decode_tensor(payload_of(scalar("a", 1.0), tensor("t", [1.0]), tensor("u", [2.0])), index)


def test_value_of_another_plugin_is_refused() -> None:
    with pytest.raises(EventDecodeError, match="no histogram but scalar_value"):
        payloads.decode_histogram(payload_of(scalar("a", 1.0)), 0)
    with pytest.raises(EventDecodeError, match="no graph but summary"):
        payloads.decode_graph(payload_of(scalar("a", 1.0)))


def test_graph_comes_as_nodes_parameters_and_outputs() -> None:
    ((frame,), _) = read_frames(Log().graph("Conv2D", "ReLU").content)
    graph = payloads.decode_graph(frame.payload)
    assert [(node.name, node.op_type) for node in graph.nodes] == [("1", "Conv2D"), ("2", "ReLU")]
    assert graph.nodes[1].inputs == (GraphInput("1", is_control=False),)
    assert graph.parameters[0].type == GraphType("tensor")
    assert [output.name for output in graph.outputs] == ["2"]


def test_values_of_a_graph_come_as_text_too_unless_they_are_long() -> None:
    short, long = {"dtype": "DT_FLOAT32", "float_val": 0.1}, {"dtype": "DT_STRING", "str_val": "é" * 600}
    graph = anf_ir_pb2.GraphProto(
        node=[
            {
                "name": "1",
                "output_i": 2,
                "attribute": [{"name": "a", "value": short}, {"name": "b", "value": long}],
            }
        ],
        const_vals=[{"key": "c", "value": short}, {"key": "d", "value": long}, {"key": "e", "value": {}}],
    )
    found = payloads.decode_graph(graph_payload(graph))
    text = "dtype: DT_FLOAT32\nfloat_val: 0.1\n"
    assert (found.nodes[0].output_index, found.nodes[0].attribute_texts) == (2, {"a": text})
    assert found.constant_texts == {"c": text, "d": "dtype: DT_STRING", "e": ""}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"dtype": "DT_INT64", "int_val": 0}, 0),
        ({"dtype": "DT_BOOL", "bool_val": False}, False),
        ({"dtype": "DT_STRING", "str_val": "NCHW"}, "NCHW"),
        ({"str_val": "U"}, "U"),
        ({"dtype": "DT_NONE", "str_val": "None"}, None),
        ({}, None),
        ({"dtype": "DT_TUPLE"}, []),
        ({"dtype": "DT_DICT"}, {}),
        ({"dtype": "DT_TUPLE", "values": [{"int_val": 1}, {"values": [{"str_val": "x"}]}]}, [1, ["x"]]),
        ({"dtype": "DT_DICT", "dict_val": [{"key": "k", "value": {"double_val": 0.5}}]}, {"k": 0.5}),
        ({"dtype": "DT_INTS64", "int_vals": [1, 2]}, [1, 2]),
        ({"dtype": "DT_TENSOR", "tensor_val": {"dims": [2], "data_type": 4}}, GraphType("int32", (2,))),
        ({"dtype": "DT_TYPE", "type_val": {"data_type": 43}}, GraphType("complex64")),
    ],
)
def test_graph_values_are_plain(fields: dict[str, Any], expected: Any) -> None:
    graph = anf_ir_pb2.GraphProto(const_vals=[{"key": "c", "value": fields}])
    found = payloads.decode_graph(graph_payload(graph)).constants["c"]
    assert found == expected
    assert type(found) is type(expected)


def test_tensors_of_the_corpus_equal_what_mindspore_exported(corpus: Path) -> None:
    job = corpus / "payloads"
    compared = 0
    for payload, value in corpus_payloads(job):
        if value.plugin == "tensor":
            (exported,) = job.glob(f"export_*/tensor/{value.tag}_{value.step}.npy")
            found = payloads.decode_tensor(payload, value.value_index)
            assert value.dtype == np.load(exported).dtype.name
            np.testing.assert_array_equal(found, np.load(exported), strict=value.dtype == "float32")
            compared += 1
    assert compared == len(list(job.glob("export_*/tensor/*.npy"))) == 24


def test_every_payload_of_the_corpus_agrees_with_its_description(corpus: Path) -> None:
    counts = dict.fromkeys(("histogram", "image", "tensor", "graph"), 0)
    for job in sorted(corpus.iterdir()):
        for payload, value in corpus_payloads(job):
            assert_agrees(payload, value)
            counts[value.plugin] += 1
    assert counts == {"histogram": 1758, "image": 545, "tensor": 24, "graph": 18}


def assert_agrees(payload: bytes, value: PayloadValue) -> None:
    match value.plugin:
        case "histogram":
            found = payloads.decode_histogram(payload, value.value_index)
            assert found.left.shape == value.shape
            statistics = found.statistics
            not_finite = statistics.nan_count + statistics.pos_inf_count + statistics.neg_inf_count
            assert found.count.sum() + not_finite == statistics.count
        case "image":
            picture = payloads.decode_image(payload, value.value_index)
            assert picture.png.startswith(b"\x89PNG")
            width, height = struct.unpack_from(">II", picture.png, 16)
            assert (height, width, picture.channels) == (picture.height, picture.width, 3) == value.shape
        case "graph":
            graph = payloads.decode_graph(payload)
            assert (len(graph.nodes),) == value.shape
            known = {node.name for node in graph.nodes} | {parameter.name for parameter in graph.parameters}
            known |= graph.constants.keys()
            assert all(edge.name in known for node in graph.nodes for edge in node.inputs)
            assert (
                json.loads(json.dumps(dataclasses.asdict(graph)))["nodes"][0]["name"] == graph.nodes[0].name
            )
        case _:
            assert payloads.decode_tensor(payload, value.value_index).shape == value.shape


def corpus_payloads(job: Path) -> Iterator[tuple[bytes, PayloadValue]]:
    for path in sorted(job.glob("*_MS")):
        for frame in read_frames(path.read_bytes())[0]:
            for value in decode_summary(frame.payload):
                if isinstance(value, PayloadValue):
                    yield frame.payload, value
