"""The shape of the package keeps its bounds, and tools/house.py measures what it says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import house
from helpers.base_dirs import ROOT


class Bound(NamedTuple):
    """What a measure must be at most."""

    name: str
    must: float


BOUNDS = (
    Bound("files", 230),
    Bound("lines", 50_860),
    Bound("% of lines that import", 8),
    Bound("import *", 0),
    Bound("public names defined more than once", 2),
    Bound("names on LineageStore", 24),
    Bound("bytes -> row", 42),
    Bound("nothing new", 22),
    Bound("dict -> dict", 13),
    Bound("GET jobs", 22),
)
"""Lower a bound when its measure has become smaller, down to the one of `house.MUSTS`."""


@pytest.mark.slow
def test_the_package_keeps_its_bounds() -> None:
    head, *rows = [line.rsplit(maxsplit=2) for line in _house().splitlines()]
    assert head == ["today", "must"]
    assert {name: float(must) for name, _, must in rows} == house.MUSTS
    today = {name: float(measure) for name, measure, _ in rows}
    assert {bound.name: today[bound.name] for bound in BOUNDS if today[bound.name] > bound.must} == {}
    assert [bound.name for bound in BOUNDS] == list(house.MUSTS)


@pytest.mark.slow
def test_a_journey_lists_the_modules_from_the_door_inward() -> None:
    modules = _house("--journey", "GET jobs").splitlines()
    assert len(set(modules)) == len(modules)
    assert all((house.PACKAGE / f"{module}.py").is_file() for module in modules)
    rooms = list(dict.fromkeys(module.partition("/")[0] for module in modules))
    assert rooms[0] == "server"
    assert {"api", "query", "store"} <= set(rooms)


def test_what_a_journey_leaves_out_is_in_the_package() -> None:
    assert set(house.CHANGES) <= house.shape_of(house.PACKAGE).names.keys()


def test_generated_modules_are_no_part_of_the_shape(tmp_path: Path) -> None:
    _write(tmp_path, {"one": "x = 1\n", "deep/two": "y = 2\nz = 3", "deep/wire_pb2": "import re\n"})
    shape = house.shape_of(tmp_path)
    assert (shape.files, shape.lines, shape.import_lines) == (2, 3, 0)


def test_an_import_counts_with_all_its_lines_wherever_it_stands(tmp_path: Path) -> None:
    source = """
import re
from os import (
    path,
    sep,
)
if TYPE_CHECKING:
    from json import *
def late():
    import ast, csv
    return "import this"
"""
    _write(tmp_path, {"one": source})
    shape = house.shape_of(tmp_path)
    assert (shape.import_lines, shape.star_imports) == (7, 1)


def test_a_public_name_is_repeated_if_two_modules_define_it(tmp_path: Path) -> None:
    first = "def both(): ...\nclass Both: ...\ndef _own(): ...\nclass One:\n    def inner(self): ...\n"
    second = "async def both(): ...\nclass Both: ...\ndef _own(): ...\ndef inner(): ...\n"
    third = "from a.one import both\nif x:\n    def both(): ...\n"
    _write(tmp_path, {"a/one": first, "two": second, "three": third})
    assert house.shape_of(tmp_path).repeated == {"Both": ("a/one", "two"), "both": ("a/one", "two")}


@pytest.fixture
def called(tmp_path: Path) -> ModuleType:
    """A module `called` of a package in `tmp_path`, whose functions call those of `inner` in another one."""
    inner = (
        "def plain(): ...\nclass Kept:\n    def method(self): ...\nclass Left:\n    def method(self): ...\n"
    )
    _write(tmp_path, {"inner": inner, "called": "def run(function): function()\n"})
    modules = {name: _imported(tmp_path, name) for name in ("inner", "called")}
    vars(modules["called"])["inner"] = modules["inner"]
    return modules["called"]


def test_modules_are_entered_by_calls_in_their_order(called: ModuleType, tmp_path: Path) -> None:
    with house.entered(tmp_path) as modules:
        called.run(called.inner.plain)
        called.inner.plain()
    called.run(lambda: None)
    assert list(modules) == ["called", "inner"]


def test_an_import_enters_no_module(tmp_path: Path) -> None:
    _write(tmp_path, {"imported": "x = 1\n"})
    with house.entered(tmp_path) as modules:
        _imported(tmp_path, "imported")
    assert list(modules) == []


def test_a_module_is_entered_by_a_thread_that_starts_meanwhile(called: ModuleType, tmp_path: Path) -> None:
    with house.entered(tmp_path) as modules:
        thread = threading.Thread(target=called.inner.plain)
        thread.start()
        thread.join()
    assert list(modules) == ["inner"]


def test_a_class_that_is_left_out_enters_no_module(called: ModuleType, tmp_path: Path) -> None:
    with house.entered(tmp_path, ["Left"]) as modules:
        called.inner.Left().method()
        assert list(modules) == []
        called.inner.Kept().method()
    assert list(modules) == ["inner"]


def _house(*arguments: str) -> str:
    """Run the tool in a process of its own, in which nothing is called but by the journeys."""
    command = [sys.executable, str(ROOT / "tools" / "house.py"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _write(package: Path, sources: Mapping[str, str]) -> None:
    for module, source in sources.items():
        path = package / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")


def _imported(package: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, package / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
