"""`--where` texts become a search_condition. Pure.

In: texts such as `metric/accuracy>=0.9`, `optimizer in Adam,SGD`, `network like Le%`, `loss is null`, `updated_at last
7 days`. Out: the documented dict. Promises: values of text fields and of times (except unix seconds) stay texts; other
values are parsed as JSON (`3`, `true`, `"3"`), and stay texts if they are none. Does not know which values a field
allows: `query.search.condition` checks that. Promises time in proportion to the text: whoever asks a server writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import CONTROL_KEYS, SPELLINGS

_SYMBOLS = {"=": "eq", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_SYMBOL = re.compile("[<>!=]=|[<>=]")
_WORDS = re.compile(
    r"(?P<name>\S+)\s+(?:(?P<word>not\s+in|in|like)\s+(?P<value>.+)|is\s+(?P<not>not\s+)?null\s*)",
    re.DOTALL | re.IGNORECASE,
)
_UNIX_SECONDS = re.compile(r"\d{9,}(\.\d+)?")
"""A text of fewer digits may be a date, such as 20261101."""
_SINCE = re.compile(
    r"(?P<name>\S+)\s+(?P<not>not\s+)?(?:in\s+|within\s+)?(?P<value>(?:the\s+)?last\s+\w[\w\s]*)",
    re.IGNORECASE,
)


def read_where(text: str) -> dict[str, Any]:
    """Return the condition of one text. Raises LineageSearchConditionParamError when it is no comparison."""
    text = text.strip()
    if (match := _SINCE.fullmatch(text)) and _type(match["name"]) in (None, "time"):
        return {match["name"]: {"lt" if match["not"] else "ge": match["value"]}}
    if match := _WORDS.fullmatch(text):
        name, word = match["name"], match["word"]
        if word is None:
            return {name: {"is_null": match["not"] is None}}
        if word.lower() == "like":
            return {name: {"like": match["value"]}}
        return {name: {"in" if word.lower() == "in" else "not_in": _list(name, match["value"])}}
    if match := _SYMBOL.search(text, 1):
        name = text[: match.start()].rstrip()
        return {name: {_SYMBOLS[match.group()]: _value(name, text[match.end() :].lstrip())}}
    raise LineageSearchConditionParamError(
        f"{text[:200]!r} is no comparison.",
        hint="Write NAME=VALUE (also !=, <, <=, >, >=), NAME in A,B, NAME not in A,B, NAME like Le%, NAME is null, "
        "NAME last 7 days.",
    )


def read_sort(text: str) -> list[str]:
    """Turn `NAME`, `NAME:asc` or `NAME:desc` into a pair of sorted_by."""
    name, colon, direction = text.rpartition(":")
    direction = {"asc": "ascending", "desc": "descending"}.get(direction, direction)
    return [name, direction] if colon and direction in ("ascending", "descending") else [text, "ascending"]


def combined(
    condition: Mapping[str, Any] | None, wheres: Sequence[str], sorts: Sequence[str]
) -> dict[str, Any]:
    """Return a copy of a condition with --where and --sort texts added."""
    whole = dict(condition or {})
    if wheres:
        leaves = {name: whole.pop(name) for name in list(whole) if name not in CONTROL_KEYS}
        whole["and"] = [*([leaves] if leaves else []), *map(read_where, wheres)]
    if sorts:
        whole = {name: value for name, value in whole.items() if name not in ("sorted_name", "sorted_type")}
        whole["sorted_by"] = [read_sort(text) for text in sorts]
    return whole


def counts_from_now(condition: Mapping[str, Any]) -> bool:
    """Whether a condition may have a time relative to now, so that its matches change while the store does not."""
    from lineage_store.query.search.time_literals import is_before_now

    waiting: list[Any] = [condition]
    while waiting:
        each = waiting.pop()
        if is_before_now(each):
            return True
        waiting += each.values() if isinstance(each, Mapping) else each if isinstance(each, list) else []
    return False


def _value(name: str, text: str) -> Any:
    type_ = _type(name)
    if type_ == "text" or (type_ == "time" and not _UNIX_SECONDS.fullmatch(text)):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _type(name: str) -> str | None:
    """Return the type of a field; None for any other name."""
    return SPELLINGS[name].type if name in SPELLINGS else None


def _list(name: str, text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LineageSearchConditionParamError(f"{text[:200]!r} is no JSON list: {error}.") from error
        return list(found)
    return [_value(name, item.strip()) for item in text.split(",")]
