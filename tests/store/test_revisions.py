"""Revisions: each write changes those of exactly the jobs that it changed, and none is missed or seen twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text

from helpers.ingesting import column, ingest, rows
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.findings import finding
from lineage_store.ingest import commit
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.read.batch import Batch
from lineage_store.operations import removal
from lineage_store.operations.base_dirs import forget
from lineage_store.operations.repair import reingest, retry
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.catalog.retention import Rules
from lineage_store.store.database.db import reading, writing
from lineage_store.store.schema.tables import train_job
from lineage_store.store.writes import jobs as revisions

OLD = 1_700_000_000
ONE = "./one"


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """Two jobs with closed files."""
    for name in ("one", "other"):
        write(tmp_path / "base", name, OLD)
    return tmp_path / "base"


@pytest.fixture
def stored(engine: Engine, base_dir: Path) -> Path:
    """The same, in the store."""
    ingest(engine, base_dir)
    return base_dir


def write(base_dir: Path, name: str, timestamp: int) -> None:
    summary = Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / name, timestamp=timestamp)
    lineage = Log().train(network="N").write_lineage(base_dir / name, timestamp=timestamp)
    for path in (summary, lineage):
        path.chmod(0o400)


def only_one() -> Rules:
    return Rules("test", among=select(train_job.c.id).where(train_job.c.train_id == ONE))


def remove_one(engine: Engine, base_dir: Path) -> None:
    for _ in removal.remove(engine, base_dirs.register(engine, base_dir), only_one(), Settings()):
        pass


def revision(engine: Engine) -> int:
    """Of the only base dir that is not leaving."""
    (found,) = column(engine, "SELECT revision FROM v_base_dir")
    return int(found)


def changed_since(engine: Engine, since: int) -> set[str]:
    """What a follower is told: jobs that changed, and (as -./name) those that were removed."""
    jobs = column(engine, "SELECT train_id FROM v_job WHERE revision > :since", since=since)
    removed = "SELECT train_id FROM tombstone WHERE revision > :since"
    return {*jobs, *(f"-{train_id}" for train_id in column(engine, removed, since=since))}


@contextmanager
def changes(engine: Engine, *expected: str) -> Iterator[None]:
    """The block changes exactly these jobs, and the base dir has the greatest of their revisions."""
    before = revision(engine)
    yield
    assert changed_since(engine, before) == set(expected)
    marks = "SELECT revision FROM train_job UNION SELECT revision FROM tombstone"
    assert max(column(engine, f"SELECT max(revision) FROM ({marks}) AS marks")) == revision(engine)
    assert (revision(engine) > before) == bool(expected)


def test_jobs_that_are_new_have_changed(engine: Engine, base_dir: Path) -> None:
    base_dirs.register(engine, base_dir)
    with changes(engine, ONE, "./other"):
        ingest(engine, base_dir)
    with changes(engine, "./third"):
        write(base_dir, "third", OLD)
        ingest(engine, base_dir)


def test_a_pass_that_finds_nothing_changes_nothing(engine: Engine, stored: Path) -> None:
    with changes(engine):
        ingest(engine, stored)


def test_a_job_whose_file_grew_or_that_got_another_has_changed(engine: Engine, base_dir: Path) -> None:
    log = Log().version().scalar(1, "lr", 0.5)
    growing = log.write_summary(base_dir / "one", timestamp=OLD + 1)
    ingest(engine, base_dir)
    with changes(engine, ONE):
        growing.write_bytes(log.scalar(2, "lr", 0.25).content)
        ingest(engine, base_dir)
    with changes(engine, "./other"):
        write(base_dir, "other", OLD + 1)
        ingest(engine, base_dir)


def test_a_job_that_lost_a_file_has_changed(engine: Engine, stored: Path) -> None:
    with changes(engine, ONE):
        for path in (stored / "one").iterdir():
            path.unlink()
        ingest(engine, stored)


def test_a_job_whose_file_was_rewritten_has_changed_and_what_is_left_of_the_old_one_goes_unseen(
    engine: Engine, stored: Path
) -> None:
    with changes(engine, ONE):
        summary = next((stored / "one").glob("*_MS"))
        summary.unlink()
        summary.write_bytes(Log().version().scalar(7, "loss", 0.75).content)
        ingest(engine, stored)
    with changes(engine):
        ingest(engine, stored)


def test_a_job_with_a_file_that_cannot_be_read_has_changed(engine: Engine, stored: Path) -> None:
    base_dir_id = base_dirs.register(engine, stored)
    with reading(engine) as session:
        file = next(each for each in registry.known_files(session, base_dir_id) if each.train_id == ONE)
    problem = finding("unreadable_file", "one", what="It cannot be read.")
    with hold_lease(engine, base_dir_id, 15.0, mode="once") as lease:
        with changes(engine, ONE):
            commit.write_batch(engine, lease, Batch(failures=[(file, problem)]), Settings())
        with changes(engine, ONE):
            commit.write_batch(engine, lease, Batch(failed_read=(file, "crashed")), Settings())
    with changes(engine, ONE):
        retry(engine, stored, base_dir_id, Settings(), None)


def test_a_job_that_becomes_quiet_has_changed(engine: Engine, base_dir: Path) -> None:
    Log().scalar(1, "lr", 0.5).write_summary(base_dir / "live")
    ingest(engine, base_dir)
    assert column(engine, "SELECT state FROM v_job WHERE train_id = './live'") == ["live"]
    with engine.begin() as connection:
        connection.execute(text("UPDATE train_job SET last_grown_at = '2020-01-01T00:00:00Z'"))
    with changes(engine, "./live"):
        base_dir_id = base_dirs.register(engine, base_dir)
        with hold_lease(engine, base_dir_id, 15.0, mode="once") as lease:
            commit.refresh_quiet_jobs(engine, lease, 600.0)
            commit.refresh_quiet_jobs(engine, lease, 600.0)
            commit.heartbeat(engine, lease, searched=True)


def test_a_job_that_was_read_again_has_changed(engine: Engine, stored: Path) -> None:
    with changes(engine, ONE):
        reingest(engine, stored, base_dirs.register(engine, stored), ONE, Settings())


def test_a_job_that_got_a_label_or_a_remark_has_changed(database_url: str, base_dir: Path) -> None:
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(base_dir)
        with changes(store.engine, ONE):
            store.job((base_dir, ONE)).annotate(label=1)


def test_a_removed_job_is_told_by_its_tombstone_until_it_is_back(database_url: str, base_dir: Path) -> None:
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(base_dir)
        with changes(store.engine, f"-{ONE}"):
            remove_one(store.engine, base_dir)
        with changes(store.engine, f"-{ONE}"):
            store.removal.restore(base_dir, ONE)
        with changes(store.engine, ONE):
            store.ingest(base_dir)
        assert column(store.engine, "SELECT train_id FROM tombstone") == []


def test_a_job_that_was_restored_but_is_not_back_is_no_removed_one_any_more(
    database_url: str, base_dir: Path
) -> None:
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(base_dir)
        remove_one(store.engine, base_dir)
        store.removal.restore(base_dir, ONE)
        with pytest.raises(Exception, match=r"No job \./one below .* was removed"):
            store.removal.restore(base_dir, ONE)
        store.ingest(base_dir)
        with changes(store.engine, f"-{ONE}"):
            remove_one(store.engine, base_dir)
        assert column(store.engine, "SELECT lifted FROM tombstone") == [False]


def test_a_base_dir_that_was_forgotten_and_came_back_is_known_since_later(
    database_url: str, base_dir: Path
) -> None:
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(base_dir)
        (before,) = rows(store.engine, "SELECT known_since FROM v_base_dir")
        forget(store.engine, base_dir, Settings())
        store.ingest(base_dir)
        (after,) = rows(store.engine, "SELECT known_since FROM v_base_dir")
        assert after.known_since > before.known_since


def test_what_is_rolled_back_has_changed_nothing(engine: Engine, stored: Path) -> None:
    before, base_dir_id = revision(engine), base_dirs.register(engine, stored)
    jobs = column(engine, "SELECT id FROM train_job ORDER BY train_id")
    with suppress(ZeroDivisionError), writing(engine) as session:
        revisions.stamp(session, base_dir_id, jobs)
        raise ZeroDivisionError
    assert revision(engine) == before
    assert changed_since(engine, before) == set()
    with writing(engine) as session:
        revisions.stamp(session, base_dir_id, jobs[:1])
    assert changed_since(engine, before) == {ONE}


def test_a_revision_that_a_power_cut_took_back_is_not_given_to_other_changes(
    engine: Engine, stored: Path
) -> None:
    base_dir_id, before = base_dirs.register(engine, stored), revision(engine)
    jobs = column(engine, "SELECT id FROM train_job ORDER BY train_id")
    with writing(engine) as session:
        revisions.stamp(session, base_dir_id, jobs[:1])
    seen = revision(engine)
    with writing(engine) as session:  # as if the last transaction had never been
        for table in ("base_dir", "train_job"):
            taken_back = text(f"UPDATE {table} SET revision = :before WHERE revision > :before")
            session.change(taken_back, {"before": before})
    time.sleep(0.002)
    with writing(engine) as session:
        revisions.stamp(session, base_dir_id, jobs[1:])
    assert changed_since(engine, seen) == {"./other"}


def test_revisions_grow_also_while_the_clock_stands_still_or_was_set_back(
    engine: Engine, stored: Path
) -> None:
    base_dir_id, future = base_dirs.register(engine, stored), 4_000_000_000_000
    with writing(engine) as session:
        session.change(text("UPDATE base_dir SET revision = :future"), {"future": future})
        assert revisions.next_revision(session, base_dir_id) == future + 1
        assert revisions.next_revision(session, base_dir_id) == future + 2


def test_who_sees_a_revision_has_seen_all_changes_up_to_it(engine: Engine, stored: Path) -> None:
    """Writers of one base dir at once; a reader that goes on from what it saw last meets each change once."""
    base_dir_id, begun = base_dirs.register(engine, stored), revision(engine)
    jobs = column(engine, "SELECT id FROM train_job ORDER BY train_id")
    written, each = threading.Event(), 20

    def write_often(job_id: int) -> None:
        for _ in range(each):
            with writing(engine) as session:
                revisions.stamp(session, base_dir_id, [job_id])

    def write_all() -> None:
        threads = [threading.Thread(target=write_often, args=(job_id,)) for job_id in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written.set()

    writers = threading.Thread(target=write_all)
    writers.start()
    seen, marks = begun, dict.fromkeys(jobs, begun)
    while not written.is_set() or seen < revision(engine):
        with reading(engine) as session:
            now = session.value(text("SELECT revision FROM base_dir"))
            changed = select(train_job.c.id, train_job.c.revision).where(train_job.c.revision > seen)
            found = {row.id: row.revision for row in session.rows(changed)}
        assert all(seen < mark <= now for mark in found.values())
        assert bool(found) == (now > seen)
        assert not found or max(found.values()) == now
        marks |= found
        seen = now
    writers.join()
    assert seen > begun
    stored_marks = {row.id: row.revision for row in rows(engine, "SELECT id, revision FROM train_job")}
    assert marks == stored_marks


def test_a_remark_does_not_wait_for_a_batch_that_has_changed_no_job_yet(
    postgres_url: str, base_dir: Path
) -> None:
    with LineageStore(postgres_url, settings=Settings()) as store:
        store.ingest(base_dir)
        base_dir_id = base_dirs.register(store.engine, base_dir)
        with (
            hold_lease(store.engine, base_dir_id, 15.0, mode="once") as lease,
            writing(store.engine) as session,
        ):
            leases.confirm(session, lease)
            store.job((base_dir, ONE)).annotate(label=2)
