"""Best results that the settings would choose otherwise now. Only reads.

In: a connection, which metrics are the better the less they are. Out: metrics, each with how many jobs
have such a best; the jobs of a base dir that have one. Promises: one pass over the results of evaluations; nothing is
guessed of what the settings said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, Select, case, func, select

from lineage_store.store.schema.tables import evaluation_metric, log_file, metric_summary, of_file, train_job
from lineage_store.texts import from_stored, key, to_stored

_RESULT, _BEST = evaluation_metric.c, metric_summary.c
_LESS, _MORE = _RESULT.value < _BEST.value, _RESULT.value > _BEST.value


def chosen_otherwise(
    connection: Connection, is_less_better: Callable[[str], bool]
) -> Iterator[tuple[str, int]]:
    """Each metric that has a better result in some jobs than the best that is stored, and in how many."""
    jobs = [func.count(case((other, _RESULT.job_id)).distinct()) for other in (_LESS, _MORE)]
    found = _beside_bests(select(_RESULT.name, *jobs)).group_by(_RESULT.name).order_by(_RESULT.name)
    for name, less, more in connection.execute(found):
        metric = from_stored(name)
        if count := less if is_less_better(metric) else more:
            yield metric, count


def jobs_chosen_otherwise(
    connection: Connection, base_dir_id: int, metric: str, *, is_less_better: bool
) -> set[int]:
    """The jobs of a base dir that have a better result of a metric than the best that is stored."""
    found = _beside_bests(select(_RESULT.job_id).distinct()).where(
        _RESULT.name_key == key(to_stored(metric)),
        _LESS if is_less_better else _MORE,
        _RESULT.job_id.in_(select(train_job.c.id).where(train_job.c.base_dir_id == base_dir_id)),
    )
    return set(connection.execute(found).scalars())


def _beside_bests(columns: Select[Any]) -> Select[Any]:
    """Of each result that counts, beside the best of its metric and job."""
    of_best = (_BEST.job_id == _RESULT.job_id) & (_BEST.name == "best/" + _RESULT.name)
    every = evaluation_metric.join(log_file, of_file(evaluation_metric)).join(metric_summary, of_best)
    return columns.select_from(every).where(log_file.c.current, _RESULT.kind.in_(("int", "float")))
