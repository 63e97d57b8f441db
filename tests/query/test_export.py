"""An export writes what the views contain, in every format, on both databases."""

from __future__ import annotations

import csv
import gc
import hashlib
import io
import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import text

from helpers.databases import copied, plain_role
from helpers.engines import url_of
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.api.reports import ExportProgress
from lineage_store.errors import (
    LineageParamTypeError,
    LineageParamValueError,
    LineageQuerySummaryDataError,
    LineageStoreError,
)
from lineage_store.query.export import exporting, sources
from lineage_store.query.status import view_rows
from lineage_store.store.database.db import reading
from lineage_store.store.schema.views import VIEWS

NOW = ("quiet_s", "last_cycle_age_s")
"""Columns that say something else each time."""
VALUES = [1.0, math.nan, math.inf, -math.inf, 0.0, 1e-40]
TIMES = [1_700_000_000.123456, 1_702_592_000.9999996, 0.0, math.nan, -5.0, 1_700_000_003.0]


@pytest.fixture(scope="module")
def base_dirs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A job that was restarted, with odd values and times, and one whose texts look like formulas."""
    parent = tmp_path_factory.mktemp("exported")
    first, second = parent / "one" / "base", parent / "two" / "base"
    log = Log().version()
    for step, (value, time) in enumerate(zip(VALUES, TIMES, strict=True), 1):
        log.scalar(step, "loss", value, wall_time=time)
    log.write_summary(first / "odd", timestamp=1_700_000_000)
    again = Log().version().scalar(5, "loss", 0.5).scalar(6, "accuracy", 0.25)
    again.write_summary(first / "odd", timestamp=1_700_000_500)
    formula = Log().train(network="=1+1", optimizer="@SUM(A1)", learning_rate=-0.5, epoch=-3, loss=math.nan)
    formula.evaluation({"accuracy": math.inf, "note": "-2"}).write_lineage(second / "formula")
    Log().version().scalar(1, "loss", 2.0).write_summary(second / "formula")
    return first, second


def fill(base_dirs: tuple[Path, Path], url: str) -> None:
    with LineageStore(url) as store:
        for base_dir in base_dirs:
            store.ingest(base_dir)


@pytest.fixture(scope="module")
def store(module_database_url: str, base_dirs: tuple[Path, Path]) -> Iterator[LineageStore]:
    """A store of both."""
    fill(base_dirs, module_database_url)
    with LineageStore(module_database_url) as store:
        yield store


@pytest.fixture
def own(
    store: LineageStore, module_database_url: str, base_dirs: tuple[Path, Path], tmp_path: Path
) -> Iterator[LineageStore]:
    """A copy of it, for a test that changes it."""
    store.engine.dispose()
    with copied(module_database_url, tmp_path, partial(fill, base_dirs)) as url, LineageStore(url) as own:
        yield own


@pytest.fixture
def asked(store: LineageStore) -> Iterator[LineageStore]:
    """The same, by a role whom a READ ONLY transaction binds."""
    if store.engine.dialect.name == "sqlite":
        yield store
        return
    url = url_of(store.engine)
    with plain_role(url) as role, LineageStore(role) as asked:
        yield asked


def of_view(store: LineageStore, name: str) -> list[dict[str, Any]]:
    with reading(store.engine) as session:
        rows = view_rows(session, name, {})
    return sorted(({k: v for k, v in row.items() if k not in NOW} for row in rows), key=repr)


def exported(at: Path, name: str) -> list[dict[str, Any]]:
    rows = [
        row
        for file in sorted((at / name).rglob("*.parquet"))
        for row in pq.ParquetFile(file).read().to_pylist()
    ]
    return sorted(({k: v for k, v in row.items() if k not in NOW} for row in rows), key=repr)


def test_parquet_has_every_row_of_every_view_as_the_view_has_it(store: LineageStore, tmp_path: Path) -> None:
    report = store.export(to=tmp_path / "out")
    known = {view.name: of_view(store, view.name) for view in VIEWS}
    assert {view.name: exported(tmp_path / "out", view.name) for view in VIEWS} == known
    assert report.rows == sum(map(len, known.values()))


def test_samples_are_the_same_however_few_are_read_at_a_time(
    store: LineageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROWS_AT_A_TIME", 2)
    monkeypatch.setattr(sources, "_FETCHED", 1)
    monkeypatch.setattr(sources, "_MOST_SERIES", 1)
    monkeypatch.setattr(sources, "_GROUPS_AT_A_TIME", 1)
    monkeypatch.setattr(sources, "ROWS_AT_A_TIME", 2)
    monkeypatch.setattr(exporting, "_MOST_OPEN", 1)
    store.export(to=tmp_path / "out")
    for name in ("v_scalar", "v_series", "v_log_file"):
        assert exported(tmp_path / "out", name) == of_view(store, name)


def test_a_file_that_has_many_rows_goes_on_in_a_second_one(
    store: LineageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROWS_AT_A_TIME", 1)
    monkeypatch.setattr(exporting, "_MOST_ROWS", 2)
    found = store.export("v_series", to=tmp_path / "out").files
    assert max(each.rows for each in found) == 2
    assert exported(tmp_path / "out", "v_series") == of_view(store, "v_series")


def test_the_manifest_comes_last_and_tells_rows_bytes_and_digests(
    store: LineageStore, tmp_path: Path
) -> None:
    store.export(to=tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    found = {
        str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()
    }
    assert found == {"manifest.json"} | {each["path"] for each in manifest["files"]}
    for each in manifest["files"]:
        data = (tmp_path / "out" / each["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (each["bytes"], each["sha256"])
        assert pq.ParquetFile(io.BytesIO(data)).metadata.num_rows == each["rows"]
    months = {each["month"] for each in manifest["files"] if each["name"] == "v_scalar"}
    assert {"1970-01", "2023-11", "2023-12", "unknown"} <= months
    assert len({each["base_dir"] for each in manifest["files"] if each["name"] == "v_job"}) == 2


def test_an_export_that_fails_leaves_no_manifest_and_nothing_that_looks_whole(
    asked: LineageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LineageParamValueError, match="several columns"):
        asked.export("SELECT 1 AS a, 2 AS a", to=tmp_path / "twice")
    monkeypatch.setattr(sources, "ROWS_AT_A_TIME", 1)
    with pytest.raises(LineageQuerySummaryDataError):
        asked.export(
            "SELECT abs(n) AS a FROM (VALUES (1), (-9223372036854775807 - 1)) t(n)", to=tmp_path / "out"
        )
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    asked.export("SELECT 1 AS a", to=tmp_path / "whole")
    with pytest.raises(LineageParamValueError, match="holds an export"):
        asked.export("SELECT 1 AS a", to=tmp_path / "whole")


@pytest.mark.parametrize("format_", ["csv", "arrow"])
def test_a_stream_that_nobody_reads_any_more_ends_the_export_without_a_word(
    store: LineageStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, format_: str
) -> None:
    class Closed(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell():
                raise BrokenPipeError
            return super().write(data)

    monkeypatch.setattr(sources, "ROWS_AT_A_TIME", 1)
    with pytest.raises(BrokenPipeError):
        store.export("v_series", to=Closed(), format=format_)
    gc.collect()
    assert caplog.records == []


def test_a_column_of_several_types_asks_for_a_cast(sqlite_url: str, tmp_path: Path) -> None:
    with LineageStore(sqlite_url) as store, pytest.raises(LineageStoreError, match="CAST"):
        store.export("SELECT 1 AS a UNION ALL SELECT 'x'", to=tmp_path / "mixed")


def test_an_increment_has_the_jobs_that_changed_since_and_no_other(own: LineageStore, tmp_path: Path) -> None:
    own.export(to=tmp_path / "whole")
    revision = max(row["revision"] for row in exported(tmp_path / "whole", "v_job"))
    base_dir = next(path for path in list(own.base_dirs) if Path(path).parent.name == "two")
    own.job((base_dir, "./formula")).annotate(remark="again")
    for number, since in enumerate((revision, tmp_path / "whole")):
        at = tmp_path / f"more-{number}"
        own.export(to=at, since=since)
        for name in ("v_job", "v_scalar", "v_metric"):
            assert exported(at, name) == [row for row in of_view(own, name) if row["base_dir"] == base_dir]
        assert exported(at, "v_base_dir") == of_view(own, "v_base_dir")


def test_after_each_batch_it_says_how_far_it_has_come(
    own: LineageStore, asked: LineageStore, tmp_path: Path
) -> None:
    seen: list[ExportProgress] = []
    own.export(to=tmp_path / "out", progress=seen.append)
    last = {far.name: far for far in seen}
    for view in VIEWS:
        count = len(of_view(own, view.name))
        expected = count if view.name in ("v_scalar", "v_histogram", "v_payload") else None
        assert last.get(view.name) == (ExportProgress(view.name, count, expected) if count else None)
    asked.export("SELECT 1 AS a", to=tmp_path / "statement", progress=seen.append)
    assert seen[-1] == ExportProgress("query", 1, None)
    base_dir = next(path for path in list(own.base_dirs) if Path(path).parent.name == "two")
    own.job((base_dir, "./formula")).annotate(remark="again")
    own.export("v_scalar", to=tmp_path / "more", since=tmp_path / "out", progress=seen.append)
    assert seen[-1] == ExportProgress("v_scalar", 1, 1)


def test_csv_starts_no_formula_and_keeps_numbers(store: LineageStore) -> None:
    out = io.BytesIO()
    store.export("v_job", to=out, format="csv")
    rows = {row["train_id"]: row for row in csv.DictReader(io.StringIO(out.getvalue().decode()))}
    told = [
        rows["./formula"][name] for name in ("network", "optimizer", "learning_rate", "epoch", "loss_kind")
    ]
    assert told == ["'=1+1", "'@SUM(A1)", "-0.5", "-3", "nan"]
    out = io.BytesIO()
    store.export("v_scalar", to=out, format="csv")
    values = {row["value"] for row in csv.DictReader(io.StringIO(out.getvalue().decode()))}
    assert {"", "Infinity", "-Infinity", "0.5"} <= values


def test_json_lines_and_arrow_hold_the_same_rows(store: LineageStore, tmp_path: Path) -> None:
    lines, stream = io.BytesIO(), io.BytesIO()
    store.export("v_scalar", to=lines, format="jsonl")
    store.export("v_scalar", to=stream, format="arrow")
    table = pa.ipc.open_stream(stream.getvalue()).read_all()
    assert sorted(table.to_pylist(), key=repr) == of_view(store, "v_scalar")
    steps = [(row["train_id"], row["step"]) for row in map(json.loads, lines.getvalue().splitlines())]
    assert sorted(steps) == sorted(zip(table["train_id"].to_pylist(), table["step"].to_pylist(), strict=True))
    store.export("v_job", to=tmp_path / "out", format="arrow")
    (file, *_) = sorted((tmp_path / "out" / "v_job").iterdir())
    assert pa.ipc.open_stream(file.read_bytes()).read_all().num_rows == 1


def test_a_statement_is_exported_with_the_types_of_its_answer(asked: LineageStore, tmp_path: Path) -> None:
    asked.export(
        "SELECT train_id, count(*) AS n, max(value) AS most FROM v_scalar GROUP BY train_id",
        to=tmp_path / "q",
    )
    table = pq.ParquetFile(tmp_path / "q" / "query" / "all.parquet").read()
    assert sorted(zip(*(table[name].to_pylist() for name in ("train_id", "n", "most")), strict=True)) == [
        ("./formula", 1, 2.0),
        ("./odd", 8, math.inf),
    ]
    assert [str(field.type) for field in table.schema] == ["string", "int64", "double"]


def test_what_cannot_be_exported_is_refused_in_words(store: LineageStore, tmp_path: Path) -> None:
    for what, options, told in (
        ("v_scaler", {}, "Did you mean v_scalar"),
        ("v_job", {"format": "parket"}, "Did you mean parquet"),
        ("SELECT 1 AS a", {"since": 1}, "since is for views"),
        ("v_job", {"format": "openlineage"}, "of all jobs"),
        ("v_job", {"since": tmp_path / "none"}, rf"no manifest\.json in {tmp_path}/none\. Give a revision"),
        ("v_job", {"since": tmp_path}, rf"no manifest\.json in {tmp_path}\."),
        ("v_job", {"since": tmp_path / "manifest.json"}, rf"no manifest\.json in {tmp_path}/\."),
        ("v_job", {"since": "-5"}, r"'-5' is no export of views: there is no manifest\.json in -5\."),
        ("v_job", {"since": "/dev/null/x"}, r"its manifest\.json cannot be read: Not a directory\."),
        ("v_job", {"since": "/dev/null"}, r"it has no manifest\.json with revisions\."),
        ("v_job", {"since": 1.5}, r"no export of views: it has no manifest\.json with revisions\."),
    ):
        with pytest.raises(LineageParamValueError, match=told):
            store.export(what, to=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
    with pytest.raises(LineageParamValueError, match="A stream takes one"):
        store.export(to=io.BytesIO())
    places: tuple[Any, ...] = (io.StringIO(), None, 3)
    for place in places:
        with pytest.raises(LineageParamTypeError, match="neither a directory nor a stream of bytes"):
            store.export("v_job", to=place, format="csv")
    wrong: tuple[dict[str, Any], ...] = ({"what": 5}, {"format": 5})
    for options in wrong:
        with pytest.raises(LineageParamTypeError, match=r"(what|format) = 5 must be a text"):
            store.export(**options, to=tmp_path / "out")
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LineageParamValueError, match="cannot be written to"):
            store.export("v_job", to=place)


def test_behind_a_revision_that_no_database_can_hold_nothing_has_changed(store: LineageStore) -> None:
    out = io.BytesIO()
    store.export("v_job", to=out, format="jsonl", since=10**30)
    assert out.getvalue() == b""


def test_before_a_revision_that_no_database_can_hold_everything_has_changed(store: LineageStore) -> None:
    out = io.BytesIO()
    store.export("v_job", to=out, format="jsonl", since=-(2**70))
    told = {json.loads(line)["job_id"] for line in out.getvalue().splitlines()}
    assert told == {row["job_id"] for row in of_view(store, "v_job")}


@pytest.mark.parametrize(
    "revisions", ['{"/a": 9223372036854775808}', '{"/a": Infinity}', '{"/a": true}', r'{"\ud800": 1}']
)
def test_a_manifest_with_values_that_no_database_holds_is_refused(
    store: LineageStore, tmp_path: Path, revisions: str
) -> None:
    (tmp_path / "manifest.json").write_text(f'{{"revisions": {revisions}}}')
    with pytest.raises(LineageParamValueError, match=r"it has no manifest\.json with revisions"):
        store.export("v_job", to=io.BytesIO(), format="jsonl", since=tmp_path)


def test_csv_has_a_text_as_the_view_has_it(own: LineageStore, tmp_path: Path) -> None:
    odd = "nul\0, no escape \\x41"
    Log().train(network=odd).write_lineage(tmp_path / "base" / "run")
    own.ingest(tmp_path / "base")
    out = io.BytesIO()
    own.export("v_job", to=out, format="csv")
    told = {row["train_id"]: row["network"] for row in csv.DictReader(io.StringIO(out.getvalue().decode()))}
    assert told["./run"] == next(
        row["network"] for row in of_view(own, "v_job") if row["train_id"] == "./run"
    )


def test_series_of_a_base_dir_that_is_being_forgotten_are_not_exported(own: LineageStore) -> None:
    with own.engine.begin() as connection:
        connection.execute(text("UPDATE base_dir SET leaving = true WHERE path LIKE '%one/base'"))
    stream = io.BytesIO()
    own.export("v_scalar", to=stream, format="arrow")
    assert pa.ipc.open_stream(stream.getvalue()).read_all()["train_id"].to_pylist() == ["./formula"]
