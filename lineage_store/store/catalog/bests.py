"""Best results that the settings would choose otherwise now. Only reads.

In: a connection, which metrics are the better the less they are. Out: metrics, each with how many jobs
have such a best. Promises: one pass over the results of evaluations; nothing is guessed of what the settings said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import Connection, case, func, select

from lineage_store.store.schema.tables import evaluation_metric, log_file, metric_summary, of_file
from lineage_store.texts import from_stored


def chosen_otherwise(
    connection: Connection, is_less_better: Callable[[str], bool]
) -> Iterator[tuple[str, int]]:
    """Each metric that has a better result in some jobs than the best that is stored, and in how many."""
    result, best = evaluation_metric.c, metric_summary.c
    jobs = [
        func.count(case((other, result.job_id)).distinct())
        for other in (result.value < best.value, result.value > best.value)
    ]
    of_best = (best.job_id == result.job_id) & (best.name == "best/" + result.name)
    found = (
        select(result.name, *jobs)
        .select_from(
            evaluation_metric.join(log_file, of_file(evaluation_metric)).join(metric_summary, of_best)
        )
        .where(log_file.c.current, result.kind.in_(("int", "float")))
        .group_by(result.name)
        .order_by(result.name)
    )
    for name, less, more in connection.execute(found):
        metric = from_stored(name)
        if count := less if is_less_better(metric) else more:
            yield metric, count
