"""Measure the shape of the package: its size, its imports, its names, and how many modules a journey enters.

    python tools/house.py                         a table: each measure today, and what it must be at most
    python tools/house.py --journey "GET jobs"    the modules that a journey enters, in the order of their first calls
    python tools/house.py --names                 the public names that several modules define, each with its places

A journey is one use of the store from end to end. A module is entered when one of its functions is called. What a
process does once (imports, caches, opening the database) is done before, so a journey is what each further use costs.
tests/test_house.py holds the measures.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import shutil
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import httpx

import lineage_store
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.server import create_app

PACKAGE = Path(lineage_store.__file__).parent
JOB = Path(__file__).resolve().parent.parent / "examples" / "summary_base" / "run_015"
JOURNEYS = ("bytes -> row", "nothing new", "dict -> dict", "GET jobs")
MUSTS: Mapping[str, float] = {
    "files": 230,
    "lines": 47_094,
    "% of lines that import": 8,
    "import *": 0,
    "public names defined more than once": 8,
    "names on LineageStore": 24,
    **dict(zip(JOURNEYS, (42, 22, 13, 22), strict=True)),
}
"""Every measure, and what it must be at most. For a journey it is the number of modules."""
CHANGES = ("CommitWatch", "ChangeFollower", "Now", "Watcher")
"""Classes that watch the store for changes. They give answers their token, which is no part of the way to a job."""
_CONDITION = {
    "optimizer": {"eq": "Momentum"},
    "metric/accuracy": {"gt": 0.1},
    "sorted_name": "metric/accuracy",
    "limit": 2,
}


@dataclass(frozen=True)
class Shape:
    """What the source text of a package shows; generated modules are left out."""

    files: int
    lines: int
    import_lines: int
    """Lines of import statements, wherever they stand; one over several lines counts each."""
    star_imports: int
    names: Mapping[str, tuple[str, ...]]
    """Public functions and classes at the top level of a module, each with the modules that define it."""

    @property
    def repeated(self) -> dict[str, tuple[str, ...]]:
        """The names that more than one module defines."""
        return {name: places for name, places in self.names.items() if len(places) > 1}


def shape_of(package: Path) -> Shape:
    """Return the shape of the package in a directory."""
    lines = import_lines = star_imports = 0
    names = defaultdict[str, list[str]](list)
    files = [path for path in sorted(package.rglob("*.py")) if not path.stem.endswith("_pb2")]
    for path in files:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        lines += len(text.splitlines())
        import_lines += sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports)
        star_imports += sum(name.name == "*" for node in imports for name in node.names)
        for name in _public_names(tree):
            names[name].append(_module(package, path))
    places = {name: tuple(names[name]) for name in sorted(names)}
    return Shape(len(files), lines, import_lines, star_imports, places)


def _public_names(tree: ast.Module) -> set[str]:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, defined) and not node.name.startswith("_")}


def _module(package: Path, path: Path) -> str:
    return path.relative_to(package).with_suffix("").as_posix()


@contextmanager
def entered(package: Path, left_out: Collection[str] = ()) -> Iterator[dict[str, None]]:
    """Collect the modules of a package that are entered in the block, in the order of their first calls.

    Threads that the block starts are seen too, processes are not. To import a module is not to enter it.

    Args:
        left_out: names of functions and classes at the top level of a module, whose own calls do not count.
    """
    modules: dict[str, None] = {}
    root = f"{package}/"

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name == "<module>" or not code.co_filename.startswith(root):
            return
        if code.co_qualname.partition(".")[0] not in left_out:
            modules.setdefault(_module(package, Path(code.co_filename)))

    before, before_in_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield modules
    finally:
        sys.setprofile(before)
        threading.setprofile(before_in_threads)


def journeys() -> dict[str, tuple[str, ...]]:
    """Take each journey on a small SQLite store; return the modules that it enters."""
    with TemporaryDirectory() as directory:
        first, second = (_base_dir(Path(directory, name)) for name in ("first", "second"))
        settings = _settings(directory)
        with LineageStore(settings=settings) as store:
            store.ingest(first)
            new = _entered_by(lambda: store.ingest(second))
            nothing_new = _entered_by(lambda: store.ingest(second))
            store.lineage.filter(_CONDITION)
            asked = _entered_by(lambda: store.lineage.filter(_CONDITION))
        served = asyncio.run(_entered_by_get(settings, "/api/v1/jobs?limit=2"))
    return dict(zip(JOURNEYS, (new, nothing_new, asked, served), strict=True))


def _settings(directory: str) -> Settings:
    """Return the settings of a store in a directory, whatever the environment says."""
    return replace(Settings(), database_url=f"sqlite:///{directory}/store.sqlite3")


def _base_dir(path: Path) -> Path:
    """Make a base dir with one job."""
    shutil.copytree(JOB, path / JOB.name)
    return path


def _entered_by(run: Callable[[], Any]) -> tuple[str, ...]:
    with entered(PACKAGE) as modules:
        run()
    return tuple(modules)


async def _entered_by_get(settings: Settings, url: str) -> tuple[str, ...]:
    """Ask a server twice; return what the second time enters. The first one starts the threads that are to be seen."""
    with entered(PACKAGE, CHANGES) as modules:
        app = create_app(settings)
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client,
        ):
            (await client.get(url)).raise_for_status()
            modules.clear()
            (await client.get(url)).raise_for_status()
            return tuple(modules)


def names_on_store() -> list[str]:
    """Return the public names of a store, among them its nouns."""
    with TemporaryDirectory() as directory, LineageStore(settings=_settings(directory)) as store:
        return [name for name in dir(store) if not name.startswith("_")]


def measures() -> dict[str, float]:
    """Return every measure of `MUSTS` as it is today."""
    shape = shape_of(PACKAGE)
    return {
        "files": shape.files,
        "lines": shape.lines,
        "% of lines that import": round(100 * shape.import_lines / shape.lines, 2),
        "import *": shape.star_imports,
        "public names defined more than once": len(shape.repeated),
        "names on LineageStore": len(names_on_store()),
        **{name: len(modules) for name, modules in journeys().items()},
    }


def main() -> None:
    """Print what the options ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options = parser.add_mutually_exclusive_group()
    options.add_argument("--journey", choices=JOURNEYS, help="list the modules that a journey enters")
    options.add_argument("--names", action="store_true", help="list the names that several modules define")
    asked = parser.parse_args()
    if asked.journey:
        print(*journeys()[asked.journey], sep="\n")
    elif asked.names:
        for name, places in shape_of(PACKAGE).repeated.items():
            print(f"{name}: {', '.join(places)}")
    else:
        print(f"{'':<36}{'today':>8}{'must':>8}")
        for name, today in measures().items():
            print(f"{name:<36}{today:>8}{MUSTS[name]:>8}")


if __name__ == "__main__":
    main()
