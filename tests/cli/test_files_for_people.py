"""Files that verbs write for people: whole or not there, never behind a link, never over what is not theirs."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.log_writer import Log
from helpers.program import PROGRAM, Run
from lineage_store import LineageStore
from lineage_store.errors import LineageStoreError
from lineage_store.output_files import OutputDirectory, replacing

SECRET = "somebody's authorized_keys"


@pytest.fixture
def job(run: Run, on_sqlite: str, tmp_path: Path) -> Path:
    noise = np.random.default_rng(1).integers(0, 256, (200, 200, 3), np.uint8)
    log = Log().version()
    for step in (1, 2):
        log.image(step, "input", noise).histogram(step, "weights", [float(each) for each in range(500)])
    for step in range(2_000):
        log.scalar(step, "loss", float(step))
    log.write_summary(tmp_path / "base" / "run")
    assert run("ingest", tmp_path / "base").code == 0
    return tmp_path / "base" / "run"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory of somebody whom a link would harm."""
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh" / "authorized_keys").write_text(SECRET)
    return tmp_path / "ssh"


def untouched(victim: Path) -> bool:
    (only,) = victim.iterdir()
    return only.read_text() == SECRET


VERBS: dict[str, tuple[str, Callable[[Path, Path], list[Any]]]] = {
    "images": ("1.png", lambda job, out: ["images", job, "input", "--to", out]),
    "histograms": ("1.csv", lambda job, out: ["histograms", job, "weights", "--to", out]),
    "export": ("manifest.json", lambda _job, out: ["export", "--format", "csv", "--to", out]),
    "backup": ("a.db", lambda _job, out: ["backup", out / "a.db"]),
}
"""A file that each verb writes, and its arguments to write it into a directory."""
INTO_DIRECTORIES = ("images", "histograms", "export")
each_verb = pytest.mark.parametrize("verb", VERBS)
of_one_file = pytest.mark.parametrize("verb", [name for name in VERBS if name != "export"])


@each_verb
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_in_the_place_of_a_file_is_not_followed(
    run: Run, job: Path, tmp_path: Path, victim: Path, verb: str, dangling: bool
) -> None:
    name, arguments = VERBS[verb]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(victim / ("new" if dangling else "authorized_keys"))
    refused = run(*arguments(job, tmp_path / "out"))
    assert refused.code in (1, 2)
    assert any(words in refused.err for words in ("symbolic link", "is not empty", "holds an export"))
    assert untouched(victim)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
    assert (tmp_path / "out" / name).is_symlink()


@pytest.mark.parametrize("verb", INTO_DIRECTORIES)
@pytest.mark.parametrize("beneath", ["", "new/deep"])
def test_a_link_in_the_place_of_the_directory_is_not_followed(
    run: Run, job: Path, tmp_path: Path, victim: Path, verb: str, beneath: str
) -> None:
    out = tmp_path / "out" / beneath
    out.parent.mkdir(parents=True, exist_ok=True)
    out.symlink_to(victim)
    refused = run(*VERBS[verb][1](job, out))
    assert (refused.code, "symbolic link" in refused.err) == (1, True)
    assert "Name the directory to which it points" in refused.err
    assert untouched(victim)


@of_one_file
@pytest.mark.parametrize("what", ["directory", "fifo"])
def test_what_is_no_regular_file_is_refused_and_waited_for_by_nobody(
    run: Run, job: Path, tmp_path: Path, verb: str, what: str
) -> None:
    name, arguments = VERBS[verb]
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / name
    path.mkdir() if what == "directory" else os.mkfifo(path)
    refused = run(*arguments(job, tmp_path / "out"))
    assert refused.code in (1, 2)
    assert str(path) in refused.err
    assert list((tmp_path / "out").iterdir()) == [path]


@of_one_file
def test_an_older_file_is_replaced_and_permissions_are_as_promised(
    run: Run, job: Path, tmp_path: Path, verb: str
) -> None:
    name, arguments = VERBS[verb]
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / name
    path.write_text("0lder")
    os.link(path, tmp_path / "kept")
    before = os.umask(0o027)
    try:
        assert run(*arguments(job, tmp_path / "out")).code == 0
    finally:
        os.umask(before)
    assert (tmp_path / "kept").read_text() == "0lder", "another name of the old file keeps its content"
    assert b"0lder" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == {"backup": 0o600}.get(verb, 0o640)
    assert not list((tmp_path / "out").glob(".*"))


def test_who_swaps_the_directory_during_an_export_leads_no_file_elsewhere(
    job: Path, on_sqlite: str, tmp_path: Path, victim: Path
) -> None:
    swapped = list[bool]()

    def swap(_: object) -> None:
        if not swapped:
            (tmp_path / "out").rename(tmp_path / "away")
            (tmp_path / "out").symlink_to(victim)
            swapped.append(True)

    with LineageStore(on_sqlite) as store:
        report = store.export(to=tmp_path / "out", format="csv", progress=swap)
    assert untouched(victim)
    assert (tmp_path / "away" / "manifest.json").is_file()
    assert {each.path for each in report.files} <= {
        str(path.relative_to(tmp_path / "away")) for path in (tmp_path / "away").rglob("*")
    }


def test_who_swaps_a_directory_inside_of_an_export_leads_no_file_elsewhere(
    job: Path, on_sqlite: str, tmp_path: Path, victim: Path
) -> None:
    """The directories of later views are in place as links before the export comes to them."""

    def put_links(_: object) -> None:
        for name in ("v_scalar", "v_log_file"):
            if not (tmp_path / "out" / name).exists():
                (tmp_path / "out" / name).symlink_to(victim)

    with LineageStore(on_sqlite) as store, pytest.raises((OSError, LineageStoreError)):
        store.export(to=tmp_path / "out", format="csv", progress=put_links)
    assert untouched(victim)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_who_swaps_the_directory_of_a_backup_leads_it_nowhere(
    job: Path, on_sqlite: str, tmp_path: Path, victim: Path
) -> None:
    (tmp_path / "out").mkdir()

    def swap(_: object) -> None:
        if not (tmp_path / "out").is_symlink():
            (tmp_path / "out").rename(tmp_path / "away")
            (tmp_path / "out").symlink_to(victim)

    with LineageStore(on_sqlite) as store:
        try:
            store.backup(tmp_path / "out" / "a.db", progress=swap)
        except LineageStoreError:
            assert not (tmp_path / "away" / "a.db").exists()
    assert untouched(victim)
    assert not list((tmp_path / "away").glob(".*"))


@pytest.mark.parametrize("verb", ["images", "export", "backup"])
def test_a_full_disk_leaves_nothing_under_a_name(
    job: Path, on_sqlite: str, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "out").mkdir()
    arguments = [str(each) for each in VERBS[verb][1](job, tmp_path / "out")]
    command = [sys.executable, "-c", _LIMITED, "--database", on_sqlite, *arguments]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended.stderr
    assert "Unexpected" not in ended.stderr
    assert not [path for path in (tmp_path / "out").rglob("*") if path.stat().st_size >= 40_000], ended.stderr
    assert not [path for path in ("1.png", "manifest.json", "a.db") if (tmp_path / "out" / path).exists()]
    assert not list((tmp_path / "out").glob(".*"))


_LIMITED = """
import resource, sys
from lineage_store.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))  # what SQLite needs beside a store is smaller
sys.exit(main(sys.argv[1:]))
"""


def test_a_run_that_is_killed_leaves_no_name_and_the_next_removes_what_it_left(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from lineage_store.output_files import OutputDirectory\n"
        "files = OutputDirectory.made(Path(sys.argv[1]))\n"
        "files.write('1.png', b'whole')\n"
        "new = files.new('2.png'); new.file.write(b'half'); new.file.flush()\n"
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name[0] != "."] == ["1.png"]
    (left,) = (tmp_path / "out").glob(".*")
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    with OutputDirectory.made(tmp_path / "out") as files:
        files.write("2.png", b"whole")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1.png", "2.png"]


def test_what_another_run_is_writing_is_left_alone_and_so_is_what_only_looks_like_ours(
    tmp_path: Path,
) -> None:
    with OutputDirectory.made(tmp_path) as files:
        new = files.new("1.png")
        new.file.write(b"whole")
        (own,) = tmp_path.glob(".unfinished-*")
        theirs = own.with_name(f"{own.name}0")
        theirs.mkdir()
        (theirs / "thesis.txt").write_text("the only copy")
        with OutputDirectory.made(tmp_path) as other:
            assert not other.is_empty()
            other.write("2.png", b"another's")
        new.finish()
    assert (tmp_path / "1.png").read_bytes() == b"whole"
    assert (theirs / "thesis.txt").read_text() == "the only copy"


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "..", ".", "", "a//b", "x\0y", "x" * 256, "x/"])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    with OutputDirectory.made(tmp_path / "out") as files, pytest.raises(OSError, match="name"):
        files.write(name, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_what_comes_meanwhile_is_not_replaced_unasked(tmp_path: Path, victim: Path) -> None:
    with OutputDirectory.made(tmp_path / "out") as files:
        one, two, three = files.new("a/1"), files.new("a/2"), files.new("a/3", replace=True)
        (tmp_path / "out" / "a" / "1").write_text("another's")
        for name in ("2", "3"):
            (tmp_path / "out" / "a" / name).symlink_to(victim / "authorized_keys")
        for new in (one, two, three):
            with new, pytest.raises(LineageStoreError, match="cannot be written"):
                new.finish()
    assert (tmp_path / "out" / "a" / "1").read_text() == "another's"
    assert untouched(victim)


@pytest.mark.slow
def test_two_exports_into_one_directory_do_not_mix(job: Path, on_sqlite: str, tmp_path: Path) -> None:
    command = [
        str(PROGRAM),
        "--database",
        on_sqlite,
        "export",
        "--format",
        "csv",
        "--to",
        str(tmp_path / "out"),
    ]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    told = [each.communicate(timeout=300)[1] for each in running]
    codes = sorted(each.returncode for each in running)
    assert codes in ([0, 2, 2], [2, 2, 2]), told
    assert not [words for words in told if "Unexpected" in words]
    if codes[0] == 0:
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
        for each in manifest["files"]:
            content = (tmp_path / "out" / each["path"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == each["sha256"]
        written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.csv")}
        assert written == {each["path"] for each in manifest["files"]}


@pytest.mark.parametrize(
    "verb",
    [
        name if name == "images" else pytest.param(name, marks=pytest.mark.slow)
        for name in VERBS
        if name != "export"
    ],
)
def test_two_writers_of_one_file_leave_one_whole_file(
    job: Path, on_sqlite: str, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "out").mkdir()
    name, arguments = VERBS[verb]
    command = [str(each) for each in (PROGRAM, "--database", on_sqlite, *arguments(job, tmp_path / "out"))]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [each.communicate(timeout=300)[1] for each in running]
    assert [each.returncode for each in running] == [0, 0], told
    path = tmp_path / "out" / name
    if verb == "backup":
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    else:
        assert path.stat().st_size > 100
    assert not list((tmp_path / "out").glob(".*"))


def test_a_file_without_hard_links_gets_its_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)  # as on FAT
    with OutputDirectory.made(tmp_path) as files:
        files.write("1.png", b"whole")
        with pytest.raises(LineageStoreError, match="exists"):
            files.write("1.png", b"again")
    assert (tmp_path / "1.png").read_bytes() == b"whole"


def test_a_link_to_the_directory_of_a_named_file_is_the_operators_own(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "backups").symlink_to(tmp_path / "disk")
    with replacing(tmp_path / "backups" / "a.db", 0o600) as new:
        new.file.write(b"whole")
    assert (tmp_path / "disk" / "a.db").read_bytes() == b"whole"
