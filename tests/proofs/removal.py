"""`kill -9` at any moment of a `gc`: each job is either there or removed for good.

In: a run whose size counts kills on each database. Out: counts, or an AssertionError. Each time a base dir of four jobs
is ingested, and a `gc` of two of them is killed: at a random moment, or before a random write, send, fsync, unlink or
truncation. Then an ingest follows, and another `gc` ends what was begun. At each step every visible job is complete and
has no tombstone; at the end the contents are those of a store that never knew the removed jobs, and ingest leaves
these alone. The control commits the tombstones apart from hiding the jobs.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select, text

from helpers.contents import natural_contents
from helpers.engines import opened
from helpers.ingesting import ingest, let_leases_expire
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.ingest import lease
from lineage_store.operations import removal as remove
from lineage_store.store.catalog.retention import Rules
from lineage_store.store.database.db import reading
from lineage_store.store.database.sql import Session
from lineage_store.store.schema.tables import train_job
from lineage_store.store.writes import removal
from proofs import ledger
from proofs.children import KILLED, at_once
from proofs.fatal_calls import Aim, preloaded
from proofs.proof import KINDS, SQLITE, Control, Outcome, Proof, Run

STEPS = 7
JOBS = {"./gone_0", "./gone_1", "./kept_0", "./kept_1"}
KEPT = {"./kept_0", "./kept_1"}
_MOST_CONTROLS = 60
_GONE = select(train_job.c.id).where(train_job.c.train_id.like("./gone%"))
_SEEN = text(
    "SELECT train_id, (SELECT count(*) FROM v_scalar WHERE v_scalar.base_dir = :path"
    " AND v_scalar.train_id = v_job.train_id) AS samples, (SELECT count(*) FROM v_lineage_event"
    " WHERE v_lineage_event.base_dir = :path AND v_lineage_event.train_id = v_job.train_id) AS events"
    " FROM v_job WHERE base_dir = :path"
)
_TOMBSTONES = text(
    "SELECT train_id FROM tombstone JOIN base_dir ON base_dir.id = base_dir_id WHERE path = :path"
)


@dataclass(frozen=True, slots=True)
class _Attacked:
    """What came of an attack on one kind of store."""

    kills: int
    begun: int
    """Kills that left a removal half done."""
    accounted: ledger.Ledger


def _prove(run: Run) -> Outcome:
    attacked, failures = preloaded(run, "gc", _prove_preloaded)
    kills = [f"{each.kills:,} kills of gc on {kind}" for kind, each in zip(KINDS, attacked, strict=True)]
    counts = (
        *kills,
        f"{sum(each.begun for each in attacked):,} of them between a job's leaving sight and its last row",
        "0 jobs half there, 0 back",
        str(sum((each.accounted for each in attacked), ledger.Ledger())),
    )
    return Outcome(counts, (Control("one transaction", failures),))


def _prove_preloaded(run: Run) -> tuple[list[_Attacked], int]:
    attacks: list[Callable[[], Any]] = [partial(_attack, run, kind) for kind in KINDS]
    on_sqlite, on_postgresql, failures = at_once([*attacks, partial(_control, run)])
    return [on_sqlite, on_postgresql], failures


def _attack(run: Run, kind: str) -> _Attacked:
    chance, aim, kills, begun, number = run.chance(kind), Aim(), 0, 0, 0
    with run.store(kind) as url, opened(url) as engine:
        known: list[Path] = []
        while kills < run.size:
            base_dir = _ingested(run, engine, f"{kind}_{number}", chance)
            known.append(base_dir)
            if _is_killed(aim, engine, base_dir, chance, lambda: None):
                kills += 1
                begun += _is_begun(engine)
            _assert_whole(engine, base_dir)
            let_leases_expire(engine)
            ingest(engine, base_dir)
            _assert_whole(engine, base_dir)
            _gc(engine, base_dir)
            ingest(engine, base_dir)
            assert (found := _seen(engine, base_dir)) == KEPT, (
                f"{base_dir}: {sorted(found)} after the last gc"
            )
            number += 1
        _assert_like_one_that_never_knew(run, kind, engine, known)
        return _Attacked(kills, begun, ledger.check(engine))


def _control(run: Run) -> int:
    """How often a job was seen that has a tombstone, or was half there."""
    chance, aim = run.chance("control"), Aim()
    with run.store(SQLITE) as url, opened(url) as engine:
        for number in range(_MOST_CONTROLS):
            base_dir = _ingested(run, engine, f"control_{number}", chance)
            _is_killed(aim, engine, base_dir, chance, _bury_apart)
            if complaints := _complaints(engine, base_dir):
                return len(complaints)
            let_leases_expire(engine)
    return 0


def _is_killed(
    aim: Aim, engine: Engine, base_dir: Path, chance: random.Random, fault: Callable[[], None]
) -> bool:
    """Kill a `gc`; whether it was still at work."""
    engine.dispose()  # the child opens its own connections
    return aim.kill(chance, partial(_gc_with, fault, engine, base_dir)) == KILLED


def _ingested(run: Run, engine: Engine, name: str, chance: random.Random) -> Path:
    """A base dir of closed jobs, in the store."""
    base_dir = run.directory(name)
    for job in sorted(JOBS):
        log = Log().version()
        for step in range(STEPS):
            log.scalar(step, "loss", chance.gauss(0, 1))
        log.write_summary(base_dir / job).chmod(0o400)
        log = Log().train(network="Net", loss=chance.random()).evaluation({"accuracy": chance.random()})
        log.write_lineage(base_dir / job).chmod(0o400)
    ingest(engine, base_dir)
    return base_dir


# --- what runs in the children ---


def _gc_with(fault: Callable[[], None], engine: Engine, base_dir: Path) -> None:
    fault()
    _gc(engine, base_dir)


def _gc(engine: Engine, base_dir: Path) -> None:
    base_dir_id = lease.register(engine, base_dir)
    let_leases_expire(engine)
    for _ in remove.remove(engine, base_dir_id, Rules("gone", among=_GONE), Settings(batch_rows=2)):
        pass
    engine.dispose()


def _bury_apart() -> None:
    bury = removal._bury

    def bury_apart(session: Session, *rest: Any) -> None:
        bury(session, *rest)
        session.connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
        time.sleep(0.1)

    vars(removal)["_bury"] = bury_apart


# --- what must hold ---


def _assert_whole(engine: Engine, base_dir: Path) -> None:
    for complaint in _complaints(engine, base_dir):
        raise AssertionError(f"{base_dir}: {complaint}")


def _complaints(engine: Engine, base_dir: Path) -> list[str]:
    """Jobs that are half there, were removed and are there, or are neither; in one snapshot."""
    this = {"path": str(base_dir)}
    with reading(engine) as session:
        seen = {row.train_id: (row.samples, row.events) for row in session.rows(_SEEN, this)}
        removed = set(session.column(_TOMBSTONES, this))
    half = [f"{job} has {counts}" for job, counts in seen.items() if counts != (STEPS, 2)]
    both = [f"{job} is seen in spite of its tombstone" for job in removed & set(seen)]
    neither = [f"{job} is gone without a tombstone" for job in JOBS - removed - set(seen)]
    return [*half, *both, *neither, *(f"{job} was to be kept" for job in removed & KEPT)]


def _seen(engine: Engine, base_dir: Path) -> set[str]:
    with reading(engine) as session:
        return set(session.column(_SEEN, {"path": str(base_dir)}))


def _is_begun(engine: Engine) -> bool:
    """Whether jobs are out of sight that have rows yet."""
    with reading(engine) as session:
        query = "SELECT count(*) FROM train_job JOIN base_dir ON base_dir.id = base_dir_id WHERE leaving"
        return bool(session.value(text(query)))


def _assert_like_one_that_never_knew(run: Run, kind: str, engine: Engine, known: list[Path]) -> None:
    """Every table holds what it would if the removed jobs had never been; but for their tombstones."""
    with run.store(kind) as url, opened(url) as other:
        for base_dir in known:
            for job in JOBS - KEPT:
                shutil.rmtree(base_dir / job)
            ingest(other, base_dir)
        found, expected = natural_contents(engine), natural_contents(other)
    assert len(found.pop("tombstone")) == len(known) * len(JOBS - KEPT)
    del expected["tombstone"]
    for table in expected:
        assert found[table] == expected[table], f"{table} holds something else"


PROOF = Proof(
    "gc",
    "a job is there, or removed for good, whenever its removal is killed",
    unit="kills on each database",
    ci_size=20,
    full_size=1_000,
    attacks=("operations",),
    prove=_prove,
)
