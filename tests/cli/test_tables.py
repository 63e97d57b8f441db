"""Tables on terminals of any width: each value is complete, and no line is longer than the terminal."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.log_writer import Log
from helpers.program import Run, on_terminal
from lineage_store.cli.tables import LEAST_TEXT, ShownColumn, pairs, records, table_layout, width_of

WIDTHS = (40, 80, 120, 160, 200)
PROSE = "it diverges after the fifth epoch, as the one before it did"
PATH = "/shared/teams/vision/experiments/2026/summaries"
WHOLE = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.text("abc_/", min_size=1, max_size=30).map("./{}".format),
    st.sampled_from(["./run 7 of the second of June, again", "2026-01-02 03:04:05", "-", "", "损失"]),
)
CUT = st.sampled_from([PROSE, PATH])


def lines_of(columns: list[ShownColumn], room: int) -> list[str]:
    """All that is shown."""
    table = table_layout(columns, room)
    if table is None:
        return "\n".join(records(columns, room)).splitlines()
    above = pairs([(column.name, column.cells[0]) for column in table.above], room)
    return [*above, table.heading(), table.rule(), *table.rows()]


@given(
    st.lists(st.tuples(WHOLE, WHOLE, WHOLE, WHOLE, CUT, CUT), min_size=1, max_size=4),
    st.sampled_from(WIDTHS),
    st.booleans(),
)
def test_numbers_ids_times_and_names_are_whole(
    rows: list[tuple[str, ...]], room: int, is_numeric: bool
) -> None:
    names = ("summary_dir", "learning_rate", "metric/accuracy", "updated", "remark", "base_dir")
    columns = [
        ShownColumn(name, cells, is_numeric)
        for name, cells in zip(names, zip(*rows, strict=True), strict=True)
    ]
    shown = lines_of(columns, room)
    for name in names:
        assert any(name in line for line in shown), name
    for cell in {cell for row in rows for cell in row[:4]}:
        assert any(cell in line for line in shown), cell
    if (table := table_layout(columns, room)) is not None:
        assert all(width_of(line) <= room for line in [table.heading(), table.rule(), *table.rows()])


def test_a_table_that_fits_is_left_alone() -> None:
    table = table_layout(
        [ShownColumn("id", ["./a", "./a"]), ShownColumn("n", ["1", "1000"], is_numeric=True)], 40
    )
    assert table is not None
    assert [table.heading(), table.rule(), *table.rows()] == [
        *("id      n", "───  ────", "./a     1", "./a  1000"),
    ]


def test_what_all_rows_have_moves_above_a_table_that_is_too_wide() -> None:
    columns = [ShownColumn("id", ["./a", "./b"]), ShownColumn("base_dir", [PATH, PATH])]
    table = table_layout(columns, 40)
    assert table is not None
    assert ([column.name for column in table.above], list(table.rows())) == (["base_dir"], ["./a", "./b"])
    assert table_layout(columns, 60) == table_layout(columns, None)


def test_prose_loses_its_end_and_a_path_its_beginning() -> None:
    table = table_layout(
        [ShownColumn("remark", [PROSE, "short"]), ShownColumn("base_dir", ["/a", PATH])], 2 * LEAST_TEXT + 2
    )
    assert table is not None
    assert list(table.rows()) == [
        "it diverges after the f…  /a",
        "short                     …eriments/2026/summaries",
    ]


def test_a_sentence_about_what_to_do_is_never_cut() -> None:
    columns = [ShownColumn("path", ["./a", "./b"]), ShownColumn("remedy", [PROSE, "Wait."])]
    assert table_layout(columns, 40) is None
    assert list(records(columns, 40)) == [
        "path    ./a",
        "remedy  it diverges after the fifth",
        "        epoch, as the one before it did",
        "",
        "path    ./b",
        "remedy  Wait.",
    ]


def test_without_an_end_of_lines_everything_is_there() -> None:
    columns = [
        ShownColumn("remark", [PROSE] * 3),
        ShownColumn("base_dir", [PATH] * 3),
        ShownColumn("n", ["1"] * 3),
    ]
    table = table_layout(columns, None)
    assert table is not None
    assert all(PROSE in line and PATH in line for line in table.rows())
    assert list(pairs([("remark", PROSE * 9)], None)) == [f"remark  {PROSE * 9}"]


def test_no_rows_leave_the_names() -> None:
    table = table_layout([ShownColumn("a" * 30, []), ShownColumn("b" * 30, [])], 40)
    assert table is not None
    assert table.heading() == f"{'a' * 30}  {'b' * 30}"


@pytest.fixture
def many(on_sqlite: str, tmp_path: Path, run: Run) -> str:
    """Three jobs with long ids, four metrics and a long remark, in a deep base dir."""
    base_dir = tmp_path / "experiments of the vision team" / "summaries"
    for number in range(3):
        metrics = {"accuracy": 0.9 + number / 1000, "top_five": 0.987654, "recall": 0.5, "loss": 1.5}
        log = Log().train(network="SoftmaxNetwork", optimizer="Momentum", learning_rate=0.001, loss=0.123456)
        log.evaluation(metrics).write_lineage(base_dir / f"experiment_of_june_{number}")
    assert run("ingest", base_dir).code == 0
    for number in range(3):
        run("annotate", f"./experiment_of_june_{number}", "--remark", f"{number} {PROSE}")
    return on_sqlite


def lines_on_terminal(*words: str, url: str, columns: int) -> list[str]:
    """What is to be seen, without what makes it bold."""
    shown = on_terminal(*words, url=url, columns=columns)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.split("\r\n")]


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.slow
def test_verbs_show_no_line_that_the_terminal_would_break(many: str, columns: int) -> None:
    ids = [f"./experiment_of_june_{number}" for number in range(3)]
    for words in (["filter"], ["jobs"], ["sql", "SELECT * FROM v_job"], ["compare", *ids], ["show", ids[0]]):
        for line in lines_on_terminal(*words, url=many, columns=columns):
            # A path alone may be longer than the terminal is wide: it is to be copied.
            assert len(line) <= columns or line.lstrip().startswith(("/", "events.out.")), (words, line)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.slow
def test_numbers_and_ids_stand_on_terminals_as_in_csv(many: str, run: Run, columns: int) -> None:
    question = "SELECT train_id, learning_rate, loss, log_bytes FROM v_job ORDER BY train_id"
    names = "summary_dir,learning_rate,loss,metric/accuracy,metric/top_five,remark"
    for words in (["sql", question], ["filter", "--columns", names], ["jobs"]):
        shown = {
            word for line in lines_on_terminal(*words, url=many, columns=columns) for word in line.split()
        }
        for row in csv.reader(io.StringIO(run(*words, "--csv").out)):
            assert {
                cell for cell in row if re.fullmatch(r"[\w./]+", cell) and not cell.startswith("/")
            } <= shown


def test_in_a_file_nothing_is_cut(many: str, run: Run) -> None:
    written = run("filter").out
    assert all(f"{number} {PROSE}" in written for number in range(3))
    assert len(written.splitlines()) == 4
