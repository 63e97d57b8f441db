"""Jobs in the shapes of MindInsight's answers: those that match a condition as in 2.3.1, one job as in 0.7. Pure.

In: `JobPage`, `JobRow`, and what was asked. Out: plain dicts. Promises: key names, key order and value types are
MindInsight's; NaN in a metric is a float NaN, in a field the word. If an answer covers several base dirs, each object
has the additional key `base_dir`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lineage_store.errors import LineageFileNotFoundError, LineageParamTypeError, LineageParamValueError
from lineage_store.fields import GROUPS, PREFIXES, TRAINED
from lineage_store.plain_values import for_json
from lineage_store.query.condition import SearchCondition, Subject
from lineage_store.query.job_sql import Want

if TYPE_CHECKING:
    from lineage_store.query.jobs import JobPage, JobRow

SUMMARY_KEYS = (*GROUPS, "metric", "dataset_graph")
"""The parts of one job that are shown when no keys are given; `user_defined` must be asked for."""
_ALLOWED_KEYS = (*SUMMARY_KEYS, "user_defined")


def want_of(condition: SearchCondition) -> Want:
    """Return what `answer` needs; lineage always, for `customized`."""
    return Want(lineage=True, dataset=condition.shows_dataset)


def answer(found: JobPage, condition: SearchCondition) -> dict[str, Any]:
    """Return the whole answer, `{"customized", "object", "count"}`; `customized` covers the returned page."""
    customized = _customized(row.model_lineage or {} for row in found.rows)
    return {"customized": customized, "object": objects(found, condition), "count": found.count}


def objects(found: JobPage, condition: SearchCondition) -> list[dict[str, Any]]:
    """Return the jobs of the answer."""
    return [_object(row, condition, found.several) for row in found.rows]


def _object(row: JobRow, condition: SearchCondition, several: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"summary_dir": row.train_id}
    if condition.shows_model:
        shown["model_lineage"] = row.model_lineage
    if condition.shows_dataset:
        shown["dataset_graph"] = row.dataset_graph
    annotations = {"tag": row.label, "remark": row.remark}
    shown["added_info"] = {name: value for name, value in annotations.items() if value is not None}
    if several:
        shown["base_dir"] = row.base_dir
    return shown


def _customized(lineages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe the page's metrics and user-defined values in order of appearance, each with its values' common type."""
    types: dict[tuple[str, str], set[type]] = defaultdict(set)
    for lineage in lineages:
        for group in PREFIXES:
            for name, value in lineage[group].items():
                types[group, name].add(type(value))
    labelled = ((f"{PREFIXES[group]}{name}", group, found) for (group, name), found in types.items())
    return {
        label: {"label": label, "required": group == "metric", "type": _common_type(found)}
        for label, group, found in labelled
    }


def _common_type(types: set[type]) -> str:
    if len(types) == 1:
        return next(iter(types)).__name__
    return "float" if types == {int, float} else "mixed"


# ---- One job, as 0.7 shows it: fields whose value is unknown are left out


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


def want_of_keys(keys: Sequence[str]) -> Want:
    """Return what `one_job` needs to show these parts; lineage always, because a job may have none."""
    names = tuple((each.name, Subject(each.type, each.name)) for each in TRAINED if each.group in keys)
    return Want(notes=False, lineage=True, dataset="dataset_graph" in keys, names=names)


def one_job(row: JobRow, path: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return these parts of a job; `path` is its directory. Raises LineageFileNotFoundError when it has no lineage."""
    if row.model_lineage is None:
        raise LineageFileNotFoundError(f"The train job {path} has no lineage, only summary files.")
    return {"summary_dir": path, **{key: _part(key, row, row.model_lineage) for key in keys}}


def _part(key: str, row: JobRow, lineage: Mapping[str, Any]) -> dict[str, Any]:
    if key == "dataset_graph":
        return dict(row.dataset_graph or {})
    if key in PREFIXES:
        return dict(lineage[key])
    known = {each.key: for_json(row.values[each.name]) for each in TRAINED if each.group == key}
    return {name: value for name, value in known.items() if value is not None}
