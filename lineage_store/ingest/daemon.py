"""The daemon: APScheduler triggers, followers work, signals end it.

In: an engine, base dirs, settings. Out: nothing; it runs until SIGTERM or SIGINT, finishes the transaction at hand and
returns. Promises: one base dir does not wait for another; a tick never overlaps with the one before.
The only module that knows APScheduler.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.ingest.follower import Follower

log = logging.getLogger(__name__)


def run(
    engine: Engine, base_dirs: Sequence[Path], settings: Settings, stop: threading.Event | None = None
) -> None:
    """Follow base dirs until `stop` is set or a signal comes. Raises ConfigError when there is nothing to follow."""
    if not base_dirs:
        raise ConfigError(
            "There is no base dir to follow.",
            hint="Name one (lineage-store daemon /path/to/summary_base), or set base_dirs in lineage_store.toml.",
        )
    stop = stop or threading.Event()
    followers = [Follower(engine, base_dir, settings, stop.is_set) for base_dir in dict.fromkeys(base_dirs)]
    scheduler = _scheduler(len(followers))
    for follower in followers:
        at_once = datetime.now(UTC)
        scheduler.add_job(follower.tick, "interval", seconds=settings.poll_interval_s, next_run_time=at_once)
    with _stopped_by_signals(stop):
        scheduler.start()
        log.info("started", extra={"base_dirs": [str(base_dir) for base_dir in base_dirs]})
        stop.wait()
        # A paused scheduler submits nothing more, so shutting down cannot race with a new tick.
        scheduler.pause()
        scheduler.shutdown(wait=True)
    for follower in followers:
        follower.close()
    log.info("stopped")


def _scheduler(workers: int) -> BackgroundScheduler:
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    return BackgroundScheduler(
        executors={"default": ThreadPoolExecutor(workers)},
        job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": None},
        timezone="UTC",
    )


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set the event, where this is the main thread; elsewhere signals are the caller's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        log.info("stopping", extra={"signal": signal.Signals(number).name})
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
