"""`status --check` names whatever stops ingest; when the cause ends, ingest goes on.

In: a run whose size counts faults. Out: counts, or an AssertionError. A daemon follows a base dir; then its clock is
set by two hours, its database locked, filled up or made read-only, reading or listing its files hangs, or its own work
never ends. Meanwhile `status --check` says what is wrong, and the daemon waits or ends itself within a minute (its
supervisor starts it again). Afterwards a new sample is in the store within 15 s, and the check passes.
The controls: no watchdog beside the scheduler, and no watch over progress.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from helpers.engines import opened
from helpers.ingesting import column
from helpers.log_writer import GrowingFile, Log
from lineage_store import LineageStore
from lineage_store.cli import main
from lineage_store.config import LIMIT_FIELDS, Settings
from lineage_store.errors import ExitCode
from lineage_store.ingest import pipeline
from lineage_store.ingest.daemon import scheduler
from proofs import failing_databases, ledger
from proofs.children import Child, at_once, forked, own_mounts, shared_library
from proofs.faulty_mount import Share
from proofs.proof import POSTGRESQL, SQLITE, Control, Outcome, Proof, Run, SkippedError

RESUMES_WITHIN_S = 60.0
"""15 s are promised, on a machine that has time."""
ENDS_WITHIN_S = 60.0
TWO_HOURS_S = 7200
_CONTROL_PATIENCE_S = 6.0
_MORE_THAN_FREE_PAGES = 20_000
_START_WITHIN_S = 60.0
_STEPS_S = (-TWO_HOURS_S, TWO_HOURS_S)
_TIMERS: dict[str, Any] = {
    "poll_interval_s": 0.1,
    "discovery_interval_s": 0.1,
    "finished_interval_s": 1,
    "lease_s": 1.5,
    "reading_deadline_s": 6,
    "progress_deadline_s": 8,
}
_SETTINGS = Settings(**_TIMERS)
_NOBODY = Child(0, code=0)
_CLOCKED_DAEMON = """
import ctypes, sys
ctypes.CDLL(None).prctl(1, 9)  # as forked() has it: it dies with its parent
from lineage_store.cli import main
from lineage_store.ingest.daemon import scheduler
if sys.argv[2:]:
    scheduler._wake = lambda _: None
sys.exit(main(["-q", "daemon", sys.argv[1]]))
"""


def _prove(run: Run) -> Outcome:
    run.stores.start()
    rounds = -(-run.size // (sum(map(len, FAULTS)) + len(_STEPS_S)))
    tries: list[Callable[[], list[_Tried]]] = [partial(_try_all, run, faults, rounds) for faults in FAULTS]
    tries.append(partial(_set_clock, run, rounds))
    tried = [each for of_one in at_once(tries) for each in of_one]
    held = [each for each in tried if not each.skipped]
    ended_s = [each.ended_s for each in held if each.ended_s]
    counts = (
        f"{len(held)} faults ({', '.join(sorted({each.name for each in held}))})",
        "each but a set clock seen and named in status",
        f"went on {max(each.resumed_s for each in held):.1f} s after the end at most",
        f"{len(ended_s)} ended the daemon, in {max(ended_s, default=0):.0f} s at most",
        str(sum((each.accounted for each in held), ledger.Ledger())),
    )
    clock, progress = at_once([partial(_without_guard, run), partial(_without_watch, run)])
    controls = Control("guard beside the scheduler", clock), Control("watch over progress", progress)
    return Outcome(counts, controls, tuple(sorted({each.skipped for each in tried if each.skipped})))


@dataclass(slots=True)
class _Tried:
    """How one fault went."""

    name: str
    skipped: str = ""
    resumed_s: float = 0.0
    ended_s: float = 0.0
    """After which time the daemon ended itself; 0 when it did not."""
    accounted: ledger.Ledger = field(default_factory=ledger.Ledger)


class _Place:
    """A store, a base dir with one file that grows, and a daemon that is started again when it ends."""

    def __init__(self, run: Run, name: str, kind: str, lifetime: ExitStack) -> None:
        self.home, self.lifetime = run.directory(name.replace(" ", "_")), lifetime
        self.url = lifetime.enter_context(run.store(kind))
        self.base_dir = self.directory = self.home / "base"
        self.log, self.child = Log(), _NOBODY
        self.flag = self.home / "hang"

    def on_share(self) -> Share:
        """Move the base dir behind a mount that can have faults."""
        share = Share(self.home)
        self.lifetime.enter_context(share.shown())
        self.base_dir, self.directory = share.mount, share.directory
        return share

    def follow(self) -> None:
        """Start, and see that it works."""
        self.file = GrowingFile(
            self.directory / "job" / "events.out.events.summary.1700000000.0.host_MS", b""
        )
        self.start()
        self.grow()
        self.await_all_read(_START_WITHIN_S)

    def start(self) -> None:
        self.child = self.lifetime.enter_context(forked(partial(_daemon, self.url, self.base_dir, self.flag)))

    def tend(self) -> bool:
        """Do what a supervisor does: start the daemon again when it came to a standstill; whether it had."""
        if not self.child.ended():
            return False
        assert self.child.wait() == ExitCode.STANDSTILL, f"{self.home.name}: exit code {self.child.wait()}"
        self.start()
        return True

    def grow(self, events: int = 1) -> None:
        """Let the file have more events."""
        for _ in range(events):
            self.log.scalar(len(self.log.spans), "loss", 0.5)
        self.file.content = self.log.content
        self.file.reveal_all()

    def all_read(self) -> bool:
        with opened(self.url) as engine:
            try:
                return column(engine, "SELECT sum(event_count) FROM log_file") == [len(self.log.spans)]
            except DBAPIError:
                return False

    def await_all_read(self, seconds: float) -> float:
        """Wait until the last event is in the store; how long that took."""
        started = time.monotonic()
        while not self.all_read():
            if self.child is not _NOBODY:
                self.tend()
            late = time.monotonic() > started + seconds
            assert not late, f"{self.home.name}: not everything was read after {seconds:.0f} s"
            time.sleep(0.05)
        return time.monotonic() - started

    def status(self) -> tuple[int, str]:
        """What `status --check` exits with, and says."""
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = main(["--database", self.url, "status", "--check", "--within", "3s"])
        return code, said.getvalue()


def _daemon(url: str, base_dir: Path, flag: Path) -> None:
    """A daemon whose work does not end as long as there is a flag; for a process of its own."""
    ingest_survey = pipeline.ingest_survey

    def carry_out_unless_hung(*args: Any, **more: Any) -> Any:
        while flag.exists():
            time.sleep(0.05)
        return ingest_survey(*args, **more)

    vars(pipeline)["ingest_survey"] = carry_out_unless_hung
    with LineageStore(url, settings=_SETTINGS) as store:
        store.run_daemon([base_dir])


# --- the faults ---


@dataclass(frozen=True, slots=True)
class _Fault:
    name: str
    kind: str
    inject: Callable[[_Place], AbstractContextManager[None]]
    """Prepares the place when it is called, and has the fault for the length of the block."""
    told: str
    """What `status --check` says of it: a regular expression."""
    ends_daemon: bool = False


def _try_all(run: Run, faults: Sequence[_Fault], rounds: int) -> list[_Tried]:
    """Try the faults that must not be tried at the same time."""
    own_mounts()
    return [_try(run, f"{fault.name} {again}", fault) for again in range(rounds) for fault in faults]


def _try(run: Run, name: str, fault: _Fault) -> _Tried:
    tried = _Tried(fault.name)
    try:
        with ExitStack() as lifetime:
            place = _Place(run, name, fault.kind, lifetime)
            injected = fault.inject(place)
            place.follow()
            with injected:
                place.grow()
                _watch(place, fault, tried)
            tried.resumed_s = place.await_all_read(RESUMES_WITHIN_S)
            _await_well(place, fault.name)
            with opened(place.url) as engine:
                place.child.send(signal.SIGTERM)
                place.child.wait()
                tried.accounted = ledger.check(engine)
    except SkippedError as error:
        tried.skipped = f"{fault.name}: {error}"
    return tried


def _watch(place: _Place, fault: _Fault, tried: _Tried) -> None:
    """See that `status --check` tells, and that a daemon which cannot go on ends."""
    began, seen, words = time.monotonic(), False, ""
    while not (seen and (tried.ended_s or not fault.ends_daemon)):
        waited = time.monotonic() - began
        missing = "the daemon did not end" if seen else f"not seen in status, which says: {words}"
        assert waited < ENDS_WITHIN_S, f"{fault.name}: {missing}"
        code, words = place.status()
        seen = seen or (code != 0 and re.search(fault.told, words) is not None)
        if place.tend() and not tried.ended_s:
            tried.ended_s = waited
        time.sleep(0.1)


def _await_well(place: _Place, name: str) -> None:
    began = time.monotonic()
    while place.status()[0]:
        assert time.monotonic() < began + RESUMES_WITHIN_S, f"{name}: it is over, but status does not say so"
        time.sleep(0.1)


def _locked(place: _Place) -> AbstractContextManager[None]:
    return failing_databases.locked(place.url)


def _read_only_server(place: _Place) -> AbstractContextManager[None]:
    return failing_databases.read_only_server(place.url)


def _full_disk(place: _Place) -> AbstractContextManager[None]:
    place.url, disk = failing_databases.sqlite_on_small_disk(place.url, place.home, place.lifetime)
    return _filled_up(place, disk)


def _full_server(place: _Place) -> AbstractContextManager[None]:
    place.url, disk = failing_databases.postgresql_on_small_disk(place.lifetime)
    return _filled_up(place, disk)


@contextmanager
def _filled_up(place: _Place, disk: Path) -> Iterator[None]:
    with failing_databases.full(disk):
        place.grow(_MORE_THAN_FREE_PAGES)
        yield


def _read_only_disk(place: _Place) -> AbstractContextManager[None]:
    place.url, disk = failing_databases.sqlite_on_small_disk(place.url, place.home, place.lifetime)

    def waits() -> bool:
        place.grow(_MORE_THAN_FREE_PAGES // 10)
        return "database full" in place.status()[1]

    return failing_databases.read_only(disk, waits)


def _hung_read(place: _Place) -> AbstractContextManager[None]:
    share = place.on_share()
    return _failing(share, lambda: share.path(place.file.path))


def _hung_listing(place: _Place) -> AbstractContextManager[None]:
    share = place.on_share()
    return _failing(share, lambda: "job")


@contextmanager
def _failing(share: Share, path: Callable[[], str]) -> Iterator[None]:
    share.fail(hang=[path()])
    try:
        yield
    finally:
        share.fail()


def _hung_job(place: _Place) -> AbstractContextManager[None]:
    @contextmanager
    def hung() -> Iterator[None]:
        place.flag.touch()
        try:
            yield
        finally:
            place.flag.unlink()

    return hung()


FAULTS: Sequence[Sequence[_Fault]] = (
    [
        _Fault("locked SQLite", SQLITE, _locked, "locked"),
        _Fault("full disk under SQLite", SQLITE, _full_disk, "database full"),
        _Fault("read-only disk under SQLite", SQLITE, _read_only_disk, "database read-only"),
    ],
    [
        _Fault("locked PostgreSQL", POSTGRESQL, _locked, "locked"),
        _Fault("read-only PostgreSQL", POSTGRESQL, _read_only_server, "database read-only"),
        _Fault("full disk under PostgreSQL", POSTGRESQL, _full_server, "database full"),
    ],
    [
        _Fault("hung read", SQLITE, _hung_read, "waits for a disk|took longer than"),
        _Fault("hung listing", SQLITE, _hung_listing, "no progress"),
    ],
    [_Fault("hung job", SQLITE, _hung_job, "no progress", ends_daemon=True)],
)


# --- the clock ---


def _set_clock(run: Run, rounds: int) -> list[_Tried]:
    """Set the wall clock of a daemon, its database's included."""
    return [_set_clock_by(run, step, f"clock {again} {step}") for again in range(rounds) for step in _STEPS_S]


def _set_clock_by(
    run: Run, step: int, name: str, *faults: str, patience_s: float = RESUMES_WITHIN_S
) -> _Tried:
    tried = _Tried(f"clock {step // 3600:+} h")
    with ExitStack() as lifetime:
        place = _Place(run, name, SQLITE, lifetime)
        place.file = GrowingFile(
            place.directory / "job" / "events.out.events.summary.1700000000.0.host_MS", b""
        )
        shift = place.home / "shift"
        shift.write_text("0")
        try:
            settings = _clocked(place, shift)
        except SkippedError as error:
            tried.skipped = f"set clock: {error}"
            return tried
        command = [sys.executable, "-c", _CLOCKED_DAEMON, str(place.base_dir), *faults]
        process = lifetime.enter_context(subprocess.Popen(command, env=settings))
        lifetime.callback(process.kill)
        place.grow()
        place.await_all_read(_START_WITHIN_S)
        shift.write_text(str(step))
        time.sleep(1)  # ticks that were due already
        place.grow()
        tried.resumed_s = place.await_all_read(patience_s)
    return tried


def _clocked(place: _Place, shift: Path) -> dict[str, str]:
    """The environment of a daemon whose wall clock can be set."""
    library = shared_library("wall_clock.c", place.home)
    settings = {"database_url": place.url, **_TIMERS}
    limits = {field.name for field in LIMIT_FIELDS} & settings.keys()
    given = {f"LINEAGE_STORE_{name.upper()}": str(settings[name]) for name in settings.keys() - limits}
    given["LINEAGE_STORE_LIMITS"] = " ".join(f"{name}={settings[name]}" for name in sorted(limits))
    return {**os.environ, **given, "LD_PRELOAD": str(library), "WALL_CLOCK_SHIFT": str(shift)}


# --- the controls ---


def _without_guard(run: Run) -> int:
    """Whether a clock that is set back stops a daemon that has no guard."""
    try:
        tried = _set_clock_by(run, -TWO_HOURS_S, "no_guard", "no guard", patience_s=_CONTROL_PATIENCE_S)
    except AssertionError:
        return 1
    return int(bool(tried.skipped))


def _without_watch(run: Run) -> int:
    """Whether a daemon whose progress nobody watches hangs for longer than it may."""
    vars(scheduler)["StandstillWatch"].look = lambda _: None
    fault = _Fault("hung job", SQLITE, _hung_job, "no progress")
    with ExitStack() as lifetime:
        place = _Place(run, "no_watch", fault.kind, lifetime)
        injected = fault.inject(place)
        place.follow()
        with injected:
            place.grow()
            time.sleep(2 * _TIMERS["progress_deadline_s"] + _CONTROL_PATIENCE_S)
            return int(not place.child.ended())


PROOF = Proof(
    "stuck",
    "nothing stands still in silence, nor for ever",
    unit="faults",
    ci_size=22,
    full_size=400,
    attacks=("ingest",),
    prove=_prove,
)
