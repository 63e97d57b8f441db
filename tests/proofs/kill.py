"""`kill -9` at any moment of an ingest loses nothing and repeats nothing.

Files grow while ingesting processes are killed one after the other, at random moments of their work, and at each write,
send and fsync call of a run of a hundred transactions (`killed_calls`). Then the lease is taken away: two processes
write at the same time, and only the check that a bookmark is where the read began keeps them from repeating each other;
the control has no such check. Afterwards everything is read to its end and the ledger is closed, which shows what was
lost or repeated.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, update
from sqlalchemy.exc import DBAPIError

from helpers.engines import opened
from helpers.log_writer import GrowingFile, Log
from lineage_store.config import Settings
from lineage_store.errors import LineageStoreError
from lineage_store.ingest import commit, pipeline
from lineage_store.store import leases
from lineage_store.store.database.sql import Session
from lineage_store.store.leases import Lease
from lineage_store.store.schema.tables import log_file
from lineage_store.store.writes import file_rows
from proofs import killed_calls, ledger
from proofs.children import KILLED, at_once, forked
from proofs.killed_ingest import SMALL_BATCHES, finish, ingest_as_one_of_many, replace_function
from proofs.proof import KINDS, Control, Outcome, Proof, Run, SkippedError

SLICES = (1, 13, 150, 400, 1500)
RACES = 5
"""Fewer pairs of ingesters might never meet."""
MOST_CONTROLS = 20


@dataclass(frozen=True, slots=True)
class _Attacked:
    """What came of an attack on one kind of store."""

    counts: tuple[str, ...]
    accounted: ledger.Ledger
    control_failures: int


def _prove(run: Run) -> Outcome:
    run.stores.start()
    attacked = at_once([partial(_attack, run, kind) for kind in KINDS])
    counts = [count for each in attacked for count in each.counts]
    accounted = sum((each.accounted for each in attacked), ledger.Ledger())
    skipped = []
    try:
        for each in killed_calls.prove(run):
            counts.append(f"{each.kills:,} at write, send and fsync calls on {each.kind}")
            accounted += each.accounted
    except SkippedError as error:
        skipped.append(f"kills at write, send and fsync calls: {error}")
    failures = sum(each.control_failures for each in attacked)
    counts += ["0 lost, 0 repeated", str(accounted)]
    return Outcome(tuple(counts), (Control("bookmark check", failures),), tuple(skipped))


def _attack(run: Run, kind: str) -> _Attacked:
    with run.store(kind) as url, opened(url) as engine:
        kills = _kill_one_by_one(run, kind, engine)
        accounted = ledger.check(engine)
    with run.store(kind) as url, opened(url) as engine:
        racing = _kill_racing(run, f"{kind}_racing", engine, _without_lease)
        accounted += ledger.check(engine)
    with run.store(kind) as url, opened(url) as engine:
        failures = _count_failures(run, kind, engine)
    counts = f"{kills:,} kills on {kind}", f"{racing:,} with two ingesters and no lease"
    return _Attacked(counts, accounted, failures)


# --- at random moments ---


def _kill_one_by_one(run: Run, kind: str, engine: Engine) -> int:
    """Kill ingesting processes while their files grow; how many were still at work."""
    chance, kills, latest = run.chance(kind), 0, 0.1
    for number in count():
        base_dir = run.directory(f"{kind}_{number}")
        for _ in _growing(base_dir, chance):
            with forked(partial(ingest_as_one_of_many, engine, base_dir)) as child:
                was_killed = child.kill_after(chance.uniform(0, latest)) == KILLED
            kills += was_killed
            latest *= 1.01 if was_killed else 0.9  # one in ten comes to its end
        finish(engine, base_dir)
        if kills >= run.size:
            break
    return kills


def _kill_racing(run: Run, part: str, engine: Engine, *guards: Callable[[], None]) -> int:
    """Kill processes of which two are at work at once, without some guards; how many."""
    chance, kills, base_dir = run.chance(part), 0, run.directory(part)
    for file in _files(base_dir, chance, steps=2_000):
        file.reveal_all()
    engine.dispose()  # children open their own
    for _ in range(max(RACES, run.size // 100)):
        with ExitStack() as both:
            work = partial(_ingest_over_and_over, engine, base_dir, guards)
            first, second = (both.enter_context(forked(work)) for _ in range(2))
            kills += first.kill_after(chance.uniform(0.3, 0.8)) == KILLED
            kills += second.kill_after(chance.uniform(0, 0.3)) == KILLED
    finish(engine, base_dir)
    return kills


def _count_failures(run: Run, kind: str, engine: Engine) -> int:
    """What is lost or repeated without the bookmark check; two ingesters may be lucky, but not for ever."""
    for number in range(MOST_CONTROLS):
        _kill_racing(run, f"{kind}_control_{number}", engine, _without_lease, _without_bookmark_check)
        if failures := len(list(ledger.complaints(engine, Settings()))):
            return failures
    return 0


def _growing(base_dir: Path, chance: random.Random) -> Iterator[None]:
    """A few jobs whose files grow in slices until all is written; yields after each."""
    files = _files(base_dir, chance, steps=100)
    while any(file.size < len(file.content) for file in files):
        for file in chance.sample(files, chance.randint(1, 3)):
            file.reveal(chance.choice(SLICES))
        yield


def _files(base_dir: Path, chance: random.Random, *, steps: int) -> list[GrowingFile]:
    return [
        GrowingFile(base_dir / f"job_{job}" / name, content)
        for job in range(2)
        for name, content in _contents(chance, steps)
    ]


def _contents(chance: random.Random, steps: int) -> Iterator[tuple[str, bytes]]:
    for device in range(2):
        log = Log().version()
        for step in range(chance.randint(steps // 2, steps)):
            log.scalars(step, {"loss": chance.gauss(0, 1), "accuracy": chance.random()})
        yield f"events.out.events.summary.1700000000.{device}.host_MS", log.content
    log = Log().train(network="Net", loss=chance.random())
    for _ in range(10):
        log.evaluation({"accuracy": chance.random()}).user_info(seed=chance.random())
    yield "events.out.events.summary.1700000000.0.host_lineage", log.content


# --- what runs in the children ---


def _ingest_over_and_over(engine: Engine, base_dir: Path, guards: tuple[Callable[[], None], ...]) -> None:
    _dawdle()
    for take_away in guards:
        take_away()
    while True:
        with suppress(DBAPIError, LineageStoreError):  # the other one was first
            pipeline.ingest(engine, base_dir, Settings(**SMALL_BATCHES))


def _dawdle() -> None:
    """Let time pass between reading and writing, so that the other one comes in between."""
    chance, write_batch = random.Random(os.getpid()), commit.write_batch

    def write_batch_later(*args: Any) -> None:
        time.sleep(chance.uniform(0, 0.02))
        write_batch(*args)

    replace_function(commit, write_batch_later, "write_batch")


def _without_lease() -> None:
    def acquire(_: Any, base_dir_id: int, holder: str, lasts_s: float, *_rest: Any, **_more: Any) -> Lease:
        return Lease(base_dir_id, holder, 1, lasts_s)

    def confirm(session: Session, _lease: Lease) -> datetime:
        return session.now()

    replace_function(leases, acquire)
    replace_function(leases, confirm)


def _without_bookmark_check() -> None:
    def move_bookmarks(session: Any, advances: Any) -> None:
        for advance in advances:
            columns = {key: value for key, value in file_rows._row(advance).items() if key[:3] != "of_"}
            columns["event_count"] = log_file.c.event_count + advance.rows.event_count
            job_id, file_no = advance.file.key
            this = (log_file.c.job_id == job_id) & (log_file.c.file_no == file_no)
            session.change(update(log_file).where(this).values(columns))

    replace_function(file_rows, move_bookmarks)


PROOF = Proof(
    "kill",
    "kill -9 at any moment loses nothing and repeats nothing",
    unit="kills on each database",
    ci_size=500,
    full_size=10_000,
    attacks=("ingest", "base"),
    prove=_prove,
)
