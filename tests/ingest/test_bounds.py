"""Bounds per job: what exceeds them is left out and reported, neighbours are read, and memory stays small."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from helpers import bombs
from helpers.engines import url_of
from helpers.ingesting import column, ingest, ledger_is_closed, rows
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest import commit
from lineage_store.ingest.decode.lineage_fold import fold
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.ingest.read.batch import fill
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading
from lineage_store.store.writes.lineage import current_events

MOST_MIB = 450
"""What a process that takes in all bombs may come to; some alone would take gigabytes."""
APPENDS = 200
PIPELINE = {"op_type": "Batch", "children": []}


def write_neighbour(base_dir: Path) -> None:
    log = Log().train(network="LeNet5", loss=0.5).evaluation({"accuracy": 0.75}).user_info(team="vision")
    log.dataset_graph(PIPELINE).write_lineage(base_dir / "zz_neighbour")
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "zz_neighbour")


def assert_neighbour(engine: Engine) -> None:
    assert column(engine, "SELECT network FROM v_job WHERE train_id = './zz_neighbour'") == ["LeNet5"]
    assert column(engine, "SELECT value FROM v_metric WHERE train_id = './zz_neighbour'") == [0.75]
    assert column(engine, "SELECT value FROM v_scalar WHERE train_id = './zz_neighbour'") == [0.5]


def problems(engine: Engine, kind: str) -> list[str]:
    return column(engine, "SELECT reason FROM ingest_problem WHERE kind = :kind ORDER BY path", kind=kind)


def assert_verified(engine: Engine, base_dir: Path) -> None:
    assert ledger_is_closed(engine)
    with LineageStore(url_of(engine)) as store:
        assert [each for each in store.repair.verify(base_dir) if each.differences or each.unreadable] == []


@pytest.mark.parametrize("bomb", bombs.BOMBS)
@pytest.mark.slow
def test_an_event_beyond_a_bound_is_left_out_and_told_and_its_neighbours_are_read(
    bomb: str, engine: Engine, base_dir: Path
) -> None:
    bombs.write(base_dir, [bomb])
    write_neighbour(base_dir)
    ingest(engine, base_dir, lease_s=5)
    (reason,) = column(engine, "SELECT reason FROM ingest_problem")
    assert bombs.BOMBS[bomb][1] in reason
    assert_neighbour(engine)
    for table in ("lineage_event", "evaluation_metric", "user_info", "dataset_node", "series"):
        assert column(engine, f"SELECT count(*) FROM {table}")[0] < 10, table
    assert column(engine, "SELECT epoch FROM ingest_lease") == [1]
    assert_verified(engine, base_dir)


@pytest.mark.slow
def test_memory_stays_small_whatever_lies_in_a_base_dir(sqlite_url: str, base_dir: Path) -> None:
    bombs.write(base_dir)
    for number in range(20):  # just within the bounds
        Log().user_info(k="\x01" * 1_200_000).write_lineage(base_dir / f"within_{number}")
    write_neighbour(base_dir)
    program = (
        "import re, sys; from pathlib import Path; from lineage_store import LineageStore\n"
        "with LineageStore(sys.argv[1]) as store: store.ingest(sys.argv[2])\n"
        # of this program alone: ru_maxrss begins with what the parent had
        "print(int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024)"
    )
    command = [sys.executable, "-c", program, sqlite_url, str(base_dir)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(finished.stdout) < MOST_MIB


@pytest.mark.parametrize(
    ("setting", "log"),
    [
        ("most_lineage_events", [Log().evaluation({"a": number}) for number in range(30)]),
        ("most_user_values", [Log().user_info(**{f"k{number}": 1}) for number in range(30)]),
        ("most_lineage_bytes", [Log().user_info(k="x" * 1000) for _ in range(30)]),
    ],
)
@pytest.mark.slow
def test_a_job_gets_no_more_events_than_it_has_room_for_until_the_setting_is_raised(
    setting: str, log: list[Log], engine: Engine, base_dir: Path
) -> None:
    bound = {setting: 10 if setting != "most_lineage_bytes" else 10_500}
    files = [base_dir / "job" / f"events.out.events.summary.{1_700_000_000 + n}.0.h_lineage" for n in (0, 1)]
    write_neighbour(base_dir)
    for number, part in enumerate(log):
        files[number % 2].parent.mkdir(exist_ok=True)
        with files[number % 2].open("ab") as stream:
            stream.write(part.content)
        if number % 7 == 0:
            ingest(engine, base_dir, **bound)
    ingest(engine, base_dir, **bound)
    taken = "SELECT count(*) FROM v_lineage_event WHERE train_id = './job'"
    assert column(engine, taken) == [10]
    told = problems(engine, "beyond_bounds")
    assert len(told) == 2, "one of each file, however many events it is about"
    assert all(setting in reason for reason in told)
    assert_neighbour(engine)
    assert_verified(engine, base_dir)
    with LineageStore(url_of(engine)) as store:
        store.job((base_dir, "./job")).reingest()
    assert column(engine, taken) == [30]
    assert problems(engine, "beyond_bounds") == []


def test_a_file_keeps_the_tags_it_has_and_gets_no_more_than_its_share(engine: Engine, base_dir: Path) -> None:
    log = Log().scalars(1, {f"t{number}": 1.0 for number in range(8)})
    path = log.write_summary(base_dir / "job")
    write_neighbour(base_dir)
    ingest(engine, base_dir, most_tags=10)
    for step in range(2, 5):
        log.scalars(step, {f"t{number}": float(step) for number in (0, 8, 9, 10, 11, 20 + step)})
        log.histogram(step, "h", [1.0]).write(path)
        ingest(engine, base_dir, most_tags=10)
    kept = "SELECT tag, sample_count FROM v_series WHERE train_id = './job' ORDER BY tag"
    assert [tuple(row) for row in rows(engine, kept)] == [
        ("t0", 4), *((f"t{number}", 1) for number in range(1, 8)), ("t8", 3), ("t9", 3)
    ]  # fmt: skip
    (reason,) = problems(engine, "beyond_bounds")
    assert "most_tags" in reason
    assert_neighbour(engine)
    assert_verified(engine, base_dir)


def test_the_tags_of_all_plugins_count_together_in_a_files_first_batch(
    engine: Engine, base_dir: Path
) -> None:
    log = Log().scalars(1, {f"s{number}": 1.0 for number in range(4)})
    for number in range(4):
        log.histogram(1, f"h{number}", [1.0])
    log.write_summary(base_dir / "job")
    write_neighbour(base_dir)
    ingest(engine, base_dir, most_tags=5)
    assert column(engine, "SELECT count(*) FROM v_series WHERE train_id = './job'") == [5]
    (reason,) = problems(engine, "beyond_bounds")
    assert "most_tags" in reason
    assert_neighbour(engine)
    assert_verified(engine, base_dir)


# --- growth ---


@pytest.mark.slow
def test_small_appends_cost_the_same_each_and_come_to_what_one_read_does(
    engine: Engine, base_dir: Path
) -> None:
    log = Log().train(network="N").dataset_graph(PIPELINE)
    path = log.write_lineage(base_dir / "job")
    Log().user_info(first="1").write_lineage(base_dir / "job", 1_600_000_000)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
    ingest(engine, base_dir)
    base_dir_id, counts = register(engine, base_dir), []
    with hold_lease(engine, base_dir_id, 600.0, mode="once") as lease, path.open("ab") as stream:
        with reading(engine) as session:
            known, now = registry.known_files(session, base_dir_id), session.now()
        (file,) = (each for each in known if each.name == path.name)
        for number in range(APPENDS):
            more = (
                Log().evaluation({"a": number})
                if number % 2
                else Log().user_info(**{f"k{number % 10}": number})
            )
            stream.write(more.content)
            stream.flush()
            statements.clear()
            batch = fill(base_dir, [file], Settings(), now)
            commit.write_batch(engine, lease, batch, Settings())
            file = batch.advances[0].after
            counts.append(len(statements))
    assert max(counts[:10]) == max(counts)
    assert_folded(engine)
    assert column(engine, "SELECT max(evaluation_no) FROM v_metric") == [APPENDS // 2]
    assert column(engine, "SELECT count(*) FROM v_metric WHERE is_latest") == [1]
    assert_verified(engine, base_dir)


def assert_folded(engine: Engine) -> None:
    """Whether what is stored of each job is what all its events come to."""
    with reading(engine) as session:
        jobs = column(engine, "SELECT id FROM train_job")
        for job, events in current_events(session, jobs).items():
            whole = fold(events)
            stored = column(engine, "SELECT model_lineage FROM lineage WHERE job_id = :job", job=job)
            assert [json.loads(text) for text in stored] == [json.loads(whole.model_lineage)] * whole.listed
            assert column(
                engine, "SELECT name FROM user_info WHERE job_id = :job ORDER BY position", job=job
            ) == [value.name for value in whole.user_info]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_files_that_grow_are_rewritten_and_read_again_come_to_what_all_their_events_do(
    seed: int, engine: Engine, base_dir: Path
) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        job = base_dir / chance.choice("ab")
        path = job / f"events.out.events.summary.{1_700_000_000 + chance.randrange(3)}.0.h_lineage"
        job.mkdir(exist_ok=True)
        log = Log()
        for _ in range(chance.randrange(1, 4)):
            number = chance.randrange(9)
            match chance.randrange(5):
                case 0:
                    log.train(epoch=number)
                case 1:
                    log.evaluation({f"m{number}": number})
                case 2:
                    log.dataset_graph({"op_type": f"O{number}", "children": []})
                case _:
                    log.user_info(**{f"k{number}": number})
        with path.open("wb" if chance.random() < 0.2 else "ab") as stream:
            stream.write(log.content)
        if chance.random() < 0.7:
            ingest(engine, base_dir, batch_rows=chance.choice([1, 50_000]))
            assert_folded(engine)
    ingest(engine, base_dir)
    assert_folded(engine)
    assert_verified(engine, base_dir)
