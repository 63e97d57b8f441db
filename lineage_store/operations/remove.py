"""Remove jobs by rule: by age, by condition, or because nothing of them is left on disk.

In: an engine, a base dir, rules. Out: the jobs that the rules name; afterwards none of them, and a tombstone for each.
Promises: every transaction is short and what is held in memory is one page of jobs; a daemon gives way while jobs are
taken out of sight, and reads on while their rows go; what an interrupted removal has left is out of sight already, and
goes with the next one. Does not know conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.ingest.lease import leading
from lineage_store.store import leases
from lineage_store.store.catalog.removable import Removable, Rules, any_present, removable
from lineage_store.store.database.engine import database_time, reading, writing
from lineage_store.store.leases import Lease
from lineage_store.store.writes import forgetting, removal

JOBS_AT_A_TIME = 200


def named_by(engine: Engine, base_dir_id: int, rules: Rules) -> Iterator[Removable]:
    """Every job that the rules name now, by id."""
    after = 0
    while True:
        with reading(engine) as connection:
            now = database_time(connection)
            page = removable(connection, base_dir_id, rules, now, after=after, limit=JOBS_AT_A_TIME)
        if not page:
            return
        yield from page
        after = page[-1].id


def remove(
    engine: Engine, base_dir_id: int, rules: Rules, settings: Settings
) -> Iterator[Sequence[Removable]]:
    """Remove every job that the rules name; gives out which, page by page, when they are out of sight.

    Raises LeaseHeldError when an ingester other than a daemon leads the base dir, or another removal is at work.
    """
    with writing(engine) as connection:
        leaving_id = removal.ensure_leaving(connection, base_dir_id, database_time(connection))
    with leading(engine, leaving_id, settings.lease_s, mode="once") as lease:
        with leading(engine, base_dir_id, settings.lease_s, mode="once", before_daemons=True) as lead:
            while page := _take_out_of_sight(engine, lead, leaving_id, rules):
                yield page
        _remove_rows(engine, lease, settings.batch_rows)


def _take_out_of_sight(engine: Engine, lead: Lease, leaving_id: int, rules: Rules) -> list[Removable]:
    with writing(engine) as connection:
        now = leases.confirm(connection, lead)
        page = removable(connection, lead.base_dir_id, rules, now, limit=JOBS_AT_A_TIME)
        jobs = [job.id for job in page]
        removal.begin(connection, lead.base_dir_id, leaving_id, jobs, rules.text, now)
    return page


def _remove_rows(engine: Engine, lease: Lease, rows_at_a_time: int) -> None:
    more = True
    while more:
        with writing(engine) as connection:
            leases.confirm(connection, lease)
            more = forgetting.remove_part(connection, lease.base_dir_id, rows_at_a_time)


def refuse_unmounted(engine: Engine, base_dir: Path, base_dir_id: int) -> None:
    """Raise LineageParamSummaryPathError where log files seem to be missing because a share is not mounted."""
    with reading(engine) as connection:
        present = any_present(connection, base_dir_id)
    if base_dir.is_dir() and present:
        return
    raise LineageParamSummaryPathError(
        f"No log file of any job below {base_dir} is there: that looks like a share which is not mounted.",
        hint=f"Mount it; or, if all of them are gone for good, `lineage-store forget {base_dir}`.",
    )
