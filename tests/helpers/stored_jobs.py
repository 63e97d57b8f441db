"""Insert jobs directly into the tables, for tests of the query side that need no log files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert

from lineage_store import texts
from lineage_store.fields import LISTED, TRAINED
from lineage_store.ingest.decode.lineage_fold import named_values
from lineage_store.plain_values import float_kind
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import tables

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_WORDS = {"nan": "NaN", "+inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job that a test can query. `fields` are by public name; floats may be NaN or infinite."""

    train_id: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    summaries: Mapping[str, Any] = field(default_factory=dict)
    """Keys are `best/NAME` and `first/NAME`."""
    update_time: int = 0
    label: int | None = None
    remark: str | None = None
    state: str = "finished"
    outcome: str | None = None
    host: str | None = None
    first_file_time: int | None = None
    graph: Mapping[str, Any] | None = None


def add_base_dir(session: Session, path: str = "/logs") -> int:
    """Store a base dir; return its id."""
    row = {"path": path, "path_key": texts.key(path), "created_at": NOW}
    return inserted(session, tables.base_dir, row)


def add_job(session: Session, job: StoredJob, base_dir_id: int) -> int:
    """Store a job with its lineage; return its id."""
    known = {
        name: getattr(job, name) for name in ("update_time", "state", "outcome", "host", "first_file_time")
    }
    job_id = add_bare_job(session, job.train_id, base_dir_id, **known)
    mark = texts.to_stored(job.fields.get("dataset_mark", "none"))
    graph_id = None
    if job.graph is not None:
        content = json.dumps(job.graph)
        graph_id = inserted(
            session, tables.dataset_graph, {"digest": str(job_id), "mark": mark, "content": content}
        )
    row = {
        "job_id": job_id,
        "dataset_mark": mark,
        "dataset_graph_id": graph_id,
        "model_lineage": _compatible(job),
    }
    session.change(insert(tables.lineage).values(row | _columns(job.fields)))
    summaries = {"evaluation_no": 1}
    for table, values, more in (
        (tables.metric, job.metrics, {}),
        (tables.user_info, job.user, {}),
        (tables.metric_summary, job.summaries, summaries),
    ):
        for value in named_values(values):
            name_key = texts.summary_key if table is tables.metric_summary else texts.key
            named = {"job_id": job_id, "name_key": name_key(value.name), "position": value.position}
            typed = {"name": value.name, "kind": value.kind, "value": value.value, "text": value.text}
            session.change(insert(table).values(named | typed | more))
    if job.label is not None or job.remark is not None:
        key = {"base_dir_id": base_dir_id, "train_id": texts.to_stored(job.train_id), "updated_at": NOW}
        session.change(insert(tables.annotation).values(**key, tag=job.label, remark=job.remark))
    return job_id


def add_bare_job(session: Session, train_id: str, base_dir_id: int, **known: object) -> int:
    """Store a job without lineage; return its id."""
    row = {
        "base_dir_id": base_dir_id,
        "train_id": texts.to_stored(train_id),
        "state": "finished",
        "source_present": True,
        "update_time": 0,
        "log_bytes": 0,
        "created_at": NOW,
    }
    return inserted(session, tables.train_job, row | known)


def inserted(session: Session, table: Any, row: Mapping[str, Any]) -> int:
    """The id of a new row."""
    key: int = session.value(insert(table).values(row).returning(table.c.id))
    return key


def _columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for row in TRAINED:
        value = fields.get(row.name)
        if row.type == "float":
            columns[f"{row.column}_kind"] = None if value is None else float_kind(value)
            value = None if value is None or math.isnan(value) else float(value)
        columns[row.column] = texts.to_stored(value) if isinstance(value, str) else value
    return columns


def _compatible(job: StoredJob) -> str:
    shown = {row.name: _shown(job.fields.get(row.name), row.type) for row in LISTED}
    shown["dataset_mark"] = job.fields.get("dataset_mark", "none")
    return json.dumps(shown | {"metric": dict(job.metrics), "user_defined": dict(job.user)})


def _shown(value: Any, field_type: str) -> Any:
    return value if value is None or field_type != "float" else _WORDS.get(float_kind(value), value)
