"""The fence: however daemons are stopped and woken, only the leading one writes, and soon another one leads.

In: a run whose size counts SIGSTOPs. Out: counts, or an AssertionError. Groups of two to eight daemons follow a base
dir whose file grows. The leading one is stopped, between transactions, and on PostgreSQL inside them and anywhere; when
another one has taken over, it is woken, at once or later. Every batch notes in its own transaction which epoch wrote it
and which one led: they must be the same. The control is a writer that does not confirm its lease.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from helpers.engines import opened
from helpers.ingesting import column, rows
from helpers.log_writer import GrowingFile, Log
from helpers.waiting import wait_until
from lineage_store.config import Settings
from lineage_store.ingest import commit
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.store import leases
from lineage_store.store.leases import Lease
from lineage_store.store.writes import file_rows, jobs
from proofs import ledger
from proofs.children import Child, at_once, forked
from proofs.proof import POSTGRESQL, SQLITE, Control, Outcome, Proof, Run

LEASE_S = 2.0
_HERE_WITHIN_S = 30.0
"""What is not the fault of a busy machine any more."""
GROUPS = ((SQLITE, 2), (SQLITE, 5), (POSTGRESQL, 3), (POSTGRESQL, 8))
BETWEEN, FIRST, LAST, ANYWHERE = (
    "between transactions",
    "after the first statement",
    "before COMMIT",
    "anywhere",
)
MOMENTS = {SQLITE: (BETWEEN,), POSTGRESQL: (BETWEEN, FIRST, LAST, ANYWHERE)}
"""On SQLite nobody can take over from a process that is stopped inside a transaction: the error names it."""
_CONTROL_EVENTS = 100
_SETTINGS = Settings(poll_interval_s=0.05, discovery_interval_s=0.05, lease_s=LEASE_S, live_within_s=1e6)
_AUDIT = "CREATE TABLE fence_audit (written_by INTEGER, led_by INTEGER)"
_NOTE = text(
    "INSERT INTO fence_audit SELECT :epoch, epoch FROM ingest_lease WHERE base_dir_id = :base_dir_id"
)


def _prove(run: Run) -> Outcome:
    run.stores.start()
    stops = -(-run.size // len(GROUPS))
    attacks = [partial(_attack, run, kind, daemons, stops) for kind, daemons in GROUPS]
    *held, control = at_once([*attacks, partial(_control, run)])
    for each in held:
        assert not each.stale, f"{each.stale} stale commits"
    inside = sum(each.inside for each in held)
    takeovers = sorted(took for each in held for took in each.takeovers)
    most = takeovers[(len(takeovers) - 1) * 9 // 10]  # the machine may stand still during one or another
    assert most <= _HERE_WITHIN_S, (
        f"one takeover in ten took {most:.1f} s or longer, the lease lasting {LEASE_S} s"
    )
    counts = (
        f"{stops * len(GROUPS)} SIGSTOPs, {inside} of them inside transactions",
        f"{sum(each.commits for each in held):,} commits of {sum(daemons for _, daemons in GROUPS)} daemons, 0 stale",
        f"takeover in {most:.1f} s, {takeovers[-1]:.1f} s at most, the lease lasting {LEASE_S:.1f} s",
        str(sum((each.accounted for each in held), ledger.Ledger())),
    )
    return Outcome(counts, (Control("confirming the lease", control.stale),))


@dataclass(frozen=True, slots=True)
class _Attacked:
    commits: int
    stale: int
    inside: int = 0
    takeovers: list[float] = field(default_factory=list)
    """How long each took."""
    accounted: ledger.Ledger = field(default_factory=ledger.Ledger)


def _attack(run: Run, kind: str, daemons: int, stops: int) -> _Attacked:
    chance = run.chance(kind, daemons)
    with run.store(kind) as url, opened(url) as engine, ExitStack() as lifetime:
        attacked = _begin(run, f"{kind}_{daemons}", url, engine, daemons, lifetime, lambda: None)
        takeovers, inside = list[float](), 0
        for _ in range(stops):
            moment = chance.choice(MOMENTS[kind])
            inside += moment in (FIRST, LAST)
            takeovers.append(attacked.stop_and_wake(moment, chance))
        attacked.await_all_read()
        commits, stale = attacked.audit()
        return _Attacked(commits, stale, inside, takeovers, ledger.check(engine))


def _control(run: Run) -> _Attacked:
    """Who confirms nothing does not notice that another leads, and writes on."""
    with run.store(SQLITE) as url, opened(url) as engine, ExitStack() as lifetime:
        attacked = _begin(run, "control", url, engine, 2, lifetime, confirm_nothing)
        stopped, _ = attacked.stop_leader(BETWEEN, run.chance("control"))
        wait_until(
            lambda: attacked.epoch() > 1, what="takeover"
        )  # or there was one: no lease is renewed here
        stopped.send(signal.SIGCONT)
        for _ in range(_CONTROL_EVENTS):
            attacked.grow()
            time.sleep(0.1)
            commits, stale = attacked.audit()
            if stale:
                break
    return _Attacked(commits, stale)


def _begin(
    run: Run,
    name: str,
    url: str,
    engine: Engine,
    daemons: int,
    lifetime: ExitStack,
    fault: Callable[[], None],
) -> _Group:
    base_dir, order = run.directory(name), run.scratch / f"{name}_order"
    with engine.begin() as connection:
        connection.execute(text(_AUDIT))
    log = Log()
    file = GrowingFile(base_dir / "job" / "events.out.events.summary.1700000000.0.host_MS", log.content)
    engine.dispose()  # children open their own
    work = partial(_daemon, url, base_dir, order, fault)
    children = [lifetime.enter_context(forked(work)) for _ in range(daemons)]
    return _Group(engine, file, log, order, {child.pid: child for child in children})


@dataclass(slots=True)
class _Group:
    """Some daemons and the file that all of them follow."""

    engine: Engine
    file: GrowingFile
    log: Log
    order: Path
    """Tells who leads by some epoch at which moment to stop."""
    daemons: dict[int, Child]
    step: int = 0

    def stop_and_wake(self, moment: str, chance: random.Random) -> float:
        """Stop who leads, see another take over, wake the first; how long the takeover took."""
        stopped, epoch = self.stop_leader(moment, chance)
        since = time.monotonic()
        wait_until(lambda: self.epoch() > epoch, what=f"takeover of what was stopped {moment}", within_s=180)
        took = time.monotonic() - since
        time.sleep(chance.choice([0, 0, 0.3]))
        stopped.send(signal.SIGCONT)
        return took

    def stop_leader(self, moment: str, chance: random.Random) -> tuple[Child, int]:
        """Let who leads stop, or be stopped; who that was, and by which epoch it led."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.grow()
            epoch = self.epoch()
            self.order.write_text(f"{moment} {epoch}")
            time.sleep(chance.uniform(0.02, 0.3))
            leader = self.leader()
            if moment == ANYWHERE and leader in self.daemons:
                self.daemons[leader].send(signal.SIGSTOP)
            for pid, child in self.daemons.items():
                if _is_stopped(pid):
                    return child, epoch
        raise AssertionError(f"nobody could be stopped {moment}")

    def grow(self) -> None:
        """Let the file have one more event."""
        self.step += 1
        self.log.scalar(self.step, "loss", self.step / 7)
        self.file.content = self.log.content
        self.file.reveal_all()

    def leader(self) -> int:
        """Whose lease it is."""
        holders = column(self.engine, "SELECT holder FROM ingest_lease")
        return int(holders[0].split(":")[-2]) if holders and holders[0] else 0

    def epoch(self) -> int:
        return int(column(self.engine, "SELECT coalesce(max(epoch), 0) FROM ingest_lease")[0])

    def await_all_read(self) -> None:
        """Wait for the last event, and see that each is there, once."""
        query = "SELECT byte_offset, event_count FROM log_file"
        wanted = [(self.file.size, self.step)]
        wait_until(lambda: rows(self.engine, query)[:1] == wanted, what="end of reading")
        found = column(self.engine, "SELECT value FROM scalar_sample ORDER BY step")
        assert len(found) == self.step, f"{len(found)} samples of {self.step}"

    def audit(self) -> tuple[int, int]:
        """(commits, those of a daemon that did not lead any more)."""
        query = "SELECT count(*), coalesce(sum(CASE WHEN written_by <> led_by THEN 1 ELSE 0 END), 0) FROM fence_audit"
        commits, stale = map(int, rows(self.engine, query)[0])
        return commits, stale


# --- what runs in the children ---


def _daemon(url: str, base_dir: Path, order: Path, fault: Callable[[], None]) -> None:
    renewing = threading.Lock()
    _note_and_obey(order, renewing)
    fault()
    with opened(url) as engine:
        following = Follower(engine, base_dir, _SETTINGS)
        threading.Thread(target=_renew, args=(following, renewing), daemon=True).start()
        while True:
            following.tick()
            time.sleep(0.02)


def _renew(following: Follower, renewing: threading.Lock) -> None:
    """What keeps the lead while a tick takes long, such as the first, which starts the reading process."""
    while True:
        with renewing:
            following.renew()
        time.sleep(LEASE_S / 3)


def _note_and_obey(order: Path, renewing: threading.Lock) -> None:
    """Note in every batch who wrote it, and stop this process where it was told to, but not while it renews."""
    write_batch, move_bookmarks, refresh_jobs = (
        commit.write_batch,
        file_rows.move_bookmarks,
        jobs.refresh_jobs,
    )
    in_use: list[Lease] = []

    def stop(moment: str) -> None:
        if order.exists() and order.read_text() == f"{moment} {in_use[0].epoch}":
            order.unlink()
            with renewing:
                os.kill(os.getpid(), signal.SIGSTOP)

    def write_batch_noted(engine: Engine, lease: Lease, *rest: Any) -> None:
        in_use[:] = [lease]
        stop(BETWEEN)
        write_batch(engine, lease, *rest)

    def move_bookmarks_noted(session: Any, advances: Any) -> None:
        stop(FIRST)
        move_bookmarks(session, advances)
        session.change(_NOTE, {"epoch": in_use[0].epoch, "base_dir_id": in_use[0].base_dir_id})

    def refresh_jobs_noted(*args: Any) -> None:
        refresh_jobs(*args)
        if in_use:
            stop(LAST)

    vars(commit)["write_batch"] = write_batch_noted
    vars(file_rows)["move_bookmarks"] = move_bookmarks_noted
    vars(jobs)["refresh_jobs"] = refresh_jobs_noted


def confirm_nothing() -> None:
    """Make whoever holds a lease write without confirming it, as the control does."""
    vars(leases)["confirm"] = lambda session, _: session.now()


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


PROOF = Proof(
    "fence",
    "who does not lead any more writes nothing, and soon another leads",
    unit="SIGSTOPs",
    ci_size=60,
    full_size=1_000,
    attacks=("store", "base"),
    prove=_prove,
)
