"""Bounds: an idle daemon's use of resources does not grow, a large tree costs little, an upgrade never stops half way.

In: a run whose size counts idle cycles; twice as many log files are the large tree. Out: numbers, or an AssertionError.
The kernel (/proc) measures, in a child that does nothing else. The controls: a reader that does not close what it
opens, a follower that keeps a little of each cycle, and upgrades that commit piecemeal.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.engines import opened
from helpers.ingesting import column, ingest
from helpers.log_writer import Log
from lineage_store import paths
from lineage_store.config import Settings
from lineage_store.ingest.daemon import follower
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.scan import directory_cache
from proofs import killed_upgrades, ledger
from proofs.children import forked
from proofs.proof import KINDS, SQLITE, Control, Outcome, Proof, Run

MEBIBYTE = 1 << 20
MOST_GROWTH_BYTES = 5 * MEBIBYTE
MOST_IDLE_S = 2.0
_FILES_PER_JOB = 4
_TIMED_CYCLES = 5
_SETTINGS = Settings(discovery_interval_s=0, finished_interval_s=5, lease_s=1)


def _prove(run: Run) -> Outcome:
    counts, toothless = [], 0
    quiet = run.directory("quiet")
    for number in range(20):
        path = Log().version().scalar(1, "loss", 0.5).write_summary(quiet / f"job_{number}")
        path.chmod(0o400 if number % 2 else 0o600)
    for kind in KINDS:
        cycles = run.size if kind == SQLITE else -(-run.size // 10)
        with run.store(kind) as url:
            descriptors, growth = _growth(run, url, quiet, cycles)
            assert descriptors <= 0, f"{descriptors:+} descriptors after {cycles:,} idle cycles on {kind}"
            assert growth <= MOST_GROWTH_BYTES, (
                f"{growth / MEBIBYTE:+.1f} MiB after {cycles:,} idle cycles on {kind}"
            )
            counts.append(f"{cycles:,} idle cycles on {kind}: +0 descriptors, {growth / MEBIBYTE:+.1f} MiB")
            for fault in (_keep_descriptors_open, _keep_some_of_each_cycle):
                descriptors, growth = _growth(run, url, quiet, 300, fault)
                toothless += descriptors <= 0 and growth <= MOST_GROWTH_BYTES
            with opened(url) as engine:
                ledger.check(engine)
    assert not toothless, f"{toothless} leaks of 4 were not noticed"
    counts.append(_large_tree(run, run.size * 2))
    kills, between = killed_upgrades.prove(run)
    counts += [f"{kills} killed upgrades: old or new", "a newer schema refused untouched"]
    return Outcome(
        tuple(counts), (Control("closing and forgetting", 4 - toothless), Control("one transaction", between))
    )


# --- an idle daemon ---


def _growth(
    run: Run, url: str, base_dir: Path, cycles: int, fault: Callable[[], None] = lambda: None
) -> tuple[int, int]:
    """How many descriptors and bytes a daemon has gained in so many idle cycles."""

    def idle() -> list[int]:
        with opened(url) as engine:
            following = Follower(engine, base_dir, _SETTINGS)
            for _ in range(max(100, cycles // 10)):
                following.tick()
            before = _descriptors(), _resident_bytes()
            fault()
            for _ in range(cycles):
                following.tick()
            gained = [_descriptors() - before[0], _resident_bytes() - before[1]]
            assert column(engine, "SELECT count(*) FROM scalar_sample") == [20]
            following.close()
        return gained

    descriptors, resident_bytes = _measured(run, idle)
    return descriptors, resident_bytes


def _keep_descriptors_open() -> None:
    vars(paths)["os"] = _Tampered(os, close=lambda _: None)


def _keep_some_of_each_cycle() -> None:
    kept: list[bytes] = []
    real = Follower._work

    def work(self: Follower) -> None:
        kept.append(os.urandom(50_000))
        real(self)

    Follower._work = work  # type: ignore[method-assign]


class _Tampered:
    """A module with some of its functions replaced."""

    def __init__(self, module: Any, **replaced: Any) -> None:
        self.__dict__.update(vars(module) | replaced)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- a large tree ---


def _large_tree(run: Run, files: int) -> str:
    """Follow a tree of so many files, the last hundredth of which may still grow."""
    base_dir = run.directory("large")
    log = Log().version().scalar(1, "loss", 0.5)
    for number in range(files):
        path = log.write_summary(
            base_dir / f"job_{number // _FILES_PER_JOB}", timestamp=1_700_000_000 + number
        )
        path.chmod(0o600 if number * 100 >= files * 99 else 0o400)
    with run.store(SQLITE) as url:

        def follow() -> list[float]:
            follower.SCAN_SHARE = float("inf")  # every tick searches
            with opened(url) as engine:
                following = Follower(engine, base_dir, _SETTINGS)
                while column(engine, "SELECT count(*) FROM log_file WHERE event_count = 2") != [files]:
                    following.tick()
                time.sleep(directory_cache.SETTLED_AFTER_NS / 1e9)
                following.tick()
                times = [_timed(following.tick) for _ in range(_TIMED_CYCLES)]
                following.close()
            return times

        with opened(url) as engine:
            ingest(engine, base_dir)
        took = statistics.median(_measured(run, follow))
    assert took <= MOST_IDLE_S, f"an idle cycle over {files:,} files took {took:.2f} s"
    return f"an idle cycle over {files:,} files in {took:.2f} s"


def _timed(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


def _measured(run: Run, work: Callable[[], list[Any]]) -> list[Any]:
    """What a function returns that runs in a child of its own."""
    answer = run.scratch / "answer"

    def answering() -> None:
        answer.write_text(json.dumps(work()))

    with forked(answering) as child:
        assert child.wait() == 0, "the daemon ended"
    found: list[Any] = json.loads(answer.read_text())
    return found


PROOF = Proof(
    "bounds",
    "what an idle daemon takes does not grow, and an upgrade is whole or has not been",
    unit="idle cycles",
    ci_size=10_000,
    full_size=50_000,
    attacks=("ingest",),
    prove=_prove,
)
