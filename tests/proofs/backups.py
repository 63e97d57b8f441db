"""`kill -9` at any moment of `backup` and `restore`: the backup is complete or the older one, the store consistent.

In: a run whose size counts kills of each, on each database. Out: counts, or an AssertionError. A store is switched
between two states by restoring its two backups, and backups of it replace each other, while the program is killed at
random moments and calls. At each moment all rows are of one of the two states, and the backup can be restored; no
pg_dump or pg_restore goes on without its program, and the next backup deletes what killed ones left beside it. A backup
that was cut off is not restored at all. The controls write in place, restore in many transactions, and let
PostgreSQL's programs live on.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy.exc import DBAPIError

from helpers.databases import client_programs_directory
from helpers.engines import opened
from helpers.ingesting import column, ingest
from helpers.kept_store import fill, rows_of
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import MindInsightException
from lineage_store.operations import archives, backup
from lineage_store.store.admin import client_programs
from lineage_store.store.database.sql import Session
from proofs import ledger
from proofs.children import KILLED, at_once, forked
from proofs.fatal_calls import Aim, preloaded
from proofs.programs import run_program, survivors
from proofs.proof import (
    KINDS,
    POSTGRESQL,
    SQLITE,
    Control,
    Outcome,
    Proof,
    Run,
    SkippedError,
    emptied,
)

_CLIENTS = ("pg_dump", "pg_restore")
_MOST_CONTROLS = 60
_CUTS_OF_KILLS = 5
_BETWEEN_S = 0.5
"""How long a restore in many transactions pauses in between, so that kills meet it half done even on a busy machine."""
_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)

Rows = dict[str, list[Any]]
Fault = Callable[[], None]


def _prove(run: Run) -> Outcome:
    return preloaded(run, "backup", _prove_preloaded)


def _prove_preloaded(run: Run) -> Outcome:
    os.environ["PATH"] = f"{client_programs_directory()}{os.pathsep}{os.environ['PATH']}"
    if shutil.which("pg_dump") is None:
        raise SkippedError("no pg_dump")
    attacks = [partial(_attack, run, kind) for kind in KINDS]
    controls = [
        partial(_control, run, SQLITE, _in_place),
        partial(_control, run, POSTGRESQL, _in_many_transactions),
        partial(_control, run, POSTGRESQL, _living_on),
    ]
    *attacked, in_place, in_many, living_on = at_once([*attacks, *controls])
    counts = [
        f"{run.size:,} kills of backup and {run.size:,} of restore on {kind}, {cut:,} backups cut"
        for kind, (cut, _) in zip(KINDS, attacked, strict=True)
    ]
    accounted = sum((each[1] for each in attacked), ledger.Ledger())
    return Outcome(
        (*counts, "0 rows lost, 0 twice", str(accounted)),
        (
            Control("a file beside", in_place),
            Control("one transaction", in_many),
            Control("dying together", living_on),
        ),
    )


def _attack(run: Run, kind: str) -> tuple[int, ledger.Ledger]:
    chance, cut = run.chance(kind), 0
    with _store(run, kind, kind) as store:
        store.kill_backups(chance)
        store.kill_restores(chance)
        for number in range(max(2, run.size // _CUTS_OF_KILLS)):
            cut += store.refuse_cut(chance, number)
        with opened(store.url) as engine:
            ingest(engine, store.base_dir)
            (samples,) = column(engine, "SELECT count(*) FROM v_scalar")
            assert samples == store.samples, f"{samples} samples, not {store.samples}"
            return cut, ledger.check(engine)


def _control(run: Run, kind: str, fault: Fault) -> int:
    """How often a killed restore leaves something else than the one state or the other, or somebody who goes on."""
    with _store(run, kind, fault.__name__) as store:
        chance, aim = run.chance(fault.__name__), Aim(1.0)
        for _ in range(_MOST_CONTROLS):
            if complaint := store.complaint_of_killed_restore(aim, chance, fault):
                return bool(complaint)
    return 0


@contextmanager
def _store(run: Run, kind: str, name: str) -> Iterator[_Store]:
    with run.store(kind) as url:
        yield _Store(run, kind, url, run.directory(name))


class _Store:
    """A store in one of two states, and a backup of each."""

    def __init__(self, run: Run, kind: str, url: str, home: Path) -> None:
        self.url, self.base_dir, self._run, self._kind, self._home = url, home / "base", run, kind, home
        self._backups = home / "backups"
        self._backups.mkdir()
        self._kept, self._said = self._backups / "kept", home / "said.txt"
        fill(url, self.base_dir)
        self._states = [self._backed_up("one")]
        Log().version().scalar(1, "loss", 1.0).write_summary(self.base_dir / "new")
        with LineageStore(url, settings=Settings()) as store:
            store.ingest(self.base_dir)
            store.job((self.base_dir, "./job_3")).annotate(label=5, remark="since")
        self._states.append(self._backed_up("two"))
        with opened(url) as engine:
            (self.samples,) = column(engine, "SELECT count(*) FROM v_scalar")

    def _backed_up(self, name: str) -> tuple[Path, Rows]:
        assert self._end("backup", self._home / name) == 0, self._said.read_text()
        return self._home / name, rows_of(self.url)

    # --- backups ---

    def kill_backups(self, chance: random.Random) -> None:
        aim, kills, old = Aim(), 0, b""
        while kills < self._run.size:
            ended = self._killed(aim, chance, "backup", self._kept)
            kills += ended == KILLED
            assert ended in (0, KILLED), self._said.read_text()
            now = self._kept.read_bytes() if self._kept.exists() else b""
            if now != old:
                assert self._restored(self._kept) == self._states[-1][1], "a backup is not what the store was"
            if ended == 0:
                assert os.listdir(self._backups) == ["kept"], "a killed backup has left something"
                if chance.random() < 0.5:
                    self._kept.unlink()
                    now = b""
            old = now

    def _restored(self, file: Path) -> Rows:
        """What a backup says."""
        with emptied(self._run, self._kind) as other:
            assert self._end("restore", file, url=other) == 0, self._said.read_text()
            return rows_of(other)

    def refuse_cut(self, chance: random.Random, number: int) -> bool:
        """Cut a backup anywhere, and restore that: nothing or all comes of it; whether it was refused."""
        whole, rows = chance.choice(self._states)
        cut = self._home / f"cut_{number}"
        shutil.copy(whole, cut)
        os.truncate(cut, chance.randrange(whole.stat().st_size))
        before = rows_of(self.url)
        ended = self._end("restore", cut, "--replace")
        assert rows_of(self.url) == (rows if ended == 0 else before), "half a backup was restored"
        return ended != 0

    # --- restores ---

    def kill_restores(self, chance: random.Random) -> None:
        aim, kills = Aim(), 0
        while kills < self._run.size:
            wanted, rows = self._other_state()
            while (ended := self._killed(aim, chance, "restore", wanted, "--replace")) == KILLED:
                kills += 1
                assert self._is_of_one_moment(), f"{wanted}: neither the one state nor the other"
            assert ended == 0, self._said.read_text()
            assert rows_of(self.url) == rows, f"{wanted}: other rows than the backup's"

    def complaint_of_killed_restore(self, aim: Aim, chance: random.Random, fault: Fault) -> str:
        """What is wrong after a restore that was killed, with a guard taken away."""
        wanted, _ = self._other_state()
        try:
            self._killed(aim, chance, "restore", wanted, "--replace", fault=fault)
            return "" if self._is_of_one_moment() else "neither the one state nor the other"
        except (AssertionError, MindInsightException, DBAPIError) as error:
            return str(error)

    def _other_state(self) -> tuple[Path, Rows]:
        now = rows_of(self.url)
        return next(state for state in self._states if state[1] != now)

    def _is_of_one_moment(self) -> bool:
        now = rows_of(self.url)
        return any(now == rows for _, rows in self._states)

    # --- the program ---

    def _killed(self, aim: Aim, chance: random.Random, *words: object, fault: Fault = lambda: None) -> int:
        """Kill the program, and see that nobody goes on without it; how it ended."""
        session: list[int] = []
        work = partial(_program, fault, self._said, "--database", self.url, *words)
        ended = aim.kill(chance, work, session.append)
        assert not survivors(session[0], _CLIENTS), (
            f"PostgreSQL's program goes on after `{words[0]}` was killed"
        )
        if self._kind == POSTGRESQL:
            with opened(self.url) as engine:  # the server ends what nobody waits for
                while column(engine, _OTHERS) != [0]:
                    time.sleep(0.01)
        return ended

    def _end(self, *words: object, url: str = "") -> int:
        """Run the program to its end; its exit code."""
        with forked(partial(run_program, self._said, "--database", url or self.url, *words)) as child:
            return child.wait()


# --- what runs in the children ---


def _program(fault: Fault, said: Path, *arguments: object) -> None:
    fault()
    run_program(said, *arguments)


def _in_place() -> None:
    @contextmanager
    def replacing(target: Path, _mode: int) -> Iterator[Any]:
        target.unlink()
        target.touch()
        yield SimpleNamespace(path=target)

    vars(backup)["replacing"] = replacing


def _in_many_transactions() -> None:
    load = archives._load

    def load_otherwise(session: Session, *others: Any) -> None:
        driver: Any = session.connection.connection.driver_connection
        driver.commit()
        time.sleep(_BETWEEN_S)
        load(session, *others)

    vars(archives)["_load"] = load_otherwise


def _living_on() -> None:
    vars(client_programs)["_mortally"] = list


PROOF = Proof(
    "backup",
    "a backup that is killed is whole or the older one, and a store whose restore is killed is of one moment",
    unit="kills of each, on each database",
    ci_size=12,
    full_size=500,
    attacks=("operations",),
    prove=_prove,
)
