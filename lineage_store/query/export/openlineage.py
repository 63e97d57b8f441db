"""Jobs as OpenLineage run events, for catalogues such as Marquez and DataHub.

In: an open read transaction, which jobs count. Out: events as dicts, START and what ended the run, job by job.
Promises: they fit the JSON schema 2-0-2 of OpenLineage; a job's run has the same UUID in every export. A base dir is a
namespace, a job of the store a job of one run; a restart is of the same run. Data sets are named by their path. The
outcome of `v_job` says how a run ended; where that is not known, unfinished and quiet is aborted, closed complete.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import Boolean, Connection, Integer, Select, column, func, select, table

from lineage_store.fields import TRAINED, LineageField
from lineage_store.query.views import view_select
from lineage_store.states import JobState
from lineage_store.times import from_unix

_JOBS_AT_A_TIME = 500
_SPEC = "https://openlineage.io/spec"
_CORE = f"{_SPEC}/2-0-2/OpenLineage.json"
_PRODUCER = f"urn:lineage-store:{version('lineage-store')}"
_PREFIX = "lineageStore"
"""Of facets that are ours."""
_GIVEN = [
    f for f in TRAINED if f.group == "hyper_parameters" or (f.group == "algorithm" and f.type == "text")
]
_MODEL = [f for f in TRAINED if f.group == "model"]
"""Its size and its path."""
_REACHED = [f for f in TRAINED if f.group == "algorithm" and f.type == "float"]
_SPELLED = {"nan": "NaN", "+inf": "Infinity", "-inf": "-Infinity"}
_ENDS = {"completed": "COMPLETE", "failed": "FAIL", "interrupted": "ABORT"}
"""By `v_job.outcome`."""
Row = dict[str, Any]
Event = dict[str, Any]


def run_events(connection: Connection, jobs: Select[Any] | None) -> Iterator[Sequence[Event]]:
    """The events of some jobs, or of all, some jobs at a time."""
    last = 0
    while some := _rows(connection, "v_job", jobs, last):
        last = some[-1]["job_id"]
        ids = [job["job_id"] for job in some]
        parts = {
            name: _by_job(connection, name, ids) for name in ("v_metric_latest", "v_user_info", "v_dataset")
        }
        whole = _with_whole_files(connection, ids)
        yield [event for job in some for event in _events(job, parts, job["job_id"] in whole)]


def _rows(connection: Connection, view: str, jobs: Select[Any] | None, after: int) -> list[Row]:
    query = (
        view_select(view).where(column("job_id") > after).order_by(column("job_id")).limit(_JOBS_AT_A_TIME)
    )
    if jobs is not None:
        query = query.where(column("job_id").in_(jobs))
    return [dict(row) for row in connection.execute(query).mappings()]


def _by_job(connection: Connection, view: str, ids: Sequence[int]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in connection.execute(view_select(view).where(column("job_id").in_(ids))).mappings():
        found[row["job_id"]].append(dict(row))
    return found


def _with_whole_files(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Of these jobs, those whose writers finished every log file, whatever became of the files."""
    job, is_closed = column("job_id", Integer), column("is_closed", Boolean)
    files = select(job).select_from(table("v_log_file")).where(job.in_(ids)).group_by(job)
    return set(connection.execute(files.having(func.count() == func.count().filter(is_closed))).scalars())


def _events(job: Row, parts: dict[str, dict[int, list[Row]]], is_whole: bool) -> Iterator[Event]:
    began = job["first_started_at"] or job["updated_at"] or from_unix(0)
    ended = max(began, job["last_event_at"] or job["updated_at"] or began)
    metrics, user_info, data = (rows[job["job_id"]] for rows in parts.values())
    told = {
        f"{_PREFIX}HyperParameters": _facet("RunFacet", parameters=_fields(job, _GIVEN)),
        f"{_PREFIX}UserDefined": _facet("RunFacet", values={row["key"]: _value(row) for row in user_info}),
    }
    inputs = [_data_set(row) for row in data if row["path"]]
    yield _event("START", began, job, told, inputs, [])
    if (end := _end(job, is_whole)) is None:
        return
    measured = {row["name"]: _value(row) for row in metrics}
    reached = _fields(job, _REACHED)
    told = {**told, f"{_PREFIX}Metrics": _facet("RunFacet", metrics=measured, training=reached)}
    yield _event(end, ended, job, told, inputs, list(_models(job)))


def _end(job: Row, is_whole: bool) -> str | None:
    """What ended the run: its outcome, else what its log files tell; None where nothing has."""
    if job["outcome"] is not None or job["state"] == JobState.LIVE:
        return _ENDS.get(job["outcome"])
    return "COMPLETE" if is_whole and job["state"] != JobState.STALLED else "ABORT"


def _fields(job: Row, fields: Sequence[LineageField]) -> Row:
    """Lineage fields that are known, by their public names."""
    kinds = {field.name: job.get(field.kind_column or "") for field in fields}
    values = {
        field.name: _SPELLED.get(kinds[field.name] or "", job[str(field.view_column)]) for field in fields
    }
    return {name: value for name, value in values.items() if value is not None}


def _value(row: Row) -> Any:
    """A metric or user-defined value, as it was given."""
    match row["kind"]:
        case "nan" | "+inf" | "-inf" as kind:
            return _SPELLED[kind]
        case "bool":
            return bool(row["value"])
        case "int":
            return int(row["value"])
        case "json":
            return json.loads(row["text"])
        case "text":
            return row["text"]
        case _:
            return row["value"]


def _event(
    type_: str, at: datetime, job: Row, facets: Row, inputs: Sequence[Row], outputs: Sequence[Row]
) -> Event:
    base_dir, train_id = job["base_dir"], job["train_id"]
    return {
        "eventType": type_,
        "eventTime": at.isoformat().replace("+00:00", "Z"),
        "producer": _PRODUCER,
        "schemaURL": f"{_CORE}#/$defs/RunEvent",
        "run": {
            "runId": str(uuid5(NAMESPACE_URL, f"lineage-store:{base_dir}\n{train_id}")),
            "facets": facets,
        },
        "job": {"namespace": base_dir, "name": train_id.removeprefix("./") or ".", "facets": {}},
        "inputs": list(inputs),
        "outputs": list(outputs),
    }


def _facet(of: str, **content: Any) -> Row:
    """A facet of ours: the schema asks nothing of it but who made it."""
    return {"_producer": _PRODUCER, "_schemaURL": f"{_CORE}#/$defs/{of}", **content}


def _data_set(row: Row) -> Row:
    about = {"role": row["role"], "count": row["count"], "mark": row["mark"]}
    facets = {f"{_PREFIX}Data": _facet("InputDatasetFacet", **about)}
    return {"namespace": "file", "name": row["path"], "facets": {}, "inputFacets": facets}


def _models(job: Row) -> Iterator[Row]:
    """The checkpoint, where the training says that it wrote one."""
    text, size = (job[str(field.view_column)] for field in sorted(_MODEL, key=lambda f: f.type, reverse=True))
    try:
        path = json.loads(text or "null")
    except (ValueError, RecursionError):
        path = text
    url = f"{_SPEC}/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"
    facets = (
        {}
        if size is None
        else {"outputStatistics": {"_producer": _PRODUCER, "_schemaURL": url, "size": size}}
    )
    for name in path.values() if isinstance(path, dict) else path if isinstance(path, list) else [path]:
        if isinstance(name, str) and name:
            yield {"namespace": "file", "name": name, "facets": {}, "outputFacets": facets}
