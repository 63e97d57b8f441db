"""The meaning of conditions in Python: the rules of MindInsight and of our additions, without SQL.

Shares no code with the query side. Text is compared in its stored form, because there an escape is ordered differently
from the character that it stands for.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.stored_jobs import StoredJob
from lineage_store.texts import to_stored

_COMPARE = {"lt": operator.lt, "gt": operator.gt, "le": operator.le, "ge": operator.ge}
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_OF_JOB = {name: name for name in ("state", "outcome", "host", "remark")} | {
    "tag": "label",
    "updated_at": "update_time",
    "first_started_at": "first_file_time",
}
_CONTROL = ("limit", "offset", "sorted_name", "sorted_type", "sorted_by", "lineage_type")


def matching(jobs: Sequence[StoredJob], condition: Mapping[str, Any]) -> list[str]:
    """Return the train ids of the jobs that match, in order, before paging."""
    where = {name: value for name, value in condition.items() if name not in _CONTROL}
    found = sorted(
        (job for job in jobs if _holds(job, where)), key=lambda job: (-job.update_time, job.train_id)
    )
    pairs = condition.get("sorted_by") or [[condition.get("sorted_name"), condition.get("sorted_type")]]
    for name, direction in reversed(pairs):
        if name is not None:
            found.sort(key=lambda job: _rank(_value(job, name)), reverse=direction == "descending")
    return [job.train_id for job in found]


def page(found: list[str], condition: Mapping[str, Any]) -> list[str]:
    """Return the requested page of the jobs that match."""
    if "limit" not in condition and "offset" not in condition:
        return found
    limit, number = condition.get("limit", 10), condition.get("offset", 0)
    return found[limit * number : limit * (number + 1)]


def _holds(job: StoredJob, condition: Mapping[str, Any]) -> bool:
    return all(_part_holds(job, name, value) for name, value in condition.items())


def _part_holds(job: StoredJob, name: str, value: Any) -> bool:
    if name == "or":
        return any(_holds(job, member) for member in value)
    if name == "and":
        return all(_holds(job, member) for member in value)
    if name == "not":
        return not _holds(job, value)
    found = _value(job, name)
    return all(
        _compares(found, key, wanted, words=name in ("loss", "learning_rate"))
        for key, wanted in value.items()
    )


def _value(job: StoredJob, name: str) -> Any:
    if name == "summary_dir":
        return job.train_id
    if name in _OF_JOB:
        return getattr(job, _OF_JOB[name])
    for which in ("best/", "first/"):
        if name.startswith(f"metric_{which}"):
            return job.summaries.get(name.removeprefix("metric_"))
    for prefix, values in (("metric/", job.metrics), ("metric_", job.metrics), ("user_defined/", job.user)):
        if name.startswith(prefix):
            return values.get(name.removeprefix(prefix))
    return job.fields.get(name, "none" if name == "dataset_mark" else None)


def _compares(found: Any, key: str, wanted: Any, *, words: bool) -> bool:
    match key:
        case "eq":
            return found is not None and bool(found == wanted)
        case "ne":
            return not (found is not None and found == wanted)
        case "in":
            return any(_same(found, item, words) for item in wanted)
        case "not_in":
            return not any(_same(found, item, words) for item in wanted)
        case "is_null":
            return (found is None) is wanted
        case "like":
            return isinstance(found, str) and _like(found, wanted)
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = to_stored(found), to_stored(wanted)
    try:
        return found is not None and bool(_COMPARE[key](found, wanted))
    except TypeError:
        return False


def _same(found: Any, item: Any, words: bool) -> bool:
    if words and isinstance(item, str):
        item = _WORDS.get(item, item)
    both_nan = isinstance(found, float) and isinstance(item, float) and math.isnan(found) and math.isnan(item)
    return both_nan or bool(found == item)


def _like(text: str, pattern: str) -> bool:
    expression = re.sub(
        r"\\(.)|(%)|(_)|(.)",
        lambda token: ".*" if token[2] else "." if token[3] else re.escape(token[1] or token[4]),
        pattern,
        flags=re.DOTALL,
    )
    return re.fullmatch(_fold(expression), _fold(text), re.DOTALL) is not None


def _fold(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _rank(value: Any) -> tuple[Any, ...]:
    """Return the order of the kinds of values: missing, NaN, numbers, text, lists and objects."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (3, to_stored(value))
    if isinstance(value, int | float):
        return (1,) if math.isnan(value) else (2, value)
    return (4, json.dumps(value, sort_keys=True, separators=(",", ":")))
