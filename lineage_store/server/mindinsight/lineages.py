"""`lineagemgr/lineages`, `optimizer/targets/search`, `datasets/dataset_graph`: lineage, labels and remarks.

Conditions are first checked as MindInsight checks them, because its clients expect its refusals; the store, which
allows more operators and has other messages, answers those that pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import (
    BY_NAME,
    CONTROL_KEYS,
    LARGEST_LABEL,
    LISTED,
    LONGEST_REMARK,
    METRIC_PREFIX,
    MINDINSIGHTS,
    USER_PREFIX,
    FieldType,
    LineageField,
)
from lineage_store.plain_values import LARGEST_INTEGER, WORD_BY_KIND
from lineage_store.server.mindinsight.protocol import QueryParameters, RefusedError, wrong_value
from lineage_store.server.mindinsight.site import Site

_OPERATORS = ("eq", "lt", "gt", "le", "ge", "in", "not_in")
_OF_TEXT = ("eq", "in", "not_in")
_FIELDS = [field.name for field in MINDINSIGHTS]
_LINEAGE_TYPE, _OURS = "lineage_type", "sorted_by"
_TYPE = "It should be 'dataset' or 'model'."
_NUMBER = "It should be a dict and the value should be a float or a integer"
_BOUNDS = {"limit": (1, 100, "0 < limit <= 100"), "offset": (0, 100_000, "0 <= offset <= 100000")}
_COUNT = "integer between 0 and pow(2, 63) -1."
_SORTED_NAME = f"The sorted_name must be in {_FIELDS} or start with `{METRIC_PREFIX}` or `{USER_PREFIX}`."
METRIC, USER = "[M]", "[U]"
LOSS = "loss"
NOT_A_NUMBER, FEW_SAMPLES, UNDEFINED = 1, 2, 3
"""MindInsight's reason codes: why a hyper-parameter has no importance."""
_BUCKETS = 5
_LEAST_SAMPLES = 3
_TUNABLE = [field.name for field in LISTED if field.tunable]
_NAN = WORD_BY_KIND["nan"]
"""NaN in the answers of `lineage.filter`. An infinity is a text to MindInsight: such a column is not numeric."""
_LARGEST = 1e300
"""Larger magnitudes count as missing, because the distance of two of them may overflow."""
_FINEST = 1e-14
"""Values whose relative distance is smaller count as equal: float64 has no buckets between them."""
Column = Sequence[float | None]
_NESTED = ("operations", "sampler", "children")
_TYPES = (str, bool, int, float, list)
"""The order of keys in MindInsight's pipelines: by the types of their values, and `_NESTED` last."""


def find_lineages(site: Site, body: Any) -> dict[str, Any]:
    """Return the lineage of the jobs that match the condition in a request's body."""
    found = _matching(site, body)
    for each in found["object"]:
        if "dataset_graph" in each:
            each["dataset_graph"] = in_order(each["dataset_graph"])
    return found


def _matching(site: Site, body: Any) -> dict[str, Any]:
    """Return the store's answer to the condition in a request's body. Raises RefusedError."""
    condition = dict(checked_condition({} if body is None else body))
    if "summary_dir" in condition:
        ids = condition["summary_dir"].items()
        condition["summary_dir"] = {operator: _without_paths(value) for operator, value in ids}
    if not site.base_dir:
        return {"customized": {}, "object": [], "count": 0}
    try:
        return site.store.lineage.filter(condition, base_dir=site.base_dir)
    except LineageSearchConditionParamError as error:
        raise refused(str(error)) from None


def _without_paths(ids: Any) -> Any:
    """Replace absolute paths, which the store would accept as ids, by "", which no job is called."""
    if isinstance(ids, list):
        return [_without_paths(each) for each in ids]
    return "" if isinstance(ids, str) and ids.startswith("/") else ids


def find_targets(site: Site, body: Any) -> dict[str, Any]:
    """Return how hyper-parameters correlate with results, among the jobs that match."""
    return analysed(_matching(site, body)["object"])


def annotation(query: QueryParameters, body: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the train id and the new label and remark of a request. Raises RefusedError."""
    if not isinstance(body, dict):
        raise wrong_value("The request body should be a dict.")
    train_id = _relative(query.get("train_id"))
    if not body.keys() <= _CHECKS.keys():
        raise _invalid("Keys of added_info must be in ['tag', 'remark'].")
    for name, value in body.items():
        _CHECKS[name](value)
    return train_id, body


def _check_tag(tag: object) -> None:
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise _invalid("'tag' must be int.")
    if not 0 <= tag <= LARGEST_LABEL:
        raise _invalid(f"The tag should in [0, {LARGEST_LABEL}].")


def _check_remark(remark: object) -> None:
    if not isinstance(remark, str):
        raise _invalid("'remark' must be str.")
    if len(remark) > LONGEST_REMARK:
        raise _invalid(f"The length of remark should in [0, {LONGEST_REMARK}].")


_CHECKS = {"tag": _check_tag, "remark": _check_remark}


def require_lineage(site: Site, train_id: str) -> None:
    """Raise RefusedError if the job does not exist or has no lineage of a dataset."""
    site.job(train_id, train_id)
    if site.lineage_of(train_id, "dataset") is None:
        raise wrong_value(f"Cannot update the lineage for tran job {train_id}, because it does not exist.")


def get_dataset_graph(site: Site, query: QueryParameters) -> dict[str, Any]:
    """Return a job's dataset pipeline; nothing if it recorded none."""
    train_id = _relative(query.get("train_id"))
    found = site.lineage_of(train_id, "dataset")
    if found is None or not found["dataset_graph"]:
        return {}
    return {"dataset_graph": in_order(found["dataset_graph"]), "summary_dir": train_id}


def _relative(train_id: str | None) -> str:
    if train_id is None or not train_id.startswith("./") or train_id.count("/") > 1:
        raise wrong_value("Summary dir should be relative path starting with './'.")
    return train_id


def _invalid(detail: str) -> RefusedError:
    return RefusedError("50542081", f"ValueError. {detail}")


def in_order(value: Any) -> Any:
    """Return a part of a pipeline with its keys in MindInsight's order; lists keep their order."""
    if isinstance(value, list):
        return [in_order(each) for each in value]
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value, key=lambda key: _rank(key, value[key]))}
    return value


def _rank(key: str, value: Any) -> tuple[int, str]:
    if key in _NESTED:
        return len(_TYPES) + _NESTED.index(key), key
    return next((rank for rank, type_ in enumerate(_TYPES) if isinstance(value, type_)), 0), key


def refused(detail: str) -> RefusedError:
    """Return the refusal of a condition."""
    return RefusedError("50542218", f"Search_condition param error: {detail}")


def checked_condition(body: object) -> Mapping[str, Any]:
    """Return a request's body as a condition for the store. Raises RefusedError in MindInsight's words and order."""
    if not isinstance(body, dict):
        raise refused("TypeError. Invalid search_condition type, it should be dict.")
    page = {name: body[name] for name in _BOUNDS if name in body}
    for name, value in page.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise refused(f"TypeError. The {name} must be int.")
    _check_order(body)
    asked = {name: each for name, each in body.items() if name not in CONTROL_KEYS or name == _OURS}
    for name, comparisons in asked.items():
        _check_attribute(name, comparisons)
    for name, value in page.items():
        least, greatest, text = _BOUNDS[name]
        if not least <= value <= greatest:
            raise refused(f"Invalid input {name}. {text}")
    for name in sorted((*_FIELDS, _LINEAGE_TYPE)):
        if name in body:
            _check_values(name, body[name])
    return body


def _check_order(body: Mapping[str, Any]) -> None:
    if "sorted_name" in body and not _is_sortable(body["sorted_name"]):
        raise refused(f"ValueError. {_SORTED_NAME}")
    if "sorted_type" not in body:
        return
    if "sorted_name" not in body:
        raise refused("ValueError. The sorted_name must exist when sorted_type exists.")
    if body["sorted_type"] not in ("ascending", "descending", None):
        raise refused("ValueError. The sorted_type must be ascending or descending.")


def _is_sortable(name: object) -> bool:
    return isinstance(name, str) and (name in _FIELDS or name == "tag" or _is_prefixed(name))


def _is_prefixed(name: str) -> bool:
    return any(name.startswith(prefix) and name != prefix for prefix in (METRIC_PREFIX, USER_PREFIX))


def _check_attribute(name: str, comparisons: object) -> None:
    if name not in _FIELDS and not _is_prefixed(name):
        raise refused("ValueError. The search attribute not supported.")
    if not isinstance(comparisons, dict):
        raise refused(f"TypeError. The search_condition element {name} should be dict.")
    for operator, value in comparisons.items():
        if operator not in _OPERATORS:
            raise refused(f"ValueError. The compare condition should be in {_OPERATORS}.")
        if name.startswith(METRIC_PREFIX) and not _fits("float", operator, value):
            raise _invalid_condition(name, _NUMBER)


def _check_values(name: str, comparisons: object) -> None:
    is_type = name == _LINEAGE_TYPE
    type_: FieldType = "text" if is_type else BY_NAME[name].type
    expected = _TYPE if is_type else _expected(BY_NAME[name])
    if not isinstance(comparisons, dict):  # only lineage_type: `_check_attribute` has seen the others
        raise _invalid_condition(name, expected)
    if type_ == "text" and not comparisons.keys() <= {*_OF_TEXT}:
        raise _invalid_condition(name, "Its operation should be `eq`, `in` or `not_in`.")
    for operator, value in comparisons.items():
        if _takes_list(type_, operator) and not isinstance(value, list):
            raise _invalid_condition(name, "The value of `in` operation must be list or tuple.")
        named = value if isinstance(value, list) else [value]
        is_known = not is_type or all(each in ("dataset", "model") for each in named)
        if not (is_known and _fits(type_, operator, value)):
            raise _invalid_condition(name, expected)


def _expected(field: LineageField) -> str:
    """Return MindInsight's message for a value that does not fit a field."""
    if field.type == "text":
        is_mark = field.name == "dataset_mark"
        return f"It should be a {'' if is_mark else 'dict and the value should be a '}string."
    if field.type == "float":
        return "It should be a float." if field.name == LOSS else f"{_NUMBER}."
    if field.group == "hyper_parameters":
        return f"It should be a {'positive' if field.name == 'epoch' else 'non-negative'} integer."
    if field.group == "model":
        return f"It should be an {_COUNT}"
    return f"It should be a dict and the value should be a {_COUNT}"


def _takes_list(type_: FieldType, operator: str) -> bool:
    return operator == "in" or (operator == "not_in" and type_ != "float")


def _fits(type_: FieldType, operator: str, value: object) -> bool:
    if _takes_list(type_, operator):
        return isinstance(value, list)
    if type_ == "text":
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return type_ == "float" or (isinstance(value, int) and 0 <= value <= LARGEST_INTEGER)


def _invalid_condition(name: str, detail: str) -> RefusedError:
    return refused(f"The parameter {name} is invalid. {detail}")


def analysed(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what MindInsight's page says of these jobs (as `lineage.filter` returns them), its numbers in its order.

    For each metric and the loss a histogram, and for each tunable number the magnitude of its Pearson correlation with
    the result.
    """
    models = [each["model_lineage"] for each in objects if "model_lineage" in each]
    user_keys = _keys(model["user_defined"] for model in models)
    parameters = {name: [model[name] for model in models] for name in _TUNABLE}
    parameters |= {f"{USER}{key}": [model["user_defined"].get(key) for model in models] for key in user_keys}
    results = {LOSS: [model[LOSS] for model in models]}
    metrics = _keys(model["metric"] for model in models)
    results |= {f"{METRIC}{key}": [model["metric"].get(key) for model in models] for key in metrics}
    numbers = {name: column for name, values in parameters.items() if (column := _column(values))}
    targets = {name: column for name, values in results.items() if (column := _column(values))}
    return {
        "metadata": {
            "train_ids": [each["summary_dir"] for each in objects],
            "possible_hyper_parameters": [{"name": name, "data": data} for name, data in numbers.items()],
            "unrecognized_params": [
                {"name": name, "unselected": True, "reason_code": NOT_A_NUMBER}
                for name in parameters
                if name.startswith(USER) and name not in numbers
            ],
        },
        "targets": [_target(name, targets[name], numbers) for name in sorted(targets)],
    }


def _target(name: str, data: Column, numbers: Mapping[str, Column]) -> dict[str, Any]:
    told = [{"name": each, **_importance(column, data)} for each, column in numbers.items()]
    told.sort(key=lambda each: (-each["importance"], each["name"].startswith("["), each["name"]))
    return {"name": name, "buckets": _buckets(data), "hyper_parameters": told, "data": data}


def _importance(parameter: Column, target: Column) -> dict[str, Any]:
    pairs = [(x, y) for x, y in zip(parameter, target, strict=True) if x is not None and y is not None]
    if len(pairs) < _LEAST_SAMPLES:
        return {"importance": 0, "reason_code": FEW_SAMPLES}
    xs, ys = np.array(pairs, np.float64).T
    with np.errstate(all="ignore"):
        correlation = float(np.corrcoef(ys, xs)[0, 1])
    if math.isnan(correlation):
        return {"importance": 0, "reason_code": UNDEFINED}
    return {"importance": abs(correlation)}


def _buckets(data: Column) -> list[list[float]]:
    values: NDArray[np.float64] = np.array([value for value in data if value is not None], np.float64)
    least, greatest = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    finest = max(_FINEST * max(abs(least), abs(greatest)), 1 / _LARGEST)
    if greatest - least <= finest:
        least, greatest = least - max(0.5, finest), greatest + max(0.5, finest)
    counts, edges = np.histogram(values, _BUCKETS, (least, greatest))
    widths = edges[1:] - edges[:-1]
    return [
        [float(left), float(width), float(count)]
        for left, width, count in zip(edges[:-1], widths, counts, strict=True)
    ]


def _column(values: Sequence[Any]) -> list[float | None] | None:
    """Return the values as numbers, missing ones as None; or None if some value is not a number."""
    present = [value for value in values if value is not None]
    if not present or not all(map(_is_number, present)):
        return None
    if len(present) == len(values) and all(isinstance(value, int) for value in map(_usable, present)):
        return list(present)
    return [None if (value := _usable(each)) is None else float(value) for each in values]


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or value == _NAN


def _usable(value: Any) -> int | float | None:
    """Return a number that can be computed with; None if it is missing, NaN or too large."""
    return value if isinstance(value, int | float) and abs(value) <= _LARGEST else None


def _keys(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all mappings, in the order in which they first appear."""
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))
