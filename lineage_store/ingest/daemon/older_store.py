"""What a daemon logs of a store that lacks something: a restored one, or one that nobody kept up to date for a while.

In: what the store knew when the lead was taken, and what the first look at the disk found. Out: log lines: since when
the state is, and how many files are read again. Does not know how either is found out.
"""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from lineage_store.ingest.scan.survey import Survey
from lineage_store.json_values import iso
from lineage_store.times import from_unix

log = logging.getLogger(__name__)


def tell_older(base_dir: Path, revision: int, before: int) -> None:
    """Warn that a store is older than it was under the same daemon; revisions tell the time, in ms."""
    changed_at, was = (iso(from_unix(each // 1000)) for each in (revision, before))
    log.warning(
        "the store is an older one", extra={"base_dir": str(base_dir), "changed_at": changed_at, "was": was}
    )


def tell_lack(base_dir: Path, searched_at: datetime | None, found: Survey) -> None:
    """Say what log files have that the store lacks, and since when it does; nothing where it lacks nothing."""
    grown = [more for _, more in found.changed if more > 0]
    counts = {
        "new_files": len(found.new),
        "grown_files": len(grown),
        "missing_files": len(found.missing),
        "bytes": sum(grown) + sum(size for _, size in found.new),
    }
    if any(counts.values()):
        since = "never" if searched_at is None else iso(searched_at)
        log.info("reads what came since", extra={"base_dir": str(base_dir), "searched_at": since, **counts})
