"""A hot standby that lags, and takes over when its primary is killed: nothing is lost, repeated or answered wrongly.

In: a run whose size counts promotions. Out: counts, or an AssertionError. A daemon follows jobs that grow; questions go
to the standby, which replays late, not at all for a while, cancels what keeps it from replaying, or is cut off. Each
answer is the beginning of what was written, and no answer of a standby is older than an earlier one; a cancelled
question says so, and is answered when it is asked again; the writer of a remark reads it. Then all processes of the
primary are killed, and the standby is promoted, without what it had not received. Questions go on meanwhile, the daemon
goes on with the promoted server, and in the end every sample is there once, with the last remark that the standby had;
`verify` finds no difference. In the control the daemon trusts what it remembers of the other server.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy.engine import make_url

from helpers.databases import SERVER_VARIABLE
from helpers.engines import opened
from helpers.ingesting import column, rows
from helpers.log_writer import GrowingFile, Log
from helpers.standby import cut_off, execute, hot_standby, paused, promote, wait_until_caught_up
from helpers.waiting import wait_until
from lineage_store import DatabaseUnavailableError, LineageStore
from lineage_store.config import Settings
from lineage_store.errors import Cause, MindInsightException
from lineage_store.ingest.daemon import follower, scheduler
from lineage_store.ingest.daemon.scheduler import Wanted
from lineage_store.ingest.scan import directory_cache
from lineage_store.ingest.scan.directory_cache import DirectoryCache
from proofs import ledger
from proofs.children import Child, at_once, forked
from proofs.proof import Control, Outcome, Proof, Run, SkippedError
from proofs.servers import kill_server, own_server, url_of

T = TypeVar("T")

JOBS = 4
ROUNDS = 6
_SETTINGS = Settings(poll_interval_s=0.1, discovery_interval_s=0.1, lease_s=600.0, live_within_s=1e6)
"""The lease outlasts everything, so that it is not its end by which a daemon notices another server."""
_WITHIN_S = 180.0
_MOST_CONTROLS = 3
_SAMPLES = "SELECT count(*) FROM scalar_sample"


def _prove(run: Run) -> Outcome:
    if SERVER_VARIABLE in os.environ:
        raise SkippedError("a standby can be made of our own server alone")
    (asked, lagged, ended, accounted), forgotten = at_once([partial(_attack, run), partial(_control, run)])
    counts = (
        f"{run.size:,} primaries killed, 0 samples lost, 0 twice",
        f"{asked:,} questions, {lagged:,} of them to a standby that lagged",
        f"{ended:,} that it ended answered when asked again",
        str(accounted),
    )
    return Outcome(counts, (Control("noticing another server", forgotten),))


def _attack(run: Run) -> tuple[int, int, int, ledger.Ledger]:
    asked, lagged, ended, accounted = 0, 0, 0, ledger.Ledger()
    for number in range(run.size):
        chance = run.chance("history", number)
        with _pair(run, f"history_{number}", lambda: None) as pair:
            for _ in range(ROUNDS):
                lagged += pair.ask_while_it_lags(chance)
            pair.take_over(chance)
            accounted += pair.read_to_the_end()
            asked, ended = asked + pair.asked, ended + pair.ended
    return asked, lagged, ended, accounted


def _control(run: Run) -> int:
    """Whether a job that only the primary had is never read again, where nobody notices that the server is another."""
    for number in range(_MOST_CONTROLS):
        with _pair(run, f"control_{number}", _trust_memory) as pair:
            pair.grow(run.chance("control", number))
            pair.await_read(pair.primary)
            wait_until_caught_up(pair.primary, pair.standby)
            cut_off(pair.standby)
            _write_job(pair.base_dir / "late")
            wait_until(
                lambda: column(pair.engine_of(pair.primary), _LATE) == [1],
                what="late job",
                within_s=_WITHIN_S,
            )
            time.sleep(2)  # by now it is remembered as a job that rests
            kill_server(pair.server)
            promote(pair.standby)
            for _ in range(2):  # each takes several looks at the base dir
                pair.grow(run.chance("control", number))
                pair.await_read(pair.standby)
            if column(pair.engine_of(pair.standby), _LATE) == [0]:
                return 1
    return 0


_LATE = "SELECT count(*) FROM train_job WHERE train_id = './late'"


@contextmanager
def _pair(run: Run, name: str, fault: Callable[[], None]) -> Iterator[_Pair]:
    with ExitStack() as lifetime:
        server = lifetime.enter_context(own_server())
        standby = lifetime.enter_context(hot_standby(url_of(server)))
        yield _Pair(server, standby, run.directory(name), fault, lifetime)


class _Pair:
    """A primary and its standby, a daemon, and somebody who asks."""

    def __init__(
        self, server: Any, standby: str, base_dir: Path, fault: Callable[[], None], lifetime: ExitStack
    ) -> None:
        self.server, self.primary, self.standby, self.base_dir = server, url_of(server), standby, base_dir
        self.asked = self.ended = self._remarks = self._replayed = 0
        self._jobs = [_Job(base_dir / f"job_{number}") for number in range(JOBS)]
        self._seen = [0] * JOBS
        hosts = ",".join(str(make_url(url).query["host"]) for url in (self.primary, standby))
        several = make_url(standby).update_query_dict({"host": hosts, "target_session_attrs": "read-write"})
        either = several.render_as_string(hide_password=False)
        self._daemon: Child = lifetime.enter_context(forked(partial(_follow, either, base_dir, fault)))
        self._lifetime = lifetime
        self._engines: dict[str, Any] = {}
        self.await_read(self.primary)
        wait_until_caught_up(self.primary, standby)
        settings = Settings(read_database_url=standby)
        self._store = lifetime.enter_context(LineageStore(either, settings=settings))

    def engine_of(self, url: str) -> Any:
        if url not in self._engines:
            self._engines[url] = self._lifetime.enter_context(opened(url))
        return self._engines[url]

    # --- as long as there are two ---

    def grow(self, chance: random.Random) -> None:
        for job in chance.sample(self._jobs, chance.randint(1, JOBS)):
            job.grow(chance.choice([1, 7, 60]))

    def ask_while_it_lags(self, chance: random.Random) -> int:
        """Ask in a round in which the standby replays late, or not at all; how often it lagged."""
        late = f"ALTER SYSTEM SET recovery_min_apply_delay = '{chance.choice([0, 100, 1000])}ms'"
        patience = f"ALTER SYSTEM SET max_standby_streaming_delay = '{chance.choice([0, 100, 30_000])}ms'"
        execute(self.standby, late, patience, "SELECT pg_reload_conf()")
        with ExitStack() as lagging:
            if chance.random() < 0.5:
                lagging.enter_context(paused(self.standby))
            self.grow(chance)
            if chance.random() < 0.5:
                self.await_read(self.primary)
            lagged = 0
            for _ in range(5):
                self._ask(chance)
                lagged += self._newest(self.standby) < self._newest(self.primary)
            self._remark()
        if chance.random() < 0.5:
            wait_until_caught_up(self.primary, self.standby)
        return lagged

    def _newest(self, url: str) -> int:
        (count,) = self._answer(lambda: column(self.engine_of(url), _SAMPLES))
        return int(count)

    def _answer(self, ask: Callable[[], T]) -> T:
        """The answer to a question that the standby may end, so that it can replay."""
        end = time.monotonic() + _WITHIN_S
        while True:
            try:
                return ask()
            except DatabaseUnavailableError as error:
                if error.cause != Cause.CONFLICT or time.monotonic() > end:
                    raise
                self.ended += 1

    def _ask(self, chance: random.Random, *, falls_back: bool = False) -> None:
        """Ask for a curve: it is the beginning of what was written, and not less than before."""
        number = chance.randrange(JOBS)
        found = self._answer(lambda: self._store.job((self.base_dir, f"./job_{number}")).scalars("loss"))
        steps, values = found.steps.tolist(), found.values.tolist()
        assert steps == list(range(1, len(steps) + 1)), f"./job_{number}: steps {steps[:3]} … {steps[-3:]}"
        assert values == [step / 8 for step in steps], f"./job_{number} has other values"
        assert len(steps) <= self._jobs[number].steps, f"./job_{number} has more than was written"
        assert falls_back or len(steps) >= self._seen[number], f"./job_{number} fell back"
        self._seen[number] = len(steps)
        self.asked += 1

    def _remark(self) -> None:
        self._remarks += 1
        self._store.job((self.base_dir, "./job_0")).annotate(remark=str(self._remarks))
        answer = self._answer(self._store.lineage.filter)
        found = {each["summary_dir"]: each["added_info"] for each in answer["object"]}
        assert found["./job_0"].get("remark") == str(self._remarks), "who wrote a remark does not see it"
        self._seen = [0] * JOBS  # the primary has answered, which is ahead

    # --- then there is one ---

    def take_over(self, chance: random.Random) -> None:
        """Kill the primary while the standby lags, and promote that, while questions and trainings go on."""
        if chance.random() < 0.5:
            cut_off(self.standby)
        else:
            execute(self.standby, "SELECT pg_wal_replay_pause()")
        self.grow(chance)
        _write_job(self.base_dir / "late")
        if chance.random() < 0.7:
            self.await_read(self.primary)
            time.sleep(chance.choice([0, 2]))  # then the daemon remembers as resting what the standby lacks
        self._replayed = self._remark_on_standby()
        kill_server(self.server)
        self.grow(chance)
        self._ask(chance, falls_back=True)
        with pytest.raises(DatabaseUnavailableError):  # there is nobody who could take it
            self._store.job((self.base_dir, "./job_0")).annotate(remark="lost")
        promote(self.standby)
        self.grow(chance)
        self._ask(chance, falls_back=True)

    def _remark_on_standby(self) -> int:
        found = self._answer(lambda: column(self.engine_of(self.standby), "SELECT remark FROM annotation"))
        return int(found[0]) if found else 0

    def read_to_the_end(self) -> ledger.Ledger:
        """Wait until the promoted server has everything, and see that it is there once."""
        self.await_read(self.standby)
        engine = self.engine_of(self.standby)
        wait_until(lambda: column(engine, _LATE) == [1], what="late job", within_s=_WITHIN_S)
        wait_until(
            lambda: self._newest(self.standby) == sum(job.steps for job in self._jobs) + 1,
            what="last sample",
            within_s=_WITHIN_S,
        )
        assert self._remark_on_standby() >= self._replayed, "a remark that the standby had is gone"
        self._store.job((self.base_dir, "./job_0")).annotate(remark=str(self._remarks + 1))
        assert self._remark_on_standby() == self._remarks + 1
        for number in range(JOBS):
            steps = self._store.job((self.base_dir, f"./job_{number}")).scalars("loss").steps
            assert len(steps) == self._jobs[number].steps, f"./job_{number} has {len(steps)} samples"
        assert not self._daemon.ended(), "the daemon has ended"
        return ledger.check(engine)

    def await_read(self, url: str) -> None:
        """Wait until a server says of every growing file that it was read to its end."""
        wanted = sorted((job.file.size, job.steps) for job in self._jobs)
        query = "SELECT byte_offset, event_count FROM log_file JOIN train_job ON train_job.id = job_id"
        query += " WHERE train_id LIKE './job%' AND kind = 'summary'"

        def is_read() -> bool:
            try:
                return sorted(map(tuple, rows(self.engine_of(url), query))) == wanted
            except MindInsightException:  # it is about to take over
                return False

        wait_until(is_read, what=f"end of reading on {url}", within_s=_WITHIN_S)


class _Job:
    """A log file, and what was written into it."""

    def __init__(self, directory: Path) -> None:
        self.log, self.steps = Log(), 0
        self.file = GrowingFile(
            directory / "events.out.events.summary.1700000000.0.host_MS", self.log.content
        )
        self.grow(3)
        Log().train(network="Net").write_lineage(directory)

    def grow(self, events: int) -> None:
        for _ in range(events):
            self.steps += 1
            self.log.scalar(self.steps, "loss", self.steps / 8)
        self.file.content = self.log.content
        self.file.reveal_all()


def _write_job(directory: Path) -> None:
    """One that has ended when it is found: nobody has a reason to look at it again."""
    Log().scalar(1, "loss", 0.5).write_summary(directory).chmod(0o400)


# --- what runs in the children ---


def _follow(url: str, base_dir: Path, fault: Callable[[], None]) -> None:
    fault()
    with opened(url) as engine:
        scheduler.run_daemon(engine, Wanted((base_dir,), _SETTINGS))


def _trust_memory() -> None:
    vars(follower)["_MAY_BE_ANOTHER"] = ()
    vars(directory_cache)["DirectoryCache"] = partial(DirectoryCache, settled_after_ns=-1)
    setattr(follower.Follower, "_is_older", lambda *_: False)  # noqa: B010 - as mypy wants it


PROOF = Proof(
    "standby",
    "a standby that lags tells nothing wrong, and when it takes over nothing is lost or repeated",
    unit="promotions",
    ci_size=2,
    full_size=40,
    attacks=("ingest",),
    prove=_prove,
)
