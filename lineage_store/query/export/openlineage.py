"""Jobs as OpenLineage run events, for catalogues such as Marquez and DataHub.

In: an open read transaction, a selection of jobs. Out: events as dicts, for each job START and the event of its end.
Promises: events fit the JSON schema 2-0-2 of OpenLineage; a job's run has the same UUID in every export. A base dir is
a namespace; a job of the store is a job with one run, restarts included; data sets are named by their path. The outcome
of `v_job` says how a run ended. When it is unknown and the job is not live, the run counts as complete if the writers
closed all log files and the job is not stalled, else as aborted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import Boolean, Integer, Select, column, func, select, table

from lineage_store.fields import TRAINED, LineageField
from lineage_store.plain_values import WORD_BY_KIND, from_unix
from lineage_store.query.jobs import value_of
from lineage_store.query.status import view_select
from lineage_store.states import JobState, Outcome
from lineage_store.store.database.sql import Session

_JOBS_AT_A_TIME = 500
_SPEC = "https://openlineage.io/spec"
_CORE = f"{_SPEC}/2-0-2/OpenLineage.json"
_PRODUCER = f"urn:lineage-store:{version('lineage-store')}"
_PREFIX = "lineageStore"
"""The prefix of our own facets."""
_GIVEN = [f for f in TRAINED if f.group == "hyper_parameters" or (f.group, f.type) == ("algorithm", "text")]
_MODEL = [f for f in TRAINED if f.group == "model"]
"""The fields of the checkpoint: size and path."""
_REACHED = [f for f in TRAINED if f.group == "algorithm" and f.type == "float"]
_ENDS = {Outcome.COMPLETED: "COMPLETE", Outcome.FAILED: "FAIL", Outcome.INTERRUPTED: "ABORT"}
"""Event types by `v_job.outcome`."""
_PARTS = ("v_metric_latest", "v_user_info", "v_dataset")
"""The views that tell more of a job, in the order in which `_events` takes their rows."""
Row = dict[str, Any]
Event = dict[str, Any]


def run_events(session: Session, jobs: Select[Any] | None) -> Iterator[Sequence[Event]]:
    """Yield the events of some jobs (None: of all), in batches of several jobs."""
    last = 0
    while some := _rows(session, "v_job", jobs, last):
        last = some[-1]["job_id"]
        ids = [job["job_id"] for job in some]
        parts = [_by_job(session, view, ids) for view in _PARTS]
        whole = _with_whole_files(session, ids)
        yield [event for job in some for event in _events(job, parts, job["job_id"] in whole)]


def _rows(session: Session, view: str, jobs: Select[Any] | None, after: int) -> list[Row]:
    job_id = column("job_id", Integer)
    query = view_select(view).where(job_id > after).order_by(job_id).limit(_JOBS_AT_A_TIME)
    if jobs is not None:
        query = query.where(job_id.in_(jobs))
    return session.mappings(query)


def _by_job(session: Session, view: str, ids: Sequence[int]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in session.mappings(view_select(view).where(column("job_id").in_(ids))):
        found[row["job_id"]].append(row)
    return found


def _with_whole_files(session: Session, ids: Sequence[int]) -> set[int]:
    """Return which of these jobs have only log files that their writers closed, also if the files are gone now."""
    job, is_closed = column("job_id", Integer), column("is_closed", Boolean)
    files = select(job).select_from(table("v_log_file")).where(job.in_(ids)).group_by(job)
    return set(session.column(files.having(func.count() == func.count().filter(is_closed))))


def _events(job: Row, parts: Sequence[dict[int, list[Row]]], is_whole: bool) -> Iterator[Event]:
    began = job["first_started_at"] or job["updated_at"] or from_unix(0)
    ended = max(began, job["last_event_at"] or job["updated_at"] or began)
    metrics, user_info, data = (rows[job["job_id"]] for rows in parts)
    facets = {
        f"{_PREFIX}HyperParameters": _facet("RunFacet", parameters=_fields(job, _GIVEN)),
        f"{_PREFIX}UserDefined": _facet("RunFacet", values={row["key"]: _value(row) for row in user_info}),
    }
    inputs = [_data_set(row) for row in data if row["path"]]
    yield _event("START", began, job, facets, inputs, [])
    if (end := _end(job, is_whole)) is None:
        return
    measured = {row["name"]: _value(row) for row in metrics}
    reached = _fields(job, _REACHED)
    facets = {**facets, f"{_PREFIX}Metrics": _facet("RunFacet", metrics=measured, training=reached)}
    yield _event(end, ended, job, facets, inputs, list(_models(job)))


def _end(job: Row, is_whole: bool) -> str | None:
    """Return the type of the event that ends the run; None while the run continues."""
    if job["outcome"] is not None or job["state"] in (JobState.LIVE, JobState.READING):
        return _ENDS.get(job["outcome"])
    return "COMPLETE" if is_whole and job["state"] != JobState.STALLED else "ABORT"


def _fields(job: Row, fields: Sequence[LineageField]) -> Row:
    """Return those of the lineage fields that are known, by public name."""
    values = {
        field.name: WORD_BY_KIND.get(job.get(field.kind_column or "", ""), job[str(field.view_column)])
        for field in fields
    }
    return {name: value for name, value in values.items() if value is not None}


def _value(row: Row) -> Any:
    """Return a metric or user-defined value with the type that the training gave it; texts as the store has them."""
    return row["text"] if row["kind"] == "text" else value_of(row["kind"], row["value"], row["text"])


def _event(type_: str, at: datetime, job: Row, facets: Row, inputs: list[Row], outputs: list[Row]) -> Event:
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
        "inputs": inputs,
        "outputs": outputs,
    }


def _facet(of: str, **content: Any) -> Row:
    """Return a facet of ours, for which the schema requires only the producer and a schema URL."""
    return {"_producer": _PRODUCER, "_schemaURL": f"{_CORE}#/$defs/{of}", **content}


def _data_set(row: Row) -> Row:
    about = {"role": row["role"], "count": row["count"], "mark": row["mark"]}
    facets = {f"{_PREFIX}Data": _facet("InputDatasetFacet", **about)}
    return {"namespace": "file", "name": row["path"], "facets": {}, "inputFacets": facets}


def _models(job: Row) -> Iterator[Row]:
    """Yield the checkpoints that the training says it wrote."""
    text, size = (job[str(field.view_column)] for field in sorted(_MODEL, key=lambda f: f.type, reverse=True))
    try:
        path = json.loads(text or "null")
    except (ValueError, RecursionError):
        path = text
    url = f"{_SPEC}/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"
    statistics = {"_producer": _PRODUCER, "_schemaURL": url, "size": size}
    facets = {} if size is None else {"outputStatistics": statistics}
    for name in path.values() if isinstance(path, dict) else path if isinstance(path, list) else [path]:
        if isinstance(name, str) and name:
            yield {"namespace": "file", "name": name, "facets": {}, "outputFacets": facets}
