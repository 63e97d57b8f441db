"""Removing jobs by rule: hidden at once, deleted in the end, and not brought back by ingest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update

from helpers.contents import natural_contents
from helpers.ingesting import column, ingest, tick_until
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.errors import LeaseHeldError, LeaseLostError, LineageParamSummaryPathError
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.ingest.scan.survey import Scope, survey
from lineage_store.operations import base_dirs
from lineage_store.operations import removal as remove
from lineage_store.query.jobs import newest
from lineage_store.store import leases
from lineage_store.store.catalog.retention import Rules
from lineage_store.store.database.db import reading, writing
from lineage_store.store.schema.tables import train_job
from lineage_store.store.writes import removal
from lineage_store.store.writes import removal as rows_going

SMALL = Settings(batch_rows=3)
DAY_S = 86_400.0
BY_HAND = removal.RemovalCause("test", "me")
OLD = 1_700_000_000
VIEWS = [
    "v_job",
    "v_metric",
    "v_scalar",
    "v_series",
    "v_log_file",
    "v_lineage_event",
    "v_user_info",
    "v_dataset",
]


def write(base_dir: Path, name: str, timestamp: int = OLD) -> None:
    """A closed job with everything that views show."""
    summary = Log().version().scalar(1, "loss", 1.0).scalar(2, "loss", 0.5).histogram(1, "w", [0.0, 1.0])
    trained = Log().train(network="LeNet5", train_dataset_path="/data").evaluation({"accuracy": 0.5})
    for path in (
        summary.write_summary(base_dir / name, timestamp=timestamp),
        trained.user_info(team="vision").write_lineage(base_dir / name, timestamp=timestamp),
    ):
        path.chmod(0o400)


@pytest.fixture
def two(engine: Engine, base_dir: Path) -> Path:
    """Two finished jobs, `go` and `stay`, in the store."""
    write(base_dir, "go")
    write(base_dir, "stay")
    ingest(engine, base_dir)
    return base_dir


def only(engine: Engine, train_id: str) -> Rules:
    wanted = select(train_job.c.id).where(train_job.c.train_id == train_id)
    return Rules(f"only {train_id}", among=wanted)


def take_out(engine: Engine, base_dir: Path, rules: Rules, settings: Settings = SMALL) -> list[str]:
    pages = remove.remove(engine, register(engine, base_dir), rules, settings)
    return [job.train_id for page in pages for job in page]


def seen_in_views(engine: Engine) -> set[str]:
    jobs = {name for view in VIEWS for name in column(engine, f"SELECT train_id FROM {view}")}
    return jobs | set(column(engine, "SELECT greatest_train_id FROM v_metric_best"))


def test_what_the_rules_name_goes_and_the_rest_stays(engine: Engine, base_dir: Path) -> None:
    write(base_dir, "stay")
    ingest(engine, base_dir)
    before = natural_contents(engine)
    write(base_dir, "go")
    ingest(engine, base_dir)
    assert take_out(engine, base_dir, only(engine, "./go")) == ["./go"]
    after = natural_contents(engine)
    assert [dict(row)["train_id"] for row in after.pop("tombstone")] == ["./go"]
    before.pop("tombstone")
    assert after == before
    assert (base_dir / "go").is_dir()


def test_ingest_does_not_bring_it_back(engine: Engine, two: Path) -> None:
    take_out(engine, two, only(engine, "./go"))
    report = ingest(engine, two)
    assert (report.jobs, report.counts.events) == (1, 0)
    assert seen_in_views(engine) == {"./stay"}
    assert not any(survey(Scope(engine, two, register(engine, two), Settings())))


def test_a_newer_log_file_brings_it_back_whole(engine: Engine, two: Path) -> None:
    whole = natural_contents(engine)
    take_out(engine, two, only(engine, "./go"))
    newer = Log().version().scalar(3, "loss", 0.25).write_summary(two / "go", timestamp=OLD + 1)
    ingest(engine, two)
    steps = "SELECT step FROM v_scalar WHERE train_id = './go' ORDER BY step"
    assert column(engine, steps) == [1, 2, 3]
    newer.unlink()
    assert column(engine, "SELECT count(*) FROM tombstone") == [0]
    assert whole["lineage"] == natural_contents(engine)["lineage"]


def test_without_its_tombstone_it_is_read_again(engine: Engine, two: Path) -> None:
    whole = natural_contents(engine)
    take_out(engine, two, only(engine, "./go"))
    with writing(engine) as session:
        assert removal.lift(session, register(engine, two), "./go")
    ingest(engine, two)
    assert natural_contents(engine) == whole


def test_age_is_counted_from_the_last_sign_of_life(engine: Engine, base_dir: Path) -> None:
    for name in ("old", "young"):
        write(base_dir, name)
    ingest(engine, base_dir)
    with writing(engine) as session:
        now = session.now()
        grown = {"./old": now.replace(year=now.year - 1), "./young": now}
        for train_id, at in grown.items():
            job = update(train_job).where(train_job.c.train_id == train_id)
            session.change(job.values(alive_at=at))
    rules = Rules("age", older_than_s=90 * DAY_S)
    named = remove.jobs_named_by(engine, register(engine, base_dir), rules)
    assert [job.train_id for job in named] == ["./old"]


def test_neither_a_name_nor_a_modification_time_makes_a_job_younger(engine: Engine, base_dir: Path) -> None:
    write(base_dir, "go", timestamp=9_999_999_999)
    ingest(engine, base_dir)
    assert take_out(engine, base_dir, Rules("age", older_than_s=DAY_S)) == ["./go"]


def test_live_jobs_never_go(engine: Engine, base_dir: Path) -> None:
    Log().version().scalar(1, "loss", 1.0).write_summary(base_dir / "live")
    ingest(engine, base_dir)
    assert column(engine, "SELECT state FROM v_job") == ["live"]
    assert take_out(engine, base_dir, only(engine, "./live")) == []


def test_missing_names_jobs_without_any_log_file(engine: Engine, two: Path) -> None:
    shutil.rmtree(two / "go")
    ingest(engine, two)
    assert take_out(engine, two, Rules("missing", missing=True)) == ["./go"]


def test_an_unmounted_share_is_no_missing_source(engine: Engine, two: Path) -> None:
    base_dir_id = register(engine, two)
    remove.refuse_unmounted(engine, two, base_dir_id)
    for job in two.iterdir():
        shutil.rmtree(job)
    ingest(engine, two)
    with pytest.raises(LineageParamSummaryPathError, match="not mounted"):
        remove.refuse_unmounted(engine, two, base_dir_id)


def test_an_interrupted_removal_is_out_of_sight_and_goes_with_the_next(engine: Engine, two: Path) -> None:
    base_dir_id = register(engine, two)
    with writing(engine) as session:
        leaving = removal.ensure_leaving(session, base_dir_id, session.now())
        (job_id,) = session.column(only(engine, "./go").among)  # type: ignore[arg-type]
        removal.begin_removal(session, base_dir_id, leaving, [job_id], BY_HAND, session.now())
        assert rows_going.remove_part(session, leaving, 1)
    assert seen_in_views(engine) == {"./stay"}
    with reading(engine) as session:
        assert [job.train_id for job in newest(session, None)] == ["./stay"]
    assert column(engine, "SELECT base_dir FROM v_base_dir") == [str(two)]
    with writing(engine) as session:
        assert removal.lift(session, base_dir_id, "./go")
    ingest(engine, two)  # there again, while the rest of the old rows is still going
    assert seen_in_views(engine) == {"./go", "./stay"}
    assert take_out(engine, two, only(engine, "./go")) == ["./go"]
    assert column(engine, "SELECT count(*) FROM train_job") == [1]
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [2]
    assert column(engine, "SELECT count(*) FROM base_dir") == [1]


def test_a_daemon_gives_way_and_its_next_write_is_refused(engine: Engine, two: Path) -> None:
    base_dir_id = register(engine, two)
    with writing(engine) as session:
        daemon = leases.acquire(session, base_dir_id, "daemon", 60, "daemon")
    assert take_out(engine, two, only(engine, "./go")) == ["./go"]
    with pytest.raises(LeaseLostError), writing(engine) as session:
        leases.confirm(session, daemon)
    with writing(engine) as session:
        leases.acquire(session, base_dir_id, "daemon", 60, "daemon")


def test_while_another_ingest_is_at_work_nothing_goes(engine: Engine, two: Path) -> None:
    with (
        hold_lease(engine, register(engine, two), 60, mode="once"),
        pytest.raises(LeaseHeldError, match="holds the lease"),
    ):
        take_out(engine, two, only(engine, "./go"))
    assert seen_in_views(engine) == {"./go", "./stay"}


def test_forgetting_the_base_dir_takes_what_is_left_along(engine: Engine, two: Path) -> None:
    with writing(engine) as session:
        now, base_dir_id = session.now(), register(engine, two)
        leaving = removal.ensure_leaving(session, base_dir_id, now)
        (job_id,) = session.column(only(engine, "./go").among)  # type: ignore[arg-type]
        removal.begin_removal(session, base_dir_id, leaving, [job_id], BY_HAND, now)
    base_dirs.forget(engine, two, SMALL)
    assert not any(natural_contents(engine).values())


def test_a_daemon_does_not_bring_it_back_until_it_is_restored(engine: Engine, two: Path) -> None:
    quick = Settings(lease_s=1, discovery_interval_s=0.05, poll_interval_s=0.05)
    follower = Follower(engine, two, quick)
    tick_until(lambda: leader_of(engine, two) is not None, follower)
    assert take_out(engine, two, only(engine, "./go")) == ["./go"]
    tick_until(lambda: leader_of(engine, two) is not None, follower)
    (two / "new").mkdir()
    write(two, "new")
    tick_until(lambda: "./new" in seen_in_views(engine), follower)
    assert "./go" not in seen_in_views(engine)
    restore(engine, two, "./go")
    tick_until(lambda: "./go" in seen_in_views(engine), follower)
    follower.close()


def restore(engine: Engine, base_dir: Path, train_id: str) -> None:
    base_dir_id = register(engine, base_dir)
    with hold_lease(engine, base_dir_id, 1, mode="once", before_daemons=True), writing(engine) as session:
        assert removal.lift(session, base_dir_id, train_id)


def leader_of(engine: Engine, base_dir: Path) -> str | None:
    with reading(engine) as session:
        return leases.leader(session, register(engine, base_dir))
