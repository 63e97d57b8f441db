"""A base dir on a filesystem that misreports as NFS does: nothing is lost or read twice, and growth is seen at once.

In: a run whose size counts faults. Out: counts, or an AssertionError. A daemon follows log files through `faulty_mount`
while they grow beneath it, with sizes that are a minute old, ESTALE, EIO and holes that are filled later, several at a
time. After the last fault the store has what was written. The control trusts sizes and times, as on a local disk.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from helpers.engines import opened
from helpers.ingesting import column
from helpers.log_writer import GrowingFile, Log
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.scan import directory_cache
from proofs import ledger
from proofs.children import at_once, forked, own_mounts
from proofs.faulty_mount import Share
from proofs.proof import KINDS, SQLITE, Control, Outcome, Proof, Run

POLL_S = 0.2
SEEN_WITHIN_S = POLL_S + 1.0
"""What is promised."""
_STALE_S = 60.0
_SEEN_HERE_WITHIN_S = _STALE_S / 3
"""What is not the fault of a busy machine any more, and yet sooner than sizes tell."""
_FILES = 4
_STEPS_A_FAULT = 20
_CONTROL_EVENTS = 3
_PATIENCE_S = 60.0
_SETTINGS = Settings(poll_interval_s=POLL_S, discovery_interval_s=POLL_S, lease_s=5, finished_interval_s=1)


def _prove(run: Run) -> Outcome:
    run.stores.start()
    share = -(-run.size // len(KINDS))
    attacks = [partial(_attack, run, kind, share) for kind in KINDS]
    works: list[Callable[[], Any]] = [*attacks, partial(_control, run)]
    *held, control = at_once(works)
    lags = sorted(lag for each in held for lag in each.lags)
    seen = f"growth seen in {statistics.median(lags):.1f} s, {lags[-1]:.1f} s at most ({SEEN_WITHIN_S} s are promised)"
    assert statistics.median(lags) <= _SEEN_HERE_WITHIN_S, f"{seen}, polling every {POLL_S} s"
    counts = (
        f"{share * len(KINDS)} faults: sizes {_STALE_S:.0f} s old, ESTALE, EIO, holes",
        f"{sum(each.samples for each in held):,} samples: 0 lost, 0 repeated",
        seen,
        str(sum((each.accounted for each in held), ledger.Ledger())),
    )
    return Outcome(counts, (Control("distrust of sizes", control),))


@dataclass(slots=True)
class _Attacked:
    lags: list[float] = field(default_factory=list)
    samples: int = 0
    accounted: ledger.Ledger = field(default_factory=ledger.Ledger)


def _attack(run: Run, kind: str, faults: int) -> _Attacked:
    own_mounts()
    chance, attacked = run.chance(kind), _Attacked()
    share = _Growing(run, kind)
    logs = {file: Log() for file in share.files}
    with run.store(kind) as url, opened(url) as engine, share.followed(url, lambda: None):
        for number in range(faults):
            share.fail(**_some_fault(share, chance))
            for file in chance.sample(share.files, 2):
                _append(file, logs[file], chance)
            time.sleep(chance.uniform(0, 0.5))
            if number % 5 == 0:
                share.fail(stale_s=_STALE_S)
                _await_all_read(engine, share.files)
                _append(share.files[0], logs[share.files[0]], chance)
                attacked.lags.append(_await_all_read(engine, share.files))
        share.fail()
        _await_all_read(engine, share.files)
        attacked.samples = sum(len(log.spans) for log in logs.values())
        # What was read of a file before its hole was filled is out of sight, and goes with the next search.
        events = column(engine, "SELECT sum(event_count) FROM log_file WHERE current")
        samples = column(engine, "SELECT count(*) FROM v_scalar")
        assert events == samples == [attacked.samples], (
            f"{events} events, {samples} samples of {attacked.samples}"
        )
        attacked.accounted = ledger.check(engine)
    return attacked


def _control(run: Run) -> int:
    """How often a daemon that trusts sizes sees no growth in good time."""
    own_mounts()
    share, unseen = _Growing(run, "control"), 0
    logs = {file: Log() for file in share.files}
    with run.store(SQLITE) as url, opened(url) as engine, share.followed(url, _trust):
        for file in share.files:
            _append(file, logs[file], run.chance("control"))
        _await_all_read(engine, share.files)
        share.fail(stale_s=_STALE_S)
        time.sleep(1)  # by now it has seen the sizes, and that of its closed directories
        for number in range(_CONTROL_EVENTS):
            file = share.files[number]
            _append(file, logs[file], run.chance("control", number))
            time.sleep(2 * SEEN_WITHIN_S)
            unseen += not _all_read(engine, share.files)
        share.fail()
    return unseen


def _trust() -> None:
    vars(directory_cache)["is_network"] = lambda _: False


class _Growing(Share):
    """A share with log files that grow."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run.directory(name))
        name = "events.out.events.summary.17000000{:02}.0.host_MS"
        self.files = [
            GrowingFile(self.directory / f"job_{number}" / name.format(number), b"")
            for number in range(_FILES)
        ]

    @contextmanager
    def followed(self, url: str, fault: Callable[[], None]) -> Iterator[None]:
        """A daemon that follows the mount, for the length of a block."""
        with self.shown(), forked(partial(_follow, url, self.mount, fault)):
            yield


def _follow(url: str, base_dir: Path, fault: Callable[[], None]) -> None:
    fault()
    with opened(url) as engine:
        following = Follower(engine, base_dir, _SETTINGS)
        while True:
            following.tick()
            time.sleep(POLL_S)


def _some_fault(share: _Growing, chance: random.Random) -> dict[str, Any]:
    """One or several faults at once."""
    files = {share.path(file.path): file for file in chance.sample(share.files, 2)}
    one, other = files
    possible = {
        "stale_s": _STALE_S,
        "estale": [one, chance.choice([other, "job_0"])],
        "eio": [other],
        "holes": {
            path: file.size + chance.randrange(-20, 60) for path, file in files.items() if file.size > 20
        },
    }
    return {name: possible[name] for name in chance.sample(sorted(possible), chance.randint(1, 3))}


def _append(file: GrowingFile, log: Log, chance: random.Random) -> None:
    """Let a file grow by some events, the last of which may be incomplete for now."""
    for _ in range(_STEPS_A_FAULT):
        log.scalar(len(log.spans), "loss", chance.gauss(0, 1))
    file.content = log.content
    if chance.random() < 0.5:
        file.reveal(len(file.content) - file.size - chance.randint(1, 30))
        time.sleep(chance.uniform(0, 0.2))
    file.reveal_all()


def _all_read(engine: Engine, files: list[GrowingFile]) -> bool:
    found = column(engine, "SELECT coalesce(sum(byte_offset), 0) FROM log_file WHERE current")
    return int(found[0]) == sum(file.size for file in files)


def _await_all_read(engine: Engine, files: list[GrowingFile]) -> float:
    """Wait until everything is in the store; how long that took."""
    started = time.monotonic()
    while not _all_read(engine, files):
        assert time.monotonic() < started + _PATIENCE_S, f"not all was read in {_PATIENCE_S:.0f} s"
        time.sleep(0.02)
    return time.monotonic() - started


PROOF = Proof(
    "nfs-like",
    "a filesystem that lies costs time, and not much of it",
    unit="faults",
    ci_size=60,
    full_size=1_000,
    attacks=("ingest",),
    prove=_prove,
)
