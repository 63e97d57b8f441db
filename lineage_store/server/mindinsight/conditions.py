"""Checks a search condition like MindInsight: the same refusals, in the same words and order. Pure.

In: the JSON of a request's body. Out: the condition for the store, or a refusal. The store itself allows more operators
and has other error messages, but clients of MindInsight expect these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lineage_store.extreme_numbers import LARGEST_INTEGER
from lineage_store.fields import (
    BY_NAME,
    CONTROL_KEYS,
    METRIC_PREFIX,
    MINDINSIGHTS,
    USER_PREFIX,
    FieldType,
    LineageField,
)
from lineage_store.server.mindinsight.importance import LOSS
from lineage_store.server.mindinsight.protocol import RefusedError

_OPERATORS = ("eq", "lt", "gt", "le", "ge", "in", "not_in")
_OF_TEXT = ("eq", "in", "not_in")
_FIELDS = [field.name for field in MINDINSIGHTS]
_LINEAGE_TYPE, _OURS = "lineage_type", "sorted_by"
_TYPE = "It should be 'dataset' or 'model'."
_NUMBER = "It should be a dict and the value should be a float or a integer"
_BOUNDS = {"limit": (1, 100, "0 < limit <= 100"), "offset": (0, 100_000, "0 <= offset <= 100000")}
_COUNT = "integer between 0 and pow(2, 63) -1."
_SORTED_NAME = f"The sorted_name must be in {_FIELDS} or start with `{METRIC_PREFIX}` or `{USER_PREFIX}`."


def refused(detail: str) -> RefusedError:
    """Return the refusal of a condition."""
    return RefusedError("50542218", f"Search_condition param error: {detail}")


def read_condition(body: object) -> Mapping[str, Any]:
    """Return a request's body as a condition for the store. Raises RefusedError."""
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
            raise _invalid(name, _NUMBER)


def _check_values(name: str, comparisons: object) -> None:
    is_type = name == _LINEAGE_TYPE
    type_: FieldType = "text" if is_type else BY_NAME[name].type
    expected = _TYPE if is_type else _expected(BY_NAME[name])
    if not isinstance(comparisons, dict):  # only lineage_type: `_check_attribute` has seen the others
        raise _invalid(name, expected)
    if type_ == "text" and not comparisons.keys() <= {*_OF_TEXT}:
        raise _invalid(name, "Its operation should be `eq`, `in` or `not_in`.")
    for operator, value in comparisons.items():
        if _takes_list(type_, operator) and not isinstance(value, list):
            raise _invalid(name, "The value of `in` operation must be list or tuple.")
        named = value if isinstance(value, list) else [value]
        is_known = not is_type or all(each in ("dataset", "model") for each in named)
        if not (is_known and _fits(type_, operator, value)):
            raise _invalid(name, expected)


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


def _invalid(name: str, detail: str) -> RefusedError:
    return refused(f"The parameter {name} is invalid. {detail}")
