"""Links and special files in place of log files: nothing outside the base dir is read, and the attempt is reported.

The kernel watches what is outside: a test fails if anything opens it in any way.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.engines import url_of
from helpers.log_writer import Log
from helpers.watching import exchange, unopened
from lineage_store import (
    LineageParamSummaryPathError,
    LineageStore,
    MindInsightException,
    PayloadUnavailableError,
    get_summary_lineage,
)
from lineage_store.cli import main
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower

TRAIN_ID, NAME = "./team/job", "events.out.events.summary.1700000000.0.host_MS"
JOB = Path("team", "job")
SETTINGS = Settings(
    recursive=True, poll_interval_s=0.05, discovery_interval_s=0.05, batch_files=1, finished_interval_s=1
)
REPLACED = [JOB / NAME, JOB, JOB.parent]
"""What is replaced by a link: the log file, its directory, the one above."""


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    write(tmp_path / "base", "ours")
    return tmp_path / "base"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What nobody of ours may read: the same names, and other content."""
    write(tmp_path / "private", "secret")
    return tmp_path / "private"


@pytest.fixture
def store(sqlite_url: str) -> Iterator[LineageStore]:
    with LineageStore(sqlite_url, settings=SETTINGS) as store:
        yield store


def write(base_dir: Path, tag: str) -> None:
    summary = Log().version().scalar(1, tag, 1.0).tensor(2, tag, [1.0, 2.0]).scalar(3, tag, 1.0)
    summary.write_summary(base_dir / JOB)
    Log().train(network=tag).user_info(api_key=tag).write_lineage(base_dir / JOB)


def put_link(base_dir: Path, outside: Path, what: Path) -> None:
    (base_dir / what).rename(base_dir.parent / "moved")
    (base_dir / what).symlink_to(outside / what)


def secrets(store: LineageStore) -> list[object]:
    with store.engine.connect() as connection:
        return [
            connection.exec_driver_sql(f"SELECT * FROM {place} LIKE '%secret%'").first()
            for place in ("v_series WHERE tag", "v_job WHERE network", "user_info WHERE name || text")
        ]


def nothing_of(outside: Path) -> AbstractContextManager[None]:
    """Kept open while others read: the test fails if they read what is outside."""
    return unopened(outside, outside / "team", outside / JOB)


def follow(store: LineageStore, base_dir: Path) -> None:
    follower = Follower(store.engine, base_dir, store.opened.settings)
    for _ in range(3):
        follower.tick()
    follower.close()


def read_payloads(store: LineageStore, base_dir: Path) -> None:
    for sample in store.job((base_dir, TRAIN_ID)).tensors("ours"):
        with pytest.raises(PayloadUnavailableError, match="out of the base dir"):
            sample.read()


def ask_why(store: LineageStore, base_dir: Path) -> None:
    for path in (base_dir, base_dir / "team", base_dir / JOB, base_dir / JOB / NAME):
        store.repair.why(path)
    kinds = {each.kind for each in store.repair.why(base_dir / JOB / NAME).findings}
    assert "link_out" in kinds


def inspect(store: LineageStore, base_dir: Path) -> None:
    os.environ["LINEAGE_STORE_BASE_DIRS"] = str(base_dir)
    try:
        assert main(["inspect", str(base_dir / JOB / NAME)]) == 2
    finally:
        del os.environ["LINEAGE_STORE_BASE_DIRS"]


def verify(store: LineageStore, base_dir: Path) -> None:
    for verdict in store.repair.verify(base_dir):
        assert not verdict.differences


def diagnose(store: LineageStore, base_dir: Path) -> None:
    assert main(["doctor", str(base_dir)]) in (0, 1, 3)


READERS: dict[str, Callable[[LineageStore, Path], object]] = {
    "inspect": inspect,
    "payload": read_payloads,
    "why": ask_why,
    "verify": verify,
    "plan": lambda store, base_dir: store.plan(base_dir),
    "doctor": diagnose,
    "question": lambda store, base_dir: store.lineage.filter({}, base_dir=base_dir),
    "seed": lambda store, base_dir: get_summary_lineage(base_dir / JOB, store=store),
    "daemon": follow,
    "ingest": lambda store, base_dir: store.ingest(base_dir),
    "retry": lambda store, base_dir: store.repair.retry(),
    "reingest": lambda store, base_dir: store.job((base_dir, TRAIN_ID)).reingest(),
}
"""Whoever reads files, by name; those first that change nothing."""


@pytest.mark.parametrize("what", REPLACED, ids=["file", "directory", "above"])
def test_what_a_link_leads_to_is_read_by_nobody(
    what: Path, store: LineageStore, base_dir: Path, outside: Path
) -> None:
    store.ingest(base_dir)
    put_link(base_dir, outside, what)
    for reader in READERS.values():
        with nothing_of(outside):
            reader(store, base_dir)
    assert secrets(store) == [None, None, None]


@pytest.mark.parametrize("what", REPLACED, ids=["file", "directory", "above"])
@pytest.mark.parametrize("reader", ["ingest", "daemon", "question"])
def test_nor_where_it_was_there_first(
    reader: str, what: Path, store: LineageStore, base_dir: Path, outside: Path
) -> None:
    put_link(base_dir, outside, what)
    with nothing_of(outside), suppress(MindInsightException):
        READERS[reader](store, base_dir)
    assert secrets(store) == [None, None, None]


def test_nor_by_who_asks_for_a_job_below_no_base_dir_of_the_store(
    store: LineageStore, base_dir: Path, outside: Path
) -> None:
    put_link(base_dir, outside, JOB)
    with nothing_of(outside), pytest.raises(LineageParamSummaryPathError, match="points out of the base dir"):
        get_summary_lineage(base_dir / JOB, store=store)
    assert list(store.base_dirs) == []


@pytest.mark.parametrize("what", REPLACED, ids=["file", "directory", "above"])
@pytest.mark.parametrize("reader", ["ingest", "daemon"])
def test_a_link_in_the_place_of_what_was_read_is_told_by_name(
    reader: str, what: Path, store: LineageStore, base_dir: Path, outside: Path
) -> None:
    store.ingest(base_dir)
    put_link(base_dir, outside, what)
    READERS[reader](store, base_dir)
    told = [each for each in store.repair.problems() if each.kind == "link_in_place"]
    assert str(base_dir / JOB / NAME) in {each.subject for each in told}
    assert {each.what.partition(" ")[0] for each in told} == {str(what)}
    with LineageStore(url_of(store.engine), settings=SETTINGS) as again:
        (base_dir / what).unlink()
        (base_dir.parent / "moved").rename(base_dir / what)
        again.ingest(base_dir)
        assert again.repair.problems() == []


def test_a_link_that_is_put_between_listing_and_reading_is_told_by_name(
    store: LineageStore, base_dir: Path, outside: Path
) -> None:
    for number in range(6):
        Log().version().scalar(1, "a", 1.0).write_summary(base_dir / f"a{number}")

    def swap(_: object) -> None:
        if not (base_dir / JOB).is_symlink():
            put_link(base_dir, outside, JOB)

    with nothing_of(outside):
        store.ingest(base_dir, progress=swap)
    assert secrets(store) == [None, None, None]
    (told,) = {(each.kind, each.what) for each in store.repair.problems()}
    assert told == ("unreadable_file", "team/job is a symbolic link.")


@pytest.mark.parametrize("follow_symlinks", [False, True])
def test_whoever_swaps_a_directory_and_a_link_as_fast_as_he_can_reads_nothing(
    follow_symlinks: bool, store: LineageStore, base_dir: Path, outside: Path, tmp_path: Path
) -> None:
    store.opened.settings = replace(SETTINGS, follow_symlinks=follow_symlinks)
    (tmp_path / "link").symlink_to(outside / JOB)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            exchange(base_dir / JOB, tmp_path / "link")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        with nothing_of(outside):
            for _ in range(4):
                for read in (READERS["ingest"], READERS["reingest"], READERS["question"], READERS["plan"]):
                    with suppress(MindInsightException):
                        read(store, base_dir)
                list(store.repair.verify())
                with suppress(MindInsightException):
                    store.repair.why(base_dir / JOB)
    finally:
        stop.set()
        swapper.join()
    assert secrets(store) == [None, None, None]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def named_socket(path: Path) -> None:
    os.chdir(path.parent)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)


def endless_device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


@pytest.mark.parametrize("make", [fifo, named_socket, endless_device])
def test_what_is_no_file_holds_nobody_up_and_is_told(
    make: Callable[[Path], None],
    store: LineageStore,
    base_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(base_dir)
    store.ingest(base_dir)
    path = base_dir / JOB / NAME
    path.unlink()
    make(path)
    assert "no_regular_file" in {each.kind for each in store.repair.why(path).findings}
    for sample in store.job((base_dir, TRAIN_ID)).tensors("ours"):
        with pytest.raises(PayloadUnavailableError, match="no regular file"):
            sample.read()
    assert main(["inspect", str(path)]) == 2
    assert "no regular file" in capsys.readouterr().err
    for reader in READERS.keys() - {"payload", "why", "inspect"}:
        READERS[reader](store, base_dir)


def test_a_link_inside_the_base_dir_is_followed_where_that_is_allowed(
    sqlite_url: str, base_dir: Path
) -> None:
    (base_dir / JOB).rename(base_dir / "moved")
    (base_dir / JOB).symlink_to("../moved")
    with LineageStore(sqlite_url, settings=Settings(recursive=True, follow_symlinks=True)) as store:
        store.ingest(base_dir)
        assert store.job((base_dir, TRAIN_ID)).tags()["scalar"] == ["ours"]
        assert [each.unreadable for each in store.repair.verify()] == [None] * 4
        assert store.repair.why(base_dir / JOB / NAME).verdict == "stored"
        assert get_summary_lineage(base_dir / JOB, store=store)["summary_dir"] == str(base_dir / "moved")


@pytest.mark.parametrize("settings", [Settings(), Settings(recursive=True)], ids=["flat", "recursive"])
def test_a_base_dir_may_lie_behind_links(
    settings: Settings, sqlite_url: str, base_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "way").symlink_to(tmp_path)
    (tmp_path / "alias").symlink_to("way/base/team")
    with LineageStore(sqlite_url, settings=settings) as store:
        store.ingest(tmp_path / "alias")
        assert store.repair.why(tmp_path / "way" / "alias" / "job" / NAME).verdict == "stored"
        found = get_summary_lineage(tmp_path / "alias" / "job", store=store)
        assert found["summary_dir"] == str(base_dir / JOB)


@pytest.fixture
def bottomless(tmp_path: Path) -> Iterator[Path]:
    """A directory with directories in it deeper than a path is long, or a function may call itself, and a log file."""
    (tmp_path / "bottomless").mkdir()
    directory = os.open(tmp_path / "bottomless", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("below", dir_fd=directory)
        above, directory = directory, os.open("below", os.O_RDONLY, dir_fd=directory)
        os.close(above)
    with open(os.open(NAME, os.O_CREAT | os.O_WRONLY, dir_fd=directory), "wb") as file:
        file.write(Log().scalar(1, "x", 1.0).content)
    os.close(directory)
    yield tmp_path / "bottomless"
    subprocess.run(["rm", "-r", tmp_path / "bottomless"], check=True)  # which shutil cannot do


@pytest.mark.parametrize("settings", [Settings(), Settings(recursive=True)], ids=["flat", "recursive"])
def test_a_tree_of_any_depth_is_looked_through(settings: Settings, sqlite_url: str, bottomless: Path) -> None:
    with LineageStore(sqlite_url, settings=settings) as store:
        assert store.ingest(bottomless).counts.files_found == 0
        assert main(["doctor", str(bottomless)]) == 0
        Log().scalar(1, "x", 1.0).write_summary(bottomless / "job")
        assert store.ingest(bottomless).counts.files_read == 1
        assert store.repair.why(bottomless).verdict == "stored"
        assert store.repair.why(bottomless / "below").verdict == "not stored"
