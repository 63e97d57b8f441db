"""Which base dirs a question is about.

In: an open connection and the base dirs asked for, by id. Out: a `Scope`. Where all base dirs of the store
are asked for, which is the rule, it restricts nothing: statements then need not look at the base dir of any job.
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
    """Their ids; None for all of the store."""
    paths: dict[int, str]
    """Their paths by id, as stored."""

    @property
    def labels(self) -> dict[int, str]:
        """The paths, where a job's id alone does not tell the job: when several are asked for."""
        return self.paths if len(self.paths) > 1 else {}


def scope_of(connection: Connection, base_dir_ids: Sequence[int] | None) -> Scope:
    """`base_dir_ids` None means all base dirs; those without jobs, and what is being removed, count for nothing."""
    rows = run(connection, BASE_DIRS)
    # Asked one by one: of all at once, PostgreSQL may go through the jobs of all, and Citus answers no subquery that is
    # tied to something else than a job. Where there is only one, it makes no difference.
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
