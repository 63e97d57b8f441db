"""Reading again: readers see the old rows until the new ones are complete, and repaired files are noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.contents import natural_contents
from helpers.ingesting import column, ingest, ledger_is_closed, open_problems, visible_scalars
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.errors import LeaseLostError, TrainJobNotFoundError
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.ingest.pipeline import Ingester, run_pass
from lineage_store.operations import repair
from lineage_store.operations.why import why
from lineage_store.store import leases
from lineage_store.store.database.db import writing
from lineage_store.store.schema.tables import log_file, scalar_sample, series
from lineage_store.store.writes.jobs import annotate

SETTINGS = Settings()
_SECOND = re.compile(r"(_MS'|_lineage'|generation'), 2\b")
LOSS = {1: 4.0, 2: 2.0, 3: 1.0}


def curve() -> Log:
    log = Log().version()
    for step, value in LOSS.items():
        log.scalar(step, "loss", value)
    return log


def damaged() -> Log:
    """A bit is flipped in the frame of step 2."""
    log = curve()
    start, length = log.spans[2]
    log.buffer[start + length - 6] ^= 1
    return log


def generations(contents: dict[str, list[tuple[tuple[str, object], ...]]]) -> dict[str, list[str]]:
    """Contents with every generation called the first."""
    return {name: sorted(_SECOND.sub(r"\1, 1", repr(row)) for row in rows) for name, rows in contents.items()}


def test_a_job_read_again_is_as_it_was(engine: Engine, base_dir: Path) -> None:
    curve().write_summary(base_dir / "job")
    Log().train(network="LeNet5").evaluation({"accuracy": 0.5}).write_lineage(base_dir / "job")
    curve().write_summary(base_dir / "other")
    ingest(engine, base_dir)
    base_dir_id = register(engine, base_dir)
    with writing(engine) as session:
        annotate(session, base_dir_id, "./job", {"tag": 1}, session.now())
    before = natural_contents(engine)
    done = repair.reingest(engine, base_dir, base_dir_id, "./job", SETTINGS)
    assert (done.tried, done.from_start, done.events) == (2, 2, 6)
    assert generations(natural_contents(engine)) == generations(before)
    assert column(engine, "SELECT generation FROM log_file ORDER BY generation") == [1, 2, 2]
    assert column(engine, "SELECT label FROM v_job WHERE train_id = './job'") == [1]


def test_interrupted_before_the_first_byte_readers_see_the_old(engine: Engine, base_dir: Path) -> None:
    curve().write_summary(base_dir / "job")
    ingest(engine, base_dir)
    base_dir_id = register(engine, base_dir)
    with hold_lease(engine, base_dir_id, 60, mode="once") as lease:
        stopped = Ingester(engine, base_dir, lease, SETTINGS, should_stop=lambda: True)
        repair.begin_anew(stopped, ["./job"])
        run_pass(stopped, only=["./job"])
    assert visible_scalars(engine) == LOSS
    assert column(engine, "SELECT count(*) FROM log_file") == [2]
    ingest(engine, base_dir)
    assert visible_scalars(engine) == LOSS
    assert column(engine, "SELECT generation FROM log_file") == [2]


def test_an_open_file_with_damage_is_not_seen_half_meanwhile(engine: Engine, base_dir: Path) -> None:
    damaged().write_summary(base_dir / "job")
    for _ in range(2):
        ingest(engine, base_dir, suspect_grace_s=0)
    seen = visible_scalars(engine)
    assert set(seen) == {1, 3}
    repair.reingest(engine, base_dir, register(engine, base_dir), "./job", SETTINGS)
    assert visible_scalars(engine) == seen
    ingest(engine, base_dir, suspect_grace_s=0)
    assert visible_scalars(engine) == seen
    assert column(engine, "SELECT generation FROM log_file") == [2]
    assert ledger_is_closed(engine)


def test_a_file_that_was_mended_is_found_by_retry(engine: Engine, base_dir: Path) -> None:
    path = damaged().write_summary(base_dir / "job")
    path.chmod(0o400)
    ingest(engine, base_dir)
    assert set(visible_scalars(engine)) == {1, 3}
    path.chmod(0o600)
    curve().write(path).chmod(0o400)
    done = repair.retry(engine, base_dir, register(engine, base_dir), SETTINGS, None)
    assert (done.tried, done.from_start) == (1, 1)
    assert visible_scalars(engine) == LOSS
    assert open_problems(engine) == []


def test_a_file_that_is_back_is_found_by_retry(engine: Engine, base_dir: Path) -> None:
    path = curve().write_summary(base_dir / "job")
    ingest(engine, base_dir)
    path.rename(base_dir / "away")
    ingest(engine, base_dir)
    assert open_problems(engine) == [("missing_file", f"job/{path.name}")]
    (base_dir / "away").rename(path)
    done = repair.retry(
        engine, base_dir, register(engine, base_dir), SETTINGS, lambda file: file.name == path.name
    )
    assert (done.tried, done.from_start) == (1, 0)
    assert open_problems(engine) == []


def test_what_is_well_is_left_alone(engine: Engine, base_dir: Path) -> None:
    curve().write_summary(base_dir / "job")
    ingest(engine, base_dir)
    done = repair.retry(engine, base_dir, register(engine, base_dir), SETTINGS, lambda _: True)
    assert (done.tried, done.events) == (0, 0)


def test_what_is_gone_from_disk_stays_as_it_was_read(engine: Engine, base_dir: Path) -> None:
    path = curve().write_summary(base_dir / "job")
    ingest(engine, base_dir)
    path.unlink()
    repair.reingest(engine, base_dir, register(engine, base_dir), "./job", SETTINGS)
    assert visible_scalars(engine) == LOSS
    assert column(engine, "SELECT state FROM log_file WHERE current") == ["missing"]


def test_a_daemon_gives_way(engine: Engine, base_dir: Path) -> None:
    curve().write_summary(base_dir / "job")
    ingest(engine, base_dir)
    base_dir_id = register(engine, base_dir)
    with writing(engine) as session:
        daemon = leases.acquire(session, base_dir_id, "daemon", 60, "daemon")
    repair.reingest(engine, base_dir, base_dir_id, "./job", SETTINGS)
    with pytest.raises(LeaseLostError), writing(engine) as session:
        leases.confirm(session, daemon)


def test_an_unknown_job_is_named(engine: Engine, base_dir: Path) -> None:
    curve().write_summary(base_dir / "job")
    ingest(engine, base_dir)
    with pytest.raises(TrainJobNotFoundError, match="none"):
        repair.reingest(engine, base_dir, register(engine, base_dir), "./none", SETTINGS)


@pytest.mark.parametrize("way", ["retry", "reingest"])
def test_a_quarantined_file_is_retried(engine: Engine, base_dir: Path, way: str) -> None:
    curve().write_summary(base_dir / "job")
    ingest(engine, base_dir)
    with writing(engine) as session:
        nothing_read = {"byte_offset": 0, "fingerprint_bytes": 0, "anchor_bytes": 0, "event_count": 0}
        session.change(log_file.update().values(state="quarantined", failed_reads=3, **nothing_read))
        for table in (scalar_sample, series):
            session.change(table.delete())
    ingest(engine, base_dir)
    assert visible_scalars(engine) == {}
    base_dir_id = register(engine, base_dir)
    if way == "retry":
        repair.retry(engine, base_dir, base_dir_id, SETTINGS, None)
    else:
        repair.reingest(engine, base_dir, base_dir_id, "./job", SETTINGS)
    assert visible_scalars(engine) == LOSS
    assert column(engine, "SELECT failed_reads FROM log_file") == [0]


# --- bytes that make no frame, in a file that is still written ---


def suspect(log: Log) -> Log:
    return log.raw(b"\xff" * 64)


def test_a_file_with_suspect_bytes_is_shown_anew_at_once_if_it_has_no_less(
    engine: Engine, base_dir: Path
) -> None:
    suspect(curve()).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    log = curve()
    for step in range(4, 90):
        log.scalar(step, "loss", 0.5)
    suspect(log).write_summary(base_dir / "job")
    done = repair.reingest(engine, base_dir, register(engine, base_dir), "./job", SETTINGS)
    assert done.kept_back == 0
    assert list(visible_scalars(engine)) == list(range(1, 90))
    assert column(engine, "SELECT state FROM log_file") == ["suspect"]
    assert open_problems(engine) == [("suspect_bytes", "job/events.out.events.summary.1700000000.0.host_MS")]
    assert ledger_is_closed(engine)


def test_a_file_that_is_read_again_without_news_is_shown_anew_at_once(engine: Engine, base_dir: Path) -> None:
    suspect(curve()).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    done = repair.reingest(engine, base_dir, register(engine, base_dir), "./job", SETTINGS)
    assert (done.kept_back, visible_scalars(engine)) == (0, LOSS)


def test_a_file_that_has_less_than_before_is_said_to_be_kept_back(engine: Engine, base_dir: Path) -> None:
    path = suspect(curve()).write_summary(base_dir / "job")
    ingest(engine, base_dir)
    suspect(Log().version().scalar(1, "loss", 9.0)).write(path)
    base_dir_id = register(engine, base_dir)
    done = repair.reingest(engine, base_dir, base_dir_id, "./job", SETTINGS)
    assert (done.kept_back, visible_scalars(engine)) == (1, LOSS)
    assert "kept_back" in [each.kind for each in why(engine, path, SETTINGS).findings]
    ingest(engine, base_dir, suspect_grace_s=0)
    ingest(engine, base_dir, suspect_grace_s=0)
    assert visible_scalars(engine) == {1: 9.0}
