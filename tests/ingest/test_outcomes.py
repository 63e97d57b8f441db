"""v_job.outcome: what the log files of a job say about the end of its training."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.ingesting import column, ingest
from helpers.log_writer import Log

GRAPH: dict[str, Any] = {"op_type": "Batch", "parameter": {"batch_size": 4}}
BEGIN = Log().dataset_graph(GRAPH)
COMPLETE = Log().dataset_graph(GRAPH).train(network="Net")
EVALUATION = Log().evaluation({"accuracy": 0.5})
ENDED: dict[str, Any] = {"end/outcome": "failed", "end/last_step": 3}
FAILED = Log().user_info(**ENDED)


@pytest.mark.parametrize(
    ("files", "outcome"),
    [
        ([COMPLETE], "completed"),
        ([COMPLETE, EVALUATION], "completed"),
        ([COMPLETE, BEGIN], "interrupted"),
        ([COMPLETE, FAILED], "failed"),
        ([FAILED, COMPLETE], "completed"),
        ([BEGIN], "interrupted"),
        ([FAILED], "failed"),
        ([EVALUATION], None),
    ],
    ids=[
        *("completed", "completed then evaluated", "completed then interrupted", "completed then failed"),
        *("failed then completed", "interrupted", "failed", "only evaluated"),
    ],
)
def test_the_last_training_decides(
    files: list[Log], outcome: str | None, tmp_path: Path, engine: Engine
) -> None:
    for number, log in enumerate(files):
        log.write_lineage(tmp_path / "base" / "job", timestamp=1_700_000_000 + number).chmod(0o400)
    assert outcome_of(engine, tmp_path / "base") == outcome


def test_a_training_that_may_go_on_has_no_outcome(tmp_path: Path, engine: Engine) -> None:
    base = tmp_path / "base"
    FAILED.write_lineage(base / "job", timestamp=1_700_000_000).chmod(0o400)
    growing = BEGIN.write_lineage(base / "job", timestamp=1_700_000_001)
    assert outcome_of(engine, base) is None
    growing.chmod(0o400)
    assert outcome_of(engine, base) == "failed"


def test_a_training_of_which_no_one_knows_whether_it_ended_has_no_outcome(
    tmp_path: Path, engine: Engine
) -> None:
    path = BEGIN.write_lineage(tmp_path / "base" / "job")
    os.utime(path, (time.time() - 7200,) * 2)
    assert outcome_of(engine, tmp_path / "base") is None


def test_a_word_that_is_no_outcome_is_none(tmp_path: Path, engine: Engine) -> None:
    splendid: dict[str, Any] = {"end/outcome": "splendid"}
    log = Log().dataset_graph(GRAPH).train(network="Net").user_info(**splendid)
    log.write_lineage(tmp_path / "base" / "job").chmod(0o400)
    assert outcome_of(engine, tmp_path / "base") == "completed"


def outcome_of(engine: Engine, base: Path) -> str | None:
    ingest(engine, base)
    (outcome,) = column(engine, "SELECT outcome FROM v_job")
    return None if outcome is None else str(outcome)
