"""The table of states is complete: whatever happens to log files, a store makes no other change of state."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, rows
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.findings import finding
from lineage_store.ingest import commit, pipeline
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.problems import MOST_FAILED_READS
from lineage_store.ingest.read.batch import Batch
from lineage_store.operations import repair
from lineage_store.states import (
    FILE_STATE_AFTER,
    FILE_TRANSITIONS,
    JOB_TRANSITIONS,
    FileEvent,
    FileState,
    JobState,
)
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import open_engine, reading, writing
from lineage_store.store.leases import Lease
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.tables import metadata

_WATCH = (
    "CREATE TABLE IF NOT EXISTS seen (of TEXT, before TEXT, after TEXT)",
    "CREATE TRIGGER new_{0} AFTER INSERT ON {0} BEGIN INSERT INTO seen VALUES ('{0}', NULL, NEW.state); END",
    "CREATE TRIGGER changed_{0} AFTER UPDATE OF state ON {0} WHEN OLD.state <> NEW.state"
    " BEGIN INSERT INTO seen VALUES ('{0}', OLD.state, NEW.state); END",
)


class History:
    """A log file of a live store, to which things happen."""

    def __init__(self, engine: Engine, base_dir: Path) -> None:
        self.engine, self.base_dir = engine, base_dir
        self.path = base_dir / "job" / "events.out.events.summary.1700000000.0.host_MS"
        self.away = base_dir.with_name("away")
        self.steps = count()
        with writing(engine) as session:
            for statement in _WATCH:
                for table in ("log_file", "train_job"):
                    session.change(statement.format(table))

    def grows(self) -> None:
        self._append(Log().scalar(next(self.steps), "loss", 0.5).content)

    def breaks_off(self) -> None:
        self._append(Log().scalar(next(self.steps), "loss", 0.5).content[:-7])

    def holds_garbage(self) -> None:
        self._append(b"\xff" * 40)

    def _append(self, content: bytes) -> None:
        self.path.parent.mkdir(exist_ok=True)
        if self.path.exists():
            self.path.chmod(0o600)
        with self.path.open("ab") as file:
            file.write(content)

    def is_rewritten(self) -> None:
        self.goes()
        first = next(self.steps)
        for step in range(first, first + 30):
            self._append(Log().scalar(step, "loss", 2.0).content)

    def is_closed(self) -> None:
        if self.path.exists():
            self.path.chmod(0o400)

    def goes(self) -> None:
        self.path.unlink(missing_ok=True)

    def is_moved_away(self) -> None:
        if self.path.exists():
            self.path.rename(self.away)

    def is_moved_back(self) -> None:
        if self.away.exists():
            self.away.rename(self.path)

    def is_read(self) -> None:
        ingest(self.engine, self.base_dir)

    def is_read_when_it_is_quiet(self) -> None:
        ingest(self.engine, self.base_dir, live_within_s=1e-6, suspect_grace_s=0)

    def is_read_in_part(self) -> None:
        asked = iter([False, False])
        few = Settings(chunk_bytes=4096, batch_rows=5)
        pipeline.ingest(self.engine, self.base_dir, few, should_stop=lambda: next(asked, True))

    def cannot_be_read(self) -> None:
        problem = finding("unreadable_file", str(self.path), reason="Permission denied.")
        self._to_newest(
            lambda lease, file: (
                commit.write_batch(self.engine, lease, Batch(failures=[(file, problem)]), Settings())
                if file.state != FileState.QUARANTINED
                else None
            )
        )

    def fails_its_reader(self) -> None:
        def fail_read(lease: Lease, file: KnownFile) -> None:
            if file.state != FileState.QUARANTINED:
                failed = file._replace(failed_reads=MOST_FAILED_READS - 1)
                commit.write_batch(self.engine, lease, Batch(failed_read=(failed, "It hangs.")), Settings())

        self._to_newest(fail_read)

    def is_tried_again(self) -> None:
        for base_dir_id in column(self.engine, "SELECT id FROM base_dir"):
            repair.retry(self.engine, self.base_dir, base_dir_id, Settings(), None)

    def _to_newest(self, happens: Callable[..., object]) -> None:
        for base_dir_id in column(self.engine, "SELECT id FROM base_dir"):
            with hold_lease(self.engine, base_dir_id, 60.0, mode="once") as lease:
                with reading(self.engine) as session:
                    files = registry.known_files(session, base_dir_id)
                for file in files:
                    happens(lease, file)


HAPPENINGS = [name for name in vars(History) if not name.startswith("_")]


@settings(max_examples=25)
@given(happenings=st.lists(st.sampled_from(HAPPENINGS), min_size=4, max_size=24))
@pytest.mark.slow
def test_every_change_of_state_is_in_the_table(
    happenings: list[str], sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("history")
    shutil.copy(sqlite_template, folder / "store.sqlite3")
    (folder / "base").mkdir()
    engine = open_engine(f"sqlite:///{folder / 'store.sqlite3'}")
    history = History(engine, folder / "base")
    for happening in ["grows", "is_read", *happenings, "is_read"]:
        getattr(history, happening)()
    seen = {(row.of, row.before, row.after) for row in rows(engine, "SELECT of, before, after FROM seen")}
    engine.dispose()
    shutil.rmtree(folder)
    assert seen <= ALLOWED


def _changes(of: str, transitions: object) -> set[tuple[str, str | None, str]]:
    assert isinstance(transitions, dict)
    return {
        (of, before, transition.after)
        for transition in transitions.values()
        for before in transition.before or {None}
    }


ALLOWED = _changes("log_file", FILE_TRANSITIONS) | _changes("train_job", JOB_TRANSITIONS)


def test_every_state_is_reached_and_but_for_the_last_left() -> None:
    assert {row.after for row in FILE_TRANSITIONS.values()} == set(FileState)
    left = {state for row in FILE_TRANSITIONS.values() for state in row.before - {row.after}}
    assert set(FileState) - left == {FileState.REPLACED}
    assert {row.after for row in JOB_TRANSITIONS.values()} == set(JobState)


def test_what_the_table_does_not_have_is_refused() -> None:
    assert FILE_STATE_AFTER["torn", FileEvent.READ] == "open"
    with pytest.raises(KeyError, match="replaced"):
        FILE_STATE_AFTER[FileState.REPLACED, FileEvent.READ]


def test_the_index_of_unsettled_files_has_the_words_of_the_query() -> None:
    (index,) = (each for each in metadata.tables["log_file"].indexes if each.name == "ix_log_file_unsettled")
    where = str(registry.UNSETTLED).removeprefix("log_file.")
    assert str(index.dialect_options["sqlite"]["where"]) == where
