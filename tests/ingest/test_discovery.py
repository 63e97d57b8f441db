"""Which directories and files are looked at, and what is reported about the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.base_dirs import path_meant
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from lineage_store.ingest.scan.discovery import FoundFiles, scan

NAME = "events.out.events.summary.1700000000.0.host_MS"


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def ids(found: FoundFiles) -> list[str]:
    return [file.train_id for file in found.files]


def test_the_base_dir_itself_and_one_level_below_are_searched(base_dir: Path) -> None:
    for place in (".", "a", "b", "a/deeper"):
        touch(base_dir / place / NAME)
    assert ids(scan(base_dir)) == ["./", "./a", "./b"]


def test_a_recursive_search_goes_to_any_depth(base_dir: Path) -> None:
    for place in (".", "a/b/c/d", "a"):
        touch(base_dir / place / NAME)
    assert ids(scan(base_dir, recursive=True)) == ["./", "./a", "./a/b/c/d"]


def test_when_nothing_is_found_deeper_jobs_are_named(sqlite_engine: Engine, base_dir: Path) -> None:
    touch(base_dir / "a" / "b" / NAME)
    assert scan(base_dir).too_deep == ["a/b"]
    assert "such as a/b: use --recursive" in str(ingest(sqlite_engine, base_dir))


def test_files_are_found_in_the_order_of_their_names(base_dir: Path) -> None:
    for name in ("c.summary.1", "a.summary.3", "b.summary.2"):
        touch(base_dir / "job" / name)
    assert [file.name for file in scan(base_dir).files] == ["a.summary.3", "b.summary.2", "c.summary.1"]


def test_what_is_ignored_is_counted_by_its_reason(base_dir: Path) -> None:
    for name in (f".{NAME}", f"{NAME}.tmp", f"{NAME}~", f"{NAME}_explain", f"{NAME}.pb", "notes.txt", NAME):
        touch(base_dir / "job" / name)
    touch(base_dir / "job" / f"x.summary.{10**13}_MS")
    found = scan(base_dir)
    assert [file.name for file in found.files] == [NAME]
    assert found.ignored.total() == 7
    assert found.ignored["a temporary or backup file, by its name"] == 2


COMPANIONS = (".bak", ".1", ".old", ".gz", ".txt", ".md5", ".crc", ".lock", " (1)", ".json", ".BAK")


def test_what_lies_beside_a_log_file_does_not_touch_its_job(engine: Engine, base_dir: Path) -> None:
    path = Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    lineage = Log().train(network="A").write_lineage(base_dir / "job")
    for file in (path, lineage):
        for ending in COMPANIONS:
            content = (
                path.read_bytes() if ending in (".bak", ".1", ".old", " (1)") else b"0123456789 not a frame"
            )
            file.with_name(f"{file.name}{ending}").write_bytes(content)
        file.chmod(0o400)
    report = ingest(engine, base_dir)
    assert column(engine, "SELECT count(*) FROM v_scalar") == [1]
    assert column(engine, "SELECT state FROM v_job") == ["finished"]
    assert column(engine, "SELECT count(*) FROM v_log_file") == [2]
    assert column(engine, "SELECT count(*) FROM v_ingest_problem") == [0]
    assert sum(report.counts.ignored.values()) == 2 * len(COMPANIONS)
    assert report.counts.ignored["a packed log file, by its name"] == 2


SNAPSHOTS = (
    *(
        ".snapshot",
        ".snapshots",
        "~snapshot",
        ".zfs",
        ".trash",
        ".Trash",
        ".Trash-1000",
        ".Trashes",
        ".stversions",
    ),
    *("@eaDir", "lost+found", "#recycle", "@Recycle", "$RECYCLE.BIN", "#snapshot", ".ipynb_checkpoints"),
)


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_directory_of_snapshots_holds_no_jobs(name: str, recursive: bool, base_dir: Path) -> None:
    touch(base_dir / "job" / NAME)
    touch(base_dir / name / NAME)
    touch(base_dir / "job" / name / "hourly.0" / NAME)
    found = scan(base_dir, recursive=recursive)
    assert ids(found) == ["./job"]
    assert found.ignored["directory of snapshots or of deleted files, by its name"] == 1 + recursive
    assert not scan(base_dir / "job").too_deep
    assert ids(scan(base_dir, recursive=True, only=[f"./{name}"])) == []


def test_other_hidden_directories_hold_jobs(base_dir: Path) -> None:
    for name in (".mine", "snapshot", "trash", ".snapshot_of_mine", "recycle_run"):
        touch(base_dir / name / NAME)
    assert len(ids(scan(base_dir))) == 5


def test_a_directory_of_snapshots_is_read_when_it_is_asked_for(engine: Engine, base_dir: Path) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / ".snapshot" / "hourly.0" / "job")
    ingest(engine, base_dir)
    assert column(engine, "SELECT train_id FROM v_job") == ["./job"]
    ingest(engine, base_dir / ".snapshot" / "hourly.0")
    ingest(engine, base_dir)
    assert column(engine, "SELECT base_dir FROM v_job ORDER BY base_dir") == [
        str(base_dir),
        str(base_dir / ".snapshot" / "hourly.0"),
    ]


def test_a_fifo_with_the_name_of_a_log_file_hangs_nothing(sqlite_engine: Engine, base_dir: Path) -> None:
    (base_dir / "job").mkdir()
    os.mkfifo(base_dir / "job" / NAME)
    report = ingest(sqlite_engine, base_dir)
    assert report.counts.ignored == {"no regular file": 1}


def test_a_file_that_turns_into_a_fifo_hangs_nothing(sqlite_engine: Engine, base_dir: Path) -> None:
    from lineage_store.eventlog.formats import FORMATS
    from lineage_store.ingest.read.log_reader import open_log_file

    os.mkfifo(base_dir / NAME)
    with pytest.raises(OSError, match="no regular file"), open_log_file(base_dir, "./", NAME, FORMATS[0]):
        pass


def test_a_directory_with_the_name_of_a_log_file_is_a_directory(base_dir: Path) -> None:
    touch(base_dir / NAME / NAME)
    assert ids(scan(base_dir)) == [f"./{NAME}"]


@pytest.mark.parametrize("follow", [False, True])
def test_a_link_to_a_file_inside_the_base_dir_is_followed_only_if_allowed(
    follow: bool, base_dir: Path
) -> None:
    target = touch(base_dir / "kept" / "plain")
    (base_dir / "job").mkdir()
    (base_dir / "job" / NAME).symlink_to(target)
    found = scan(base_dir, follow_symlinks=follow)
    assert ids(found) == (["./job"] if follow else [])
    assert found.ignored["symbolic link"] == (0 if follow else 1)


@pytest.mark.parametrize("follow", [False, True])
def test_links_out_of_the_base_dir_are_never_followed(follow: bool, base_dir: Path, tmp_path: Path) -> None:
    outside = touch(tmp_path / "outside" / NAME)
    twin = touch(tmp_path / "base2" / NAME)  # its path begins with the base dir's
    (base_dir / "job").mkdir()
    (base_dir / "job" / NAME).symlink_to(outside)
    (base_dir / "directory").symlink_to(outside.parent)
    (base_dir / "twin").symlink_to(twin.parent)
    (base_dir / "dangling").symlink_to(tmp_path / "nothing")
    assert scan(base_dir, follow_symlinks=follow, recursive=True).files == []


def test_a_link_to_a_directory_is_a_job_of_its_own_where_links_are_followed(base_dir: Path) -> None:
    touch(base_dir / "a" / NAME)
    (base_dir / "ab").mkdir()
    (base_dir / "latest").symlink_to("a")
    (base_dir / "ab" / "link").symlink_to("../a")
    assert ids(scan(base_dir, follow_symlinks=True)) == ["./a", "./latest"]
    assert ids(scan(base_dir, follow_symlinks=True, recursive=True)) == ["./a", "./ab/link", "./latest"]
    assert ids(scan(base_dir, recursive=True)) == ["./a"]


def test_links_that_lead_in_circles_end(base_dir: Path) -> None:
    touch(base_dir / "a" / NAME)
    touch(base_dir / "b" / NAME)
    for name in ("x", "y", "z"):
        (base_dir / "a" / name).symlink_to("../b")
        (base_dir / "b" / name).symlink_to("../a")
    (base_dir / "a" / "up").symlink_to("..")
    (base_dir / "a" / "self").symlink_to(".")
    links = [f"./{there}/{name}" for there in "ab" for name in "xyz"]
    assert ids(scan(base_dir, follow_symlinks=True, recursive=True)) == sorted(["./a", "./b", *links])


def test_a_base_dir_behind_a_link_is_searched_like_any_other(base_dir: Path, tmp_path: Path) -> None:
    touch(base_dir / "a" / NAME)
    (base_dir / "link").symlink_to("a")
    (tmp_path / "alias").symlink_to(base_dir)
    assert ids(scan(tmp_path / "alias", follow_symlinks=True)) == ["./a", "./link"]


@pytest.mark.parametrize("letter", ["n", "损"])
def test_job_ids_that_no_index_can_hold_are_counted_and_others_ingested(
    letter: str, engine: Engine, base_dir: Path
) -> None:
    part = letter * (240 // len(letter.encode()))
    deep = base_dir.joinpath(*[part] * 4)
    Log().scalar(1, "loss", 1.0).write_summary(deep)
    deeper = deep.joinpath(part)
    Log().scalar(1, "loss", 1.0).write_summary(deeper)
    report = ingest(engine, base_dir, recursive=True)
    assert column(engine, "SELECT train_id FROM train_job") == ["./" + "/".join([part] * 4)]
    assert report.counts.ignored == {"job id too long": 1}


def test_names_that_are_not_utf8_are_found(base_dir: Path) -> None:
    os.mkdir(os.fsencode(base_dir) + b"/\xff")
    with open(os.fsencode(base_dir) + b"/\xff/\xfe.summary.1", "wb"):
        pass
    (file,) = scan(base_dir).files
    assert (file.train_id, file.name) == ("./\\xff", "\\xfe.summary.1")


def test_of_the_directories_below_only_those_not_known_are_searched(base_dir: Path) -> None:
    for place in ("a", "b", "b/c", "b/d"):
        touch(base_dir / place / NAME)
    found = scan(base_dir, only={"./"}, known={"./", "./a"})
    assert (ids(found), found.below) == (["./b"], {"./": found.below["./"]})
    assert sorted(found.below["./"]) == ["./a", "./b"]
    assert ids(scan(base_dir, only={"./b"}, known={"./b/c"}, recursive=True)) == ["./b", "./b/d"]


def test_a_directory_is_listed_once(base_dir: Path) -> None:
    touch(base_dir / "a" / NAME)
    assert ids(scan(base_dir, only={"./", "./a"}, known=set())) == ["./a"]


def test_the_change_time_of_a_directory_is_of_before_it_was_listed(
    base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(base_dir / "job" / NAME)
    before, scandir = (base_dir / "job").stat().st_ctime_ns, os.scandir

    def change_and_scan(of: int) -> object:
        if (path := path_meant(of)).endswith("/job"):
            os.utime(path)
        return scandir(of)

    monkeypatch.setattr(os, "scandir", change_and_scan)
    assert scan(base_dir).directories["./job"] == before


def test_only_the_jobs_asked_for_are_looked_at(base_dir: Path) -> None:
    for name in ("a", "b", "c"):
        touch(base_dir / name / NAME)
    touch(base_dir / NAME)
    assert ids(scan(base_dir, only={"./b", "./gone", "./"})) == ["./", "./b"]
