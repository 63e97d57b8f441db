"""`kill -9` at the calls by which an ingest changes files or sends to a server: a part of the proof `kill`.

In: a run. Out: how many ingests were killed, and what was accounted for, or an AssertionError. A run of a hundred
transactions is killed, in parts that each begin with what the part before left: at its first write, send, fsync, unlink
or truncation, at its second, and so on until it ends alive. A preloaded library counts the calls, so all of this
happens in a process that is started with it, and in its forks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from helpers.engines import opened
from helpers.log_writer import GrowingFile, Log
from proofs import ledger
from proofs.children import KILLED, at_once, forked
from proofs.fatal_calls import kill_at, preloaded
from proofs.killed_ingest import finish, ingest_as_one_of_many
from proofs.proof import KINDS, POSTGRESQL, SQLITE, Run

PARTS, EVENTS_IN_PART = 6, 300
EVERY_CALL_FROM = {SQLITE: 1_000, POSTGRESQL: 6_000}
"""From these sizes of a run on, every call is fatal in its turn; below them every second one, and so on."""
LONGEST_STRIDE = 30


@dataclass(frozen=True, slots=True)
class Killed:
    """How many ingests were killed on a kind of store, and what was accounted for."""

    kind: str
    kills: int
    accounted: ledger.Ledger


def prove(run: Run) -> list[Killed]:
    """Kill at every call on both kinds of stores. Raises SkippedError without a C compiler."""
    return preloaded(run, "calls", _prove_preloaded)


def _prove_preloaded(run: Run) -> list[Killed]:
    return at_once([partial(_kill, run, kind) for kind in KINDS])


def _kill(run: Run, kind: str) -> Killed:
    stride = min(LONGEST_STRIDE, max(1, EVERY_CALL_FROM[kind] // run.size))
    number, mortal, kills = 1 + run.chance("calls", kind).randrange(stride), set(range(PARTS)), 0
    content = _content(run, kind)
    with run.store(kind) as url, opened(url) as engine:
        while mortal:
            mortal = _kill_parts(engine, run.directory(f"{kind}_{number}"), content, number, mortal)
            kills += len(mortal)
            number += stride
        return Killed(kind, kills, ledger.check(engine))


def _content(run: Run, kind: str) -> bytes:
    log, chance = Log(), run.chance("content", kind)
    for step in range(PARTS * EVENTS_IN_PART):
        log.scalar(step, "loss", chance.random())
    return log.content


def _kill_parts(engine: Engine, base_dir: Path, content: bytes, number: int, mortal: set[int]) -> set[int]:
    """Kill an ingest of each `mortal` part at its call of a number, and read on; those that had not ended before."""
    file = GrowingFile(base_dir / "job" / "events.out.events.summary.1700000000.0.host_MS", content)
    killed = set[int]()
    for part in range(max(mortal) + 1):
        file.reveal(-(-len(content) // PARTS))
        if part in mortal:
            with forked(partial(_ingest_until, number, engine, base_dir)) as child:
                if child.wait() == KILLED:
                    killed.add(part)
        finish(engine, base_dir)
    return killed


def _ingest_until(number: int, engine: Engine, base_dir: Path) -> None:
    kill_at(number)
    ingest_as_one_of_many(engine, base_dir)
