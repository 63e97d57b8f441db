"""Carrying out the policies of the settings beside ingest, in one base dir or one shard of it.

In: the follower's lease, at each tick. Out: jobs removed from the store, series thinned, and log lines. Promises: a
tick waits for at most one short transaction, and for none when no job is to be removed; all else is done by a thread
with a connection of its own, which rests four times as long as each step took, but at most a quarter of a lease term; a
failure is logged, and tried again; an interrupted removal is resumed; one process at a time removes jobs of a base dir,
the one with the lease of the base dir that is leaving. What waits for a person is logged at every look, and stored.
Does not know which jobs policies name, nor how many may go.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError, LeaseHeldError, LeaseLostError
from lineage_store.ingest.lease import release_lease
from lineage_store.ingest.leaving import JOBS_AT_A_TIME, Look, cause_of, look, remove_rows, take_out_of_sight
from lineage_store.ingest.thinning import named_series, thin
from lineage_store.store import leases
from lineage_store.store.catalog.policies import Expired, has_policies
from lineage_store.store.database.engine import apart, database_time, reading, writing
from lineage_store.store.holders import holder_name
from lineage_store.store.leases import Lease
from lineage_store.store.writes import removal
from lineage_store.store.writes.removal import Cause

log = logging.getLogger(__name__)

_ROWS_AT_A_TIME = 5_000
_SHARE = 0.2
_ENDS_WITHIN_S = 1.0
_AGAIN_S = 5.0
"""The wait after a failure, or while another process removes jobs of the base dir."""


class Keeping:
    """Goes through these states: nothing is due; jobs to be removed are looked up; they are taken out of sight; their
    rows are removed; series of the remaining jobs are thinned."""

    def __init__(
        self, engine: Engine, base_dir: str, settings: Settings, should_stop: Callable[[], bool]
    ) -> None:
        self._engine, self._base_dir, self._settings = engine, base_dir, settings
        self._is_over = should_stop
        self._thread: threading.Thread | None = None
        self._named: deque[Expired] = deque()
        self._leaving: Lease | None = None
        self._cause = Cause("", holder_name(), by_policy=True)
        self._number: int | None = None
        """The number of the removal under way, once a job has gone."""
        self._due, self._removed, self._ended = 0.0, Counter[str](), threading.Event()
        self._is_to_thin = False

    def step(self, lease: Lease) -> bool:
        """Do the next step; return whether jobs were taken out of sight. Long steps are left to the thread.

        Raises LeaseLostError.
        """
        if self._due == math.inf or (self._thread is not None and self._thread.is_alive()):
            return False
        if not has_policies(self._settings) and 0 not in lease.shards.numbers:
            return False
        if self._named:
            return self._take_out_of_sight(lease)
        if self._leaving is not None:
            self._begin(self._remove_rows, self._leaving)
        elif self._is_to_thin:
            self._begin(self._thin, lease)
        elif time.monotonic() >= self._due:
            self._begin(self._name, lease)
        return False

    def forget(self) -> None:
        """Forget which jobs are to be removed: another ingester may have led since, and they are looked up again."""
        self._named.clear()

    def close(self) -> None:
        """End the work and release the lease of what is leaving. A thread that does not end soon releases it itself."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_ENDS_WITHIN_S)
        if self._leaving is not None and not (self._thread is not None and self._thread.is_alive()):
            release_lease(self._engine, self._leaving)
            self._leaving = None

    def _take_out_of_sight(self, lead: Lease) -> bool:
        some = [self._named.popleft() for _ in range(min(JOBS_AT_A_TIME, len(self._named)))]
        assert self._leaving is not None
        try:
            gone, self._number = take_out_of_sight(
                self._engine, lead, self._leaving, some, self._cause, self._number
            )
        except LeaseLostError:
            self._named.clear()
            self._leaving = None
            raise
        self._removed.update(job.policy for job in gone)
        return bool(gone)

    def _begin(self, work: Callable[[Engine, Lease], None], lease: Lease) -> None:
        self._thread = threading.Thread(target=self._run, args=(work, lease), name="keeping", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Engine, Lease], None], lease: Lease) -> None:
        own = apart(self._engine, allow_network_filesystem=self._settings.allow_network_filesystem)
        try:
            work(own, lease)
        except (LeaseHeldError, LeaseLostError) as error:
            self._wait(_AGAIN_S)
            log.debug("jobs wait to be removed", extra={"base_dir": self._base_dir, "reason": error.message})
        except Exception as error:
            self._wait(max(_AGAIN_S, self._settings.keep_every_s))
            expected = isinstance(error, DatabaseUnavailableError | DBAPIError)
            fields = {"base_dir": self._base_dir, "reason": str(error)}
            log.warning("policies wait", extra=fields, exc_info=None if expected else error)
        finally:
            own.dispose()

    def _wait(self, seconds: float) -> None:
        self._leaving, self._due = None, time.monotonic() + seconds

    def _name(self, engine: Engine, lead: Lease) -> None:
        """Look up which jobs are to be removed. If there are any, or rows of an earlier removal are left, acquire the
        lease of the base dir that holds what is leaving.

        Without any policy this is done once, so that what waited for a person waits no more.
        """
        found = look(engine, lead.base_dir_id, self._settings, lead.shards)
        self._tell(found)
        every_s = self._settings.keep_every_s if has_policies(self._settings) else math.inf
        self._due = time.monotonic() + every_s
        self._is_to_thin = bool(self._settings.keep_every_step_days) and found.clock_off_s is None
        with reading(engine) as connection:
            left = removal.is_leaving(connection, lead.base_dir_id)
        if not (found.named or left) or every_s == math.inf or self._is_over():
            return
        with writing(engine) as connection:
            leaving_id = removal.ensure_leaving(connection, lead.base_dir_id, database_time(connection))
        with writing(engine) as connection:
            self._leaving = leases.acquire(
                connection, leaving_id, holder_name(), self._settings.lease_s, "daemon"
            )
        if found.more:
            self._due = 0.0
        self._cause, self._number = cause_of(found.named), None
        self._named.extend(found.named)

    def _tell(self, found: Look) -> None:
        fields: dict[str, object] = {"base_dir": self._base_dir}
        if found.clock_off_s is not None:
            fields |= {"clock_off_s": round(found.clock_off_s)}
            log.warning("policies wait: the clock disagrees with what the store wrote down", extra=fields)
        elif found.waiting:
            log.warning(
                "jobs wait to be removed until a person confirms it", extra=fields | {"jobs": found.waiting}
            )

    def _remove_rows(self, engine: Engine, leaving: Lease) -> None:
        if self._removed:
            fields = {"base_dir": self._base_dir, "jobs": self._removed.total(), "by": dict(self._removed)}
            fields["removal"] = self._number
            log.info("removed by policy", extra=fields)
            self._removed.clear()
        try:
            rows = min(_ROWS_AT_A_TIME, self._settings.batch_rows)
            remove_rows(engine, leaving, rows, should_stop=self._is_over, rest=self._rest)
        finally:
            release_lease(engine, leaving)
            self._leaving = None

    def _thin(self, engine: Engine, lead: Lease) -> None:
        """Thin series until none is left, or until the jobs to be removed are to be looked up again."""
        self._is_to_thin, gone = False, list[int]()
        for named in named_series(engine, lead.base_dir_id, self._settings, lead.shards):
            if self._is_over() or self._ended.is_set() or time.monotonic() >= self._due:
                break
            began = time.monotonic()
            gone.append(thin(engine, lead, named.key, self._settings))
            self._rest(time.monotonic() - began)
        if any(gone):
            fields = {"base_dir": self._base_dir, "series": sum(map(bool, gone)), "samples": sum(gone)}
            log.info("thinned by policy", extra=fields)

    def _rest(self, took_s: float) -> None:
        self._ended.wait(min(took_s / _SHARE - took_s, self._settings.lease_s / 4))
