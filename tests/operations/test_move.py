"""Moving a base dir: everything that the store has of it is at the new path, and nothing is read again."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, select

from helpers.contents import natural_contents
from helpers.engines import url_of
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import LeaseHeldError, LeaseLostError, LineageParamSummaryPathError
from lineage_store.ingest import pipeline
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.operations import removal
from lineage_store.operations.doctor import examine
from lineage_store.store.catalog.retention import Rules
from lineage_store.store.schema.tables import train_job

PATHS = "SELECT path FROM base_dir WHERE NOT leaving ORDER BY path"


def write(base_dir: Path, name: str) -> None:
    summary = Log().version().scalar(1, "loss", 1.0).scalar(2, "loss", 0.5)
    for path in (
        summary.write_summary(base_dir / name),
        Log().train(network="LeNet5").write_lineage(base_dir / name),
    ):
        path.chmod(0o400)


@pytest.fixture
def old(engine: Engine, tmp_path: Path) -> Path:
    """A base dir in the store, with a remark and a job that was removed; its directory has another name by now."""
    old = tmp_path / "old"
    for name in ("one", "other", "removed"):
        write(old, name)
    ingest(engine, old)
    with LineageStore(url_of(engine)) as store:
        store.job((old, "./one")).annotate(label=3, remark="the one in the paper")
    going = select(train_job.c.id).where(train_job.c.train_id == "./removed")
    assert list(removal.remove(engine, register(engine, old), Rules("test", among=going), Settings()))
    old.rename(tmp_path / "new")
    return old


def beneath(engine: Engine) -> dict[str, list[str]]:
    """All that hangs on the base dir, which its name is in, as if it were at the new path."""
    found = {table: sorted(map(str, rows)) for table, rows in natural_contents(engine).items()}
    return {
        table: [row.replace("'old'", "'new'") for row in rows]
        for table, rows in found.items()
        if table != "base_dir"
    }


def test_all_stays_and_nothing_is_read_again(engine: Engine, old: Path, tmp_path: Path) -> None:
    before, new = beneath(engine), tmp_path / "new"
    with LineageStore(url_of(engine)) as store:
        done = store.base_dirs.move(old, new)
        assert (done.holdings.jobs, done.holdings.annotated, done.files, done.absent) == (2, 1, 4, 0)
        assert list(store.base_dirs) == [str(new)]
        assert [job.train_id for job in store.removal.removed(new)] == ["./removed"]
    assert beneath(engine) == before
    report = ingest(engine, new)
    assert (report.jobs, report.counts.events, report.counts.bytes_read) == (2, 0, 0)


def test_who_follows_changes_is_told(engine: Engine, old: Path, tmp_path: Path) -> None:
    with LineageStore(url_of(engine)) as store:
        since = store.changes.since().since
        store.base_dirs.move(old, tmp_path / "new")
        told = [
            (change.kind, change.base_dir, change.train_id) for change in store.changes.since(since).changes
        ]
    assert told[0] == ("forgotten", str(old), None)
    assert {each[1:] for each in told if each[0] == "changed"} == {
        (str(tmp_path / "new"), "./one"),
        (str(tmp_path / "new"), "./other"),
    }


def test_the_old_path_is_told_as_moved(engine: Engine, old: Path, tmp_path: Path) -> None:
    with LineageStore(url_of(engine)) as store:
        store.base_dirs.move(old, tmp_path / "new")
        with pytest.raises(LineageParamSummaryPathError, match=f"moved to {tmp_path / 'new'}"):
            store.health.status(old)
    with pytest.raises(LineageParamSummaryPathError, match=f"moved to {tmp_path / 'new'}"):
        ingest(engine, old)
    shutil.copytree(tmp_path / "new", old)  # as a second mount of the same files shows them
    with pytest.raises(LineageParamSummaryPathError, match=f"moved to {tmp_path / 'new'}"):
        ingest(engine, old)
    shutil.rmtree(old)
    write(old, "another")
    assert ingest(engine, old).jobs == 1


def test_it_moves_back(engine: Engine, old: Path, tmp_path: Path) -> None:
    with LineageStore(url_of(engine)) as store:
        store.base_dirs.move(old, tmp_path / "new")
        (tmp_path / "new").rename(old)
        store.base_dirs.move(tmp_path / "new", old)
    assert column(engine, PATHS) == [str(old)]
    assert ingest(engine, old).counts.events == 0


def test_a_link_at_the_old_path_is_no_hindrance(engine: Engine, old: Path, tmp_path: Path) -> None:
    old.symlink_to(tmp_path / "new")
    with LineageStore(url_of(engine)) as store:
        store.base_dirs.move(old, tmp_path / "new")
        assert len(store.health.status(old).base_dirs) == 1
    assert column(engine, PATHS) == [str(tmp_path / "new")]


def test_while_an_ingester_leads_it_is_refused_by_name(engine: Engine, old: Path, tmp_path: Path) -> None:
    with (
        hold_lease(engine, register(engine, old), 60, mode="daemon") as lease,
        LineageStore(url_of(engine)) as store,
        pytest.raises(LeaseHeldError, match=lease.holder),
    ):
        store.base_dirs.move(old, tmp_path / "new")
    assert column(engine, PATHS) == [str(old)]


def once_before_a_write(engine: Engine, then: Callable[[], object]) -> None:
    """Have something done between an ingester's look at a base dir and the lease that it takes."""

    def first(connection: Connection, *_: object) -> None:
        if waiting and connection.get_execution_options().get("lineage_store_write"):
            waiting.pop()()

    waiting = [then]
    event.listen(engine, "before_cursor_execute", first)


@pytest.mark.parametrize("ingester", ["daemon", "once"])
def test_a_move_just_before_the_lease_is_taken_is_noticed(
    engine: Engine, old: Path, tmp_path: Path, ingester: str
) -> None:
    """Else the ingester would miss every log file at the old path, of a base dir that is at the new one."""
    new, before = tmp_path / "new", beneath(engine)
    with LineageStore(url_of(engine)) as other:
        once_before_a_write(engine, lambda: other.base_dirs.move(old, new))
        if ingester == "once":
            with pytest.raises(LeaseLostError, match="was moved or forgotten"):
                pipeline.ingest(engine, old, Settings())
        else:
            follower = Follower(engine, old, Settings())
            follower.tick()
            assert follower.status.title == "standby"
            follower.tick()
            follower.close()
    assert column(engine, PATHS) == [str(new)]
    assert beneath(engine) == before


def test_log_files_that_are_not_there_are_refused_unless_forced(
    engine: Engine, old: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    with LineageStore(url_of(engine)) as store:
        with pytest.raises(LineageParamSummaryPathError, match="no directory"):
            store.base_dirs.move(old, tmp_path / "nowhere")
        shutil.rmtree(new / "other")
        with pytest.raises(LineageParamSummaryPathError, match="2 of the 4 log files"):
            store.base_dirs.move(old, new)
        assert store.base_dirs.plan_move(old, new).absent == 2
        assert column(engine, PATHS) == [str(old)]
        store.base_dirs.move(old, new, force=True)
    assert column(engine, PATHS) == [str(new)]


def test_a_path_that_is_known_is_refused_with_what_to_do(engine: Engine, old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    ingest(engine, new)
    with LineageStore(url_of(engine)) as store:
        with pytest.raises(LineageParamSummaryPathError, match="2 of them the same files"):
            store.base_dirs.move(old, new)
        shutil.rmtree(new / "removed")
        store.base_dirs.forget(new)
        ingest(engine, new)
        with pytest.raises(LineageParamSummaryPathError, match="2 jobs are the same files") as refused:
            store.base_dirs.move(old, new)
        assert f"forget {new}" in str(refused.value)
        store.base_dirs.forget(new)
        store.base_dirs.move(old, new)
    assert column(engine, PATHS) == [str(new)]


def test_a_new_base_dir_whose_jobs_are_known_elsewhere_is_told(
    engine: Engine, old: Path, tmp_path: Path
) -> None:
    report = ingest(engine, tmp_path / "new")
    assert f"`lineage-store move {old} {tmp_path / 'new'}`" in str(report)
    assert "lineage-store move" not in str(ingest(engine, tmp_path / "new"))
    (told,) = [each for each in examine(url_of(engine), Settings(), []) if each.kind == "known_twice"]
    assert (told.subject, str(tmp_path / "new") in told.what) == (str(old), True)


def test_a_path_in_another_base_dir_is_refused(engine: Engine, old: Path, tmp_path: Path) -> None:
    write(tmp_path / "above", "run")
    ingest(engine, tmp_path / "above")
    shutil.copytree(tmp_path / "new", tmp_path / "above" / "new")
    with LineageStore(url_of(engine)) as store, pytest.raises(LineageParamSummaryPathError, match="overlaps"):
        store.base_dirs.move(old, tmp_path / "above" / "new")


@pytest.mark.slow
def test_killed_at_any_statement_it_is_at_one_of_the_two_paths(
    engine: Engine, old: Path, tmp_path: Path
) -> None:
    new, killed = tmp_path / "new", 0
    while _killed_at(killed + 1, url_of(engine), old, new):
        killed += 1
        assert column(engine, PATHS) in ([str(old)], [str(new)])
        if column(engine, PATHS) == [str(new)]:  # killed behind its COMMIT: back, for the next moment
            with LineageStore(url_of(engine)) as store:
                shutil.copytree(new, old)
                store.base_dirs.move(new, old)
                shutil.rmtree(old)
    assert killed > 10
    assert column(engine, PATHS) == [str(new)]
    assert ingest(engine, new).counts.events == 0


def _killed_at(number: int, database: str, old: Path, new: Path) -> bool:
    """Move in a process that kills itself before its statement of this number; whether it came to that."""
    child = os.fork()
    if child == 0:
        left = [number]

        def count(*_: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            event.listen(Engine, "before_cursor_execute", count)
            event.listen(Engine, "commit", count)
            for _ in range(100):
                try:
                    with LineageStore(database) as store:
                        store.base_dirs.move(old, new)
                    code = 0
                    break
                except LeaseHeldError:  # the server has not noticed yet that the last one is gone
                    signal.sigtimedwait([], 0.1)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)
