"""`GET jobs`: the jobs that match a condition, as a page or as columns; `GET train-jobs`: all jobs.

A condition is given as in `lineage-store filter --where`, as the documented search_condition, or as both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from lineage_store.api import LineageStore, combined, counts_from_now
from lineage_store.api.reports import JobRow
from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import FIELDS, LISTED, OF_JOBS, PREFIXES, PRINTED, SUMMARY_PREFIXES
from lineage_store.plain_values import for_json, iso
from lineage_store.server.asking import Ask, unless_known
from lineage_store.server.own import models
from lineage_store.server.own.names import base_dir_of, key_of, url_of
from lineage_store.states import JobState, Outcome
from lineage_store.texts import to_stored

router = APIRouter(tags=["jobs"])

MOST_COLUMNS, MOST_JOBS = 100, 100_000
_OF_JOBS = {field.name for field in OF_JOBS if field.table == "train_job"}

Wheres = Annotated[
    list[str],
    Query(description="As of `filter --where`: `metric/accuracy>=0.9`, `network like Le%`.", max_length=100),
]
Sorts = Annotated[list[str], Query(description="NAME, NAME:asc or NAME:desc.", max_length=16)]
Condition = Annotated[str, Query(description="A search_condition, as JSON.")]
BaseKey = Annotated[str | None, Query(description="Key of the base dir; none: all of them.")]
Fields = Annotated[
    list[str],
    Query(
        description="Fields, metric/NAME, metric_best/NAME, metric_first/NAME, user_defined/NAME; a page without any "
        "shows all but the best and the first.",
        max_length=MOST_COLUMNS,
    ),
]


@dataclass(frozen=True, slots=True)
class _Question:
    condition: Mapping[str, Any]
    base: str | None
    fields: Sequence[str]
    typed: Mapping[str, Any]
    """The part of the condition from `where` and `sort`, whose names are checked because people misspell them."""

    def checked(self, store: LineageStore) -> str | None:
        """Return the path of the base dir, or None for all. Raises the error for an unknown base dir or name."""
        base_dir = None if self.base is None else base_dir_of(store, self.base)
        if self.typed or self.fields:
            store.lineage.require_names(self.typed, self.fields, base_dir=base_dir)
        return base_dir


@router.get("/jobs", response_model=models.JobsAnswer | models.JobColumnsAnswer)
async def list_jobs(
    ask: Ask,
    where: Wheres = [],  # noqa: B006 - FastAPI copies defaults
    condition: Condition = "",
    sort: Sorts = [],  # noqa: B006
    base: BaseKey = None,
    fields: Fields = [],  # noqa: B006
    limit: Annotated[int | None, Query(ge=1, le=100, description="Else the condition's, or 20.")] = None,
    page: Annotated[
        int | None, Query(ge=0, le=100_000, description="Else the condition's offset, or 0.")
    ] = None,
    count: bool = True,
    form: Literal["page", "columns"] = "page",
    every: bool = False,
) -> Response:
    """The jobs that match a condition; `form=columns`: all of them at once, column by column.

    `every`: with columns and without `sort`, jobs of which no lineage was written (yet) are among them.
    """
    typed = combined(None, where, sort) if where or sort else {}
    told = combined(_read_condition(condition), where, sort) if condition else typed
    asked = told | {"lineage_type": "model"}
    asked |= {name: value for name, value in (("limit", limit), ("offset", page)) if value is not None}
    question = _Question(asked, base, fields, typed)

    def answer(store: LineageStore) -> dict[str, Any]:
        if form == "columns":
            return _columns(store, question, every=every)
        return _page(store, question, count=count)

    lasts = not (told and counts_from_now(told))
    return await unless_known(ask, answer, heavy=form == "columns", lasts=lasts)


@router.get("/train-jobs", response_model=models.TrainJobsAnswer)
async def list_train_jobs(
    ask: Ask,
    base: BaseKey = None,
    state: JobState | None = None,
    outcome: Outcome | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    page: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Response:
    """Jobs, most recently updated first, those without lineage among them."""

    def answer(store: LineageStore) -> dict[str, Any]:
        base_dir = None if base is None else base_dir_of(store, base)
        found = store.lineage.jobs(base_dir, state=state, outcome=outcome, limit=limit, page=page)
        return {"jobs": [_described(job) for job in found]}

    return await unless_known(ask, answer)


def _read_condition(text: str) -> dict[str, Any]:
    try:
        condition = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise LineageSearchConditionParamError(f"condition is no JSON: {error}.") from error
    if not isinstance(condition, dict):
        raise LineageSearchConditionParamError("condition must be a JSON object, as the documented dict is.")
    return condition


def _page(store: LineageStore, question: _Question, *, count: bool) -> dict[str, Any]:
    base_dir = question.checked(store)
    wanted = {"limit": 20, "offset": 0, **question.condition}
    beside = [
        name for name in question.fields if name in _OF_JOBS or name.startswith(tuple(SUMMARY_PREFIXES))
    ]
    found = store.lineage.page(wanted, beside, base_dir=base_dir, count=count)
    jobs = [_found(job, question.fields) for job in found.rows]
    return {"count": found.count, "limit": wanted["limit"], "page": wanted["offset"], "jobs": jobs}


def _found(job: JobRow, names: Sequence[str]) -> dict[str, Any]:
    lineage, wanted = job.model_lineage or {}, set(names)
    groups = {
        group: {
            name: for_json(value)
            for name, value in lineage[group].items()
            if not wanted or f"{prefix}{name}" in wanted
        }
        for group, prefix in PREFIXES.items()
    }
    fields = {field.name: lineage[field.name] for field in LISTED if not wanted or field.name in wanted}
    about = {"label": job.label, "remark": job.remark, "fields": fields | for_json(job.values)}
    return _described(job) | about | groups


def _described(job: JobRow) -> dict[str, Any]:
    return {
        "base": key_of(job.base_dir),
        "base_dir": to_stored(job.base_dir),
        "train_id": to_stored(job.train_id),
        "url": url_of(job.base_dir, job.train_id),
        "state": job.state,
        "outcome": job.outcome,
        "updated_at": iso(job.updated_at),
    }


def _columns(store: LineageStore, question: _Question, *, every: bool) -> dict[str, Any]:
    base_dir = question.checked(store)
    fields = list(question.fields) or [field.name for field in PRINTED if field in LISTED]
    names = list(dict.fromkeys(("state", "updated_at", *fields)))
    found = store.lineage.columns(
        question.condition, names, base_dir=base_dir, most=MOST_JOBS + 1, every=every, own=False
    )
    if len(found.train_id) > MOST_JOBS:
        raise LineageSearchConditionParamError(
            f"More than {MOST_JOBS:,} jobs match.", hint="Ask for fewer, or for pages."
        )
    about: dict[str, Sequence[Any]] = {
        "base": list(map(key_of, found.base_dir)),
        "train_id": list(map(to_stored, found.train_id)),
        "state": found.values["state"],
        "updated_at": [at and iso(at) for at in found.values["updated_at"]],
        "label": found.label,
        "remark": found.remark,
    }
    fields_of = ((name, found.values[name]) for name in fields)
    columns = (_column(name, values) for name, values in {**about, **dict(fields_of)}.items())
    return {"count": len(found.train_id), "columns": list(columns)}


def _column(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Return numbers as they are, and other values as indices into a list of the distinct ones."""
    if {type(value) for value in values} <= {int, float, type(None)}:
        return {"name": name, "numbers": for_json(list(values))}
    keys = [
        each if each is None or isinstance(each, str) else (json.dumps(for_json(each)),) for each in values
    ]
    words = {key: value for key, value in zip(keys, values, strict=True) if key is not None}
    places: dict[Any, int] = {key: place for place, key in enumerate(words)}
    return {
        "name": name,
        "words": [word if isinstance(word, str) else for_json(word) for word in words.values()],
        "codes": [places.get(key) for key in keys],
    }


# ---- `GET names`: the names for conditions, columns and sort orders; `GET values`: the values that jobs have


@router.get("/names", response_model=models.NamesAnswer)
async def list_names(ask: Ask) -> Response:
    """Lineage fields, and the metrics and user-defined values that any job has, those that most have first."""
    return await unless_known(ask, _names)


@router.get("/values", response_model=models.KnownValuesAnswer)
async def list_values(
    ask: Ask,
    name: Annotated[
        str,
        Query(description="A field, metric/NAME, metric_best/NAME, metric_first/NAME or user_defined/NAME."),
    ],
    part: Annotated[str, Query(description="Of texts, only those that have this in them.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 30,
) -> Response:
    """The values that jobs have, the most frequent first; lists, objects and NaN are left out."""

    def answer(store: LineageStore) -> dict[str, Any]:
        known = store.values(name, part, most=limit)
        return {"values": [{"value": for_json(value), "jobs": jobs} for value, jobs in known]}

    return await unless_known(ask, answer, heavy=True)


def _names(store: LineageStore) -> dict[str, Any]:
    searchable = [field for field in FIELDS if field.searchable]
    fields = [{"name": each.name, "type": each.type, "meaning": each.meaning} for each in searchable]
    known: dict[str, Any] = for_json(store.names())
    return {"fields": fields, **known}
