"""The daemon's main loop: APScheduler calls the followers, a watchdog watches both, signals stop it or reload settings.

In: an engine, base dirs, settings. Out: a status file while the daemon runs, and messages to systemd (sd_notify(3)); on
SIGTERM or SIGINT, `run_daemon` finishes the current transactions and returns; on SIGHUP it continues with new settings.
Promises: one base dir does not wait for another; a tick never overlaps with the one before; the wall clock may be set
at any time; a follower whose base dir and settings did not change works on, and one with new settings begins once all
old ones of its base dir are closed; a follower that makes no progress ends the process with exit code STANDSTILL, for
a supervisor to start it again. The only module that knows APScheduler.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from sqlalchemy import Engine

from lineage_store.config import SETTING_FIELDS, Settings
from lineage_store.errors import ConfigError, ExitCode
from lineage_store.findings import finding
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.daemon.status_file import ACTIVE, STANDBY, DaemonStatus, StatusFile
from lineage_store.ingest.daemon.watchdog import LOOK_EVERY_S, ClockWatch, StandstillWatch
from lineage_store.program import handled
from lineage_store.store.database.db import identity, require_writable

log = logging.getLogger(__name__)

STOPS_WITHIN_S = 20.0
"""How long the current transactions may take after a stop signal; systemd kills after TimeoutStopSec."""
READING_ENDS_WITHIN_S = 15.0
"""The deadline of progress is at least this much later than that of reading, which is to find a file that hangs."""
_MOST_THREADS = 1 << 16
"""So many that no base dir waits for another; threads are started only when needed."""


def run_daemon(
    engine: Engine,
    wanted: Wanted,
    stop: threading.Event | None = None,
    reload: Callable[[], Wanted] | None = None,
) -> None:
    """Follow base dirs until `stop` is set or SIGTERM or SIGINT arrives; after SIGHUP, follow what `reload` returns.

    Raises ReadOnlyStoreError when the store is open for reading only. Ends the whole process, with exit code
    ExitCode.STANDSTILL, when a follower makes no progress or does not stop in time.
    """
    require_writable(engine)
    stop, asked = stop or threading.Event(), threading.Event()
    scheduler, file = _scheduler(), StatusFile(identity(engine.url))

    def follow(base_dir: Path, shard: int, settings: Settings) -> Follower:
        follower = Follower(engine, base_dir, settings, stop.is_set, shard)
        ticks = _Every(follower.next_tick_s, lambda: follower.is_closed)
        renewals = _Every(lambda: settings.lease_s / 3, lambda: follower.is_closed)
        scheduler.add_job(follower.tick, ticks, next_run_time=datetime.now(UTC))
        scheduler.add_job(follower.renew, renewals, next_run_time=datetime.now(UTC))
        return follower

    crew = Crew(follow)
    crew.adapt(wanted)
    with _told_by_signals(stop, asked if reload else None):
        scheduler.start()
        log.info("started", extra={"base_dirs": [str(base_dir) for base_dir in wanted.base_dirs]})
        notify("READY=1")
        try:
            while _watch(scheduler, crew, wanted, file, stop, asked) and reload:
                notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
                wanted = reloaded(wanted, reload)
                notify("READY=1")
        finally:
            notify("STOPPING=1")
            _finish_within(STOPS_WITHIN_S, scheduler, crew.followers, file)
            file.remove()
    log.info("stopped")


def _watch(
    scheduler: BackgroundScheduler,
    crew: Crew,
    wanted: Wanted,
    file: StatusFile,
    stop: threading.Event,
    asked: threading.Event,
) -> bool:
    """Watch the clock and the followers, and report their state, until it is time to stop or to reload (True)."""
    settings = wanted.settings
    deadline_s = max(settings.progress_deadline_s, settings.reading_deadline_s + READING_ENDS_WITHIN_S)
    standstill = StandstillWatch([], deadline_s)
    clock, told = ClockWatch(tolerance_s=settings.poll_interval_s), ""
    while not stop.wait(LOOK_EVERY_S):
        if asked.is_set():
            asked.clear()
            return True
        if moved_s := clock.moved_s():
            log.warning("clock changed", extra={"moved_s": round(moved_s, 3)})
            _wake(scheduler)
        if crew.adapt(wanted):
            _wake(scheduler)  # a follower that leaves closes at its next tick
        followers = crew.followers
        standstill.watch([follower.pulse for follower in followers])
        still = standstill.look()
        statuses = [
            follower.status if still_s < deadline_s / 2 else _quiet(follower, deadline_s)
            for follower, still_s in zip(followers, standstill.still_s(), strict=True)
            if follower.shard < follower.shards  # the others wait for shards that the base dir no longer has
        ]
        if still:
            fields = {"base_dir": still.name, "since": still.last_at.isoformat(), "deadline_s": deadline_s}
            reason = f"no progress in {still.name} since {still.last_at:%Y-%m-%d %H:%M:%S} UTC"
            _end(reason, fields, file, statuses)
        if standstill.all_have_beaten():
            notify("WATCHDOG=1")
        file.write(statuses)
        if (status := _status(statuses)) != told:
            notify(f"STATUS={status}")
            told = status
    return False


def _quiet(follower: Follower, deadline_s: float) -> DaemonStatus:
    """Return the status of a follower whose lack of progress will soon end the process."""
    status, since = follower.status, follower.pulse.last_at
    found = finding("no_progress", status.base_dir, since=since, deadline_s=deadline_s)
    return replace(status, finding=found)


def _status(statuses: Sequence[DaemonStatus]) -> str:
    """Return the state of all followers in a line: `2 active; /runs: database full`."""
    counts = Counter(each.state for each in statuses if each.finding is None)
    well = [f"{counts[state]} {state}" for state in (ACTIVE, STANDBY) if counts[state]]
    return "; ".join([*well, *(f"{each.base_dir}: {each.title}" for each in statuses if each.finding)])


def _finish(scheduler: BackgroundScheduler, followers: Sequence[Follower]) -> None:
    # A paused scheduler submits nothing more, so shutting down cannot race with a new tick.
    scheduler.pause()
    scheduler.shutdown(wait=True)
    for follower in followers:
        follower.close()


def _finish_within(
    seconds: float, scheduler: BackgroundScheduler, followers: Sequence[Follower], file: StatusFile
) -> None:
    thread = threading.Thread(target=_finish, args=(scheduler, followers), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        reason = f"the work at hand did not end within {seconds:g} s"
        _end(reason, {"deadline_s": seconds}, file, [follower.status for follower in followers])


def _end(
    reason: str, fields: dict[str, object], file: StatusFile, statuses: Sequence[DaemonStatus]
) -> NoReturn:
    """End the process at once: an orderly end would wait for the thread that hangs."""
    log.critical("standstill", extra={**fields, "reason": reason, "exit_code": int(ExitCode.STANDSTILL)})
    file.write(statuses, ended=reason)
    notify(f"STATUS=Ended: {reason}.")
    os._exit(ExitCode.STANDSTILL)


class _Every(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Fires `seconds()` after the beginning of each call, until `is_over()`. APScheduler's own interval trigger would
    make up for all the times that a clock set forward has skipped."""

    def __init__(self, seconds: Callable[[], float], is_over: Callable[[], bool] = lambda: False) -> None:
        self._seconds, self._is_over = seconds, is_over

    def get_next_fire_time(self, _previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return None if self._is_over() else now + timedelta(seconds=self._seconds())


def _scheduler() -> BackgroundScheduler:
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    return BackgroundScheduler(
        executors={"default": ThreadPoolExecutor(_MOST_THREADS)},
        job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": None},
        timezone="UTC",
    )


def _wake(scheduler: BackgroundScheduler) -> None:
    """Make every job due now. After a clock was set back, the times for which they are planned are far ahead."""
    for job in scheduler.get_jobs():
        job.modify(next_run_time=datetime.now(UTC))


@contextmanager
def _told_by_signals(stop: threading.Event, reload: threading.Event | None) -> Iterator[None]:
    """Let SIGTERM and SIGINT set `stop`, and SIGHUP `reload`. Outside the main thread, leave signals to the caller."""

    def end(number: int, *_: object) -> None:
        log.info("stopping", extra={"signal": signal.Signals(number).name})
        stop.set()

    def again(*_: object) -> None:
        if reload is not None:
            reload.set()

    hang_up = () if reload is None else (signal.SIGHUP,)
    with handled(end, signal.SIGTERM, signal.SIGINT), handled(again, *hang_up):
        yield


# ---- The followers of a daemon: one for each base dir and shard that the daemon is to follow

_NEED_A_RESTART = (
    *("database_url", "read_database_url", "allow_network_filesystem", "statement_timeout_s"),
    "metrics_port",
)
_OF_OTHERS = ("base_dirs", "log_", "serve_", "mindinsight_", "notify_", *_NEED_A_RESTART)
"""Beginnings of the names of settings that no follower uses."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The base dirs that a daemon follows, and its settings. Raises ConfigError when there is no base dir."""

    base_dirs: tuple[Path, ...]
    settings: Settings

    def __post_init__(self) -> None:
        if not self.base_dirs:
            raise ConfigError(
                "There is no base dir to follow.",
                hint="Name one (lineage-store daemon /path/to/summary_base), or set base_dirs in lineage_store.toml.",
            )


class Crew:
    """The followers of a daemon.

    Args:
        follow: makes the follower of a base dir's shard.
    """

    def __init__(self, follow: Callable[[Path, int, Settings], Follower]) -> None:
        self._follow = follow
        self.followers: list[Follower] = []

    def adapt(self, wanted: Wanted) -> bool:
        """Make followers that are no longer wanted leave, and begin those that are missing.

        Return whether some followers are still leaving. A base dir may be divided at any time: its new shards get
        followers too.
        """
        for follower in self.followers:
            if follower.named not in wanted.base_dirs or follower.settings != wanted.settings:
                follower.leave()
        self.followers = [follower for follower in self.followers if not follower.is_closed]
        for base_dir, shard in list(self._not_followed(wanted)):
            self.followers.append(self._follow(base_dir, shard, wanted.settings))
        return any(follower.leaves for follower in self.followers)

    def _not_followed(self, wanted: Wanted) -> Iterator[tuple[Path, int]]:
        for base_dir in dict.fromkeys(wanted.base_dirs):
            mine = [follower for follower in self.followers if follower.named == base_dir]
            if not any(follower.leaves for follower in mine):
                shards = mine[0].shards if mine else 1
                yield from ((base_dir, shard) for shard in range(len(mine), shards))


def reloaded(before: Wanted, reload: Callable[[], Wanted]) -> Wanted:
    """Return what `reload` gives; `before`, when it refuses the new settings. Log what changed."""
    try:
        after = reload()
    except ConfigError as error:
        log.error("settings reload failed", extra={"reason": error.message, "remedy": error.hint})
        return before
    old, new = before.settings, after.settings
    names = [each.name for each in SETTING_FIELDS if getattr(old, each.name) != getattr(new, each.name)]
    fields = {"changed": names, "base_dirs": [str(base_dir) for base_dir in after.base_dirs]}
    log.info("settings reloaded", extra=fields)
    if waiting := [name for name in names if name in _NEED_A_RESTART]:
        log.warning("settings need restart", extra={"settings": waiting})
    if all(name.startswith(_OF_OTHERS) for name in names):
        return replace(after, settings=old)
    return after


# ---- Messages to systemd: `READY=1`, `STATUS=…`, `WATCHDOG=1`, `STOPPING=1`


def notify(*lines: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send lines in one datagram to the socket in $NOTIFY_SOCKET; return whether they were sent.

    A name that begins with @ is an abstract socket. Never waits and never raises OSError: a service manager that does
    not listen is no reason to stop ingest.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    message = "\n".join(line.replace("\n", " ") for line in lines)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto(message.encode(errors="replace"), address)
    except OSError:
        return False
    return True
