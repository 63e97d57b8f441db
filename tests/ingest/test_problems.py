"""Problems are counted, not listed: a row per log file and kind, at most so many of a job, and exact sums."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, ledger_is_closed, rows
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.findings import finding
from lineage_store.ingest.lease import register
from lineage_store.operations import verify
from lineage_store.operations.repair import retry
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import writing
from lineage_store.store.writes import ingest_log, jobs

NO_GRACE = {"suspect_grace_s": 0}
MEASURES = "kind, count, bytes, range_start, first_range_end, last_range_start, range_end"


def differences(engine: Engine, base_dir: Path, **settings: object) -> list[str]:
    base_dir_id = register(engine, base_dir)
    verdicts = verify.verify(engine, base_dir, base_dir_id, Settings(**settings))  # type: ignore[arg-type]
    return [each.what for verdict in verdicts for each in verdict.differences]


def listed(engine: Engine) -> dict[str, int]:
    """How many open rows there are of each kind."""
    wanted = "SELECT kind, count(*) FROM v_ingest_problem WHERE resolved_at IS NULL GROUP BY kind"
    return dict(rows(engine, wanted))  # type: ignore[arg-type]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(ingest_log, "MOST_OF_JOB", 3)
    return 3


@pytest.mark.parametrize("chunk_bytes", [4096, 1 << 22])
def test_any_number_of_damaged_places_is_one_row_per_kind_with_exact_sums(
    chunk_bytes: int, engine: Engine, base_dir: Path
) -> None:
    log, wanted = Log(), {"undecodable_event": [0, 0], "damaged_bytes": [0, 0]}
    for step in range(400):
        kind = ("undecodable_event", "damaged_bytes")[step % 2]
        before = len(log.content)
        log.frame(b"\xff\xff\xff") if kind == "undecodable_event" else log.raw(b"\xa5" * (20 + step % 7))
        wanted[kind][0] += 1
        wanted[kind][1] += len(log.content) - before
        log.scalar(step, "loss", 1.0)
    log.write_summary(base_dir / "job").chmod(0o400)
    ingest(engine, base_dir, chunk_bytes=chunk_bytes)
    wanted_rows = f"SELECT {MEASURES} FROM v_ingest_problem WHERE resolved_at IS NULL ORDER BY kind"
    found = [tuple(row) for row in rows(engine, wanted_rows)]
    assert {row[0]: [row[1], row[2]] for row in found} == wanted
    (first, length), (last, _) = log.spans[0], log.spans[-3]
    assert found[1][3:5] == (first, first + length)
    assert found[1][5:] == (last, last + length)
    assert column(engine, "SELECT quarantined_bytes FROM log_file") == [
        sum(each for _, each in wanted.values())
    ]
    assert differences(engine, base_dir) == []
    assert ledger_is_closed(engine)


def test_a_file_that_grows_with_damage_for_ever_keeps_its_row(engine: Engine, base_dir: Path) -> None:
    log, times = Log(), []
    for step in range(6):
        log.frame(b"\xff").scalar(step, "loss", 1.0).write_summary(base_dir / "job")
        ingest(engine, base_dir)
        (row,) = rows(engine, "SELECT id, count, first_seen_at, last_seen_at FROM ingest_problem")
        times.append(row)
        assert row._mapping["count"] == step + 1
    assert len({(row.id, row.first_seen_at) for row in times}) == 1
    assert len({row.last_seen_at for row in times}) == 6


def test_a_state_that_comes_and_goes_keeps_its_row(engine: Engine, base_dir: Path) -> None:
    log, shown = Log().scalar(0, "loss", 1.0), set()
    for step in range(1, 5):
        Log().raw(log.content + b"\xa5" * 40).write_summary(base_dir / "job")
        ingest(engine, base_dir)
        assert listed(engine) == {"suspect_bytes": 1}
        shown |= set(column(engine, "SELECT first_seen_at FROM ingest_problem"))
        log.scalar(step, "loss", 1.0).write_summary(base_dir / "job")
        ingest(engine, base_dir)
        assert listed(engine) == {}
    assert column(engine, "SELECT count(*) FROM ingest_problem") == [1]
    assert len(shown) == 4, "each time it begins anew"
    with LineageStore(engine.url.render_as_string(hide_password=False)) as store:
        assert [each.kind for each in store.repair.problems(resolved=True)] == ["suspect_bytes"]
        assert store.repair.problems() == []


def test_a_job_with_very_many_damaged_files_lists_some_and_counts_the_others(
    few: int, engine: Engine, base_dir: Path
) -> None:
    for number in range(10):
        log = Log().scalar(1, "loss", 1.0).frame(b"\xff").scalar(2, "loss", 1.0)
        if number < 5:
            log.torn(7)
        log.write_summary(base_dir / "job", 1_700_000_000 + number).chmod(0o400)
    Log().scalar(1, "loss", 1.0).frame(b"\xff").write_summary(base_dir / "other")
    ingest(engine, base_dir, batch_files=4)
    kinds = {"undecodable_event": few + 1, "torn_file": few, "more_notes": 1, "more_problems": 1}
    assert listed(engine) == kinds
    more = rows(engine, "SELECT kind, path, problems FROM v_ingest_problem WHERE problems > 1 ORDER BY kind")
    assert more == [("more_notes", "job", 10 - few), ("more_problems", "job", 5 - few)]
    assert column(engine, "SELECT problem_count FROM v_job WHERE train_id = './job'") == [15]
    assert column(engine, "SELECT open_problems FROM v_base_dir") == [16]
    assert differences(engine, base_dir) == []
    for path in (base_dir / "job").iterdir():
        path.chmod(0o600)
        Log().scalar(1, "loss", 1.0).scalar(2, "loss", 1.0).write(path).chmod(0o400)
    retry(engine, base_dir, register(engine, base_dir), Settings(), None)
    assert listed(engine) == {"undecodable_event": 1}
    assert column(engine, "SELECT count(*) FROM log_file WHERE unlisted IS NOT NULL") == [0]


def test_states_that_end_make_room_and_resolved_rows_do_not_pile_up(
    few: int, engine: Engine, base_dir: Path
) -> None:
    whole = Log().scalar(1, "loss", 1.0).scalar(2, "loss", 1.0)
    torn = whole.content[:-5]
    paths = [Log().raw(torn).write_summary(base_dir / "job", 1_700_000_000 + number) for number in range(9)]
    for turn in range(3):
        for path in paths:
            path.chmod(0o600)
            path.write_bytes(torn)
            path.chmod(0o400)
        ingest(engine, base_dir)
        assert listed(engine) == {"torn_file": few, "more_problems": 1}
        for path in paths:
            path.chmod(0o600)
            path.write_bytes(whole.content)
            path.chmod(0o400)
        ingest(engine, base_dir)
        assert listed(engine) == {}, turn
        assert column(engine, "SELECT count(*) FROM ingest_problem") <= [few]


def test_each_of_many_jobs_has_its_row(few: int, engine: Engine, base_dir: Path) -> None:
    for number in range(40):
        Log().frame(b"\xff").scalar(1, "loss", 1.0).write_summary(base_dir / f"job_{number}")
    ingest(engine, base_dir)
    assert listed(engine) == {"undecodable_event": 40}


def test_evaluations_whose_metrics_cannot_be_read_are_one_problem(engine: Engine, base_dir: Path) -> None:
    log = Log().train(network="A")
    for _ in range(50):
        log.evaluation("{accuracy: " + "high" * 10_000)
    log.write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    (row,) = rows(engine, "SELECT kind, count, bytes, length(reason) AS long FROM v_ingest_problem")
    assert row.kind == "unreadable_metric"
    assert tuple(row[1:3]) == (50, sum(length for _, length in log.spans[1:]))
    assert row.long <= 1000


def test_what_is_counted_is_counted_once_though_a_transaction_fails(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    for step in range(20):
        log.scalar(step, "loss", 1.0).frame(b"\xff")
    log.write_summary(base_dir / "job")

    def fail(*_: object) -> None:
        raise RuntimeError("the process ends here")

    with monkeypatch.context() as failing:
        failing.setattr(jobs, "refresh_jobs", fail)
        with pytest.raises(RuntimeError):
            ingest(engine, base_dir)
    assert column(engine, "SELECT count(*) FROM ingest_problem") == [0]
    for _ in range(2):
        ingest(engine, base_dir)
        assert column(engine, "SELECT count FROM v_ingest_problem") == [20]


def test_a_text_of_any_length_is_cut(engine: Engine, base_dir: Path) -> None:
    Log().scalar(1, "loss", 1.0).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    with writing(engine) as session:
        base_dir_id = registry.stored_base_dirs(session)[0][0]
        (file,) = registry.known_files(session, base_dir_id)
        found = finding("unreadable_file", "job", reason="x" * 1_000_000, me="me")
        for _ in range(2):
            now = session.now()
            ingest_log.set_file_problems(session, base_dir_id, {file: [found]}, now)
    assert column(engine, "SELECT length(reason) FROM v_ingest_problem") == [1000]


def test_directories_that_cannot_be_looked_at_are_listed_in_turn_and_counted(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_log, "MOST_PATHS", 5)
    base_dir_id = register(engine, base_dir)
    denied = finding("unreadable_path", "", reason="denied", me="me", case="denied")
    paths = [*(f"hostile/{number}" for number in range(20)), "honest/a", "zealous/b"]
    found = [replace(denied, subject=path) for path in paths]
    for _ in range(2):
        with writing(engine) as session:
            ingest_log.set_path_problems(session, base_dir_id, found, session.now())
            assert ingest_log.path_problems_are(session, base_dir_id, found)
        shown = rows(engine, "SELECT path, kind, problems FROM v_ingest_problem ORDER BY kind DESC, path")
        assert {row.path for row in shown[:4]} == {"hostile/0", "hostile/1", "honest/a", "zealous/b"}
        assert (shown[4].kind, shown[4].problems) == ("more_paths", 18)
    assert column(engine, "SELECT open_problems FROM v_base_dir") == [22]
    for number in range(20):
        with writing(engine) as session:
            now = session.now()
            alone = [replace(denied, subject=f"new_{number}")]
            ingest_log.set_path_problems(session, base_dir_id, alone, now)
    assert column(engine, "SELECT count(*) FROM v_ingest_problem") == [6]


def _pieces(chance: random.Random) -> Iterator[bytes]:
    for step in range(chance.randint(1, 40)):
        log = Log().scalar(step, "loss", chance.random())
        if chance.random() < 0.2:
            log = Log().tensor(step, "t", [0.5] * chance.randint(1, 3000))
        content = bytearray(log.content)
        match chance.randrange(9):
            case 0:
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            case 1:
                del content[chance.randrange(len(content)) :]
            case 2:
                content = bytearray(chance.randbytes(chance.randint(1, 9000)))
            case 3:
                content = bytearray(chance.randint(1, 9000))
            case 4:
                content = bytearray(Log().frame(b"\xff\xff\xff").content * chance.randint(1, 3))
            case 5:
                del content[: chance.randrange(len(content))]
        yield bytes(content)


_SEEDS = range(int(os.environ.get("PROBLEM_SEEDS", "40")))


@pytest.mark.parametrize(
    "seed", [seed if seed < 10 else pytest.param(seed, marks=pytest.mark.slow) for seed in _SEEDS]
)
def test_verify_finds_the_given_up_bytes_by_itself_however_the_file_was_read(
    seed: int, sqlite_engine: Engine, base_dir: Path
) -> None:
    chance = random.Random(seed)
    content, chunk_bytes = b"".join(_pieces(chance)), chance.choice([4096, 5000, 1 << 22])
    path = Log().raw(content).write_summary(base_dir / "job")
    cut = chance.randrange(len(content) + 1)
    path.write_bytes(content[:cut])
    settings = {**NO_GRACE, "chunk_bytes": chunk_bytes}
    ingest(sqlite_engine, base_dir, **settings)
    ingest(sqlite_engine, base_dir, **settings)
    path.write_bytes(content)
    if chance.random() < 0.5:
        path.chmod(0o400)
    ingest(sqlite_engine, base_dir, **settings)
    ingest(sqlite_engine, base_dir, **settings)
    assert differences(sqlite_engine, base_dir, chunk_bytes=chance.choice([4096, 1 << 22])) == []
    given_up = column(sqlite_engine, "SELECT coalesce(sum(bytes), 0) FROM v_ingest_problem")
    assert given_up == column(sqlite_engine, "SELECT sum(quarantined_bytes) FROM log_file WHERE current")


def test_verify_finds_damage_that_the_store_does_not_know(engine: Engine, base_dir: Path) -> None:
    log = Log()
    for step in range(30):
        log.scalar(step, "loss", 1.0).frame(b"\xff")
    path = log.write_summary(base_dir / "job")
    ingest(engine, base_dir)
    assert differences(engine, base_dir) == []
    position, length = log.spans[20]
    content = bytearray(log.content)
    content[position + length - 1] ^= 1
    path.write_bytes(content)
    assert len(differences(engine, base_dir)) == 1
    path.write_bytes(log.content)
    with writing(engine) as session:
        session.change("UPDATE ingest_problem SET bytes = bytes - 1")
    (what,) = differences(engine, base_dir)
    assert "the recorded problems come to" in what
