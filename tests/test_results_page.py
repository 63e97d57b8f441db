"""The page of results is the memory of the benchmarks: rows that are run again take their places, the others stay."""

from __future__ import annotations

from dataclasses import astuple

from benchmarks import results

PAGE = results.RESULTS.read_text()
ORDER = [line.split(" | ")[0].removeprefix("| ") for line in PAGE.splitlines() if line.startswith("| ")][2:]
NEW = results.Line("c5", "what", "≤ 1 x", "", "0.5 x", "0.4", "0.6", "3", "1 s", "2 s", "met", "2030-01-01")


def test_a_page_keeps_the_rows_that_are_not_run_again() -> None:
    assert results.table(PAGE, [], ORDER) in PAGE
    rows = results.table(PAGE, [NEW], ORDER).splitlines()
    assert rows == [
        f"| {' | '.join(astuple(NEW))} |" if row.startswith("| c5 |") else row
        for row in results.table(PAGE, [], ORDER).splitlines()
    ]


def test_a_row_that_was_never_run_comes_in_its_place() -> None:
    others = results.table(PAGE, [], [name for name in ORDER if name != "c5"])
    assert results.table(others, [NEW], ORDER) == results.table(PAGE, [NEW], ORDER)
