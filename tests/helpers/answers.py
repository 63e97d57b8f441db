"""Answers in MindInsight's shapes to questions in a transaction of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lineage_store.query import jobs
from lineage_store.query.condition import SearchCondition
from lineage_store.query.mindinsight_shapes import answer, objects, one_job, read_keys, want_of, want_of_keys
from lineage_store.store.database.sql import Session


def filter_lineage(
    session: Session,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    *,
    count: bool = True,
) -> dict[str, Any]:
    """The page of a condition."""
    return answer(jobs.page(session, condition, want_of(condition), base_dir_ids, count=count), condition)


def iter_lineage(
    reading: Callable[[], AbstractContextManager[Session]],
    condition: SearchCondition,
    *,
    jobs_at_once: int = 500,
) -> Iterator[dict[str, Any]]:
    """All jobs that match, so many of which are read at a time."""
    for part in jobs.each(reading, condition, want_of(condition), None, jobs_at_once=jobs_at_once):
        yield from objects(part, condition)


def get_lineage(
    session: Session, job_id: int, path: str, keys: Sequence[str] | None = None
) -> dict[str, Any]:
    """One job, as MindInsight 0.7 shows it; `path`: its directory."""
    shown = read_keys(keys)
    return one_job(jobs.one(session, job_id, want_of_keys(shown)), path, shown)
