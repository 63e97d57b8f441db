"""`--where` texts become a search_condition. Pure.

In: texts such as `metric/accuracy>=0.9`, `optimizer in Adam,SGD`, `network like Le%`, `loss is null`, `updated_at last
7 days`. Out: the documented dict. Promises: values of text fields and of times (except unix seconds) stay texts; other
values are parsed as JSON (`3`, `true`, `"3"`), and stay texts if they are none; what is in quotes, `'…'` or `"…"`, is a
text, or a name, as it stands. A question takes the first operator of a text; a removal refuses a text that has another
reading. Whoever asks a server writes the text: it is read in time in proportion to its length. Does not know which
values a field allows: `query.search.condition` checks that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import CONTROL_KEYS, SPELLINGS

_SYMBOLS = {"=": "eq", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_SPELLED = {operator: symbol for symbol, operator in reversed(_SYMBOLS.items())} | {
    "in": " in ",
    "not_in": " not in ",
    "like": " like ",
}
_OPERATOR = re.compile(
    r"(?P<symbol>[<>!=]=|[<>=])|(?<=\s)(?:is\s+(?P<not>not\s+)?(?P<null>null)\s*\Z|(?P<word>not\s+in|in|like)(?!\S))",
    re.IGNORECASE,
)
_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*\""""
_QUOTED_NAME = re.compile(rf"(?P<name>{_QUOTED})\s*", re.DOTALL)
_ITEM = re.compile(rf"\s*(?P<item>{_QUOTED}|[^,]*)\s*(?P<more>,|\Z)", re.DOTALL)
_PLAIN_NAME = re.compile(r"[^\s<>!=]+")
_UNIX_SECONDS = re.compile(r"\d{9,}(\.\d+)?")
"""A text of fewer digits may be a date, such as 20261101."""
_SINCE = re.compile(
    r"(?P<name>[^\s<>!=/]+)\s+(?P<not>not\s+)?(?:in\s+|within\s+)?(?P<value>(?:the\s+)?last\s+\w[\w\s]*)",
    re.IGNORECASE,
)
_JOINED = re.compile(r"(?<!\S)(?:and|or|not|&|\|)(?!\S)|&&|\|\||;", re.IGNORECASE)
_OPENING = tuple("'\"([{`\u2018\u201a\u201c\u201e\u00ab")
"""What a value begins with that is meant as a quoted text or as a list in the manner of other languages."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way to read a text: at one of its operators, it is divided into a name and a value."""

    name: str
    operator: str
    value: str
    """As it is written."""
    is_usable: bool = True
    """False for what no question takes: a word as operator with blanks in the name, or with no value."""

    @property
    def condition(self) -> dict[str, Any]:
        if self.operator == "is_null":
            return {self.name: {"is_null": self.value == ""}}
        if self.operator in ("in", "not_in"):
            return {self.name: {self.operator: _list(self.name, self.value)}}
        value = _unquoted(self.value)
        if value is None:
            value = self.value if self.operator == "like" else _value(self.name, self.value)
        return {self.name: {self.operator: value}}


def read_where(text: str) -> dict[str, Any]:
    """Return the condition of one text. Raises LineageSearchConditionParamError when it is no comparison."""
    return _first_reading(text.strip()).condition


def read_removal(text: str) -> dict[str, Any]:
    """Return the condition of one text by which jobs are removed.

    Raises LineageSearchConditionParamError when it is no comparison, or when it may be meant in another way: the error
    shows both readings, and how to write each of them.
    """
    text = text.strip()
    first = _first_reading(text)
    others = [_told(each) for each in _readings(text) if each != first] or list(_meant_otherwise(first))
    if others:
        (words, spelled), (other_words, other_spelled) = _told(first), others[-1]
        raise LineageSearchConditionParamError(
            f"{_begin(text)!r} can be read in two ways, and a removal does not guess: {words}, or {other_words}.",
            hint=f"Write {spelled} for the one, {other_spelled} for the other.",
        )
    return first.condition


def _first_reading(text: str) -> _Reading:
    first = next(_readings(text), None)
    if first is None or not first.is_usable:
        raise LineageSearchConditionParamError(
            f"{_begin(text)!r} is no comparison.",
            hint="Write NAME=VALUE (also !=, <, <=, >, >=), NAME in A,B, NAME not in A,B, NAME like Le%, NAME is null, "
            "NAME last 7 days; a name or value in quotes is taken literally.",
        )
    return first


def _readings(text: str) -> Iterator[_Reading]:
    """Yield the ways to read a text, one for each of its operators that is not in quotes."""
    if (match := _SINCE.fullmatch(text)) and _type(match["name"]) in (None, "time"):
        yield _Reading(match["name"], "lt" if match["not"] else "ge", match["value"])
        return
    quoted = _QUOTED_NAME.match(text)
    is_first = True
    for match in _OPERATOR.finditer(text):
        if quoted and match.start() < quoted.end():
            continue
        name = text[: match.start()].strip()
        if quoted and match.start() == quoted.end():
            yield _reading(_unquoted(quoted["name"]) or "", match, text, is_usable=True)
            return
        if not name:
            continue
        is_plain = match["symbol"] is not None or _PLAIN_NAME.fullmatch(name) is not None
        reading = _reading(name, match, text, is_usable=is_plain)
        yield reading
        if is_first and reading.is_usable and _is_definite(reading):
            return
        is_first = False


def _reading(name: str, match: re.Match[str], text: str, *, is_usable: bool) -> _Reading:
    if match["null"]:
        return _Reading(name, "is_null", "not" if match["not"] else "", is_usable)
    value = text[match.end() :].strip()
    if match["symbol"]:
        return _Reading(name, _SYMBOLS[match["symbol"]], value, is_usable)
    word = "_".join(match["word"].lower().split())
    return _Reading(name, word, value, is_usable and value != "")


def _is_definite(reading: _Reading) -> bool:
    """Whether the whole value is in quotes, or is a list of such, so that no operator in it counts."""
    if reading.operator not in ("in", "not_in"):
        return _unquoted(reading.value) is not None
    if reading.value.startswith("["):
        try:
            return isinstance(json.loads(reading.value), list)
        except (ValueError, RecursionError):
            return False
    return all(_unquoted(item) is not None for item in _items(reading.value))


def _told(reading: _Reading) -> tuple[str, str]:
    """Return a reading in words, and a spelling that has no other reading."""
    from lineage_store.query.condition_dict import condition_in_words

    (name, (comparison,)) = next((name, each.items()) for name, each in reading.condition.items())
    operator, value = comparison
    plain = _PLAIN_NAME.fullmatch(name) and not name.startswith(_OPENING)
    spelled = name if plain else _in_quotes(name)
    if operator == "is_null":
        return _begin(
            condition_in_words(reading.condition)
        ), f"{_begin(spelled)} is {'' if value else 'not '}null"
    compared = ",".join(map(_spelled, value)) if isinstance(value, list) else _spelled(value)
    return _begin(condition_in_words(reading.condition)), _begin(f"{spelled}{_SPELLED[operator]}{compared}")


def _meant_otherwise(reading: _Reading) -> Iterator[tuple[str, str]]:
    """Yield what the only reading of a text may have been meant to be, in words, and how to write that."""
    from lineage_store.query.condition import is_before_now

    if reading.operator == "is_null" or _is_definite(reading) or _type(reading.name) == "time":
        return
    name, operator = reading.name, reading.operator
    is_list, is_equality = operator in ("in", "not_in"), operator in ("eq", "ne")
    items = list(_items(reading.value)) if is_list else [reading.value]
    bare = [item for item in items if _unquoted(item) is None]
    if "" in bare:
        yield "no value at all", "a value (or, for every job that has one, NAME is not null)"
    elif any(item.startswith(_OPENING) for item in bare):
        yield "quotes or brackets around values", "values with commas between them, each in '…'"
    elif any(_JOINED.search(item) for item in bare):
        yield "several conditions or values", "each condition apart, or NAME in A,B"
    elif not is_list and "," in reading.value and operator != "like":
        yield from [_told(_Reading(name, "not_in" if operator == "ne" else "in", reading.value))]
    elif is_list and len(items) == 1 and " " in reading.value:
        yield from [_told(_Reading(name, operator, ",".join(reading.value.split())))]
    elif is_equality and re.search(r"[%*]", reading.value):
        words, spelled = _told(_Reading(name, "like", reading.value.replace("*", "%")))
        yield (
            (f"not ({words})", f'{{"not": …}} as a dict, with {spelled}')
            if operator == "ne"
            else (words, spelled)
        )
    elif any(map(is_before_now, bare)):
        yield "a time before now", "a field that is a time, such as updated_at"


def _spelled(value: Any) -> str:
    return _in_quotes(value) if isinstance(value, str) else json.dumps(value)


def _in_quotes(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _begin(text: str) -> str:
    return text[:200]


def _unquoted(text: str) -> str | None:
    """Return the text in quotes; None if it is not in quotes from its begin to its end."""
    if not re.fullmatch(_QUOTED, text, re.DOTALL):
        return None
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    try:
        found: str = json.loads(text, strict=False)
    except ValueError:
        return None
    return found


def read_sort(text: str) -> list[str]:
    """Turn `NAME`, `NAME:asc` or `NAME:desc` into a pair of sorted_by."""
    name, colon, direction = text.rpartition(":")
    direction = {"asc": "ascending", "desc": "descending"}.get(direction, direction)
    return [name, direction] if colon and direction in ("ascending", "descending") else [text, "ascending"]


def combined(
    condition: Mapping[str, Any] | None,
    wheres: Sequence[str],
    sorts: Sequence[str],
    read: Callable[[str], dict[str, Any]] = read_where,
) -> dict[str, Any]:
    """Return a copy of a condition with --where and --sort texts added; `read` is `read_removal` for a removal."""
    whole = dict(condition or {})
    if wheres:
        leaves = {name: whole.pop(name) for name in list(whole) if name not in CONTROL_KEYS}
        whole["and"] = [*([leaves] if leaves else []), *map(read, wheres)]
    if sorts:
        whole = {name: value for name, value in whole.items() if name not in ("sorted_name", "sorted_type")}
        whole["sorted_by"] = [read_sort(text) for text in sorts]
    return whole


def counts_from_now(condition: Mapping[str, Any]) -> bool:
    """Whether a condition may have a time relative to now, so that its matches change while the store does not."""
    from lineage_store.query.condition import is_before_now

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
    read = ((item, _unquoted(item)) for item in _items(text))
    return [_value(name, item) if quoted is None else quoted for item, quoted in read]


def _items(text: str) -> Iterator[str]:
    """Yield what commas divide that are not in quotes."""
    at, more = 0, ","
    while more:
        match = _ITEM.match(text, at)
        assert match is not None  # the pattern takes whatever comes
        at, more = match.end(), match["more"]
        yield match["item"].strip()
