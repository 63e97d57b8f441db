"""The store's rows of log files, to be compared with the files themselves. Only reads.

In: a session; keys. Out: rows of the tables; samples are streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, case, func, select

from lineage_store.finding_kinds import KINDS
from lineage_store.store.database.db import Page
from lineage_store.store.database.sql import Session, among
from lineage_store.store.records import FileKey
from lineage_store.store.schema.tables import (
    SAMPLES_OF,
    evaluation_metric,
    in_file,
    in_series,
    ingest_problem,
    lineage,
    lineage_event,
    log_file,
    metric_summary,
    of_file,
    scalar_bucket,
    series,
    train_job,
)
from lineage_store.texts import from_stored, key, to_stored

_ROWS_AT_ONCE = 5_000


def file_keys(
    session: Session, base_dir_id: int, train_id: str | None = None, sample: int | None = None
) -> list[FileKey]:
    """Return the current log files of a base dir, or of one job (stored id), by name; or `sample` of them at random."""
    found = (
        select(log_file.c.job_id, log_file.c.file_no)
        .join_from(log_file, train_job)
        .where(train_job.c.base_dir_id == base_dir_id, log_file.c.current)
    )
    if train_id is not None:
        found = found.where(train_job.c.train_id == train_id)
    if sample is None:
        found = found.order_by(train_job.c.train_id, log_file.c.name)
    else:
        found = Page(sample).of(found.order_by(func.random()))
    return [(row.job_id, row.file_no) for row in session.rows(found)]


def file_row(session: Session, file: FileKey) -> Row[Any] | None:
    """Return a file's row of `log_file` with its `train_id`; None if the file is no longer current."""
    query = select(log_file, train_job.c.train_id).join_from(log_file, train_job)
    return session.first(query.where(in_file(log_file, file), log_file.c.current))


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What the store says of a log file's bytes whose content it does not have, or not in full."""

    bytes: int | None
    """How many were given up, by the recorded problems; None if not all problems of the file are recorded."""
    within: Mapping[str, tuple[int, int]]
    """By kind of problem, where such bytes are: from the first of them to behind the last."""

    def may_be(self, position: int, *kinds: str) -> bool:
        """Return whether the bytes at a position may have a problem of one of these kinds."""
        found = (self.within[kind] for kind in kinds if kind in self.within)
        return any(start <= position < end for start, end in found)


def given_up(session: Session, file: FileKey, byte_offset: int) -> GivenUp:
    """Return what the store says of the bytes of a file before its bookmark whose content it does not have."""
    mine = select(ingest_problem).where(in_file(ingest_problem, file), ingest_problem.c.bytes.is_not(None))
    rows = [row for row in session.rows(mine) if row.kind in KINDS]
    kinds = session.value(select(log_file.c.unlisted).where(in_file(log_file, file))) or ""
    unlisted = [kind for kind in kinds.split() if kind in KINDS and KINDS[kind].ranged]
    within = {row.kind: (row.range_start, row.range_end) for row in rows}
    recorded = sum(row.bytes for row in rows if KINDS[row.kind].gives_up_bytes)
    return GivenUp(None if unlisted else recorded, {**within, **dict.fromkeys(unlisted, (0, byte_offset))})


def series_rows(session: Session, file: FileKey) -> list[Row[Any]]:
    return session.rows(select(series).where(in_file(series, file)))


def samples(session: Session, of: Row[Any]) -> Iterator[Row[Any]]:
    """Yield the samples of a row of `series`, by step."""
    table = SAMPLES_OF[of.plugin]
    query = select(table).where(in_series(table, (of.job_id, of.series_no)))
    for rows in session.stream(query.order_by(table.c.step), _ROWS_AT_ONCE):
        yield from rows


def buckets(session: Session, of: Row[Any]) -> list[Row[Any]]:
    """Return the buckets of a row of `series`, by step."""
    query = select(scalar_bucket).where(in_series(scalar_bucket, (of.job_id, of.series_no)))
    return session.rows(query.order_by(scalar_bucket.c.first_step))


def thinned_series(session: Session, file: FileKey) -> int:
    """Return how many series of a file were thinned."""
    query = select(func.count()).select_from(series).where(in_file(series, file), series.c.thinned_count > 0)
    return int(session.value(query))


def lineage_events(session: Session, file: FileKey) -> list[Row[Any]]:
    """Return the lineage events of a file, in its order."""
    query = select(lineage_event).where(in_file(lineage_event, file))
    return session.rows(query.order_by(lineage_event.c.byte_offset, lineage_event.c.value_index))


def model_lineage(session: Session, job_id: int) -> str | None:
    """Return a job's model lineage, folded from its events, as JSON; None if it has no lineage."""
    query = select(lineage.c.model_lineage).where(lineage.c.job_id == job_id)
    found: str | None = session.value(query)
    return found


# ---- Find stored best results that the present settings would choose otherwise. Only reads
# In: a session, and for which metrics less is better. Out: the metrics concerned, each with the number of jobs;
# the jobs of a base dir concerned. Promises: one pass over the results of evaluations, however many metrics they
# have; compares the results themselves, so that it need not know the earlier settings.


_RESULT, _BEST = evaluation_metric.c, metric_summary.c
_LESS, _MORE = _RESULT.value < _BEST.value, _RESULT.value > _BEST.value


def chosen_otherwise(session: Session, is_less_better: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
    """Yield each metric for which some jobs have a better result than the stored best, and the number of these jobs."""
    jobs = [func.count(case((other, _RESULT.job_id)).distinct()) for other in (_LESS, _MORE)]
    found = _beside_bests(select(_RESULT.name, *jobs)).group_by(_RESULT.name).order_by(_RESULT.name)
    for name, less, more in session.rows(found):
        metric = from_stored(name)
        if count := less if is_less_better(metric) else more:
            yield metric, count


def jobs_chosen_otherwise(
    session: Session, base_dir_id: int, metrics: Iterable[str], is_less_better: Callable[[str], bool]
) -> set[int]:
    """Return the ids of the jobs of a base dir that have a better result of one of the metrics than the stored best."""
    mine = _RESULT.job_id.in_(select(train_job.c.id).where(train_job.c.base_dir_id == base_dir_id))
    jobs, found = _beside_bests(select(_RESULT.job_id).distinct()).where(mine), set[int]()
    keys: dict[bool, list[int]] = {True: [], False: []}
    for metric in metrics:
        keys[is_less_better(metric)].append(key(to_stored(metric)))
    for is_less, some in keys.items():
        better = _LESS if is_less else _MORE
        wanted = jobs.where(among(session, _RESULT.name_key, some), better)
        found.update(session.column(wanted) if some else ())
    return found


def _beside_bests(columns: Select[Any]) -> Select[Any]:
    """Select `columns` from the numeric results of current files, joined to the stored best of their metric and job."""
    of_best = (_BEST.job_id == _RESULT.job_id) & (_BEST.name_key == _RESULT.name_key.bitwise_and(-2))
    every = evaluation_metric.join(log_file, of_file(evaluation_metric)).join(metric_summary, of_best)
    return columns.select_from(every).where(log_file.c.current, _RESULT.kind.in_(("int", "float")))
