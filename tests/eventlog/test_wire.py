"""The committed protobuf messages: as built from the proto text, complete, and separate from other packages'."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.message import Message

from lineage_store.eventlog.mindspore import wire
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2

ROOT = Path(__file__).resolve().parents[2]


def test_committed_descriptor_set_and_stubs_are_what_the_proto_text_gives(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="protoc comes with the development requirements")
    subprocess.run([sys.executable, ROOT / "tools/build_proto.py", tmp_path], check=True)
    built = sorted(path.name for path in tmp_path.iterdir())
    assert built == ["anf_ir_pb2.pyi", "lineage_pb2.pyi", "messages.binpb", "summary_pb2.pyi"]
    for name in built:
        committed = Path(wire.__file__).parent / name
        assert (tmp_path / name).read_bytes() == committed.read_bytes(), f"{name}: run tools/build_proto.py"


def test_messages_stay_out_of_the_default_pool() -> None:
    assert summary_pb2.Event.DESCRIPTOR.full_name == "lineage_store.Event"
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("lineage_store.Event")


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        (summary_pb2.Event, {"wall_time": 1, "step": 2, "version": 3, "graph_def": 4, "summary": 5}),
        (
            summary_pb2.Summary.Value,
            {"tag": 1, "scalar_value": 3, "image": 4, "tensor": 8, "histogram": 9, "loss_landscape": 10},
        ),
        (
            lineage_pb2.LineageEvent,
            {
                "wall_time": 1,
                "step": 2,
                "version": 3,
                "train_lineage": 6,
                "evaluation_lineage": 7,
                "dataset_graph": 9,
                "user_defined_info": 10,
            },
        ),
        (lineage_pb2.TrainLineage.Model, {"path": 3, "size": 4}),
        # The last two are ours, where MindSpore has no field.
        (lineage_pb2.EvaluationLineage, {"metric": 2, "valid_dataset": 3, "epoch": 1001, "step": 1002}),
    ],
    ids=lambda parameter: getattr(parameter, "__name__", ""),
)
def test_field_numbers_are_those_of_mindspore(message: type[Message], numbers: dict[str, int]) -> None:
    assert {field.name: field.number for field in message.DESCRIPTOR.fields} == numbers


def test_enum_values_are_module_constants() -> None:
    assert anf_ir_pb2.DT_FLOAT32 == anf_ir_pb2.DataType.Value("DT_FLOAT32") == 11
    assert anf_ir_pb2.DT_BFLOAT16 == 46
    assert len(anf_ir_pb2.DataType.items()) == 50


@pytest.mark.parametrize("runtime", ["upb", "python"])
def test_messages_hold_their_nested_messages_on_every_runtime(runtime: str) -> None:
    # MindSpore sets the pure Python runtime for its whole process.
    script = (
        "from google.protobuf.internal import api_implementation\n"
        "from lineage_store.eventlog.mindspore.wire import lineage_pb2, summary_pb2\n"
        "assert summary_pb2.Summary.Histogram.bucket.COUNT_FIELD_NUMBER == 3\n"
        "parameters = lineage_pb2.TrainLineage.HyperParameters(epoch=3)\n"
        "lineage = lineage_pb2.TrainLineage(hyper_parameters=parameters)\n"
        "assert type(lineage.hyper_parameters) is type(parameters)\n"
        "print(api_implementation.Type())\n"
    )
    environment = os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": runtime}
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert said.stdout.strip() == runtime
