"""Power cuts under SQLite, and `kill -9` of a whole PostgreSQL server, while log files are read.

In: a run whose size counts cuts; a quarter as many servers are killed. Out: counts, or an AssertionError. A cut is the
shutdown of a real ext4 on a loop device, which discards what was not synced, and the order of writes. Afterwards the
database opens without errors, its bookmarks agree exactly with its rows, and soon all is read. The control commits the
bookmarks apart from the rows. Every fourth cut comes after an ingest, of which nothing may be lost then. A quarter as
many more come while remarks are written (`cut_remarks`).
"""

from __future__ import annotations

import mmap
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from helpers import oracle
from helpers.engines import opened
from helpers.ingesting import ingest, let_leases_expire
from helpers.log_writer import GrowingFile, Log
from helpers.waiting import wait_until
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.store.database import db
from lineage_store.store.database.db import reading
from lineage_store.store.writes import file_rows
from lineage_store.texts import from_stored
from proofs import disk, ledger
from proofs.children import at_once, forked, own_mounts
from proofs.cut_remarks import cut_remarks
from proofs.proof import SQLITE, Control, Outcome, Proof, Run
from proofs.servers import kill_server, own_server, url_of

_BACK_WITHIN_S = 10.0
"""What is promised."""
_BACK_HERE_WITHIN_S = 60.0
"""What is not the fault of a busy machine any more."""
_MOST_CONTROLS = 20
_AT_THE_END = 4
"""Of so many cuts, one comes when the ingest is done."""
_STEPS = 3_000
_SETTINGS: dict[str, Any] = {"batch_rows": 50, "chunk_bytes": 4096, "poll_interval_s": 0.05, "lease_s": 1.0}
_FILES = (
    "SELECT event_count, byte_offset, path, train_id, name,"
    " (SELECT count(*) FROM scalar_sample JOIN series USING (job_id, series_no)"
    " WHERE job_id = log_file.job_id AND file_no = log_file.file_no) AS samples"
    " FROM log_file JOIN train_job ON train_job.id = job_id JOIN base_dir ON base_dir.id = base_dir_id"
)


def _prove(run: Run) -> Outcome:
    reason = disk.why_none(run.scratch / "disk.img")
    attacks: list[Callable[[], Any]] = [
        lambda: None if reason else (_cut_sqlite(run), cut_remarks(run, max(1, run.size // 4))),
        partial(_kill_postgresql, run, max(1, run.size // 4)),
    ]
    under_sqlite, under_postgresql = at_once(attacks)
    kills, longest_s, total, failures = under_postgresql
    promised = f"({_BACK_WITHIN_S:.0f} s are promised)"
    counts = [f"{kills} kill -9 of PostgreSQL, back in {longest_s:.1f} s at most {promised}"]
    controls = []
    if under_sqlite:
        (part_stored, accounted, of_control, events), (remarks, lost_by_control) = under_sqlite
        counts.insert(0, f"{run.size} power cuts under SQLite, {part_stored} of them in mid-ingest")
        counts.append(f"0 of {remarks} remarks lost")
        total, failures = total + accounted, failures + of_control if of_control else 0
        controls += [Control("a sync at the end", events), Control("synced remarks", lost_by_control)]
    counts += ["bookmarks = rows", str(total)]
    skipped = (f"power cuts under SQLite: {reason}",) if reason else ()
    return Outcome(tuple(counts), (Control("one transaction", failures), *controls), skipped)


# --- SQLite ---


def _cut_sqlite(run: Run) -> tuple[int, ledger.Ledger, int, int]:
    """(cuts after which a part of all was stored, what was accounted for, failures of either control)."""
    own_mounts()
    part_stored, total = 0, ledger.Ledger()
    base_dir = run.directory("written")
    for job in range(3):
        _log(run.chance(job), _STEPS).write_summary(base_dir / f"job_{job}")
    with run.store(SQLITE) as empty:
        attacked = _Attacked(run.scratch / "disk.img", Path(empty.removeprefix("sqlite:///")), base_dir)
        for number in range(run.size):
            at_the_end = number % _AT_THE_END == 0
            with attacked.after_a_cut(run.chance("cut", number), at_the_end=at_the_end) as engine:
                before = _complaints(engine)
                assert not before, before[0]
                let_leases_expire(engine)
                report = ingest(engine, base_dir)
                assert not (attacked.was_done and report.counts.events), "what an ingest had stored is gone"
                part_stored += 0 < report.counts.events < 3 * (_STEPS + 1)
                assert report.seconds <= _BACK_HERE_WITHIN_S, f"back after {report.seconds:.1f} s"
                total += ledger.check(engine)
        failures = 0
        for number in range(_MOST_CONTROLS):
            with attacked.after_a_cut(run.chance("control", number), _commit_bookmarks_apart) as engine:
                if failures := len(_complaints(engine)):
                    break
        return part_stored, total, failures, _events_lost_unsynced(run, attacked)


def _events_lost_unsynced(run: Run, attacked: _Attacked) -> int:
    """How many events of an ingest that was done are gone, if no transaction of it was synced."""
    for number in range(_MOST_CONTROLS):
        chance = run.chance("unsynced", number)
        with attacked.after_a_cut(chance, _sync_nothing, at_the_end=True) as engine:
            let_leases_expire(engine)
            if lost := ingest(engine, attacked.base_dir).counts.events:
                return lost
    return 0


@dataclass(slots=True)
class _Attacked:
    """A disk with an empty store on it, and what is ingested into that."""

    disk: Path
    store: Path
    base_dir: Path
    latest_s: float = 2.0
    was_done: bool = False
    """Whether the ingest was done when the power was cut."""

    @contextmanager
    def after_a_cut(
        self, chance: random.Random, fault: Callable[[], None] = lambda: None, *, at_the_end: bool = False
    ) -> Iterator[Engine]:
        """The store after the power was cut, during an ingest or at its end, on its disk, mounted again."""
        disk.make(self.disk)
        with disk.mounted(self.disk) as mount:
            url = f"sqlite:///{shutil.copy(self.store, mount)}"
            os.sync()
            done = mmap.mmap(-1, 1)
            with forked(partial(_ingest, url, self.base_dir, fault, done)):
                if at_the_end:
                    wait_until(lambda: done[0] > 0)
                else:
                    _let_work(mount, chance, chance.uniform(0, self.latest_s))
                self.was_done = done[0] > 0
                disk.cut(mount)
            if not at_the_end:
                self.latest_s *= 0.8 if self.was_done else 1.05
        with disk.mounted(self.disk), opened(url) as engine:
            yield engine


def _let_work(mount: Path, chance: random.Random, seconds: float) -> None:
    """Wait, while the kernel writes back a file now and then, as it does when it likes."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, chance.uniform(0, 0.2)))
        with suppress(FileNotFoundError), chance.choice(sorted(mount.glob("*.sqlite3*"))).open("rb") as file:
            os.fsync(file)


def _ingest(url: str, base_dir: Path, fault: Callable[[], None], done: mmap.mmap) -> None:
    """Ingest, and wait: whoever closes a database syncs it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what it says of its disk is of no interest
    fault()
    with opened(url) as engine:
        ingest(engine, base_dir, **_SETTINGS)
        done[0] = 1
        signal.pause()


def _sync_nothing() -> None:
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("PRAGMA synchronous = NORMAL")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    db._begin_on_sqlite = begin


def _integrity(engine: Engine) -> str:
    with engine.connect() as connection:
        return str(connection.exec_driver_sql("PRAGMA integrity_check").scalar())


# --- PostgreSQL ---


def _kill_postgresql(run: Run, kills: int) -> tuple[int, float, ledger.Ledger, int]:
    """(kills, longest time to be back, what was accounted for, failures of the control)."""
    with own_server() as server:
        longest = _kill_server(run, server, "held", kills, lambda: None)
        with opened(url_of(server)) as engine:
            assert not (found := _complaints(engine)), found[0]
            total = ledger.check(engine)
        failures = 0
        for number in range(_MOST_CONTROLS):
            _kill_server(run, server, f"control_{number}", 1, _commit_bookmarks_apart)
            with opened(url_of(server)) as engine:
                if failures := len(_complaints(engine)):
                    break
    return kills, longest, total, failures


def _kill_server(run: Run, server: Any, part: str, kills: int, fault: Callable[[], None]) -> float:
    """Kill the server under a daemon, again and again; how long the daemon took at most to have read all."""
    chance, base_dir, longest = run.chance(part), run.directory(part), 0.0
    file = GrowingFile(base_dir / "job" / "events.out.events.summary.1700000000.0.host_MS", b"")
    with forked(partial(_follow, url_of(server), base_dir, fault)):
        for number in range(kills):
            before = file.size
            file.content += _log(chance, 2_000, first_step=number * 2_000).content
            file.reveal_all()
            wait_until(partial(_has_passed, server, part, before + 1))
            time.sleep(chance.uniform(0, 0.3))
            kill_server(server)
            server.ensure_postgres_running()
            started = time.monotonic()
            wait_until(partial(_has_passed, server, part, file.size), within_s=_BACK_HERE_WITHIN_S)
            longest = max(longest, time.monotonic() - started)
    return longest


def _follow(url: str, base_dir: Path, fault: Callable[[], None]) -> None:
    fault()
    with opened(url) as engine:
        following = Follower(engine, base_dir, Settings(**_SETTINGS, discovery_interval_s=0.1))
        while True:
            following.tick()
            time.sleep(0.05)


def _has_passed(server: Any, name: str, position: int) -> bool:
    """Whether the bookmark of the one file of a base dir has come so far."""
    query = "SELECT byte_offset FROM log_file JOIN train_job ON train_job.id = job_id JOIN base_dir ON"
    query += " base_dir.id = base_dir_id WHERE path LIKE :path"
    with opened(url_of(server)) as engine, engine.connect() as connection:
        return (connection.execute(text(query), {"path": f"%/{name}"}).scalar() or 0) >= position


# --- both ---


def _log(chance: random.Random, steps: int, first_step: int = 0) -> Log:
    log = Log().version()
    for step in range(first_step, first_step + steps):
        log.scalar(step, "loss", chance.gauss(0, 1))
    return log


def _commit_bookmarks_apart() -> None:
    real = file_rows.move_bookmarks

    def move_bookmarks(session: Any, advances: Any) -> None:
        real(session, advances)
        session.connection.connection.dbapi_connection.commit()
        time.sleep(0.01)

    file_rows.move_bookmarks = move_bookmarks


def _complaints(engine: Engine) -> list[str]:
    """Where the database is damaged, or its bookmarks and its rows say different things."""
    if engine.dialect.name == "sqlite" and (found := _integrity(engine)) != "ok":
        return [found]
    with reading(engine) as session:
        files = session.rows(text(_FILES))
    complaints = []
    for file in files:
        path = Path(from_stored(file.path), from_stored(file.train_id), from_stored(file.name))
        events, samples = _before(path.read_bytes(), file.byte_offset)
        if (file.event_count, file.samples) != (events, samples):
            held = f"{file.event_count} events and {file.samples} samples"
            complaints.append(f"{path}: {held} at byte {file.byte_offset}, not {events} and {samples}")
    return complaints


def _before(content: bytes, end: int) -> tuple[int, int]:
    """How many events and scalars there are before a position."""
    samples = position = 0
    for events in count():
        if position >= end:
            return events, samples
        payload = oracle.sound_frame(content, position)
        assert payload is not None
        samples += len(oracle.scalars_in(payload))
        position += len(payload) + 16
    raise AssertionError


PROOF = Proof(
    "powercut",
    "after a power cut or the death of the server, bookmarks say exactly what the rows hold, and remarks are there",
    unit="power cuts",
    ci_size=24,
    full_size=200,
    attacks=("store",),
    prove=_prove,
)
