"""Steps may be as far apart as int64 allows: in any order, each is stored with its last value."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, rows
from helpers.known_files import unread
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.eventlog.mindspore import filenames
from lineage_store.ingest.decode.rows import Chunk, from_chunks
from lineage_store.ingest.lease import register
from lineage_store.operations import verify
from lineage_store.store.records import FileSight

LEAST, GREATEST = -(2**63), 2**63 - 1
EXTREME = [LEAST, LEAST + 1, -1, 0, GREATEST]
STEPS = st.sampled_from([*EXTREME, 1, 2**62, -(2**62) - 1, GREATEST - 1]) | st.integers(LEAST, GREATEST)


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.slow
def test_every_order_of_extreme_steps_is_stored_and_verified(
    vectorised: bool, engine: Engine, base_dir: Path
) -> None:
    orders = list(permutations(EXTREME))
    for number, order in enumerate(orders):
        log = Log()
        for step in order:
            log.scalar(step, "loss", 0.5, wall_time=1.7e9 + order.index(step)).tensor(step, "w", [0.5])
        log.write_summary(base_dir / f"{number}")
    ingest(engine, base_dir, vectorised=vectorised)
    for table in ("scalar_sample", "payload_sample"):
        kept = f"SELECT count(*) FROM {table} GROUP BY job_id"
        assert column(engine, kept) == [len(EXTREME)] * len(orders)
    verdicts = list(verify.verify(engine, base_dir, register(engine, base_dir), Settings()))
    assert [fault for each in verdicts for fault in (*each.differences, each.unreadable) if fault] == []
    ranges = rows(engine, "SELECT DISTINCT first_step, last_step FROM v_series WHERE tag = 'loss'")
    assert [tuple(row) for row in ranges] == [(LEAST, GREATEST)]
    assert all(speed > 0 for speed in column(engine, "SELECT steps_per_s FROM v_series") if speed)


@given(st.lists(STEPS, min_size=1, max_size=100), st.booleans())
def test_of_any_steps_each_is_kept_once_with_its_last_value(steps: list[int], vectorised: bool) -> None:
    log = Log()
    for value, step in enumerate(steps):
        log.scalar(step, "loss", float(value))
    file = unread(filenames.compose("events", 1_700_000_000, 0, "host", "_MS"), train_id="./a")
    chunk = Chunk(file, FileSight(len(log.content), 0, closed=False, stat_stamp=""), b"", log.content)
    (found,) = from_chunks([chunk], Settings(vectorised=vectorised)).samples
    last = dict(zip(steps, map(float, range(len(steps))), strict=True))
    kept = zip(found.steps.tolist(), found.columns["value"].tolist(), strict=True)
    assert list(kept) == sorted(last.items())
    assert (found.statistics[0].first_step, found.statistics[0].last_step) == (min(steps), max(steps))
