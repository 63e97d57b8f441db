"""Copies of log files: each event counts once, however many files of a job hold it, and none is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.engines import url_of
from helpers.ingesting import column, ingest, open_problems, rows
from helpers.log_writer import GrowingFile, Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest import pipeline
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import register
from lineage_store.operations import repair, verify

SMALL: dict[str, Any] = {"chunk_bytes": 4096, "batch_rows": 50}
"""Settings by which a file of some hundred samples is read in many parts."""

NAME = "events.out.events.summary.1700000000.0.host_MS"


def curve(first: int, last: int, factor: float = 1.0) -> Log:
    log = Log().version()
    for step in range(first, last + 1):
        log.scalar(step, "loss", factor * step)
    return log


def extended(path: Path, first: int, last: int, factor: float = 1.0) -> None:
    log = Log(wall_time=1_700_000_000.0 + 1000 * factor + first)
    for step in range(first, last + 1):
        log.scalar(step, "loss", factor * step)
    with path.open("ab") as stream:
        stream.write(log.content)


def steps(engine: Engine) -> list[int]:
    """The steps of all samples, as often as they are there."""
    return column(engine, "SELECT step FROM v_scalar ORDER BY step")


def files(engine: Engine) -> dict[str, tuple[str, str | None]]:
    """State and original of every log file."""
    found = rows(engine, "SELECT log_file, state, copy_of FROM v_log_file")
    return {row.log_file: (row.state, row.copy_of) for row in found}


def check_ledger(engine: Engine) -> None:
    found = rows(
        engine,
        "SELECT size_bytes, ingested_bytes, quarantined_bytes, pending_bytes, copied_bytes FROM v_log_file",
    )
    for row in found:
        assert row.size_bytes == row.ingested_bytes + row.quarantined_bytes + row.pending_bytes
        assert 0 <= row.copied_bytes <= row.ingested_bytes
        assert row.pending_bytes == 0


@pytest.fixture(params=[{}, SMALL], ids=["whole", "in_parts"])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


COPIES = (
    *(
        "{}.copy",
        "{}_backup",
        "{}-2026-11-25",
        "{} (copy)",
        "copy_of_{}",
        "Copy (2) of {}",
        "{}2",
        "backup.{}",
    ),
    "{}.bak_2",
)


@pytest.mark.parametrize("form", COPIES)
def test_a_copy_counts_once_and_is_told(
    form: str, settings: dict[str, Any], sqlite_engine: Engine, base_dir: Path
) -> None:
    path = curve(1, 400).write_summary(base_dir / "job")
    copy = path.with_name(form.format(path.name))
    shutil.copy(path, copy)
    ingest(sqlite_engine, base_dir, **settings)
    assert steps(sqlite_engine) == list(range(1, 401))
    assert files(sqlite_engine)[copy.name] == ("copy", path.name)
    assert open_problems(sqlite_engine) == [("copied_file", f"job/{copy.name}")]
    assert column(sqlite_engine, "SELECT count(*) FROM scalar_sample") == [400]
    check_ledger(sqlite_engine)
    ingest(sqlite_engine, base_dir, **settings)
    assert steps(sqlite_engine) == list(range(1, 401))


@pytest.mark.parametrize("first", ["original", "copy"])
def test_it_does_not_matter_which_was_there_first(
    first: str, settings: dict[str, Any], engine: Engine, base_dir: Path
) -> None:
    original, copy = base_dir / "job" / NAME, base_dir / "job" / f"{NAME}.copy"
    there, later = (original, copy) if first == "original" else (copy, original)
    curve(1, 400).write(there)
    ingest(engine, base_dir, **settings)
    shutil.copy(there, later)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 401))
    assert files(engine) == {NAME: ("open", None), f"{NAME}.copy": ("copy", NAME)}
    assert open_problems(engine) == [("copied_file", f"job/{NAME}.copy")]
    check_ledger(engine)


def test_the_original_grows_on(settings: dict[str, Any], engine: Engine, base_dir: Path) -> None:
    whole = curve(1, 400)
    path = base_dir / "job" / NAME
    path.parent.mkdir()
    for upto, count in ((60, 0), (whole.spans[150][0] + 7, 149), (whole.spans[300][0] + 20, 299)):
        path.write_bytes(whole.content[:upto])
        shutil.copy(path, path.with_name(f"{NAME}.copy{upto}"))
        ingest(engine, base_dir, **settings)
        assert steps(engine) == list(range(1, count + 1))
    whole.write(path)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 401))
    assert [state for state, _ in files(engine).values()].count("copy") == 3
    check_ledger(engine)


def test_a_copy_that_grows_beyond_its_original_counts(
    settings: dict[str, Any], engine: Engine, base_dir: Path
) -> None:
    path = curve(1, 300).write_summary(base_dir / "job")
    copy = path.with_name(f"{NAME}.copy")
    shutil.copy(path, copy)
    ingest(engine, base_dir, **settings)
    extended(copy, 301, 700)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 701))
    assert files(engine) == {copy.name: ("open", None), NAME: ("copy", copy.name)}
    check_ledger(engine)
    copy.replace(path)  # and is put in the original's place
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 701))
    extended(path, 701, 710)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 711))
    assert files(engine) == {NAME: ("open", None)}
    assert open_problems(engine) == []


def test_a_longer_copy_that_is_there_from_the_beginning_counts(
    settings: dict[str, Any], engine: Engine, base_dir: Path
) -> None:
    path = curve(1, 300).write_summary(base_dir / "job")
    copy = path.with_name(f"{NAME}.copy")
    shutil.copy(path, copy)
    extended(copy, 301, 700)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 701))
    assert files(engine)[NAME] == ("copy", copy.name)
    check_ledger(engine)


def test_both_grow_apart(settings: dict[str, Any], engine: Engine, base_dir: Path) -> None:
    path = curve(1, 300).write_summary(base_dir / "job")
    copy = path.with_name(f"{NAME}.copy")
    shutil.copy(path, copy)
    ingest(engine, base_dir, **settings)
    extended(path, 301, 500)
    extended(copy, 301, 600, 2.0)
    ingest(engine, base_dir, **settings)
    found = rows(engine, "SELECT DISTINCT step, value FROM v_scalar")
    assert {(row.step, row.value) for row in found} == {
        *((step, 1.0 * step) for step in range(1, 501)),
        *((step, 2.0 * step) for step in range(301, 601)),
    }
    assert {state for state, _ in files(engine).values()} == {"open"}
    check_ledger(engine)


def test_a_copy_counts_on_when_the_original_is_gone(
    settings: dict[str, Any], engine: Engine, base_dir: Path
) -> None:
    path = curve(1, 400).write_summary(base_dir / "job")
    copies = [path.with_name(f"{NAME}.copy"), path.with_name(f"{NAME}.copy_2")]
    for each in copies:
        shutil.copy(path, each)
    ingest(engine, base_dir, **settings)
    path.unlink()
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 401))
    assert files(engine) == {copies[0].name: ("open", None), copies[1].name: ("copy", copies[0].name)}
    assert column(engine, "SELECT DISTINCT log_file FROM v_scalar") == [copies[0].name]
    copies[0].unlink()
    extended(copies[1], 401, 410)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 411))
    assert open_problems(engine) == []
    curve(1, 400).write(path)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 411))
    assert files(engine)[NAME] == ("copy", copies[1].name)


def test_a_shorter_copy_does_not_replace_what_was_read_of_a_lost_original(
    settings: dict[str, Any], engine: Engine, base_dir: Path
) -> None:
    whole = curve(1, 400)
    path = whole.write_summary(base_dir / "job")
    copy = path.with_name(f"{NAME}.copy")
    copy.write_bytes(whole.content[: whole.spans[200][0]])
    ingest(engine, base_dir, **settings)
    path.unlink()
    ingest(engine, base_dir, **settings)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 401))
    assert column(engine, "SELECT source_present FROM v_job") == [True]
    whole.write(copy)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 401))
    assert files(engine) == {copy.name: ("open", None)}


def test_a_renamed_log_file_is_the_same(settings: dict[str, Any], engine: Engine, base_dir: Path) -> None:
    path = curve(1, 400).write_summary(base_dir / "job")
    ingest(engine, base_dir, **settings)
    path = path.rename(path.with_name(f"{NAME}.moved"))
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 401))
    extended(path, 401, 420)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == list(range(1, 421))
    assert files(engine) == {path.name: ("open", None)}


@pytest.mark.parametrize("which", ["original", "copy"])
def test_one_of_them_is_rewritten(
    which: str, settings: dict[str, Any], engine: Engine, base_dir: Path
) -> None:
    path = curve(1, 400).write_summary(base_dir / "job")
    copy = path.with_name(f"{NAME}.copy")
    shutil.copy(path, copy)
    ingest(engine, base_dir, **settings)
    log = Log(wall_time=1_800_000_000.0).version()
    for step in range(1001, 1301):
        log.scalar(step, "loss", 1.0)
    log.write(path if which == "original" else copy)
    ingest(engine, base_dir, **settings)
    assert steps(engine) == [*range(1, 401), *range(1001, 1301)]
    assert files(engine) == {NAME: ("open", None), copy.name: ("open", None)}
    assert open_problems(engine) == []
    check_ledger(engine)
    shutil.copy(path, copy)  # now a copy is written over a file of its own
    ingest(engine, base_dir, **settings)
    assert len(steps(engine)) == (300 if which == "original" else 400)
    assert files(engine)[copy.name] == ("copy", NAME)
    check_ledger(engine)


DIFFERENCES: dict[str, Callable[[int], Log]] = {
    "from_the_second_frame": lambda last: curve(2, last + 1),
    "in_the_last_frame": lambda last: curve(1, last - 1).scalar(last, "loss", -1.0),
    "in_the_middle": lambda last: _with_one_other(last),
}


def _with_one_other(last: int) -> Log:
    log = Log().version()
    for step in range(1, last + 1):
        log.scalar(step, "loss", -1.0 if step == last // 2 else 1.0 * step)
    return log


@pytest.mark.parametrize("other", DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_file_that_begins_alike_and_differs_is_no_copy(
    other: Callable[[int], Log], settings: dict[str, Any], engine: Engine, base_dir: Path
) -> None:
    curve(1, 400).write_summary(base_dir / "job")
    other(400).write(base_dir / "job" / f"{NAME}.other")
    ingest(engine, base_dir, **settings)
    assert len(steps(engine)) == 800
    assert {state for state, _ in files(engine).values()} == {"open"}
    shutil.copy(base_dir / "job" / f"{NAME}.other", base_dir / "job" / f"{NAME}.third")
    ingest(engine, base_dir, **settings)
    assert len(steps(engine)) == 800
    assert files(engine)[f"{NAME}.third"] == ("copy", f"{NAME}.other")
    check_ledger(engine)


DEVICES = (
    ("events.out.events.summary.1700000000.0.host_MS", "events.out.events.summary.1700000000.1.host_MS"),
    ("events.out.events.summary.1700000000.0.node1_MS", "events.out.events.summary.1700000000.0.node12_MS"),
    ("events.out.events.summary.1700000000.10.0.0.1_MS", "events.out.events.summary.1700000000.10.0.0.12_MS"),
    ("events.out.events.summary.1700000000.hosta_MS", "events.out.events.summary.1700000000.hostb_MS"),
    ("events.out.events.summary.1700000000.worker_MS", "events.out.events.summary.1700000000.worker-1_MS"),
    ("rank_0.out.events.summary.1700000000.host_MS", "rank_1.out.events.summary.1700000000.host_MS"),
    ("events_0_.out.events.summary.1700000000.host_MS", "events_1_.out.events.summary.1700000000.host_MS"),
    ("events.out.events.summary.1700000000.host_rank0", "events.out.events.summary.1700000000.host_rank1"),
    (
        "events.out.events.summary.1700000000.host_MS_rank1",
        "events.out.events.summary.1700000000.host_MS_rank10",
    ),
    ("events.out.events.summary.1700000000.host_1", "events.out.events.summary.1700000000.host_2"),
)


@pytest.mark.parametrize("names", DEVICES)
def test_devices_that_wrote_equal_bytes_are_no_copies(
    names: tuple[str, str], sqlite_engine: Engine, base_dir: Path
) -> None:
    for name in names:
        curve(1, 20).write(base_dir / "job" / name)
    ingest(sqlite_engine, base_dir)
    assert len(steps(sqlite_engine)) == 40
    assert open_problems(sqlite_engine) == []


@pytest.mark.parametrize("ending", [".copy", "_2nd", "-copy"])
def test_copies_of_lineage_files(ending: str, engine: Engine, base_dir: Path) -> None:
    log = Log().train(network="A", loss=0.5).evaluation({"accuracy": 0.5}).evaluation({"accuracy": 0.7})
    path = log.write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    before = [column(engine, f"SELECT count(*) FROM {view}") for view in ("v_metric_latest", "v_metric")]
    shutil.copy(path, path.with_name(f"{path.name}{ending}"))
    ingest(engine, base_dir)
    counted = [column(engine, f"SELECT count(*) FROM {view}") for view in ("v_metric_latest", "v_metric")]
    assert counted == before == [[1], [2]]
    assert [kind for kind, _ in open_problems(engine)] == ["copied_file"]
    path.unlink()
    ingest(engine, base_dir)
    assert column(engine, "SELECT network FROM v_job") == ["A"]
    counted = [column(engine, f"SELECT count(*) FROM {view}") for view in ("v_metric_latest", "v_metric")]
    assert counted == before


def test_a_copy_does_not_change_the_state_of_its_job(engine: Engine, base_dir: Path) -> None:
    path = curve(1, 20).write_summary(base_dir / "job")
    path.chmod(0o400)
    ingest(engine, base_dir)
    before = rows(engine, "SELECT state, updated_at, log_bytes, host, last_started_at FROM v_job")
    path.with_name(f"{NAME}.copy").write_bytes(path.read_bytes())
    path.with_name(f"{NAME}.begun").write_bytes(path.read_bytes()[:50])
    ingest(engine, base_dir)
    assert rows(engine, "SELECT state, updated_at, log_bytes, host, last_started_at FROM v_job") == before
    assert before[0].state == "finished"


def test_a_copy_of_damaged_bytes(settings: dict[str, Any], engine: Engine, base_dir: Path) -> None:
    log = curve(1, 200).scalar(201, "loss", 201.0).damaged().scalar(202, "loss", 202.0)
    path = log.write_summary(base_dir / "job")
    path.chmod(0o400)
    shutil.copy(path, path.with_name(f"{NAME}.copy"))
    for _ in range(3):
        ingest(engine, base_dir, **settings)
    assert steps(engine) == [*range(1, 201), 202]
    assert ("copied_file", f"job/{NAME}.copy") in open_problems(engine)
    check_ledger(engine)


def test_many_copies_cost_one_comparison_each(sqlite_engine: Engine, base_dir: Path) -> None:
    path = curve(1, 3).write_summary(base_dir / "job")
    for number in range(300):
        shutil.copy(path, path.with_name(f"{NAME}.copy{number}"))
    counts = ingest(sqlite_engine, base_dir, batch_files=50).counts
    assert steps(sqlite_engine) == [1, 2, 3]
    assert column(sqlite_engine, "SELECT count(*) FROM v_log_file WHERE state = 'copy'") == [300]
    assert counts.bytes_read == path.stat().st_size


def test_a_training_that_begins_anew_with_equal_bytes_is_no_copy(engine: Engine, base_dir: Path) -> None:
    curve(1, 20).write_summary(base_dir / "job", 1_700_000_000)
    curve(1, 20).write_summary(base_dir / "job", 1_700_000_100)
    ingest(engine, base_dir)
    assert len(steps(engine)) == 40
    assert column(engine, "SELECT count(*) FROM v_scalar WHERE is_effective") == [20]
    assert open_problems(engine) == []


def sound(engine: Engine, base_dir: Path) -> bool:
    verdicts = verify.verify(engine, base_dir, register(engine, base_dir), Settings())
    return all(not verdict.differences and not verdict.unreadable for verdict in verdicts)


def test_verification_and_reading_again_leave_copies_copies(
    settings: dict[str, Any], engine: Engine, base_dir: Path
) -> None:
    path = curve(1, 400).write_summary(base_dir / "job")
    copy = path.with_name(f"{NAME}.copy")
    shutil.copy(path, copy)
    ingest(engine, base_dir, **settings)
    assert sound(engine, base_dir)
    for _ in range(2):
        repair.reingest(engine, base_dir, register(engine, base_dir), "./job", Settings(**settings))
        assert steps(engine) == list(range(1, 401))
        assert files(engine) == {NAME: ("open", None), copy.name: ("copy", NAME)}
        check_ledger(engine)
    extended(copy, 401, 420)
    path.unlink()
    ingest(engine, base_dir, **settings)
    assert sound(engine, base_dir)
    assert steps(engine) == list(range(1, 421))


@pytest.mark.parametrize("stops_after", range(1, 12))
def test_a_pass_may_stop_between_any_two_transactions(
    stops_after: int, sqlite_engine: Engine, base_dir: Path
) -> None:
    path = curve(1, 300).write_summary(base_dir / "job")
    shutil.copy(path, path.with_name(f"{NAME}.copy"))
    shutil.copy(path, path.with_name(f"{NAME}.longer"))
    extended(path.with_name(f"{NAME}.longer"), 301, 400)
    curve(1, 200).scalar(201, "loss", -1.0).write(path.with_name(f"{NAME}.other"))
    asked = iter(range(stops_after))
    pipeline.ingest(sqlite_engine, base_dir, Settings(**SMALL), should_stop=lambda: next(asked, None) is None)
    for _ in range(2):
        ingest(sqlite_engine, base_dir, **SMALL)
    assert len(steps(sqlite_engine)) == 400 + 201
    assert {name.removeprefix(NAME): state for name, (state, _) in files(sqlite_engine).items()} == {
        "": "copy",
        ".copy": "copy",
        ".longer": "open",
        ".other": "open",
    }
    check_ledger(sqlite_engine)


def test_a_daemon_counts_copies_once_while_both_grow(engine: Engine, base_dir: Path) -> None:
    whole = curve(1, 200)
    original = GrowingFile(base_dir / "job" / NAME, whole.content)
    copy = GrowingFile(base_dir / "job" / f"{NAME}.copy", whole.content)
    follower = Follower(engine, base_dir, Settings(poll_interval_s=0.01, discovery_interval_s=0.05))
    ahead, behind = original, copy
    for _ in range(12):
        ahead.reveal(1500)
        follower.tick()
        behind.reveal(700)
        follower.tick()
        ahead, behind = behind, ahead
        found = steps(engine)
        assert found == list(range(1, len(found) + 1))
    for each in (original, copy):
        each.reveal_all()
    for _ in range(3):
        follower.tick()
    follower.close()
    ingest(engine, base_dir)
    assert steps(engine) == list(range(1, 201))
    assert sorted(state for state, _ in files(engine).values()) == ["copy", "open"]
    check_ledger(engine)


def test_what_stays_in_the_log_file_is_read_from_the_copy_that_is_left(
    engine: Engine, base_dir: Path
) -> None:
    path = Log().version().histogram(1, "w", [0.0, 1.0]).write_summary(base_dir / "job")
    Log().train(network="A").write_lineage(base_dir / "job")
    shutil.copy(path, path.with_name(f"{NAME}.copy"))
    with LineageStore(url_of(engine), settings=Settings()) as store:
        store.ingest(base_dir)
        path.unlink()
        store.ingest(base_dir)
        (found,) = store.job((base_dir, "./job")).histograms("w")
        assert found.step == 1
        assert found.read()


def test_why_tells_of_copies_companions_and_snapshots(engine: Engine, base_dir: Path) -> None:
    path = curve(1, 5).write_summary(base_dir / "job")
    for ending in (".copy", ".bak", " (1)"):
        shutil.copy(path, path.with_name(f"{NAME}{ending}"))
    curve(1, 5).write_summary(base_dir / ".snapshot" / "job")
    with LineageStore(url_of(engine), settings=Settings(recursive=True)) as store:
        store.ingest(base_dir)

        def told(path: Path) -> str:
            return " ".join(each.what for each in store.repair.why(path).findings)

        assert store.repair.why(path.with_name(f"{NAME}.copy")).verdict == "stored"
        assert f"Every byte of it is in job/{NAME} too" in told(path.with_name(f"{NAME}.copy"))
        assert "a backup of a log file" in told(path.with_name(f"{NAME}.bak"))
        assert "a numbered copy of a log file" in told(path.with_name(f"{NAME} (1)"))
        assert "1 of its entries do not count: a backup" in told(base_dir / "job")
        assert "a directory of snapshots or of deleted files" in told(base_dir / ".snapshot" / "job")
        assert "1 of its entries do not count: directory of snapshots" in told(base_dir)
        assert store.repair.why(base_dir / ".snapshot" / "job").verdict == "not stored"
