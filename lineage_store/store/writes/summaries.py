"""The first and the best result of each metric of a job, over all its evaluations.

In: jobs, and the metrics of which the least result is the best. Out: rows of `metric_summary`. Promises: all
evaluations in current log files count, in the order of the log files, also those before a later training; NaN,
infinities, text and bools are never the best result; of equal results the earliest is the best.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, delete, func, or_, select

from lineage_store.store.database.dialects import among, insert_plain
from lineage_store.store.schema.tables import (
    evaluation_metric,
    lineage_event,
    log_file,
    metric_summary,
    of_file,
    summary_key,
)
from lineage_store.texts import from_stored

_COPIED = ("job_id", "position", "kind", "value", "text", "evaluation_no")


def write_summaries(
    connection: Connection, job_ids: Collection[int], is_less_better: Callable[[str], bool]
) -> None:
    """Insert the summaries of jobs that have none."""
    found = connection.execute(_ends(connection, job_ids))
    insert_plain(connection, metric_summary, [row for each in found for row in _rows(each, is_less_better)])


def rewrite_summaries(
    connection: Connection, job_ids: Collection[int], is_less_better: Callable[[str], bool]
) -> None:
    """Replace the summaries of jobs."""
    connection.execute(delete(metric_summary).where(among(connection, metric_summary.c.job_id, job_ids)))
    write_summaries(connection, job_ids, is_less_better)


def _rows(found: Row[Any], is_less_better: Callable[[str], bool]) -> Iterator[dict[str, Any]]:
    is_best = found.least if is_less_better(from_stored(found.name)) else found.greatest
    is_number = found.kind in ("int", "float")
    for which, holds in (("first", found.nth == 1), ("best", is_number and is_best == 1)):
        if holds:
            name = f"{which}/{found.name}"
            yield {
                "name": name,
                "name_key": summary_key(name),
                **{each: getattr(found, each) for each in _COPIED},
            }


def _ends(connection: Connection, job_ids: Collection[int]) -> Select[Any]:
    """For each metric of each job, the first result, and the least and the greatest number."""
    event, result = lineage_event.c, evaluation_metric.c
    place = (log_file.c.file_time, log_file.c.name, event.byte_offset)
    same = (result.job_id, result.name_key)
    numbers = (*same, result.kind.in_(("int", "float")))
    ranks = (
        func.dense_rank().over(partition_by=event.job_id, order_by=place).label("evaluation_no"),
        func.row_number().over(partition_by=same, order_by=place).label("nth"),
        func.row_number().over(partition_by=numbers, order_by=(result.value, *place)).label("least"),
        func.row_number()
        .over(partition_by=numbers, order_by=(result.value.desc(), *place))
        .label("greatest"),
    )
    measured = and_(
        result.job_id == event.job_id,
        result.file_no == event.file_no,
        result.byte_offset == event.byte_offset,
    )
    ranked = (
        select(*(result[name] for name in ("job_id", "name", "position", "kind", "value", "text")), *ranks)
        .select_from(
            lineage_event.join(log_file, of_file(lineage_event)).outerjoin(evaluation_metric, measured)
        )
        .where(among(connection, event.job_id, job_ids), event.kind == "eval", log_file.c.current)
        .subquery()
    )
    is_end = or_(ranked.c.nth == 1, ranked.c.least == 1, ranked.c.greatest == 1)
    return select(ranked).where(ranked.c.name.is_not(None), is_end)
