"""`kill -9` at any moment of `db partition` and `--undo`, while others ingest: no sample is lost or duplicated.

In: a run whose size counts kills. Out: counts, or an AssertionError. Again and again a change of the layout is killed
before one of its statements, while a second process ingests what log files gain and a third removes jobs; a reader then
sees every sample. The next change goes on from there, forwards or backwards. At the end the ledger is closed in each
layout. The control does not note what is written while samples are copied.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from helpers.engines import opened
from helpers.ingesting import column, ingest, let_leases_expire
from helpers.log_writer import GrowingFile, Log
from lineage_store.config import Settings
from lineage_store.errors import MindInsightException
from lineage_store.operations.base_dirs import forget
from lineage_store.store.admin import partitioning
from lineage_store.store.admin.partitioning import lay_out
from lineage_store.store.database.db import reading
from lineage_store.store.schema import partitions
from proofs import ledger
from proofs.children import KILLED, forked, kill_at
from proofs.proof import POSTGRESQL, Control, Outcome, Proof, Run

BY_JOBS = 3
JOBS = 8
_MOST_CONTROLS = 10
_STRANGERS = (
    "SELECT job_id FROM scalar_sample s WHERE NOT EXISTS (SELECT FROM series r"
    " WHERE r.job_id = s.job_id AND r.series_no = s.series_no) LIMIT 1"
)


def _prove(run: Run) -> Outcome:
    kills, changes = 0, 0
    with run.store(POSTGRESQL) as url, opened(url) as engine:
        kept = _Growing(run.directory("kept"), run.chance("kept"))
        ingest(engine, kept.base_dir)
        for number in count():
            wanted = None if _is_partitioned(engine) else BY_JOBS
            if run.chance("back", number).random() < 0.1:
                wanted = BY_JOBS if wanted is None else None  # take back what was begun, if anything was
            engine.dispose()  # children open their own
            at = run.chance("statement", number).randrange(1, 160)
            with forked(partial(kept.grow_and_ingest, url)) as writer:
                with forked(partial(_lay_out_until, at, url, wanted)) as child:
                    if number % 3 == 0:
                        _ingest_and_forget(engine, run.directory(f"forgotten_{number}"))
                    was_killed = child.wait() == KILLED
                writer.kill()
            kills, changes = kills + was_killed, changes + (not was_killed)
            let_leases_expire(engine)
            ingest(engine, kept.base_dir)
            ledger.check(engine)
            assert not column(engine, _STRANGERS), "samples of a job that was forgotten are there"
            if kills >= run.size and changes >= 2:
                break
        lay_out(engine, None)
        accounted = ledger.check(engine)
    counts = f"{kills:,} kills between {changes:,} changes", "0 lost, 0 twice", str(accounted)
    return Outcome(counts, (Control("notes of what is written meanwhile", _control(run)),))


class _Growing:
    """Jobs that grow for ever."""

    def __init__(self, base_dir: Path, chance: Any) -> None:
        self.base_dir, self._files = base_dir, []
        for job in range(JOBS):
            log = Log().version().histogram(0, "w", [0.0, 1.0])
            for step in range(400):
                log.scalars(step, {"loss": chance.gauss(0, 1), "lr": chance.random()})
            file = GrowingFile(
                base_dir / f"job_{job}" / "events.out.events.summary.1700000000.0.host_MS", log.content
            )
            file.reveal(300)
            self._files.append(file)

    def grow_and_ingest(self, url: str) -> None:
        """In a process of its own, which does not know what earlier ones have shown of the files."""
        for file in self._files:
            file.size = file.path.stat().st_size
        with opened(url) as engine:
            for file in cycle(self._files):
                file.reveal(50)
                with suppress(DBAPIError, MindInsightException):
                    ingest(engine, self.base_dir, batch_rows=5)


def _lay_out_until(number: int, url: str, wanted: int | None, *, noting: bool = True) -> None:
    """Change the layout, and be killed before the statement (or commit) of this number."""
    partitioning.JOBS_AT_A_TIME, partitioning.FEW_CHANGES, partitioning.LOCK_WAIT_MS = 2, 20, 100
    if not noting:
        partitioning._EVENTS = ()
    kill_at(number, "before_cursor_execute", "commit")
    with opened(url) as engine:
        lay_out(engine, wanted)


def _control(run: Run) -> int:
    """What is lost when nothing is noted."""
    for number in range(_MOST_CONTROLS):
        with run.store(POSTGRESQL) as url, opened(url) as engine:
            growing = _Growing(run.directory(f"control_{number}"), run.chance("control", number))
            ingest(engine, growing.base_dir)
            engine.dispose()
            with forked(partial(growing.grow_and_ingest, url)) as writer:
                with forked(partial(_lay_out_until, 0, url, BY_JOBS, noting=False)) as child:
                    child.wait()
                writer.kill()
            let_leases_expire(engine)
            with suppress(
                DBAPIError
            ):  # a step that is missing is written again, and its series is not as it says
                ingest(engine, growing.base_dir)
            if failures := len(list(ledger.complaints(engine, Settings()))):
                return failures
    return 0


def _ingest_and_forget(engine: Engine, base_dir: Path) -> None:
    for number in range(JOBS):
        Log().version().scalar(1, "loss", number).histogram(1, "w", [0.5]).write_summary(
            base_dir / f"job_{number}"
        )
    ingest(engine, base_dir)
    forget(engine, base_dir, Settings(batch_rows=4))
    engine.dispose()


def _is_partitioned(engine: Engine) -> bool:
    with reading(engine) as session:
        return partitions.is_partitioned(session)


PROOF = Proof(
    "partitions",
    "kill -9 of db partition and --undo at any moment, while others write, loses nothing and repeats nothing",
    unit="kills",
    ci_size=40,
    full_size=1_000,
    attacks=("store",),
    prove=_prove,
)
