"""Find stored best results that the present settings would choose otherwise. Only reads.

In: a connection, and for which metrics less is better. Out: the metrics concerned, each with the number of jobs; the
jobs of a base dir concerned. Promises: one pass over the results of evaluations, however many metrics they have;
compares the results themselves, so that it need not know the earlier settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Select, case, func, select

from lineage_store.store.database.dialects import among
from lineage_store.store.schema.tables import evaluation_metric, log_file, metric_summary, of_file, train_job
from lineage_store.texts import from_stored, key, to_stored

_RESULT, _BEST = evaluation_metric.c, metric_summary.c
_LESS, _MORE = _RESULT.value < _BEST.value, _RESULT.value > _BEST.value


def chosen_otherwise(
    connection: Connection, is_less_better: Callable[[str], bool]
) -> Iterator[tuple[str, int]]:
    """Yield each metric for which some jobs have a better result than the stored best, and the number of these jobs."""
    jobs = [func.count(case((other, _RESULT.job_id)).distinct()) for other in (_LESS, _MORE)]
    found = _beside_bests(select(_RESULT.name, *jobs)).group_by(_RESULT.name).order_by(_RESULT.name)
    for name, less, more in connection.execute(found):
        metric = from_stored(name)
        if count := less if is_less_better(metric) else more:
            yield metric, count


def jobs_chosen_otherwise(
    connection: Connection, base_dir_id: int, metrics: Iterable[str], is_less_better: Callable[[str], bool]
) -> set[int]:
    """Return the ids of the jobs of a base dir that have a better result of one of the metrics than the stored best."""
    mine = _RESULT.job_id.in_(select(train_job.c.id).where(train_job.c.base_dir_id == base_dir_id))
    jobs, found = _beside_bests(select(_RESULT.job_id).distinct()).where(mine), set[int]()
    keys: dict[bool, list[int]] = {True: [], False: []}
    for metric in metrics:
        keys[is_less_better(metric)].append(key(to_stored(metric)))
    for is_less, some in keys.items():
        better = _LESS if is_less else _MORE
        wanted = jobs.where(among(connection, _RESULT.name_key, some), better)
        found.update(connection.execute(wanted).scalars() if some else ())
    return found


def _beside_bests(columns: Select[Any]) -> Select[Any]:
    """Select `columns` from the numeric results of current files, joined to the stored best of their metric and job."""
    of_best = (_BEST.job_id == _RESULT.job_id) & (_BEST.name_key == _RESULT.name_key.bitwise_and(-2))
    every = evaluation_metric.join(log_file, of_file(evaluation_metric)).join(metric_summary, of_best)
    return columns.select_from(every).where(log_file.c.current, _RESULT.kind.in_(("int", "float")))
