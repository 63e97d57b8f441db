"""The golden jobs ingested at once, compared with a second reader, MindInsight's curves, and the other database."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers import oracle
from helpers.base_dirs import GOLDEN
from helpers.contents import natural_contents
from helpers.engines import opened
from helpers.ingesting import column, ingest, ledger_is_closed, rows


@pytest.fixture(scope="module")
def golden(module_database_url: str, corpus: Path) -> Iterator[Engine]:
    """The golden jobs in a store, once per database."""
    with opened(module_database_url) as engine:
        ingest(engine, corpus)
        yield engine


@pytest.fixture(scope="module")
def contents() -> dict[str, dict[str, list[object]]]:
    """What each database held, for the comparison of both."""
    return {}


def test_every_byte_of_every_file_is_accounted_for(golden: Engine, corpus: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in corpus.glob("*/*summary.*[!b]") if path.is_file()}
    stored = rows(golden, "SELECT name, size_bytes, byte_offset, quarantined_bytes FROM log_file")
    assert {row.name for row in stored} == sizes.keys()
    assert len(stored) == len([*corpus.glob("*/*summary.*[!b]")])
    assert ledger_is_closed(golden)
    assert all(row.byte_offset == row.size_bytes and row.quarantined_bytes == 0 for row in stored)


def test_every_job_is_there_and_finished(golden: Engine, corpus: Path) -> None:
    found = {row.train_id: row.state for row in rows(golden, "SELECT train_id, state FROM train_job")}
    expected = {f"./{path.name}" for path in corpus.iterdir() if [*path.glob("*summary.*")]}
    assert found == dict.fromkeys(expected, "finished")


def test_events_and_scalars_are_as_many_as_a_second_reader_counts(golden: Engine, corpus: Path) -> None:
    events, samples = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for path in sorted(corpus.glob("*/*summary.*")):
        place = f"./{path.parent.name}", path.name
        events[place] = len(list(oracle.payloads(path)))
        if path.name.endswith("_MS"):
            samples[place] = len({(scalar.tag, scalar.step) for scalar in oracle.scalars(path)})
    stored = rows(
        golden, "SELECT train_id, name, event_count FROM log_file JOIN train_job t ON t.id = job_id"
    )
    assert {(row.train_id, row.name): row.event_count for row in stored} == events
    counted = rows(
        golden,
        "SELECT t.train_id, f.name, count(*) AS many FROM scalar_sample s JOIN series e USING (job_id, series_no)"
        " JOIN log_file f USING (job_id, file_no) JOIN train_job t ON t.id = job_id GROUP BY 1, 2",
    )
    assert {(row.train_id, row.name): row.many for row in counted} == +samples


def test_every_scalar_is_what_a_second_reader_reads(golden: Engine, corpus: Path) -> None:
    expected = {}
    for path in sorted(corpus.glob("*/*_MS")):
        for scalar in oracle.scalars(path):
            value = None if math.isnan(scalar.value) else scalar.value
            key = f"./{path.parent.name}", path.name, scalar.tag, scalar.step
            expected[key] = scalar.wall_time, value
    stored = rows(
        golden,
        "SELECT t.train_id, f.name, e.tag, s.step, s.wall_time, s.value FROM scalar_sample s"
        " JOIN series e USING (job_id, series_no) JOIN log_file f USING (job_id, file_no)"
        " JOIN train_job t ON t.id = s.job_id",
    )
    assert {tuple(row[:4]): tuple(row[4:]) for row in stored} == expected


def test_the_effective_curves_are_those_of_mindinsight(golden: Engine) -> None:
    expected = json.loads((GOLDEN / "expected" / "scalars.json").read_text())
    curves: dict[str, dict[str, list[list[float | None]]]] = {}
    for row in rows(
        golden,
        "SELECT t.train_id, e.tag, s.step, s.wall_time, s.value FROM scalar_sample s"
        " JOIN series e USING (job_id, series_no) JOIN train_job t ON t.id = job_id"
        " WHERE e.superseded_from IS NULL OR s.step < e.superseded_from ORDER BY 1, 2, 3",
    ):
        finite = row.value is not None and math.isfinite(row.value)
        point = [row.step, row.wall_time, row.value if finite else None]
        curves.setdefault(row.train_id, {}).setdefault(f"{row.tag}/scalar", []).append(point)
    for train_id, tags in expected.items():
        assert curves.get(train_id, {}) == tags, train_id


def test_infinities_are_kept_and_nan_is_null(golden: Engine) -> None:
    values = column(
        golden,
        "SELECT value FROM scalar_sample JOIN series USING (job_id, series_no) JOIN train_job t"
        " ON t.id = job_id WHERE t.train_id = './odd_values' AND tag = 'loss' ORDER BY step",
    )
    assert values[1] is None
    assert values[2] in (math.inf, -math.inf) or values[3] in (math.inf, -math.inf)


@pytest.mark.slow
def test_a_second_ingest_changes_nothing_and_reads_nothing(golden: Engine, corpus: Path) -> None:
    before = natural_contents(golden)
    report = ingest(golden, corpus)
    assert (report.counts.bytes_read, report.counts.events) == (0, 0)
    assert natural_contents(golden) == before


def test_both_databases_hold_the_same(golden: Engine, contents: dict[str, dict[str, list[object]]]) -> None:
    contents[golden.dialect.name] = {name: [*found] for name, found in natural_contents(golden).items()}
    assert all(contents[golden.dialect.name][table] for table in ("lineage", "metric", "payload_sample"))
    first, *others = contents.values()
    for other in others:
        assert other == first
