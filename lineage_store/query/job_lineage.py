"""The lineage of one job, in the shape of MindInsight 0.7.

In: an open read transaction, a job by its base dir and train id, the parts asked for. Out: a plain dict. Promises:
fields whose value is unknown are left out. Does not know conditions, nor whether the store is up to date.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from lineage_store import texts
from lineage_store.errors import LineageFileNotFoundError, LineageParamTypeError, LineageParamValueError
from lineage_store.fields import GROUPS, TRAINED, LineageField
from lineage_store.plain_values import WORD_BY_KIND
from lineage_store.query.jobs import no_such_job
from lineage_store.store.database.session import Session
from lineage_store.store.schema import tables

SUMMARY_KEYS = (*GROUPS, "metric", "dataset_graph")
"""The parts that `get_lineage` shows without keys; `user_defined` must be asked for."""

_ALLOWED_KEYS = (*SUMMARY_KEYS, "user_defined")


def read_keys(keys: Sequence[str] | None) -> tuple[str, ...]:
    """Check `keys` and return the parts of a job's lineage that they ask for.

    Raises:
        LineageParamTypeError: not a list of str.
        LineageParamValueError: an unknown name.
    """
    if keys is None:
        return SUMMARY_KEYS
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        raise LineageParamTypeError(f"keys must be a list of str or None, not {keys!r}.")
    for key in keys:
        if key not in _ALLOWED_KEYS:
            raise LineageParamValueError(f"keys: {key!r} is unknown: use {', '.join(_ALLOWED_KEYS)}.")
    return tuple(keys)


def get_lineage(
    session: Session,
    base_dir_path: str,
    base_dir_id: int,
    train_id: str,
    keys: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return one job's lineage in the shape of MindInsight 0.7, without fields whose value is unknown.

    Args:
        base_dir_path: absolute path, for `summary_dir` of the answer.
        train_id: `./name` below it.
        keys: parts to show beside `summary_dir`; None: all but `user_defined`.

    Raises:
        TrainJobNotFoundError: the store knows no such job.
        LineageFileNotFoundError: the job has no lineage.
        LineageParamTypeError, LineageParamValueError: as for `read_keys`.
    """
    wanted = read_keys(keys)
    job, lineage = tables.train_job, tables.lineage
    known = job.outerjoin(lineage, lineage.c.job_id == job.c.id).outerjoin(
        tables.dataset_graph, tables.dataset_graph.c.id == lineage.c.dataset_graph_id
    )
    row = session.first(
        select(lineage, tables.dataset_graph.c.content.label("dataset_graph"))
        .select_from(known)
        .where(job.c.base_dir_id == base_dir_id, job.c.train_id == texts.to_stored(train_id))
    )
    path = os.path.normpath(os.path.join(base_dir_path, train_id))
    if row is None:
        raise no_such_job(train_id, base_dir_path)
    if row.model_lineage is None:
        raise LineageFileNotFoundError(f"The train job {path} has no lineage, only summary files.")
    shown = {name: _part(name, row) for name in wanted}
    return {"summary_dir": path, **shown}


def _part(name: str, row: Any) -> dict[str, Any]:
    if name == "dataset_graph":
        return dict(json.loads(row.dataset_graph or "{}"))
    if name in ("metric", "user_defined"):
        return dict(json.loads(row.model_lineage)[name])
    values = {field.key: _shown(row, field) for field in TRAINED if field.group == name}
    return {key: value for key, value in values.items() if key is not None and value is not None}


def _shown(row: Any, field: LineageField) -> Any:
    value = getattr(row, field.column)
    kind = getattr(row, field.kind_column) if field.kind_column else None
    if kind in WORD_BY_KIND:
        return WORD_BY_KIND[kind]
    return texts.from_stored(value) if isinstance(value, str) else value
