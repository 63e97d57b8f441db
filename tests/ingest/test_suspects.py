"""Bytes that are no frame: they wait, are given up with a note, and never affect other bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, ledger_is_closed, open_problems, rows, visible_scalars
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.eventlog.tfrecord import encode_header
from lineage_store.ingest.lease import register
from lineage_store.operations import verify
from lineage_store.operations.repair import retry

FILE = "job/events.out.events.summary.1700000000.0.host_MS"
NO_GRACE = {"suspect_grace_s": 0}


def four() -> Log:
    return Log().scalar(1, "loss", 1.0).scalar(2, "loss", 2.0).scalar(3, "loss", 3.0).scalar(4, "loss", 4.0)


DAMAGES = {
    "payload": lambda: four().damaged(1, 20),
    "payload_checksum": lambda: four().damaged(1, -1),
    "length": lambda: four().damaged(1, 3),
    "length_checksum": lambda: four().damaged(1, 9),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_in_a_live_file_waits_for_the_grace_time(
    damage: object, engine: Engine, base_dir: Path
) -> None:
    assert callable(damage)
    log: Log = damage()
    log.write_summary(base_dir / "job")
    for _ in range(2):
        ingest(engine, base_dir)
        assert visible_scalars(engine) == {1: 1.0}
        assert open_problems(engine) == [("suspect_bytes", FILE)]
        assert column(engine, "SELECT state FROM log_file") == ["suspect"]
    ingest(engine, base_dir, **NO_GRACE)
    position, length = log.spans[1]
    assert visible_scalars(engine) == {1: 1.0, 3: 3.0, 4: 4.0}
    assert rows(engine, "SELECT quarantined_bytes, byte_offset - size_bytes FROM log_file") == [(length, 0)]
    facts = rows(engine, "SELECT kind, range_start, range_end FROM ingest_problem WHERE resolved_at IS NULL")
    assert facts == [("damaged_bytes", position, position + length)]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_in_a_closed_file_is_given_up_in_the_same_ingest(
    damage: object, sqlite_engine: Engine, base_dir: Path
) -> None:
    assert callable(damage)
    path = damage().write_summary(base_dir / "job")
    path.chmod(0o400)
    ingest(sqlite_engine, base_dir)
    assert visible_scalars(sqlite_engine) == {1: 1.0, 3: 3.0, 4: 4.0}
    assert open_problems(sqlite_engine) == [("damaged_bytes", FILE)]
    assert column(sqlite_engine, "SELECT state FROM log_file") == ["closed"]
    assert column(sqlite_engine, "SELECT state FROM train_job") == ["finished"]
    assert ledger_is_closed(sqlite_engine)


def test_a_grace_time_that_has_not_passed_is_waited_for(engine: Engine, base_dir: Path) -> None:
    DAMAGES["payload"]().write_summary(base_dir / "job")
    ingest(engine, base_dir, suspect_grace_s=3600)
    ingest(engine, base_dir, suspect_grace_s=3600)
    assert visible_scalars(engine) == {1: 1.0}


def test_only_bytes_that_were_there_when_suspicion_rose_are_given_up(engine: Engine, base_dir: Path) -> None:
    path = four().damaged(1, 20).torn(10).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    later = four().damaged(1, 20).damaged(3, 20)
    later.write(path)
    ingest(engine, base_dir, **NO_GRACE)
    assert visible_scalars(engine) == {1: 1.0, 3: 3.0}
    assert open_problems(engine) == [("damaged_bytes", FILE), ("suspect_bytes", FILE)]
    assert column(engine, "SELECT suspect_size FROM log_file") == [len(later.content)]


@pytest.mark.parametrize("filled_at_once", [True, False])
def test_a_hole_that_is_filled_later_loses_nothing(
    filled_at_once: bool, engine: Engine, base_dir: Path
) -> None:
    log = four()
    holed = bytearray(log.content)
    start = log.spans[1][0]
    holed[start:] = bytes(len(holed) - start)
    path = Log().raw(bytes(holed)).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert open_problems(engine) == [("suspect_bytes", FILE)]
    if not filled_at_once:
        half = log.spans[2][0] + 5
        path.write_bytes(log.content[:half] + bytes(len(holed) - half))
        ingest(engine, base_dir)
        assert visible_scalars(engine) == {1: 1.0, 2: 2.0}
    path.write_bytes(log.content)
    ingest(engine, base_dir)
    assert visible_scalars(engine) == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    assert open_problems(engine) == []
    assert rows(engine, "SELECT quarantined_bytes, generation, state FROM log_file") == [(0, 1, "open")]


def test_a_hole_that_is_filled_after_it_was_given_up_is_read_as_a_rewritten_file(
    engine: Engine, base_dir: Path
) -> None:
    log = four()
    path = Log().raw(log.content[: log.spans[1][0]] + bytes(60)).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    ingest(engine, base_dir, **NO_GRACE)
    assert column(engine, "SELECT quarantined_bytes > 0 FROM log_file") == [True]
    path.write_bytes(log.content)
    ingest(engine, base_dir)
    assert visible_scalars(engine) == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
    assert ledger_is_closed(engine)


def test_reading_goes_on_at_the_next_valid_frame_behind_junk(sqlite_engine: Engine, base_dir: Path) -> None:
    log = Log().scalar(1, "loss", 1.0).raw(b"\xa5junk" * 7).scalar(2, "loss", 2.0)
    log.write_summary(base_dir / "job").chmod(0o400)
    ingest(sqlite_engine, base_dir)
    assert visible_scalars(sqlite_engine) == {1: 1.0, 2: 2.0}
    (first, _), (second, _) = log.spans
    start = first + log.spans[0][1]
    assert rows(
        sqlite_engine, "SELECT range_start, range_end FROM ingest_problem WHERE resolved_at IS NULL"
    ) == [(start, second)]


@pytest.mark.parametrize("length", [64 * 2**20, 2**40, 2**63 - 1, 2**64 - 1])
def test_an_absurd_length_is_no_allocation_and_no_end(
    length: int, sqlite_engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 1.0).raw(encode_header(length)).scalar(2, "loss", 2.0)
    log.write_summary(base_dir / "job").chmod(0o400)
    ingest(sqlite_engine, base_dir)
    assert visible_scalars(sqlite_engine) == {1: 1.0, 2: 2.0}


def test_an_undecodable_event_with_valid_checksums_costs_itself_at_once(
    engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 1.0).frame(b"\xff\xff\xff").scalar(2, "loss", 2.0)
    log.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert visible_scalars(engine) == {1: 1.0, 2: 2.0}
    assert open_problems(engine) == [("undecodable_event", FILE)]
    assert column(engine, "SELECT quarantined_bytes FROM log_file") == [log.spans[1][1]]


def test_undecodable_events_are_one_problem_that_counts_them_and_has_the_first_and_the_last(
    engine: Engine, base_dir: Path
) -> None:
    alike = Log().frame(b"\xff").frame(b"\xff")
    alike.scalar(1, "loss", 1.0).frame(b"\xff").write_summary(base_dir / "job")
    ingest(engine, base_dir)
    (first, length), _, _, (last, _) = alike.spans
    ranges = "range_start, first_range_end, last_range_start, range_end"
    assert rows(engine, f"SELECT kind, count, bytes, {ranges} FROM v_ingest_problem") == [
        ("undecodable_event", 3, 3 * length, first, first + length, last, last + length)
    ]


def test_a_metric_that_is_no_json_is_a_problem_of_that_job_alone(engine: Engine, base_dir: Path) -> None:
    Log().train(network="A").evaluation("{accuracy: high}").write_lineage(base_dir / "bad")
    Log().train(network="B").evaluation({"accuracy": 0.5}).write_lineage(base_dir / "good")
    ingest(engine, base_dir)
    assert [kind for kind, path in open_problems(engine) if path.startswith("bad/")] == ["unreadable_metric"]
    assert len(open_problems(engine)) == 1
    assert column(engine, "SELECT network FROM lineage ORDER BY network") == ["A", "B"]
    assert column(engine, "SELECT count(*) FROM metric") == [1]
    assert column(engine, "SELECT count(*) FROM lineage_event WHERE kind = 'eval'") == [2]


def test_the_torn_tail_of_a_closed_file_is_pending_and_noted(engine: Engine, base_dir: Path) -> None:
    log = four().torn(9)
    log.write_summary(base_dir / "job").chmod(0o400)
    report = ingest(engine, base_dir)
    assert visible_scalars(engine) == {1: 1.0, 2: 2.0, 3: 3.0}
    assert report.pending_bytes == 9
    assert rows(engine, "SELECT state, size_bytes - byte_offset, quarantined_bytes FROM log_file") == [
        ("torn", 9, 0)
    ]
    assert open_problems(engine) == [("torn_file", FILE)]


@pytest.mark.parametrize("chunk_bytes", [4096, 1 << 20])
def test_frames_behind_one_that_was_cut_short_are_read_once_the_file_is_closed(
    chunk_bytes: int, engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 1.0).tensor(2, "t", [0.5] * 4000).torn(9000)
    path = log.scalar(3, "loss", 3.0).scalar(4, "loss", 4.0).write_summary(base_dir / "job")
    ingest(engine, base_dir, chunk_bytes=chunk_bytes)
    assert visible_scalars(engine) == {1: 1.0}
    path.chmod(0o400)
    ingest(engine, base_dir, chunk_bytes=chunk_bytes)
    assert visible_scalars(engine) == {1: 1.0, 3: 3.0, 4: 4.0}
    assert rows(engine, "SELECT quarantined_bytes, byte_offset - size_bytes FROM log_file") == [(9000, 0)]
    assert column(engine, "SELECT state FROM log_file") == ["closed"]


def test_a_frame_that_follows_missing_bytes_is_found_wherever_a_chunk_ends(
    sqlite_engine: Engine, base_dir: Path
) -> None:
    for missing in range(1, 45):
        log = Log().tensor(1, "t", [0.5] * 2000).torn(8_047 - missing).scalar(2, "loss", 2.0)
        log.scalar(3, "loss", 3.0).write_summary(base_dir / f"job_{missing}").chmod(0o400)
    ingest(sqlite_engine, base_dir, chunk_bytes=4096)
    assert column(sqlite_engine, "SELECT count(*) FROM scalar_sample GROUP BY job_id") == [2] * 44
    assert ledger_is_closed(sqlite_engine)


def test_a_torn_tail_that_is_completed_after_all_is_read(engine: Engine, base_dir: Path) -> None:
    path = four().torn(9).write_summary(base_dir / "job")
    path.chmod(0o400)
    ingest(engine, base_dir)
    path.chmod(0o600)
    four().write(path).chmod(0o400)
    ingest(engine, base_dir)
    assert visible_scalars(engine)[4] == 4.0
    assert open_problems(engine) == []


@pytest.mark.parametrize("chunk_bytes", [4096, 5000, 1 << 20])
def test_a_damaged_range_is_one_problem_however_it_was_cut_into_chunks(
    chunk_bytes: int, engine: Engine, base_dir: Path
) -> None:
    junk = bytes(range(1, 256)) * 100
    log = Log().scalar(1, "loss", 1.0).raw(junk).scalar(2, "loss", 2.0)
    log.write_summary(base_dir / "job")
    ingest(engine, base_dir, chunk_bytes=chunk_bytes)
    ingest(engine, base_dir, chunk_bytes=chunk_bytes, **NO_GRACE)
    start = log.spans[0][1]
    facts = rows(engine, "SELECT kind, range_start, range_end FROM ingest_problem WHERE resolved_at IS NULL")
    assert facts == [("damaged_bytes", start, start + len(junk))]
    assert visible_scalars(engine) == {1: 1.0, 2: 2.0}
    assert column(engine, "SELECT quarantined_bytes FROM log_file") == [len(junk)]


def test_a_long_damage_waits_for_one_grace_time_and_not_for_one_per_chunk(
    sqlite_engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 1.0).raw(bytes(40_000)).scalar(2, "loss", 2.0)
    log.write_summary(base_dir / "job")
    ingest(sqlite_engine, base_dir, chunk_bytes=4096)
    assert visible_scalars(sqlite_engine) == {1: 1.0}
    ingest(sqlite_engine, base_dir, chunk_bytes=4096, **NO_GRACE)
    assert visible_scalars(sqlite_engine) == {1: 1.0, 2: 2.0}
    assert column(sqlite_engine, "SELECT state FROM log_file") == ["open"]


def test_a_frame_longer_than_a_chunk_is_read_whole(sqlite_engine: Engine, base_dir: Path) -> None:
    log = Log().scalar(1, "loss", 1.0).tensor(1, "big", [[0.5] * 5000]).scalar(2, "loss", 2.0)
    log.write_summary(base_dir / "job")
    ingest(sqlite_engine, base_dir, chunk_bytes=4096)
    assert visible_scalars(sqlite_engine) == {1: 1.0, 2: 2.0}
    assert column(sqlite_engine, "SELECT shape FROM payload_sample") == ["[1, 5000]"]


def test_one_damaged_file_does_not_keep_the_others_waiting(sqlite_engine: Engine, base_dir: Path) -> None:
    Log().raw(b"\xa5" * 5000).write_summary(base_dir / "job", 1_700_000_001)
    four().write_summary(base_dir / "job")
    ingest(sqlite_engine, base_dir)
    assert len(visible_scalars(sqlite_engine)) == 4


@pytest.mark.parametrize("beyond", [0, 1000])
def test_a_file_of_headers_that_claim_what_follows_is_left_alone_too(
    beyond: int, sqlite_engine: Engine, base_dir: Path
) -> None:
    good, log = four().content, Log()
    for number in range(300):
        log.raw(encode_header((300 - number) * (12 + len(good)) + beyond)).raw(good)
    log.raw(bytes(100)).write_summary(base_dir / "riddled").chmod(0o400)
    ingest(sqlite_engine, base_dir, most_damages=100)
    assert column(sqlite_engine, "SELECT state FROM log_file") == ["quarantined"]
    assert column(sqlite_engine, "SELECT event_count FROM log_file") == [4 * 100]
    retry(sqlite_engine, base_dir, register(sqlite_engine, base_dir), Settings(), None)
    assert column(sqlite_engine, "SELECT event_count FROM log_file") == [4 * 300]


@pytest.mark.parametrize("vectorised", [True, False])
def test_a_file_with_damage_everywhere_is_left_alone_until_somebody_asks(
    vectorised: bool, engine: Engine, base_dir: Path
) -> None:
    log = Log()
    for step in range(300):
        log.scalar(step, "loss", 1.0).frame(b"\xff")
    log.write_summary(base_dir / "riddled").chmod(0o400)
    four().write_summary(base_dir / "whole")
    for _ in range(2):
        ingest(engine, base_dir, most_damages=100, vectorised=vectorised)
        assert column(engine, "SELECT state FROM log_file ORDER BY state") == ["open", "quarantined"]
        counts = rows(engine, "SELECT kind, count FROM v_ingest_problem ORDER BY kind")
        assert counts == [("heavily_damaged_file", 1), ("undecodable_event", 100)]
        assert column(engine, "SELECT count(*) FROM v_scalar WHERE train_id = './riddled'") == [101]
    base_dir_id = register(engine, base_dir)
    verdicts = list(verify.verify(engine, base_dir, base_dir_id, Settings()))
    assert [each.differences for each in verdicts] == [(), ()]
    retry(engine, base_dir, base_dir_id, Settings(), None)
    assert column(engine, "SELECT count(*) FROM v_scalar WHERE train_id = './riddled'") == [300]
    assert column(engine, "SELECT state FROM log_file ORDER BY state") == ["closed", "open"]
