"""An invalid question raises an error that says what is wrong, and leaves the store unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.log_writer import Log, write_small_job
from lineage_store import (
    DatabaseUnavailableError,
    LineageFileNotFoundError,
    LineageParamSummaryPathError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageStore,
    SampleNotFoundError,
    filter_summary_lineage,
    get_summary_lineage,
)
from lineage_store.config import Settings
from lineage_store.store import opened as default_location


@pytest.fixture
def store(sqlite_url: str) -> Iterator[LineageStore]:
    with LineageStore(sqlite_url, settings=Settings()) as opened:
        yield opened


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    path = tmp_path / "known" / "base"
    write_small_job(path / "a")
    return path


@pytest.mark.parametrize(
    ("error", "said", "question"),
    [
        (LineageParamTypeError, "train_id = 7", lambda store, base_dir: store.job((base_dir, 7)).tags()),
        (LineageParamTypeError, "tag = 7", lambda store, base_dir: store.job((base_dir, "./a")).scalars(7)),
        (LineageParamTypeError, "not int", lambda store, _: store.sql(7).__enter__()),
        (LineageParamTypeError, "train_id = 7", lambda store, base_dir: store.job((base_dir, 7)).lineage()),
        (LineageParamTypeError, "train_id = 7", lambda store, base_dir: store.job((base_dir, 7)).report()),
        (
            LineageParamTypeError,
            "train_id = 7",
            lambda store, base_dir: store.lineage.contents(base_dir, [7]),
        ),
        (LineageParamTypeError, "train_id = 7", lambda store, _: store.lineage.jobs(train_ids=[7])),
        (LineageParamTypeError, "train_id = 7", lambda store, base_dir: store.removal.restore(base_dir, 7)),
        (LineageParamTypeError, "train_id = 7", lambda store, base_dir: store.job((base_dir, 7)).reingest()),
        (LineageParamTypeError, "train_id = 7", lambda store, base_dir: [*store.job((base_dir, 7)).verify()]),
        (LineageParamTypeError, "part = 7 must", lambda store, _: store.values("network", 7)),
        (LineageParamTypeError, "metric = 7 must", lambda store, _: store.job("./a").evaluations(7)),
        (
            LineageParamTypeError,
            "label = '7' must",
            lambda store, base_dir: store.job((base_dir, "./a")).annotate(label="7"),
        ),
        (
            LineageParamTypeError,
            "remark = 7 must",
            lambda store, base_dir: store.job((base_dir, "./a")).annotate(remark=7),
        ),
        (LineageParamTypeError, "state = 7 must", lambda store, _: store.lineage.jobs(state=7)),
        (
            LineageParamTypeError,
            "timeout_s = '5' must",
            lambda store, _: store.sql("SELECT 1", timeout_s="5").__enter__(),
        ),
        (LineageParamValueError, "since = 7 is", lambda store, _: store.changes.since(7)),
        (
            LineageParamValueError,
            "state = 'lve' is none of reading, live, ",
            lambda store, _: store.lineage.jobs(state="lve"),
        ),
        (
            LineageParamValueError,
            "outcome = 'ok' is none of",
            lambda store, _: store.lineage.jobs(outcome="ok"),
        ),
        (LineageParamSummaryPathError, "7 is no path", lambda store, _: store.backup(7)),
        (LineageParamSummaryPathError, "None is no path", lambda store, _: store.backup(None)),
    ],
)
def test_what_cannot_be_meant_is_told_by_name(
    store: LineageStore,
    base_dir: Path,
    error: type[Exception],
    said: str,
    question: Callable[[LineageStore, Path], object],
) -> None:
    store.ingest(base_dir)
    with pytest.raises(error, match=said):
        question(store, base_dir)


@pytest.mark.parametrize("refresh", [None, True, False])
def test_a_directory_without_log_files_does_not_become_a_base_dir(
    store: LineageStore, tmp_path: Path, refresh: bool | None
) -> None:
    empty = tmp_path / "empty" / "job"
    empty.mkdir(parents=True)
    with pytest.raises(LineageFileNotFoundError, match="no log file below"):
        filter_summary_lineage(empty.parent, store=store, refresh=refresh)
    with pytest.raises(LineageFileNotFoundError, match="no log file in"):
        get_summary_lineage(empty, store=store, refresh=refresh)
    with pytest.raises(LineageParamSummaryPathError, match="no directory"):
        get_summary_lineage(empty.parent / "misspelt", store=store, refresh=refresh)
    assert "No log file was found" in str(store.ingest(empty.parent))
    assert list(store.base_dirs) == []


def test_what_is_wrong_with_a_directory_does_not_depend_on_what_else_the_store_knows(
    store: LineageStore, base_dir: Path
) -> None:
    store.ingest(base_dir)
    beside = base_dir.parent / "beside"
    beside.mkdir()
    with pytest.raises(LineageFileNotFoundError, match="no log file in"):
        get_summary_lineage(beside, store=store)
    assert list(store.base_dirs) == [str(base_dir)]


def test_a_job_beside_a_known_base_dir_is_a_base_dir_of_its_own(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    Log().train(network="B").write_lineage(base_dir.parent / "b")
    answer = get_summary_lineage(base_dir.parent / "b", store=store)
    assert answer["algorithm"] == {"network": "B"}
    assert answer["summary_dir"] == str(base_dir.parent / "b")


def test_a_job_too_deep_below_its_base_dir_says_how_to_reach_it(store: LineageStore, base_dir: Path) -> None:
    store.ingest(base_dir)
    Log().train(network="B").write_lineage(base_dir / "deeper" / "b")
    with pytest.raises(LineageFileNotFoundError, match="recursive = true"):
        get_summary_lineage(base_dir / "deeper" / "b", store=store)


def test_samples_that_were_not_read_yet_are_not_denied(store: LineageStore, base_dir: Path) -> None:
    filter_summary_lineage(base_dir, store=store)
    with pytest.raises(SampleNotFoundError, match="No summary file of it has been read"):
        store.job((base_dir, "./a")).scalars("loss")
    store.ingest(base_dir)
    assert store.job((base_dir, "./a")).scalars("loss").values.tolist() == [0.5]


def test_linked_job_directories_are_counted_and_named(store: LineageStore, base_dir: Path) -> None:
    links = base_dir.parent.parent / "links"
    links.mkdir()
    (links / "a").symlink_to(base_dir / "a")
    report = store.ingest(links)
    assert report.counts.ignored == {"symbolic link": 1}
    assert "1 symbolic links: set follow_symlinks = true" in str(report)


def test_a_store_in_a_directory_that_does_not_exist_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailableError, match=r"cannot be made: No such file.*Does its directory"):
        LineageStore(f"sqlite:///{tmp_path}/missing/store.db", settings=Settings())


def test_without_any_directory_for_the_default_store_the_error_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(default_location, "FALLBACK", tmp_path / "file" / "store")
    with pytest.raises(DatabaseUnavailableError, match="LINEAGE_STORE_DATABASE_URL"):
        LineageStore(settings=Settings())


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800", "a" * 256, "a/" * 2048])
def test_what_cannot_be_a_path_is_no_base_dir(store: LineageStore, path: str) -> None:
    for ask in (store.lineage.jobs, store.ingest, lambda path: store.repair.why(path)):
        with pytest.raises(LineageParamSummaryPathError, match="is no path"):
            ask(path)
