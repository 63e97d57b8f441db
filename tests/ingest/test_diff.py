"""The comparison of disk and store, which is pure: one table has all its cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from helpers.known_files import unread
from lineage_store.eventlog import formats
from lineage_store.ingest.scan.discovery import FileChange, FoundFile, diff, is_rewritten
from lineage_store.store.records import FileSight

NAME = "events.out.events.summary.1700000000.0.host_MS"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
KNOWN = unread(NAME, train_id="./a")._replace(
    size_bytes=100,
    byte_offset=100,
    stat_stamp="stamp",
    fingerprint="first",
    fingerprint_bytes=16,
    anchor="last",
    anchor_bytes=16,
    grown_at=NOW,
)


def found(train_id: str = "./a", stamp: str = "stamp") -> FoundFile:
    recognised = formats.recognise(NAME)
    assert recognised is not None
    return FoundFile(train_id, NAME, *recognised, FileSight(100, 0, False, stamp))


@pytest.mark.parametrize(
    ("changes", "stamp", "distrust", "expected"),
    [
        ({}, "stamp", False, FileChange.UNCHANGED),
        ({}, "other", False, FileChange.LOOK),
        ({"stat_stamp": None}, "stamp", False, FileChange.LOOK),
        ({"suspect_since": NOW}, "stamp", False, FileChange.LOOK),
        ({"current": False}, "stamp", False, FileChange.LOOK),
        ({"state": "missing"}, "stamp", False, FileChange.LOOK),
        ({"state": "unreadable"}, "stamp", False, FileChange.LOOK),
        ({"state": "torn", "closed": True}, "stamp", False, FileChange.UNCHANGED),
        ({}, "stamp", True, FileChange.LOOK),
        ({"state": "closed", "closed": True}, "stamp", True, FileChange.UNCHANGED),
        ({"state": "closed", "closed": True}, "other", True, FileChange.LOOK),
    ],
)
def test_what_a_known_file_calls_for(
    changes: dict[str, Any], stamp: str, distrust: bool, expected: FileChange
) -> None:
    (change,) = diff([found(stamp=stamp)], [KNOWN._replace(**changes)], distrust=distrust)
    assert change.change is expected


def test_a_file_that_the_store_does_not_know_is_new() -> None:
    (change,) = diff([found()], [])
    assert (change.change, change.known) == (FileChange.NEW, None)


def test_a_file_that_is_not_on_disk_is_missing_once() -> None:
    (change,) = diff([], [KNOWN])
    assert (change.change, change.found, change.known) == (FileChange.MISSING, None, KNOWN)
    assert list(diff([], [KNOWN._replace(state="missing")])) == []


def test_equal_names_in_different_jobs_are_different_files() -> None:
    changes = diff([found("./b")], [KNOWN])
    assert [change.change for change in changes] == [FileChange.MISSING, FileChange.NEW]


def test_neither_list_is_read_further_than_the_changes_that_were_asked_for() -> None:
    read = list[str]()

    def listed(files: Iterable[Any]) -> Iterator[Any]:
        for file in files:
            read.append(file.train_id)
            yield file

    jobs = [f"./{letter}" for letter in "abcdefgh"]
    known = [KNOWN._replace(train_id=train_id) for train_id in jobs]
    changes = diff(listed(found(train_id) for train_id in jobs), listed(known))
    assert [next(changes).change for _ in range(2)] == [FileChange.UNCHANGED] * 2
    assert set(read) == {"./a", "./b", "./c"}


@pytest.mark.parametrize(
    ("offset", "size", "fingerprint", "anchor", "expected"),
    [
        (100, 100, "first", "last", False),
        (100, 500, "first", "last", False),
        (100, 99, "first", "last", True),
        (100, 100, "other", "last", True),
        (100, 500, "first", "other", True),
        (0, 0, None, None, False),
        (0, 500, "other", "other", False),
    ],
)
def test_a_file_is_rewritten_when_the_bytes_that_were_read_are_others(
    offset: int, size: int, fingerprint: str | None, anchor: str | None, expected: bool
) -> None:
    assert is_rewritten(KNOWN._replace(byte_offset=offset), size, fingerprint, anchor) is expected
