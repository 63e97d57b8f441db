"""Why a file or a job is (not) in the store: each reason is found."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.engines import url_of
from helpers.log_writer import Log
from lineage_store import LineageParamSummaryPathError, LineageStore
from lineage_store.api.reports import CleanUp
from lineage_store.config import Settings
from lineage_store.findings import finding
from lineage_store.operations import why as why_checks
from lineage_store.operations.why import WhyPlace
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import writing
from lineage_store.store.writes.ingest_log import set_path_problems

NOBODY = 65534
NAME = "events.out.events.summary.1700000000.0.host_MS"


@pytest.fixture
def store(sqlite_url: str) -> Iterator[LineageStore]:
    with LineageStore(sqlite_url, settings=Settings()) as store:
        yield store


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    base_dir = tmp_path / "base"
    Log().version().scalar(1, "loss", 1.0).write_summary(base_dir / "run")
    Log().train(network="LeNet5").write_lineage(base_dir / "run")
    return base_dir


def why(store: LineageStore, path: Path) -> tuple[str, str]:
    """The verdict, and all findings with their remedies as one text."""
    found = store.repair.why(path)
    texts = [f"{each.subject}: {each.what} {each.remedy}" for each in found.findings]
    return found.verdict, "\n".join(texts)


def test_what_is_stored_says_how_much(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    verdict, text = why(store, base_dir / "run" / NAME)
    assert verdict == "stored"
    assert "Events stored: 2" in text
    assert why(store, base_dir / "run")[0] == "stored"
    verdict, text = why(store, base_dir)
    assert verdict == "stored"
    assert "1 jobs, 0 bytes pending" in text


def test_outside_every_base_dir(store: LineageStore, base_dir: Path) -> None:
    verdict, text = why(store, base_dir / "run")
    assert verdict == "not stored"
    assert "the store has none" in text
    assert f"ingest {base_dir}`" in text
    assert f"ingest {base_dir}`" in why(store, base_dir / "run" / NAME)[1]


def test_the_whole_file_system_is_never_proposed_as_a_base_dir(store: LineageStore) -> None:
    assert "`lineage-store ingest BASE_DIR`" in why(store, Path("/etc"))[1]
    assert "`lineage-store ingest BASE_DIR`" in why(store, Path("/"))[1]


def test_above_a_base_dir_that_is_named_and_nothing_around_it_is_proposed(
    store: LineageStore, base_dir: Path
) -> None:
    store.ingest(base_dir)
    verdict, text = why(store, base_dir.parent)
    assert verdict == "partly stored"
    assert f"base dirs lie beneath it: {base_dir}." in text
    (base_dir.parent / "beside").mkdir()
    assert "`lineage-store ingest BASE_DIR`" in why(store, base_dir.parent / "beside")[1]


def test_neither_on_disk_nor_in_the_store(store: LineageStore, base_dir: Path) -> None:
    with pytest.raises(LineageParamSummaryPathError, match=r"may not be read.* `lineage-store jobs` lists"):
        why(store, base_dir / "none")
    store.ingest(base_dir)
    with pytest.raises(LineageParamSummaryPathError, match="knows no such job"):
        why(store, base_dir / "none")


def test_what_is_not_there_is_not_too_deep(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    (base_dir / "linked").symlink_to(base_dir / "run")
    for path in ("run/none", "run/none/none", "none/none", "linked/none"):
        with pytest.raises(LineageParamSummaryPathError, match="does not exist or may not be read"):
            why(store, base_dir / path)


def test_a_job_too_deep_that_the_store_knows_is_explained_when_it_is_gone(
    store: LineageStore, base_dir: Path
) -> None:
    Log().train(network="LeNet5").write_lineage(base_dir / "team" / "one")
    Log().train(network="VGG").write_lineage(base_dir / "team" / "two").chmod(0o400)
    with LineageStore(url_of(store.engine), settings=Settings(recursive=True)) as everywhere:
        everywhere.ingest(base_dir)
        assert everywhere.removal.remove(CleanUp(condition={"network": {"eq": "VGG"}})).jobs == 1
        shutil.rmtree(base_dir / "team")
        everywhere.ingest(base_dir)
    assert "no longer on disk; what was read of it is kept" in why(store, base_dir / "team" / "one")[1]
    assert "The job was removed on" in why(store, base_dir / "team" / "two")[1]


def test_a_removed_job_is_explained_when_its_directory_is_gone(store: LineageStore, base_dir: Path) -> None:
    for path in (base_dir / "run").iterdir():
        path.chmod(0o400)
    store.ingest(base_dir)
    assert store.removal.remove(CleanUp(condition={"network": {"eq": "LeNet5"}})).jobs == 1
    shutil.rmtree(base_dir / "run")
    assert "The job was removed on" in why(store, base_dir / "run")[1]


def test_below_where_a_base_dir_was_it_is_told_where_it_is(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    new = base_dir.rename(base_dir.with_name("new"))
    store.base_dirs.move(base_dir, new)
    with pytest.raises(LineageParamSummaryPathError, match=f"{base_dir} was moved to {new}") as refused:
        store.repair.why(base_dir / "run")
    assert refused.value.hint == f"Ask for {new / 'run'}."


def test_not_read_yet(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    path = Log().version().write_summary(base_dir / "new")
    assert why(store, path) == (
        "not stored",
        f"{path}: 1 log files are not read yet, such as ./new/{path.name}. "
        "Run `lineage-store ingest`, or leave it to the daemon.",
    )
    assert "1 log files are not read yet" in why(store, base_dir / "new")[1]
    assert "./new/" in why(store, base_dir)[1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("model.ckpt", "no 'summary.<digits>'"),
        (f"{NAME}_explain", "explanation"),
        (f"{NAME}.pb", "graph file"),
        (f".{NAME}", "hidden"),
        (f"{NAME}~", "temporary"),
    ],
)
def test_a_name_that_does_not_count(store: LineageStore, base_dir: Path, name: str, reason: str) -> None:
    store.ingest(base_dir)
    path = base_dir / "run" / name
    path.write_bytes(b"")
    verdict, text = why(store, path)
    assert verdict == "not stored"
    assert reason in text


def test_too_deep(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    path = Log().version().write_summary(base_dir / "team" / "run")
    for place in (path, path.parent):
        verdict, text = why(store, place)
        assert verdict == "not stored"
        assert "2 levels below" in text
        assert "recursive = true" in text
        assert "not read yet" not in text


def test_jobs_below_it_are_told(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    Log().version().write_summary(base_dir / "team" / "one")
    Log().version().write_summary(base_dir / "run" / "two")
    for place, job in ((base_dir / "team", "one"), (base_dir / "run", "two"), (base_dir, "team/one")):
        text = why(store, place)[1]
        assert "deeper than ingest searches" in text
        assert f"{job}" in text
        assert "recursive = true" in text
    with LineageStore(url_of(store.engine), settings=Settings(recursive=True)) as everywhere:
        text = why(everywhere, base_dir / "team")[1]
        assert "directories below it do, such as one" in text
        assert "recursive" not in text
        assert "deeper" not in why(everywhere, base_dir / "run")[1]


def test_a_symbolic_link(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    (base_dir / "linked").symlink_to(base_dir / "run")
    (base_dir / "run" / f"{NAME}2").symlink_to(base_dir / "run" / NAME)
    for place in (base_dir / "linked" / NAME, base_dir / "linked", base_dir / "run" / f"{NAME}2"):
        verdict, text = why(store, place)
        assert verdict == "not stored", place
        assert "symbolic link" in text, place
        assert "follow_symlinks = true" in text, place
        assert "not read yet" not in text, place


def test_a_symbolic_link_out_of_the_base_dir(store: LineageStore, base_dir: Path, tmp_path: Path) -> None:
    store.ingest(base_dir)
    elsewhere = Log().version().write_summary(tmp_path / "base-2" / "run")
    (base_dir / "linked").symlink_to(elsewhere.parent)
    (base_dir / "run" / f"{NAME}2").symlink_to(elsewhere)
    for place in (base_dir / "linked" / NAME, base_dir / "linked", base_dir / "run" / f"{NAME}2"):
        text = why(store, place)[1]
        assert f"points out of the base dir, to {tmp_path}/base-2/run" in text, place
        assert "follow_symlinks" not in text, place


def test_a_file_that_may_not_be_read(base_dir: Path) -> None:
    path = base_dir / "run" / NAME
    path.chmod(0)
    is_root = os.geteuid() == 0  # who may read everything
    if is_root:
        os.seteuid(NOBODY)
    try:
        place = WhyPlace(path, base_dir, 1, ("run", NAME), recursive=False, follow_symlinks=False)
        (found,) = why_checks.findings_of_file(place)
    finally:
        if is_root:
            os.seteuid(0)
    assert "Permission denied" in found.what
    assert "training user" in found.remedy


def test_no_regular_file(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    os.mkfifo(base_dir / "run" / f"{NAME}.fifo")
    assert "no regular file" in why(store, base_dir / "run" / f"{NAME}.fifo")[1]


def test_a_torn_end_waits(store: LineageStore, base_dir: Path) -> None:
    path = Log().version().scalar(1, "loss", 1.0).torn(10).write_summary(base_dir / "live")
    store.ingest(base_dir)
    verdict, text = why(store, path)
    assert verdict == "partly stored"
    assert "10 bytes at its end are not a complete frame yet" in text
    path.chmod(0o400)
    store.ingest(base_dir)
    assert "finished in the middle of a frame" in why(store, path)[1]


def test_suspect_bytes(store: LineageStore, base_dir: Path) -> None:
    path = Log().version().raw(bytes(100)).write_summary(base_dir / "hole")
    store.ingest(base_dir)
    verdict, text = why(store, path)
    assert verdict == "partly stored"
    assert f"At byte {path.stat().st_size - 100}: no frame." in text
    assert "Open problem" in text
    assert f"hole/{NAME}: Open problem" in why(store, path.parent)[1]
    assert "Open problem" not in why(store, base_dir / "run")[1]


def test_the_problems_of_entries_that_are_not_in_the_store(store: LineageStore, base_dir: Path) -> None:
    loop = base_dir / "run" / f"{NAME}2"
    loop.symlink_to(loop)
    with LineageStore(url_of(store.engine), settings=Settings(follow_symlinks=True)) as following:
        following.ingest(base_dir)
        for place in (loop, loop.parent):
            assert f"run/{NAME}2: Open problem" in why(following, place)[1]


def test_paths_of_problems_have_one_spelling_relative_to_the_base_dir(
    store: LineageStore, base_dir: Path
) -> None:
    damaged = [Log().raw(bytes(100)).write_summary(directory) for directory in (base_dir, base_dir / "hole")]
    loops = [place / f"{NAME}2" for place in (base_dir, base_dir / "run")]
    for loop in loops:
        loop.symlink_to(loop)
    with LineageStore(url_of(store.engine), settings=Settings(follow_symlinks=True)) as following:
        following.ingest(base_dir)
        told = {problem.subject for problem in following.repair.problems()}
    assert told == {str(path) for path in (*damaged, *loops)}


def test_problems_of_a_job_in_a_jobs_directory_are_its_own(store: LineageStore, base_dir: Path) -> None:
    Log().raw(bytes(100)).write_summary(base_dir / "run" / "inner")
    with LineageStore(url_of(store.engine), settings=Settings(recursive=True)) as deep:
        deep.ingest(base_dir)
        assert "Open problem" in why(deep, base_dir / "run" / "inner")[1]
        assert "Open problem" not in why(deep, base_dir / "run")[1]


def test_problems_of_others_are_not_told(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    with writing(store.engine) as session:
        problem = finding("unreadable_path", "other", reason="Permission denied.")
        base_dir_id = registry.stored_base_dirs(session)[0][0]
        set_path_problems(session, base_dir_id, [problem], session.now())
    (base_dir / "fresh").mkdir()
    (base_dir / "other").mkdir()
    assert "Permission denied" in why(store, base_dir / "other")[1]
    for place in (base_dir / "run", base_dir / "run" / NAME, base_dir / "fresh"):
        assert "Permission denied" not in why(store, place)[1]


def test_quarantined_bytes(store: LineageStore, base_dir: Path) -> None:
    path = (
        Log()
        .version()
        .scalar(1, "loss", 1.0)
        .scalar(2, "loss", 1.0)
        .damaged(1)
        .write_summary(base_dir / "bad")
    )
    path.chmod(0o400)
    store.ingest(base_dir)
    store.ingest(base_dir)
    verdict, text = why(store, path)
    assert verdict == "partly stored"
    assert "given up as damaged" in text


def test_it_has_grown_since(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    path = base_dir / "run" / NAME
    with path.open("ab") as stream:
        stream.write(Log().scalar(2, "loss", 1.0).content)
    assert "has grown by" in why(store, path)[1]


def test_it_was_rewritten(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    path = base_dir / "run" / NAME
    path.unlink()
    Log(wall_time=1_800_000_000).version().scalar(1, "other", 1.0).write_summary(base_dir / "run")
    store.ingest(base_dir)
    verdict, text = why(store, path)
    assert verdict == "stored"
    assert "Generation 2: Events stored: 2" in text or "Events stored: 2" in text


def test_it_is_gone_from_disk(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    for path in (base_dir / "run").iterdir():
        path.unlink()
    (base_dir / "run").rmdir()
    store.ingest(base_dir)
    for place in (base_dir / "run" / NAME, base_dir / "run"):
        verdict, text = why(store, place)
        assert verdict == "stored"
        assert "no longer on disk; what was read of it is kept" in text


def test_a_job_without_lineage_says_why_filter_leaves_it_out(store: LineageStore, base_dir: Path) -> None:
    Log().version().write_summary(base_dir / "bare")
    store.ingest(base_dir)
    assert "`filter` does not show it" in why(store, base_dir / "bare")[1]
    assert "`filter`" not in why(store, base_dir / "run")[1]


def test_a_directory_without_log_files(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    (base_dir / "empty").mkdir()
    verdict, text = why(store, base_dir / "empty")
    assert verdict == "not stored"
    assert "It holds no log file" in text


def test_no_transaction_is_open_while_the_disk_is_looked_at(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    pool: Any = store.engine.pool
    connections: list[int] = []
    asking = True

    def note(action: str, arguments: tuple[object, ...]) -> None:
        if asking and action in ("os.scandir", "os.listdir", "open") and str(base_dir) in str(arguments[0]):
            connections.append(pool.checkedout())

    sys.addaudithook(note)  # which stays for good, and does nothing from then on
    try:
        for path in (base_dir, base_dir / "run", base_dir / "run" / NAME):
            store.repair.why(path)
    finally:
        asking = False
    assert connections
    assert set(connections) == {0}
