"""The page of results keeps the results of benchmarks: rows of repeated ones are replaced, the others stay."""

from __future__ import annotations

from dataclasses import astuple

from benchmarks import results
from benchmarks.measuring import Bound, Row, Samples, alternate

PAGE = results.RESULTS.read_text()
ORDER = [line.split(" | ")[0].removeprefix("| ") for line in PAGE.splitlines() if line.startswith("| ")][2:]
NEW = results.Line(
    "c5", "what", "≤ 1 x", "", "0.5 x", "0.4", "0.6", "3", "1 s", "2 s", "", "met", "2030-01-01"
)


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


def test_a_line_tells_its_floor_in_its_own_unit_and_what_its_target_was() -> None:
    runs = iter([1.0, 9.0, 9.0, 2.0, 8.0, 3.0])
    samples = alternate(lambda: next(runs), lambda: next(runs), 1, floor=lambda: next(runs))
    assert samples == Samples(ours=(8.0,), baseline=(2.0,), floor=(3.0,))
    row = Row("c6", "what", lambda _: samples, Bound(3.5), was="≤ 1 x: less than the floor")
    line = results.line(row, samples)
    assert (line.median, line.floor, line.must) == (
        "4 x",
        "1.5 x",
        "≤ 3.5 x (was ≤ 1 x: less than the floor)",
    )
