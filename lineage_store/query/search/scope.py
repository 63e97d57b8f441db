"""Which base dirs a question is about.

In: an open connection and the ids of the base dirs asked for. Out: a `Scope`. If all base dirs of the store are asked
for, as is usual, the scope restricts nothing: statements then need not look at the base dirs of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from lineage_store.query.search.compiler import BaseDirs
from lineage_store.store.catalog import registry
from lineage_store.store.database.statements import run
from lineage_store.store.schema.tables import base_dir

BASE_DIRS = select(base_dir.c.id, base_dir.c.path, base_dir.c.leaving)


@dataclass(frozen=True, slots=True)
class Scope:
    """The base dirs asked for."""

    base_dirs: BaseDirs
    """Their ids; None for all base dirs of the store."""
    paths: dict[int, str]
    """Their stored paths by id."""

    @property
    def labels(self) -> dict[int, str]:
        """The paths by id if there are several, so that a job's id alone is ambiguous; otherwise empty."""
        return self.paths if len(self.paths) > 1 else {}


def scope_of(connection: Connection, base_dir_ids: Sequence[int] | None) -> Scope:
    """Return the scope of base dirs (None: all), without those that have no jobs or are being removed."""
    rows = run(connection, BASE_DIRS)
    # One question per base dir: with one for all, PostgreSQL may read the jobs of all, and Citus refuses a correlated
    # subquery. If there is only one base dir, it makes no difference whether it has jobs.
    of_jobs = [
        (key, path, leaving)
        for key, path, leaving in rows
        if len(rows) == 1 or leaving or registry.has_jobs(connection, key)
    ]
    asked = {
        key: path
        for key, path, leaving in of_jobs
        if not leaving and (base_dir_ids is None or key in base_dir_ids)
    }
    return Scope(None if len(asked) == len(of_jobs) else tuple(asked), asked)
