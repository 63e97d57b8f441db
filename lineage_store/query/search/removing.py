"""What a condition must be so that jobs may be removed by it, and how it reads in words. Pure.

In: a search_condition that `condition.parse` accepts. Out: a sentence; or an error. Promises: what a question may leave
open, because a person sees the answer, a removal refuses: parts that restrict nothing, values that a field never has,
an order or a page, which it would ignore. Does not know which names jobs have: `query.names` does.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import CONTROL_KEYS
from lineage_store.query.search.subjects import read_subject
from lineage_store.texts import shown

_SHOWN_CHARACTERS, _SHOWN_VALUES = 100, 10
_WORDS = {
    "eq": "is",
    "ne": "is not",
    "lt": "is less than",
    "le": "is at most",
    "gt": "is greater than",
    "ge": "is at least",
    "in": "is one of",
    "not_in": "is none of",
    "like": "matches",
}
_PLAIN_NAME = re.compile(r"[^\s<>!=\"'()]+")
_HOLDS_FOR_MISSING = ("ne", "not_in")
_NOT_A_NUMBER = ("nan", "inf", "infinity", "-inf", "-infinity", "+inf", "+infinity")


def require_meant(condition: Mapping[str, Any]) -> None:
    """Raise LineageSearchConditionParamError for what would remove more jobs than whoever wrote it can have meant."""
    for name in CONTROL_KEYS:
        if name in condition:
            raise LineageSearchConditionParamError(
                f"Search condition: a removal takes no {name}: it removes every job that matches.",
                hint="Leave it out, and say by comparisons which jobs go.",
            )
    _require_group(condition)


def _require_group(group: Mapping[str, Any]) -> None:
    if not group:
        raise _restricts_nothing("an empty group {}")
    for name, value in group.items():
        if name in ("and", "or"):
            for member in value:
                _require_group(member)
        elif name == "not":
            _require_group(value)
        else:
            _require_field(name, value)


def _require_field(name: str, comparisons: Mapping[str, Any]) -> None:
    if not comparisons:
        raise _restricts_nothing(f"{name} = {{}}")
    type_ = read_subject(name).type
    for operator, value in comparisons.items():
        if operator in ("in", "not_in"):
            if len(value) == 0:
                raise _restricts_nothing(f"{name} {operator} []")
            for item in value:
                _require_item(f"{name} {operator}", type_, item)
        elif _is_nan(value):
            raise LineageSearchConditionParamError(
                f"Search condition: {name} {operator} NaN: nothing equals NaN, so it does not tell jobs apart.",
                hint=f"Write {name} in NaN, or {name} not in NaN.",
            )


def _is_nan(value: Any) -> bool:
    plain = value.tolist() if hasattr(value, "tolist") else value
    return isinstance(plain, float) and math.isnan(plain)


def _require_item(where: str, type_: str, item: Any) -> None:
    """Refuse an item of a list that a field of this type never has: with `not_in` it would name every job."""
    if item is None or type_ in ("user_defined", "time"):
        return
    is_text = isinstance(item, str)
    if type_ == "text":
        fits = is_text
    elif is_text:
        fits = type_ != "integer" and item.lower() in _NOT_A_NUMBER
    else:
        fits = not isinstance(item, bool | list | tuple | dict)
    if not fits:
        raise LineageSearchConditionParamError(
            f"Search condition: {where} has {shown(item)}, which is no {'text' if type_ == 'text' else 'number'}.",
            hint="A removal refuses values that the field never has.",
        )


def _restricts_nothing(what: str) -> LineageSearchConditionParamError:
    return LineageSearchConditionParamError(
        f"Search condition: {what} restricts nothing: every job would be removed.",
        hint="Leave it out, or say what it shall be compared with.",
    )


def in_words(condition: Mapping[str, Any]) -> str:
    """Return a condition as a part of a sentence, such as `optimizer is "Adam" and loss is at least 2`."""
    return " and ".join(part for name, value in condition.items() for part in _parts(name, value))


def _parts(name: str, value: Any) -> Iterable[str]:
    if name in ("and", "or"):
        joined = f" {name} ".join(_grouped(member, several=len(value) > 1) for member in value)
        yield f"({joined})" if name == "or" and len(value) > 1 else joined
    elif name == "not":
        yield f"not ({in_words(value)})"
    elif name not in CONTROL_KEYS:
        for operator, compared in value.items():
            yield _comparison(name, operator, compared)


def _grouped(member: Mapping[str, Any], *, several: bool) -> str:
    words = in_words(member)
    is_long = len(member) > 1 or any(isinstance(each, Mapping) and len(each) > 1 for each in member.values())
    return f"({words})" if several and is_long else words


def _comparison(name: str, operator: str, value: Any) -> str:
    name = name if _PLAIN_NAME.fullmatch(name) else _value(name)
    if operator == "is_null":
        return f"{name} is {'missing' if value else 'not missing'}"
    if operator in ("in", "not_in"):
        items = [_value(each) for each in value[:_SHOWN_VALUES]]
        more = len(value) - _SHOWN_VALUES
        compared = ", ".join([*items, *([f"{more:,} more"] if more > 0 else [])])
    else:
        compared = _value(value)
    missing = " or is missing" if operator in _HOLDS_FOR_MISSING else ""
    words = f"{name} {_WORDS.get(operator, operator)} {compared}"
    return f"({words}{missing})" if missing else words


def _value(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # a datetime, or what the parser converts
        text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
