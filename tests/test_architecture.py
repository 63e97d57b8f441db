"""The rooms of the package: who may import whom, which library lives where, and who may look a path up."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lineage_store.fields import TRAINED
from lineage_store.plugins import HISTOGRAM, LANDSCAPE, SCALAR, TENSOR
from lineage_store.states import FileState, JobState, Outcome
from rooms import LIVES_IN, MAY_IMPORT, room_of, within

PACKAGE = Path(__file__).parent.parent / "lineage_store"

LOOKS_PATHS_UP = {
    "api.administration",
    "api.mindinsight",
    "api.store",
    "operations.base_dirs",
    "store.catalog.refs",
}
"""Who uses `real_path`: it asks a disk, which may not answer. All others take what was found."""
MOST_LINES = 900
"""A module is a subject; one that takes more lines than these is two."""


_PLUGINS = (SCALAR, HISTOGRAM, TENSOR, LANDSCAPE)
_STATES = (JobState.STALLED, FileState.TORN, FileState.QUARANTINED, FileState.REPLACING, Outcome.COMPLETED)


def sources() -> Iterator[tuple[str, str]]:
    """(module, its text), dotted, without the package's name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
        yield module.removesuffix("__init__").rstrip("."), path.read_text()


@cache
def imports() -> list[tuple[str, str]]:
    """(importing module, imported module or name), both dotted, ours without the package's name."""
    return list(_imports())


def _imports() -> Iterator[tuple[str, str]]:
    for module, text in sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}: imports are absolute"
                yield from ((module, f"{node.module}.{name.name}") for name in node.names)
            elif isinstance(node, ast.Import):
                yield from ((module, name.name) for name in node.names)


def test_imports_point_down_only() -> None:
    for module, imported in imports():
        room, target = room_of(module), imported.removeprefix("lineage_store.")
        if imported != target:
            assert within(target, MAY_IMPORT[room] | {room}), f"{module} must not import {imported}"


def test_only_the_table_of_formats_and_the_collectors_know_what_is_mindspores() -> None:
    rooms = {"eventlog.mindspore", "eventlog.formats", "collect"}
    for module, imported in imports():
        if within(imported, {"lineage_store.eventlog.mindspore"}):
            assert within(module, rooms), f"{module} must ask the format, not {imported}"


def test_each_library_lives_in_its_room() -> None:
    for module, imported in imports():
        for library, rooms in LIVES_IN.items():
            if within(imported, {library}):
                assert within(module, rooms), f"{module} must not import {imported}"


@pytest.mark.parametrize("statement", ["import lineage_store", "from lineage_store import LineageStore"])
def test_importing_the_store_loads_no_library_that_a_later_question_may_not_need(statement: str) -> None:
    libraries = {
        "alembic",
        "apscheduler",
        "fastapi",
        "prometheus_client",
        "google.protobuf",
        "mindspore",
        "numpy",
        "sqlalchemy",
    }
    script = f"import sys; {statement}; print(*sorted({libraries} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert loaded.stdout.split() == []


def test_names_of_fields_plugins_and_states_are_spelt_in_their_tables_alone() -> None:
    # Short names are words of other things too; a collector writes fields by the names on the wire.
    fields = {field.name for field in TRAINED if "_" in field.name}
    owners = {name: {"fields", "collect"} for name in fields}
    owners |= {name: {"plugins", "eventlog"} for name in _PLUGINS}
    owners |= {state.value: {"states"} for state in _STATES}
    for module, text in sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in owners:
                rooms = owners[node.value]
                assert within(module, rooms), f"{module} spells {node.value!r}: take it from its table"


def test_only_the_named_modules_look_a_path_up() -> None:
    assert {module for module, text in sources() if _uses(ast.parse(text), "real_path")} == LOOKS_PATHS_UP


def _uses(tree: ast.Module, function: str) -> bool:
    """Whether a module calls a function or hands it on; to define or import it is not to use it."""
    return any(
        function == (node.id if isinstance(node, ast.Name) else node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )


def test_no_module_is_longer_than_a_subject_takes() -> None:
    assert {module: lines for module, text in sources() if (lines := text.count("\n")) > MOST_LINES} == {}
