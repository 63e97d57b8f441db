"""`export` from the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.program import PROGRAM, Run, on_terminal


def test_all_views_go_into_a_directory_and_one_to_stdout(run: Run, stored: Path, tmp_path: Path) -> None:
    done = run("export", "--to", tmp_path / "out")
    assert done.code == 0
    files = json.loads((tmp_path / "out" / "manifest.json").read_text())["files"]
    assert (
        done.out
        == f"{sum(each['rows'] for each in files)} rows in {len(files)} files in {tmp_path / 'out'}.\n"
    )
    shown = run("export", "v_metric", "--format", "csv", "--to", "-")
    assert shown.out.splitlines()[0].startswith("base_dir,train_id,job_id,name,value")
    assert len(shown.out.splitlines()) == 3
    counted = run("export", "SELECT count(*) AS n FROM v_scalar", "--format", "jsonl", "--to", "-")
    assert counted.out == '{"n": 4}\n'


def test_since_takes_a_revision_or_an_earlier_export(run: Run, stored: Path, tmp_path: Path) -> None:
    run("export", "--to", tmp_path / "out")
    for since in (tmp_path / "out", 99_999_999_999_999):
        told = run("export", "v_job", "--since", since, "--format", "jsonl", "--to", "-")
        assert (told.code, told.out) == (0, "")
    assert len(run("export", "v_job", "--since", 0, "--format", "jsonl", "--to", "-").out.splitlines()) == 2


def test_on_a_terminal_it_shows_how_far_it_is(stored: Path, on_sqlite: str, tmp_path: Path) -> None:
    shown = on_terminal("export", "v_scalar", "--to", tmp_path / "out", url=on_sqlite)
    assert "Exporting: v_scalar, 4 of 4 rows" in shown
    printed = on_terminal("export", "v_scalar", "--format", "csv", "--to", "-", url=on_sqlite)
    assert "Exporting" not in printed, "rows are what the terminal shows"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["v_jobs", "--to", "-"], "Did you mean v_job"),
        (["--to", "-"], "A stream takes one view or statement"),
        (["v_job", "--to", "-", "--format", "parqet"], "Did you mean parquet"),
        (["v_job", "--to", "jobs.csv"], "give a directory"),
        (["DELETE FROM train_job", "--to", "-", "--format", "csv"], "refused"),
    ],
)
def test_what_cannot_be_exported_is_told(run: Run, stored: Path, arguments: list[str], told: str) -> None:
    refused = run("export", *arguments)
    assert refused.code in (1, 2)
    assert told in refused.err


def test_without_pyarrow_csv_and_json_lines_work_and_parquet_says_what_to_install(
    stored: Path, tmp_path: Path
) -> None:
    script = (
        "import sys; sys.modules['pyarrow'] = None; from lineage_store.cli import main\n"
        "for form in sys.argv[1:]:\n"
        "    print('ended', form, main(['export', '--format', form, '--to', form]), sep=' ', file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "csv", "jsonl", "openlineage", "parquet", "arrow"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stderr
    codes = re.findall(r"ended (\w+) (\d)", told)
    assert codes == [("csv", "0"), ("jsonl", "0"), ("openlineage", "0"), ("parquet", "1"), ("arrow", "1")]
    assert told.count("pip install 'lineage-store[export]'") == 2
    assert "pip install" not in told.partition("ended openlineage")[0]


def test_an_export_that_is_killed_leaves_no_manifest(stored: Path, on_sqlite: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    command = [str(PROGRAM), "--database", on_sqlite, "export", endless, "--format", "csv", "--to"]
    with subprocess.Popen([*command, str(tmp_path / "out")]) as process:
        while not list((tmp_path / "out").glob(".unfinished-*/*")):
            assert process.poll() is None
        process.kill()
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name[0] != "."] == ["query"]
    assert not list((tmp_path / "out" / "query").iterdir())
