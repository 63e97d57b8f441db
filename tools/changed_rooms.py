"""Run what a change can touch: the tests, proofs and tiers of the rooms that it changes and of those that import them.

    python tools/changed_rooms.py [BASE] [--list]

In: the files that differ from the merge base with `main` (or BASE), committed or not. tools/rooms.py says which room
may import which; a proof says beside itself which rooms it attacks. Out: each command before it runs, and at the end
what was left out. Exit code 1 if a command failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from subprocess import PIPE, STDOUT

from rooms import ROOMS, above, importers, speaks_sql

ROOT = Path(__file__).resolve().parent.parent
ALL = "tests"
BESIDE_PACKAGE = {"migrations": "store", "proto": "eventlog"}
"""Directories whose content is a room's."""
TIERS = {
    "test-page": ("lineage_store/server/own/", "web/", "tests/page/"),
    "test-mindspore": (
        "lineage_store/collect/",
        "lineage_store/eventlog/mindspore/",
        "tests/with_mindspore/",
    ),
}
"""Tiers with tests of their own, and where a change is that runs them."""
IN_PARTS = {"check", "test", "test-slow", "prove"}
"""Tiers of which a selection has what it names, or that are asked for beside it."""
READ_EVERYTHING = {
    "tests/test_architecture.py",
    "tests/test_faults_page.py",
    "tests/test_make_targets.py",
    "tests/test_named_files.py",
}
"""Tests that read the source of the package, of tests or of documents, and take a second."""
_FROM = re.compile(r"^[ \t]*from ([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
_PROOF = re.compile(r"^PROOF = Proof\(\s*\"([\w-]+)\".*?\battacks=\(([^)]*)\)", re.MULTILINE | re.DOTALL)
NAMES_ALL = "tests/helpers/base_dirs.py"
"""It names directories for others, which name them in capitals."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What runs for a change."""

    rooms: frozenset[str]
    """Those that are changed."""
    tests: frozenset[str]
    """Folders and files of tests, relative to the project."""
    on_each: frozenset[str]
    """Those that run on both databases; of the others, what runs on SQLite too is left out on PostgreSQL."""
    slow: frozenset[str]
    """Those files of which the tests that take seconds run too: the changed ones."""
    proofs: frozenset[str]
    tiers: frozenset[str]


def select(changed: Collection[str], sources: Mapping[str, str]) -> Selection:
    """Return what runs for a change.

    Args:
        changed: paths relative to the project, also of files that are gone.
        sources: path and text of every Python file below tests/.
    """
    rooms = frozenset(room for room in map(_room, changed) if room)
    concerned = rooms.union(*map(above, rooms))
    users = _users(changed, sources)
    of_users = {_to_run(path) for path in users if _is_test(path) and not _in_tier(path)}
    of_others = {path for path, text in sources.items() if _is_fast(path) and _imports_from(rooms, text)}
    near = rooms.union(*(importers(room) for room in rooms if speaks_sql(room)))
    attacks = proofs_in(sources)
    tests = _outermost(READ_EVERYTHING | of_users | of_others | _tests_of(concerned, sources))
    return Selection(
        rooms=rooms,
        tests=tests,
        on_each=tests if not rooms else _outermost(of_users | _tests_of(near, sources)),
        slow=frozenset(users.intersection(changed, _slow(sources))),
        proofs=frozenset(name for name, (path, rooms_) in attacks.items() if path in users or rooms & rooms_),
        tiers=frozenset(
            tier for tier, places in TIERS.items() if any(path.startswith(places) for path in changed)
        ),
    )


def _room(path: str) -> str | None:
    """Return the room that a file is part of; modules beside the rooms are in `base`."""
    first, *rest = PurePosixPath(path).parts
    if first != "lineage_store":
        return BESIDE_PACKAGE.get(first)
    return rest[0] if rest[0] in ROOMS else "base"


def _tests_of(rooms: Iterable[str], sources: Mapping[str, str]) -> set[str]:
    """The tests of rooms: a folder for each, and what lies beside the folders for `base`."""
    rooms = set(rooms)
    if rooms >= set(ROOMS):
        return {ALL}
    folders = {
        f"{ALL}/{room}" for room in rooms if any(path.startswith(f"{ALL}/{room}/") for path in sources)
    }
    if rooms & {"store", "query"}:
        folders.add(f"{ALL}/cookbook")  # which asks the store's views
    beside = {path for path in sources if re.fullmatch(rf"{ALL}/test_\w+\.py", path)}
    return folders | (beside if "base" in rooms else set())


def _slow(sources: Mapping[str, str]) -> dict[str, str]:
    return {path: text for path, text in sources.items() if "pytest.mark.slow" in text}


def _users(changed: Iterable[str], sources: Mapping[str, str]) -> set[str]:
    """The modules below tests/ that are changed, name what is changed beside them, or import such."""
    users = {path for each in changed for path in _seeds(each, sources)}
    imports = {path: set(_imports(text)) for path, text in sources.items()}
    while True:
        names = {_module(path) for path in users}
        more = {path for path, imported in imports.items() if not imported.isdisjoint(names)} - users
        if not more:
            return users
        users |= more


def _seeds(changed: str, sources: Mapping[str, str]) -> set[str]:
    """The modules below tests/ that a changed file is, or that read it."""
    first, *rest = PurePosixPath(changed).parts
    if changed in sources:
        return {changed}
    if first == "lineage_store" or (first == ALL and changed.endswith(".py")):
        return set()
    word = rest[0] if first == ALL else first
    beside = {path for path in sources if path.startswith(f"{ALL}/{word}/")}
    if first == ALL and beside:
        return beside
    named = re.compile(rf'["/ ]{re.escape(word)}["/]|\b{re.escape(word.upper())}\b')
    readers = {path: text for path, text in sources.items() if not path.startswith(f"{ALL}/proofs/")}
    return {path for path, text in readers.items() if path != NAMES_ALL and named.search(text)}


def _imports(text: str) -> Iterator[str]:
    """The dotted names that a module takes from others."""
    for module, names in _FROM.findall(text):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))


def _imports_from(rooms: Collection[str], text: str) -> bool:
    """Return whether a test imports what is in one of some rooms: it asks that room itself, whatever its folder."""
    return any(f"lineage_store.{room}." in text or f"from lineage_store.{room} " in text for room in rooms)


def _module(path: str) -> str:
    """Return the name by which tests import a module below tests/."""
    return path.removeprefix("tests/").removesuffix(".py").replace("/", ".")


def _is_test(path: str) -> bool:
    return PurePosixPath(path).name == "conftest.py" or PurePosixPath(path).name.startswith("test_")


def _is_fast(path: str) -> bool:
    """Return whether a module has tests that `make test` runs."""
    return PurePosixPath(path).name.startswith("test_") and not _in_tier(path)


def _to_run(path: str) -> str:
    """Return a module of tests, or the folder whose fixtures a module has."""
    return str(PurePosixPath(path).parent) if path.endswith("/conftest.py") else path


def _in_tier(path: str) -> bool:
    return any(f"{path}/".startswith(places) for places in TIERS.values())


def _outermost(paths: Iterable[str]) -> frozenset[str]:
    """Leave out what lies in a folder that is there too."""
    every = set(paths)
    return frozenset(path for path in every if every.isdisjoint(map(str, PurePosixPath(path).parents)))


def proofs_in(sources: Mapping[str, str]) -> dict[str, tuple[str, frozenset[str]]]:
    """Path and attacked rooms of every proof, by its name."""
    found = (
        (path, _PROOF.search(text)) for path, text in sources.items() if path.startswith(f"{ALL}/proofs/")
    )
    return {proof[1]: (path, frozenset(re.findall(r"\w+", proof[2]))) for path, proof in found if proof}


# --- what runs ---


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base", nargs="?", default="main", metavar="BASE", help="another base than main")
    parser.add_argument("--list", action="store_true", help="show what would run, and run nothing")
    arguments = parser.parse_args()
    changed = _changed(arguments.base)
    if not changed:
        print(f"Nothing differs from {arguments.base}.")
        return
    sources = _sources()
    selection = select(changed, sources)
    lanes = commands(selection)
    print("\n".join(f"+ {shlex.join(command)}" for lane in lanes for command in lane), flush=True)
    failed = [] if arguments.list else _run(lanes)
    print("\n".join(["", *left_out(selection, sources, _tiers()), *(f"FAILED: {name}" for name in failed)]))
    sys.exit(bool(failed))


def _run(lanes: Sequence[Sequence[list[str]]]) -> list[str]:
    """Run lanes of commands side by side, print what each says when it has ended, and return those that failed."""
    # A make that runs us has variables for this program alone.
    of_make = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in of_make}

    def run(lane: Sequence[list[str]]) -> Iterator[str]:
        for command in lane:
            ended = subprocess.run(
                command, cwd=ROOT, env=environment, check=False, stdout=PIPE, stderr=STDOUT, text=True
            )
            print(f"+ {shlex.join(command)}\n{ended.stdout}", flush=True)
            if ended.returncode:
                yield shlex.join(command)

    with ThreadPoolExecutor() as threads:
        return [failed for lane in threads.map(lambda lane: list(run(lane)), lanes) for failed in lane]


def commands(selection: Selection) -> list[list[list[str]]]:
    """What make is asked for, in one or two lanes: tiers with processes of their own run beside the tests."""
    lane = [["make", "test", f"ARGS={_chosen(selection)}"]]
    if selection.slow:
        lane.append(["make", "test-slow", f"ARGS={' '.join(sorted(selection.slow))}"])
    if selection.proofs:
        lane.append(["make", "prove", "QUICK=yes", f"P={' '.join(sorted(selection.proofs))}"])
    beside = [["make", tier, "ARGS="] for tier in sorted(selection.tiers)]
    return [lane, beside] if beside else [lane]


def _chosen(selection: Selection) -> str:
    """The tests, without those of far rooms on PostgreSQL that run on SQLite too."""
    tests, on_each = " ".join(sorted(selection.tests)), selection.on_each
    if on_each >= selection.tests or ALL in on_each:
        return tests
    words = ["not postgresql", *sorted(PurePosixPath(path).name for path in on_each)]
    return f'{tests} -k "{" or ".join(words)}"'


def left_out(selection: Selection, sources: Mapping[str, str], tiers: Iterable[str]) -> Iterator[str]:
    """What .ci/run runs beyond the selection, a line a kind."""
    proofs = proofs_in(sources).keys() - selection.proofs
    yield f"Left out: tests: {_named(_rest(selection.tests, sources))}"
    if "-k" in _chosen(selection):
        yield "  on PostgreSQL: of rooms that do not speak to the changed one in SQL, what runs on SQLite too"
    yield f"  tests that take seconds: {_named(_rest(selection.slow, _slow(sources)))}"
    yield f"  proofs: {_named(proofs)}{', and nine tenths of the others' if selection.proofs else ''}"
    yield f"  tiers: {_named(set(tiers) - selection.tiers - IN_PARTS)}"


def _named(names: Collection[str]) -> str:
    return " ".join(sorted(names)) or "none"


def _rest(chosen: Collection[str], sources: Mapping[str, str]) -> set[str]:
    """Name what is not chosen: folders of tests, the rest of folders."""
    of_folder: dict[str, set[bool]] = {}
    for path in sources:
        parents = [str(parent) for parent in PurePosixPath(path).parents]
        if _is_fast(path):
            of_folder.setdefault("/".join(parents[0].split("/")[:2]), set()).add(
                not {path, *parents}.isdisjoint(chosen)
            )
    named = {folder: folder if folder != ALL else f"{ALL}/test_*.py" for folder in of_folder}
    rest = {f"rest of {named[folder]}" for folder, of_it in of_folder.items() if of_it == {True, False}}
    return rest | {named[folder] for folder, of_it in of_folder.items() if of_it == {False}}


def _changed(base: str) -> set[str]:
    """The files that differ from the merge base with a commit, or are not in git, under old and new names."""
    since = _git("merge-base", base, "HEAD")
    return {
        *_git("diff", "--name-only", "--no-renames", *since),
        *_git("ls-files", "--others", "--exclude-standard"),
    }


def _git(*arguments: str) -> list[str]:
    shown = subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return shown.stdout.splitlines()


def _tiers() -> list[str]:
    """What .ci/run runs."""
    (tiers,) = re.findall(
        r"^tiers=\((.*)\)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE
    )
    return str(tiers).split()


def _sources() -> dict[str, str]:
    modules = sorted((ROOT / ALL).rglob("*.py"))
    return {module.relative_to(ROOT).as_posix(): module.read_text(encoding="utf-8") for module in modules}


if __name__ == "__main__":
    main()
