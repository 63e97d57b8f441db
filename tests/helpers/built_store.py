"""Insert log files, samples and evaluations directly into the tables, for tests of views and SQL.

Jobs and their lineage come from `stored_jobs`. The store's own functions compute what is derived: statistics,
superseded samples, states of jobs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete, insert, select

from helpers.stored_jobs import inserted
from lineage_store.ingest.decode.lineage_fold import named_values
from lineage_store.store.catalog.registry import next_numbers
from lineage_store.store.database.sql import Session
from lineage_store.store.records import FileLineage, Statistics, nullable, statistics
from lineage_store.store.schema import tables
from lineage_store.store.writes.jobs import refresh_jobs
from lineage_store.store.writes.lineage import files_of_jobs, number_evaluations
from lineage_store.store.writes.samples import recompute_supersession
from lineage_store.texts import key

LIVE_WITHIN_S = 600.0


@dataclass(frozen=True, slots=True)
class LogFile:
    """A stored log file; its samples are `seconds_per_step` apart, the first one step after `time`."""

    job_id: int
    file_no: int
    time: int
    device: int | None
    seconds_per_step: float


def add_file(
    session: Session,
    job_id: int,
    time: int,
    *,
    kind: str = "summary",
    device: int | None = None,
    seconds_per_step: float = 1.0,
    **columns: Any,
) -> LogFile:
    """Store a finished, fully ingested file of 1000 bytes, unless `columns` of log_file say otherwise."""
    suffix = "MS" if kind == "summary" else "lineage"
    row: dict[str, Any] = {
        "job_id": job_id,
        "file_no": next(next_numbers(session, tables.log_file.c.file_no, [job_id])[job_id]),
        "name": f"events.out.events.summary.{time}.{0 if device is None else device}.host_{suffix}",
        "generation": 1,
        "current": True,
        "format": "mindspore",
        "kind": kind,
        "file_time": time,
        "device": device,
        "host": "host",
        "state": "closed",
        "size_bytes": 1000,
        "byte_offset": 1000,
        "quarantined_bytes": 0,
        "event_count": 0,
        "modified_s": time,
        "closed": True,
        "fingerprint_bytes": 0,
        "anchor_bytes": 0,
        "failed_reads": 0,
        "stat_stamp": "seen",
        "unread": False,
        "created_at": datetime.fromisoformat("2025-01-01T00:00:00Z"),
    }
    session.change(insert(tables.log_file), row | columns)
    return LogFile(job_id, row["file_no"], time, device, seconds_per_step)


def add_scalars(session: Session, file: LogFile, tag: str, values: Mapping[int, float]) -> None:
    """Store the scalars of one tag; `values` are by step."""
    steps = np.array(sorted(values), dtype=np.int64)
    samples = np.array([values[int(step)] for step in steps], dtype=np.float64)
    wall_times = _wall_times(file, len(steps))
    series_no = _add_series(session, file, "scalar", tag, _statistics(steps, wall_times, samples))
    rows = [
        {**_sample(file, series_no, int(step), wall_time), "value": nullable(value)}
        for step, wall_time, value in zip(steps, wall_times, samples, strict=True)
    ]
    session.change(insert(tables.scalar_sample), rows)


def add_payloads(
    session: Session, file: LogFile, plugin: str, tag: str, columns: Mapping[int, Mapping[str, Any]]
) -> None:
    """Store payloads of one tag; by step, the columns of payload_sample that matter."""
    steps = np.array(sorted(columns), dtype=np.int64)
    wall_times = _wall_times(file, len(steps))
    series_no = _add_series(session, file, plugin, tag, _statistics(steps, wall_times, None))
    place = {"frame_offset": 0, "frame_length": 1, "value_index": 0, "checksum": 0, "size_bytes": 1}
    for step, wall_time in zip(steps, wall_times, strict=True):
        row = {**_sample(file, series_no, int(step), wall_time), **place, **columns[int(step)]}
        session.change(insert(tables.payload_sample), row)


def add_evaluation(session: Session, file: LogFile, byte_offset: int, metrics: Mapping[str, Any]) -> None:
    """Store an evaluation in a lineage file, written `byte_offset` seconds after the file was begun."""
    at = {"job_id": file.job_id, "file_no": file.file_no, "byte_offset": byte_offset, "value_index": 0}
    content = json.dumps({"metric": json.dumps(metrics)})
    table = tables.file_lineage
    this = (table.c.job_id == file.job_id) & (table.c.file_no == file.file_no)
    number = (session.value(select(table.c.evaluations).where(this)) or 0) + 1
    event = {**at, "kind": "eval", "wall_time": float(file.time + byte_offset), "content": content}
    session.change(insert(tables.lineage_event), event | {"evaluation_no": number})
    come_to = FileLineage(number, number, eval_at=byte_offset)._asdict()
    session.change(delete(table).where(this))
    session.change(insert(table), {"job_id": file.job_id, "file_no": file.file_no, **come_to})
    for value in named_values(metrics):
        session.change(
            insert(tables.evaluation_metric), {**at, "name_key": key(value.name), **value._asdict()}
        )
    number_evaluations(session, [[each for each in files_of_jobs(session, [file.job_id]) if each.current]])


def add_pipeline(
    session: Session, job_ids: Sequence[int], mark: str, nodes: Sequence[Mapping[str, Any]]
) -> None:
    """Give these jobs, whose lineage is stored, the same dataset pipeline; `nodes` are rows of dataset_node."""
    graph = {"digest": mark * 5, "mark": mark, "content": "{}"}
    graph_id = inserted(session, tables.dataset_graph, graph)
    for item_no, node in enumerate(nodes):
        columns: dict[str, Any] = dict.fromkeys(("parent", "operation", "operation_no", "parameter", "value"))
        row = {"dataset_graph_id": graph_id, "item_no": item_no, **columns, **node}
        session.change(insert(tables.dataset_node), row)
    of_jobs = tables.lineage.c.job_id.in_(job_ids)
    session.change(
        tables.lineage.update().where(of_jobs).values(dataset_mark=mark, dataset_graph_id=graph_id)
    )


def derive(session: Session, now: datetime) -> None:
    """Update everything that is derived from log files, for each job that has any."""
    job = tables.train_job.c
    rows = (
        select(job.base_dir_id, job.id).join(tables.log_file, tables.log_file.c.job_id == job.id).distinct()
    )
    of_base_dir = defaultdict[int, list[int]](list)
    for base_dir_id, job_id in session.rows(rows):
        of_base_dir[base_dir_id].append(job_id)
    for base_dir_id, jobs in of_base_dir.items():
        recompute_supersession(session, jobs, None)
        refresh_jobs(session, base_dir_id, jobs, now, LIVE_WITHIN_S)


def _wall_times(file: LogFile, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return file.time + file.seconds_per_step * np.arange(1, count + 1, dtype=np.float64)


def _statistics(
    steps: NDArray[np.int64], wall_times: NDArray[np.float64], values: NDArray[np.float64] | None
) -> Statistics:
    (found,) = statistics(np.zeros(len(steps), np.int64), steps, wall_times, values)
    return found


def _add_series(session: Session, file: LogFile, plugin: str, tag: str, found: Statistics) -> int:
    series_no = next(next_numbers(session, tables.series.c.series_no, [file.job_id])[file.job_id])
    row = {"job_id": file.job_id, "series_no": series_no, "file_no": file.file_no, "device": file.device}
    name = {"plugin": plugin, "tag_key": key(tag), "tag": tag}
    files = tables.log_file
    earlier = files.c.last_wall_time.is_(None) | (files.c.last_wall_time < found.last_wall_time)
    this = (files.c.job_id == file.job_id) & (files.c.file_no == file.file_no)
    session.change(files.update().where(this, earlier).values(last_wall_time=found.last_wall_time))
    session.change(insert(tables.series), {**row, **name, **found._asdict()})
    return series_no


def _sample(file: LogFile, series_no: int, step: int, wall_time: float) -> dict[str, Any]:
    return {"job_id": file.job_id, "series_no": series_no, "step": step, "wall_time": float(wall_time)}
