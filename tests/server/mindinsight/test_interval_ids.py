"""Ids of the intervals of landscapes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lineage_store.server.mindinsight.landscapes import interval_id


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([1, 3], "7076132084299316895"),
        (list(range(1, 10)), "-1560385572531984934"),
        ([1, 2, 3], "305408902938263166"),
    ],
)
def test_the_ids_are_those_of_its_server(intervals: list[int], expected: str) -> None:
    assert interval_id(intervals) == expected


def test_they_are_the_hashes_of_a_python_whose_hashes_are_not_random() -> None:
    lists = [list(range(length)) for length in range(40)]
    script = f"print([str(hash(str(each))) for each in {lists}])"
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    told = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert told.stdout.decode().strip() == str([interval_id(each) for each in lists])
