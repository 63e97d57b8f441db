"""fields.py decides about lineage fields: a field with a row there is ingested, can be queried, and is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from helpers.changed_package import add_lines, copy_package, run
from lineage_store.fields import BY_NAME, CONTROL_KEYS, FIELDS, SEARCHABLE, VIEWED, LineageField

ROW = """\
    LineageField("momentum", "float", "of the optimizer", "hyper_parameters", unit="_share", printed=True),
"""

SCRIPT = """
import contextlib, io, json, sys
from pathlib import Path
from helpers.log_writer import Log
from lineage_store.cli.app import main

base_dir, database = Path(sys.argv[1]), Path(sys.argv[2])
for name, momentum in (("a", 0.9), ("b", 0.5), ("c", float("nan")), ("d", None)):
    given = {} if momentum is None else {"momentum": momentum}
    Log().train(network="Net", **given).write_lineage(base_dir / name)
with fresh_store(database) as store:
    store.ingest(base_dir)
    above = store.lineage.filter({"momentum": {"gt": 0.6}})
    ordered = store.lineage.filter({"sorted_name": "momentum", "sorted_type": "descending"})
    with store.engine.connect() as connection:
        view = connection.exec_driver_sql("SELECT train_id, momentum_share, momentum_kind FROM v_job ORDER BY 1").all()
    parts = store.job((base_dir, "./a")).lineage(keys=["hyper_parameters"])
with contextlib.redirect_stdout(io.StringIO()) as printed:
    assert main(["--database", f"sqlite:///{database}", "filter", "--where", "momentum>0.6", "--csv"]) == 0
print(json.dumps({
    "above": [(found["summary_dir"], found["model_lineage"]["momentum"]) for found in above["object"]],
    "ordered": [found["summary_dir"] for found in ordered["object"]],
    "view": [list(row) for row in view],
    "part": parts["hyper_parameters"],
    "printed": printed.getvalue().splitlines(),
}))
"""


def test_one_row_adds_a_lineage_field(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    _write_a_field_more(package / "eventlog" / "mindspore" / "wire" / "messages.binpb")
    add_lines(package / "fields.py", "FIELDS: tuple[LineageField, ...] = (", ROW)
    found = json.loads(run(package, SCRIPT, tmp_path / "summaries", tmp_path / "store.sqlite3"))
    assert found["above"] == [["./a", 0.9]]
    assert found["ordered"] == ["./a", "./b", "./c", "./d"]
    assert found["view"] == [
        ["./a", 0.9, "finite"],
        ["./b", 0.5, "finite"],
        ["./c", None, "nan"],
        ["./d", None, None],
    ]
    assert found["part"] == {"momentum": 0.9}
    assert found["printed"][0].split(",")[:4] == ["momentum", "summary_dir", "network", "optimizer"]
    assert found["printed"][1].split(",")[:3] == ["0.9", "./a", "Net"]


def test_names_and_columns_are_distinct_and_no_name_means_something_else_in_a_condition() -> None:
    assert len(BY_NAME) == len(FIELDS)
    assert len({(field.table, field.column) for field in FIELDS}) == len(FIELDS)
    assert len({field.view_column for field in VIEWED}) == len(VIEWED)
    assert not set(BY_NAME) & {*CONTROL_KEYS, "and", "or", "not"}


@pytest.mark.parametrize("field", SEARCHABLE, ids=lambda field: field.name)
def test_readme_lists_every_field_that_a_condition_may_name(field: LineageField) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    (fields,) = [line for line in readme.splitlines() if line.startswith("| fields |")]
    assert f"`{field.name}`" in fields


def _write_a_field_more(messages: Path) -> None:
    """What `make proto` writes once proto/lineage.proto says `optional float momentum = 9`."""
    descriptors = FileDescriptorSet.FromString(messages.read_bytes())
    (lineage,) = [file for file in descriptors.file if file.name == "lineage.proto"]
    (train,) = [message for message in lineage.message_type if message.name == "TrainLineage"]
    (parameters,) = [message for message in train.nested_type if message.name == "HyperParameters"]
    parameters.field.add(
        name="momentum",
        number=9,
        type=FieldDescriptorProto.TYPE_FLOAT,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    messages.write_bytes(descriptors.SerializeToString())
