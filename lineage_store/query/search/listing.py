"""All matching jobs, in order, as an iterator that the caller may consume as slowly as needed.

In: a function that begins a read transaction, a checked condition. Out: an iterator of dicts in MindInsight's shape.
Promises: no transaction is open while the caller works; otherwise PostgreSQL would end it, and SQLite's write-ahead log
would grow. Which jobs match, and their order, is fixed at the beginning. The data of a job is from the moment when its
part is read; a job that was removed by then is left out. Memory: sixteen bytes per job, and the data of one part.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from sqlalchemy import Connection

from lineage_store.query.search.compiler import Found, compile_all
from lineage_store.query.search.page import rows_of_jobs
from lineage_store.query.search.results import to_object
from lineage_store.query.search.scope import Scope, scope_of
from lineage_store.query.search.tree import SearchCondition
from lineage_store.store.database.conflicts import asked_again

_Reading = Callable[[], AbstractContextManager[Connection]]
_LISTED_AT_ONCE, JOBS_AT_ONCE = 10_000, 500


class _Listed(NamedTuple):
    """Jobs in order."""

    job_ids: array[int]
    names: array[int]
    """Hashes of base dir and train id, because SQLite may give the id of a removed job to a new one."""


def iter_lineage(
    reading: _Reading,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    *,
    jobs_at_once: int = JOBS_AT_ONCE,
) -> Iterator[dict[str, Any]]:
    """Yield every matching job, ignoring the condition's page; `jobs_at_once` jobs are read in one transaction."""
    scope, listed = _listed(reading, condition, base_dir_ids)
    for start in range(0, len(listed.job_ids), jobs_at_once):
        part = _Listed(*(column[start : start + jobs_at_once] for column in listed))
        rows = _rows(reading, part.job_ids, condition)
        names = dict(zip(*part, strict=True))
        for row in rows:
            if names[row.job_id] == hash((row.base_dir_id, row.train_id)):
                yield to_object(row, json.loads(row.model_lineage), condition, scope.labels)


@asked_again
def _listed(
    reading: _Reading, condition: SearchCondition, base_dir_ids: Sequence[int] | None
) -> tuple[Scope, _Listed]:
    listed, options = _Listed(array("q"), array("q")), {"yield_per": _LISTED_AT_ONCE}
    with reading() as connection:
        scope = scope_of(connection, base_dir_ids)
        statement = compile_all(condition.where, condition.sort, scope.base_dirs, names=True)
        for rows in connection.execute(statement, condition.values, execution_options=options).partitions():
            listed.job_ids.extend(row[0] for row in rows)
            listed.names.extend(hash((row[1], row[2])) for row in rows)
    return scope, listed


@asked_again
def _rows(reading: _Reading, job_ids: Sequence[int], condition: SearchCondition) -> Sequence[Found]:
    with reading() as connection:
        return rows_of_jobs(connection, job_ids, condition)
