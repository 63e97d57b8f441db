"""Verification: a store that agrees with its log files passes, and one that does not is detected."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from helpers.engines import opened
from helpers.ingesting import ingest
from helpers.log_writer import Log, tensor
from lineage_store.config import Settings
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2
from lineage_store.ingest.lease import register
from lineage_store.ingest.read.log_reader import digest
from lineage_store.operations import verify as verifying
from lineage_store.operations.verify import FileVerdict

SMALL = Settings(chunk_bytes=4096)


def summary() -> Log:
    log = Log().version()
    for step in range(1, 40):
        log.scalar(step, "loss", 1.0 / step).scalar(step, "lr", -0.0)
    log.scalar(7, "loss", 70.0).scalar(50, "loss", float("nan")).scalar(51, "loss", float("-inf"))
    log.histogram(1, "w", [0.0, 1.0, float("nan")]).image(1, "i", [[[0, 1, 2]]]).tensor(1, "t", [[1.0, 2.0]])
    return log.graph("Conv2D", "ReLU").landscape("surface", [[0.0, 1.0], [2.0, 3.0]])


def verify(engine: Engine, base_dir: Path, **chosen: object) -> list[FileVerdict]:
    return list(verifying.verify(engine, base_dir, register(engine, base_dir), SMALL, **chosen))  # type: ignore[arg-type]


def told(verdicts: list[FileVerdict]) -> list[str]:
    return [difference.what for verdict in verdicts for difference in verdict.differences]


@pytest.fixture
def job(engine: Engine, base_dir: Path) -> Path:
    """The summary file of a job that is in the store, with a lineage file beside it."""
    path = summary().write_summary(base_dir / "job")
    Log().train(network="LeNet5", loss=0.1).evaluation({"accuracy": 0.5}).write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    return path


def test_the_corpus_is_sound(stored_url: str, corpus: Path) -> None:
    with opened(stored_url) as engine:
        verdicts = list(verifying.verify(engine, corpus, register(engine, corpus), Settings()))
    assert told(verdicts) == []
    assert all(verdict.unreadable is None for verdict in verdicts)
    for verdict in verdicts:
        accounted = verdict.ingested_bytes + verdict.quarantined_bytes + verdict.pending_bytes
        assert accounted == verdict.size_bytes == Path(verdict.path).stat().st_size


def test_everything_that_a_file_may_hold_is_sound(engine: Engine, base_dir: Path, job: Path) -> None:
    assert [told([verdict]) for verdict in verify(engine, base_dir)] == [[], []]


def test_values_without_a_name_are_sound(engine: Engine, base_dir: Path) -> None:
    log = Log().version().graph("Conv2D")
    for step in range(100):
        log.histogram(step, "", [0.0, 1.0]).scalar(step, "", 0.5)
    log.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert told(verify(engine, base_dir)) == []


def test_the_lineage_of_a_job_is_folded_once_however_many_files_tell_it(
    engine: Engine, base_dir: Path
) -> None:
    for number in range(5):
        Log().train(network="N").write_lineage(base_dir / "job", 1_700_000_000 + number)
    ingest(engine, base_dir)
    with engine.begin() as connection:
        connection.execute(text("UPDATE lineage SET model_lineage = '{}'"))
    assert told(verify(engine, base_dir)) == ["The job's lineage is not what its lineage events come to."]


def test_a_payload_that_contradicts_itself_is_sound(engine: Engine, base_dir: Path) -> None:
    log = Log().version()
    for step, shape in enumerate(([3], [-1], [0, 2**62, 2**62])):
        lying = tensor("t", [] if 0 in shape else [1.0])
        del lying.tensor.dims[:]
        lying.tensor.dims.extend(shape)
        log.summary(step, lying)
    lying = tensor("odd", [])
    lying.tensor.data_type, lying.tensor.raw_data = anf_ir_pb2.DT_BFLOAT16, b"odd"
    log.summary(9, lying).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert told(verify(engine, base_dir)) == []


def test_damage_that_was_given_up_is_sound_and_counted(engine: Engine, base_dir: Path) -> None:
    log = summary()
    for number in (3, 40):
        start, length = log.spans[number]
        log.buffer[start + length - 6] ^= 1
    log.write_summary(base_dir / "job").chmod(0o400)
    ingest(engine, base_dir)
    (verdict,) = verify(engine, base_dir)
    assert told([verdict]) == []
    assert verdict.quarantined_bytes == log.spans[3][1] + log.spans[40][1]


def test_what_came_since_is_pending(engine: Engine, base_dir: Path, job: Path) -> None:
    with job.open("ab") as file:
        file.write(b"more")
    found = {Path(verdict.path): verdict for verdict in verify(engine, base_dir)}
    assert told(list(found.values())) == []
    assert found[job].pending_bytes == 4


TAMPERED = {
    "a value": ("UPDATE scalar_sample SET value = 9 WHERE step = 5", "Step 5 of scalar"),
    "a lost row": ("DELETE FROM scalar_sample WHERE step = 7", "Step 7 of scalar 'loss' is not in the store"),
    "a row too many": (
        "INSERT INTO scalar_sample SELECT job_id, series_no, 99, wall_time, value FROM scalar_sample"
        " WHERE step = 51",
        "The store has step 99",
    ),
    "a payload's place": ("UPDATE payload_sample SET frame_offset = frame_offset + 1", "the file says"),
    "a payload's checksum": ("UPDATE payload_sample SET checksum = 1", "the file says"),
    "a statistic": ("UPDATE series SET nan_count = 5 WHERE tag = 'loss'", "nan_count 5; its rows have 1"),
    "a lost series": ("DELETE FROM series WHERE tag = 'lr'", "'lr' of the file is not in the store"),
    "the ledger": ("UPDATE log_file SET quarantined_bytes = 3", "does not close"),
    "the events": ("UPDATE log_file SET event_count = 1", "the store counts 1"),
    "a lineage event": ("UPDATE lineage_event SET content = '{}' WHERE kind = 'train'", "another one"),
    "the lineage": ("UPDATE lineage SET model_lineage = '{}'", "not what its lineage events come to"),
    "a bookmark": ("UPDATE log_file SET byte_offset = byte_offset - 3", "rewritten"),
}


@pytest.mark.parametrize(("statement", "expected"), TAMPERED.values(), ids=TAMPERED)
def test_a_store_that_was_tampered_with_is_found_out(
    engine: Engine, base_dir: Path, job: Path, statement: str, expected: str
) -> None:
    with engine.begin() as connection:
        connection.execute(text(statement))
    assert any(expected in difference for difference in told(verify(engine, base_dir)))


def test_a_bookmark_in_the_middle_of_a_frame_is_found_out(engine: Engine, base_dir: Path, job: Path) -> None:
    with engine.begin() as connection:
        moved = "UPDATE log_file SET byte_offset = byte_offset - 3, anchor_bytes = 0, anchor = :nothing"
        connection.execute(text(moved), {"nothing": digest(b"")})
    assert any("no whole frame" in difference for difference in told(verify(engine, base_dir)))


def test_a_file_that_was_changed_before_its_bookmark_is_found_out(
    engine: Engine, base_dir: Path, job: Path
) -> None:
    log = summary()
    start, length = log.spans[30]
    log.buffer[start + length - 6] ^= 1
    log.write(job)
    (difference,) = [difference for verdict in verify(engine, base_dir) for difference in verdict.differences]
    assert (difference.range_start, difference.subject) == (start, str(job))
    assert "reingest" in difference.remedy


def test_a_file_that_is_gone_is_not_judged(engine: Engine, base_dir: Path, job: Path) -> None:
    job.unlink()
    verdicts = {Path(verdict.path): verdict for verdict in verify(engine, base_dir)}
    assert verdicts[job].unreadable is not None
    assert told(list(verdicts.values())) == []


def test_one_job_or_a_sample_of_files_can_be_asked_for(engine: Engine, base_dir: Path, job: Path) -> None:
    summary().write_summary(base_dir / "other")
    ingest(engine, base_dir)
    assert [Path(verdict.path).parent.name for verdict in verify(engine, base_dir, train_id="./other")] == [
        "other"
    ]
    assert len(verify(engine, base_dir, sample=2)) == 2
