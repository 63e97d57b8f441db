"""plugins.py decides about plugins: one with a row there, and a decoder, is stored, listed and read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from helpers.changed_package import add_lines, copy_package, run
from lineage_store.api import Job
from lineage_store.eventlog.mindspore.payloads import DECODERS
from lineage_store.eventlog.mindspore.wire import summary_pb2
from lineage_store.plugins import BY_FIELD, BY_NAME, PLUGINS, Plugin

ROW = """\
    Plugin(name="audio", field="audio", suffixes=("/audio",), dtype="flac"),
"""
DECODER = """\
    "audio": lambda payload, value_index: _value(payload, value_index, "audio").audio.encoded_image,
"""

SCRIPT = """
import json, sys
from pathlib import Path
from helpers.log_writer import Log
from lineage_store.eventlog.mindspore.wire import summary_pb2
from lineage_store.query import samples
from lineage_store.store.database.db import reading

base_dir = Path(sys.argv[1])
sound = summary_pb2.Summary.Image(height=0, width=0, colorspace=0, encoded_image=b"ping")
log = Log().version().scalar(1, "loss", 0.5)
log.summary(2, summary_pb2.Summary.Value(tag="alarm", audio=sound)).write_summary(base_dir / "job")
with fresh_store(sys.argv[2]) as store:
    store.ingest(base_dir)
    tags = store.job((base_dir, "./job")).tags()
    with reading(store.engine) as session:
        viewed = session.rows("SELECT plugin, tag, step, dtype FROM v_payload")
        job_id = session.value("SELECT id FROM train_job")
        found = samples.payloads(session, (str(base_dir), "./job"), job_id, ("audio", "alarm/audio"))
        read = [(sample.step, sample.read().decode()) for sample in found]
print(json.dumps({"tags": tags, "viewed": [list(row) for row in viewed], "read": read}))
"""


def test_one_row_and_a_decoder_add_a_plugin(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    _write_a_field_more(package / "eventlog" / "mindspore" / "wire" / "messages.binpb")
    add_lines(package / "plugins.py", "PLUGINS: tuple[Plugin, ...] = (", ROW)
    payloads = package / "eventlog" / "mindspore" / "payloads.py"
    add_lines(payloads, "DECODERS: dict[str, Callable[[bytes, int], Any]] = {", DECODER)
    found = json.loads(run(package, SCRIPT, tmp_path / "summaries", tmp_path / "store.sqlite3"))
    assert found["tags"] == {"audio": ["alarm"], "scalar": ["loss"]}
    assert found["viewed"] == [["audio", "alarm", 2, "flac"]]
    assert found["read"] == [[2, "ping"]]


def test_names_and_fields_are_distinct_and_on_the_wire() -> None:
    on_the_wire = {*summary_pb2.Event.DESCRIPTOR.fields_by_name}
    on_the_wire |= {*summary_pb2.Summary.Value.DESCRIPTOR.fields_by_name}
    assert len(BY_NAME) == len(BY_FIELD) == len(PLUGINS)
    assert set(BY_FIELD) <= on_the_wire


def test_every_payload_has_a_decoder() -> None:
    assert set(DECODERS) == {plugin.name for plugin in PLUGINS if not plugin.has_value}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
def test_every_plugin_has_its_method(plugin: Plugin) -> None:
    assert callable(getattr(Job, f"{plugin.name}s"))


def _write_a_field_more(messages: Path) -> None:
    """What `make proto` writes once a summary's value of proto/summary.proto may be `Image audio = 20`."""
    descriptors = FileDescriptorSet.FromString(messages.read_bytes())
    (summary,) = [file for file in descriptors.file if file.name == "summary.proto"]
    (values,) = [message for message in summary.message_type if message.name == "Summary"]
    (value,) = [message for message in values.nested_type if message.name == "Value"]
    value.field.add(
        name="audio",
        number=20,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".lineage_store.Summary.Image",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        oneof_index=0,
    )
    messages.write_bytes(descriptors.SerializeToString())
