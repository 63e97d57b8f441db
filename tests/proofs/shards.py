"""Shards: four daemons on four shards of one base dir, killed and stopped at any moment, lose and repeat nothing.

In: a run whose size counts kills and SIGSTOPs. Out: counts, or an AssertionError. Whole daemons follow a base dir whose
jobs grow, while one after the other is killed (`kill -9`) and replaced, or stopped until others have taken over its
shards, and the number of shards changes. Every batch notes in its own transaction its jobs, and which epoch of the
shard wrote it and which one led: the epochs must be the same, and the jobs in the shard. Meanwhile a client follows the
changes, and must get each. The controls are writers that do not confirm their lease.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import local
from typing import Any

from sqlalchemy import Engine, text

from helpers.engines import opened
from helpers.ingesting import column, rows
from helpers.log_writer import GrowingFile, Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest import commit
from lineage_store.ingest.daemon import scheduler
from lineage_store.ingest.daemon.scheduler import Wanted
from lineage_store.ingest.lease import divide
from lineage_store.store.database.failures import writer_of
from lineage_store.store.leases import Lease, Shards
from lineage_store.store.writes import file_rows
from proofs import ledger
from proofs.children import Child, at_once, forked
from proofs.fence import confirm_nothing
from proofs.proof import KINDS, SQLITE, Control, Outcome, Proof, Run

DAEMONS = SHARDS = 4
NUMBERS = (SHARDS, SHARDS, 1, 7)
"""Of shards, when they are changed."""
JOBS = 12
LEASE_S = 4.0
WITHIN_S = 180.0
"""What a takeover may take on a busy machine, where each shard's reading process has to be started."""
_SETTINGS = Settings(
    poll_interval_s=0.3, discovery_interval_s=0.3, lease_s=LEASE_S, live_within_s=1e6, shards=SHARDS
)
_AUDIT = "CREATE TABLE shard_audit (train_id TEXT, shard INTEGER, shards INTEGER, written_by INTEGER, led_by INTEGER)"
_NOTE = text(
    "INSERT INTO shard_audit SELECT :train_id, shard, :shards, :epoch, epoch FROM ingest_lease"
    " WHERE base_dir_id = :base_dir_id AND shard = :shard"
)


def _prove(run: Run) -> Outcome:
    run.stores.start()
    *held, control = at_once([*(partial(_attack, run, kind) for kind in KINDS), partial(_control, run)])
    for each in held:
        assert not each.stale, f"{each.stale} stale commits"
        assert not each.strays, f"{each.strays} jobs were written by another shard's leader"
    longest = max(took for each in held for took in each.takeovers)
    counts = (
        f"{run.size * len(held)} kills and SIGSTOPs of {DAEMONS} daemons",
        f"{sum(each.changes for each in held)} changes of the number of shards",
        f"{sum(each.commits for each in held):,} jobs' commits, 0 stale, 0 by another shard's leader",
        f"{sum(each.told for each in held):,} changes told, 0 missed",
        f"takeover in {longest:.1f} s at most, the lease lasting {LEASE_S:.1f} s",
        str(sum((each.accounted for each in held), ledger.Ledger())),
    )
    return Outcome(counts, (Control("confirming the lease", control.stale),))


@dataclass(frozen=True, slots=True)
class _Attacked:
    commits: int
    stale: int
    strays: int = 0
    changes: int = 0
    told: int = 0
    takeovers: list[float] = field(default_factory=list)
    """How long each took."""
    accounted: ledger.Ledger = field(default_factory=ledger.Ledger)


def _attack(run: Run, kind: str) -> _Attacked:
    chance = run.chance(kind)
    with run.store(kind) as url, opened(url) as engine, ExitStack() as lifetime:
        attacked = _begin(run, kind, url, engine, lifetime, lambda: None)
        followed = lifetime.enter_context(_Followed(url))
        attacked.await_all_led()
        takeovers, changes = list[float](), 0
        for number in range(run.size):
            takeovers.append(
                attacked.kill(chance) if chance.random() < 0.6 else attacked.stop_and_wake(chance)
            )
            followed.look()
            if number % 5 == 4:
                attacked.divide(chance.choice(NUMBERS))
                changes += 1
        attacked.await_all_read()
        followed.await_all_told(engine)
        commits, stale, strays = attacked.audit()
        told = followed.told
        return _Attacked(commits, stale, strays, changes, told, takeovers, ledger.check(engine))


def _control(run: Run) -> _Attacked:
    """Who confirms nothing does not notice that another leads, and writes on."""
    chance = run.chance("control")
    with run.store(SQLITE) as url, opened(url) as engine, ExitStack() as lifetime:
        attacked = _begin(run, "control", url, engine, lifetime, confirm_nothing)
        end, stale = time.monotonic() + 60, 0
        while not stale and time.monotonic() < end:  # no lease is renewed here
            attacked.grow(chance)
            time.sleep(0.5)
            commits, stale, _ = attacked.audit()
    return _Attacked(commits, stale)


def _begin(
    run: Run, name: str, url: str, engine: Engine, lifetime: ExitStack, fault: Callable[[], None]
) -> _Group:
    base_dir = run.directory(name)
    with engine.begin() as connection:
        connection.execute(text(_AUDIT))
    files = [_Growing(base_dir / f"job_{number}") for number in range(JOBS)]
    engine.dispose()  # children open their own
    group = _Group(engine, files, lifetime, partial(_daemon, url, base_dir, fault))
    for _ in range(DAEMONS):
        group.start()
    return group


class _Growing:
    """A log file, and what was written into it."""

    def __init__(self, directory: Path) -> None:
        self.log, self.steps = Log(), 0
        name = "events.out.events.summary.1700000000.0.host_MS"
        self.file = GrowingFile(directory / name, self.log.content)

    def grow(self, events: int) -> None:
        for _ in range(events):
            self.steps += 1
            self.log.scalar(self.steps, "loss", self.steps / 7)
        self.file.content = self.log.content
        self.file.reveal_all()


@dataclass(slots=True)
class _Group:
    """Daemons, and the files that all of them follow."""

    engine: Engine
    files: list[_Growing]
    lifetime: ExitStack
    work: Callable[[], None]
    daemons: list[Child] = field(default_factory=list)

    def start(self) -> None:
        self.engine.dispose()
        self.daemons.append(self.lifetime.enter_context(forked(self.work)))

    def grow(self, chance: random.Random) -> None:
        for file in chance.sample(self.files, JOBS // 2):
            file.grow(chance.choice([1, 3, 50]))

    def kill(self, chance: random.Random) -> float:
        """Kill one of them while it may be at work, and start another; how long the takeover took."""
        self.grow(chance)
        time.sleep(chance.uniform(0, 0.5))
        killed = self.daemons.pop(chance.randrange(DAEMONS))
        killed.kill()
        took = self.await_all_led()
        self.start()
        return took

    def stop_and_wake(self, chance: random.Random) -> float:
        """Stop one of them, see the others take over, let it go on; how long the takeover took."""
        self.grow(chance)
        time.sleep(chance.uniform(0, 0.5))
        stopped = chance.choice(self.daemons)
        while True:
            stopped.send(signal.SIGSTOP)
            if not self.holds_write_lock(stopped):
                break
            stopped.send(signal.SIGCONT)  # on SQLite nobody can take over from inside a transaction
            time.sleep(0.01)
        took = self.await_all_led(but=stopped)
        self.grow(chance)
        time.sleep(chance.choice([0, 0, 0.3]))
        stopped.send(signal.SIGCONT)
        return took

    def holds_write_lock(self, child: Child) -> bool:
        time.sleep(0.01)  # until it stands still
        path = self.engine.url.database or ""
        return self.engine.dialect.name == "sqlite" and writer_of(Path(path)) == child.pid

    def divide(self, count: int) -> None:
        """Change the number of shards, as a daemon does that starts with another one."""
        ((base_dir_id,),) = rows(self.engine, "SELECT id FROM base_dir WHERE NOT leaving")
        divide(self.engine, base_dir_id, count, LEASE_S)
        self.await_all_led()

    def await_all_led(self, but: Child | None = None) -> float:
        """Wait until living daemons lead all shards; how long that took."""
        living, since = {child.pid for child in self.daemons if child is not but}, time.monotonic()

        def all_led() -> bool:
            wanted = column(self.engine, "SELECT shards FROM v_base_dir")
            leaders = column(self.engine, "SELECT leader FROM v_shard")
            return [len(leaders)] == wanted and all(
                leader and int(leader.split(":")[-2]) in living for leader in leaders
            )

        wait_until(all_led, what="takeover", within_s=WITHIN_S)
        return time.monotonic() - since

    def await_all_read(self) -> None:
        """Wait for the last event, and see that each is there, once."""
        for file in self.files:
            file.grow(1)
        wanted = sorted((file.file.size, file.steps) for file in self.files)
        query = "SELECT byte_offset, event_count FROM log_file"
        wait_until(
            lambda: sorted(map(tuple, rows(self.engine, query))) == wanted,
            what="end of reading",
            within_s=WITHIN_S,
        )
        (found,) = column(self.engine, "SELECT count(*) FROM scalar_sample")
        assert found == sum(file.steps for file in self.files), f"{found} samples"

    def audit(self) -> tuple[int, int, int]:
        """(jobs' commits, those of a daemon that did not lead any more, those of another shard's leader)."""
        found = rows(self.engine, "SELECT * FROM shard_audit")
        stale = sum(row.written_by != row.led_by for row in found)
        strays = sum(not Shards(row.shards, row.shard).hold(row.train_id) for row in found)
        return len(found), stale, strays


class _Followed:
    """Somebody who is told of changes."""

    def __init__(self, url: str) -> None:
        self._store = LineageStore(url, settings=Settings())
        self._follower = self._store.changes.follow(None)
        self._seen = dict[str, int]()
        self.told = 0

    def __enter__(self) -> _Followed:
        return self

    def __exit__(self, *_: object) -> None:
        self._follower.close()
        self._store.close()

    def look(self) -> None:
        for page in self._follower.look():
            for change in page.changes:
                assert change.train_id is not None, "the base dir was told as forgotten"
                assert (change.revision or 0) > self._seen.get(change.train_id, 0), "told twice"
                self._seen[change.train_id] = change.revision or 0
                self.told += 1

    def await_all_told(self, engine: Engine) -> None:
        """Wait until the last revision of each job was told."""

        def all_told() -> bool:
            self.look()
            return dict(rows(engine, "SELECT train_id, revision FROM v_job")) == self._seen  # type: ignore[arg-type]

        wait_until(all_told, what="end of the changes", within_s=WITHIN_S)


# --- what runs in the children ---


def _daemon(url: str, base_dir: Path, fault: Callable[[], None]) -> None:
    _note()
    fault()
    with opened(url) as engine:
        scheduler.run_daemon(engine, Wanted((base_dir,), _SETTINGS))


def _note() -> None:
    """Note in every batch who wrote which job."""
    write_batch, move_bookmarks = commit.write_batch, file_rows.move_bookmarks
    in_use = local()

    def write_batch_noted(engine: Engine, lease: Lease, *rest: Any) -> None:
        in_use.lease = lease
        write_batch(engine, lease, *rest)

    def move_bookmarks_noted(session: Any, advances: Any) -> None:
        move_bookmarks(session, advances)
        lease: Lease = in_use.lease
        who = {"base_dir_id": lease.base_dir_id, "epoch": lease.epoch}
        shard = {"shards": lease.shards.count, "shard": lease.shards.number}
        for train_id in {advance.file.train_id for advance in advances}:
            session.change(_NOTE, {**who, **shard, "train_id": train_id})

    vars(commit)["write_batch"] = write_batch_noted
    vars(file_rows)["move_bookmarks"] = move_bookmarks_noted


PROOF = Proof(
    "shards",
    "four daemons on four shards lose and repeat nothing, whichever dies",
    unit="kills and SIGSTOPs on each database",
    ci_size=12,
    full_size=200,
    attacks=("ingest",),
    prove=_prove,
)
