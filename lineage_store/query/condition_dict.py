"""MindInsight's search_condition: dict in, frozen `SearchCondition` out; and how such a dict reads in words.

Promises: the dict is never changed; every mistake of the user is raised here, as a LineageSearchConditionParamError
that names field, operator, value and what is allowed; every parsed condition can be run on both databases. Does not
know SQL, nor which names jobs have (`vocabulary` does).
"""

from __future__ import annotations

import json
import math
import os.path
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from lineage_store import texts
from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import (
    BY_NAME,
    CONTROL_KEYS,
    METRIC_PREFIX,
    SEARCHABLE,
    SPELLINGS,
    SUMMARY_PREFIXES,
    USER_PREFIX,
)
from lineage_store.query.condition import (
    MAX_CHOICES,
    MAX_PATTERN_CHARACTERS,
    OPERATORS,
    AllOf,
    AnyOf,
    Choices,
    Leaf,
    Node,
    Not,
    PageBounds,
    Parameters,
    SearchCondition,
    SortKey,
    Subject,
    SubjectType,
    Value,
)
from lineage_store.texts import shown

DEFAULT_LIMIT = 10
MAX_LIMIT = 100
MAX_PAGE_NUMBER = 100_000
MAX_DEPTH = 16
MAX_COMPARISONS = 300
MAX_SORT_KEYS = 16

_LINEAGE_TYPES = ("model", "dataset")
_SUMMARY_DIR = Subject("text", "summary_dir")
_NEWEST = SortKey(Subject("time", "updated_at"), descending=True)


def parse(condition: Mapping[str, object] | None, *, base_dir: str | None = None) -> SearchCondition:
    """Parse a search_condition.

    Args:
        condition: the documented dict, or None for all jobs.
        base_dir: the base dir of absolute paths in comparisons of `summary_dir`; None: such paths are refused.

    Raises:
        LineageSearchConditionParamError: for anything that is not allowed.
    """
    if condition is None:
        return SearchCondition()
    if not isinstance(condition, dict):
        raise _refused("the condition", condition, "must be a dict or None")
    wanted = _read_lineage_type(condition.get("lineage_type"))
    page = _read_page(condition)
    sort = _read_sort(condition)
    sort = () if sort == (_NEWEST,) else sort  # newest first is the default order, which an index delivers
    rest = {name: value for name, value in condition.items() if name not in CONTROL_KEYS}
    reader = _TreeReader(base_dir)
    where = reader.read(rest, depth=0)
    values = reader.parameters.values
    return SearchCondition(where, values, sort, page, "model" in wanted, "dataset" in wanted)


class _TreeReader:
    """Parses comparisons and groups, and limits their number to what a database can take."""

    def __init__(self, base_dir: str | None) -> None:
        self.parameters = Parameters()
        self._base_dir = base_dir
        self._comparisons = 0
        self._choices = 0
        self._pattern_characters = 0

    def read(self, condition: object, depth: int) -> AllOf:
        if not isinstance(condition, dict):
            raise _refused("a group's member", condition, "must be a dict like the condition itself")
        if depth > MAX_DEPTH:
            raise LineageSearchConditionParamError(f"Groups are nested more than {MAX_DEPTH} deep.")
        self._count()
        parts: list[Node] = []
        for name, value in condition.items():
            if name in ("and", "or"):
                members = tuple(self.read(member, depth + 1) for member in _read_members(name, value))
                parts.append(AllOf(members) if name == "and" else AnyOf(members))
            elif name == "not":
                parts.append(Not(self.read(value, depth + 1)))
            elif name in CONTROL_KEYS:
                raise _refused(name, value, "belongs at the top of the condition, not into a group")
            else:
                parts.extend(self._read_field(name, value))
        return AllOf(tuple(parts))

    def _read_field(self, name: object, comparisons: object) -> Iterable[Leaf]:
        subject = read_subject(name)
        if not isinstance(comparisons, dict):
            raise _refused(str(name), comparisons, "must be a dict such as {'eq': value}")
        return [self._read_leaf(str(name), subject, key, value) for key, value in comparisons.items()]

    def _read_leaf(self, name: str, subject: Subject, key: object, value: object) -> Leaf:
        self._count()
        operator = OPERATORS.get(key) if isinstance(key, str) else None
        reader = operator.readers.get(subject.type) if operator else None
        if operator is None or reader is None:
            allowed = ", ".join(row.name for row in OPERATORS.values() if subject.type in row.readers)
            raise _refused(name, {key: value}, f"has no operator that fits the field: use {allowed}")
        value = _of_python(value)
        if subject == _SUMMARY_DIR:
            value = self._with_ids(name, value)
        try:
            read = reader(value)
        except ValueError as error:
            raise _refused(f"{name} {key}", value, f"must be {error}") from None
        _check_words(f"{name} {key}", subject, read)
        self._count_choices(read)
        self._count_pattern(read if key == "like" else "")
        return Leaf(subject, operator, self.parameters.lift(read, subject))

    def _with_ids(self, name: str, value: object) -> object:
        if isinstance(value, list | tuple):
            return [self._with_id(name, item) for item in value]
        return self._with_id(name, value)

    def _with_id(self, name: str, value: object) -> object:
        """Turn an absolute path below the base dir into the job's id; return any other value unchanged."""
        if not isinstance(value, str) or not value.startswith("/"):
            return value
        if self._base_dir is None:
            raise _refused(name, value, "must be a job id such as ./name: no single base dir was given")
        for path in _spellings(value):
            below = os.path.relpath(path, self._base_dir)
            if below.split(os.path.sep)[0] != os.path.pardir:
                return "./" if below == os.path.curdir else f"./{below}"
        raise _refused(name, value, f"must be ./name or a path below the base dir {self._base_dir}")

    def _count(self) -> None:
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise LineageSearchConditionParamError(
                f"The condition has more than {MAX_COMPARISONS} comparisons and groups.",
                hint="Use `in` with a list, or ask several times.",
            )

    def _count_choices(self, value: Value) -> None:
        if isinstance(value, Choices):
            self._choices += value.count
        if self._choices > MAX_CHOICES:
            raise LineageSearchConditionParamError(
                f"The condition lists more than {MAX_CHOICES} values.", hint="Ask several times."
            )

    def _count_pattern(self, pattern: Value) -> None:
        self._pattern_characters += len(str(pattern))
        if self._pattern_characters > MAX_PATTERN_CHARACTERS:
            raise LineageSearchConditionParamError(
                f"The patterns of `like` have more than {MAX_PATTERN_CHARACTERS:,} characters together.",
                hint="Shorten them, or ask several times.",
            )


def _of_python(value: object) -> object:
    """Convert numbers, arrays and columns of numpy and pandas to Python's numbers and lists."""
    if isinstance(value, list | tuple):
        return [item.tolist() if hasattr(item, "tolist") else item for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _check_words(where: str, subject: Subject, value: Value) -> None:
    """Refuse a value that is none of the field's words."""
    words = BY_NAME[subject.name].words if subject.name in BY_NAME else ()
    for text in value.texts if words and isinstance(value, Choices) else ():
        if text not in words:
            refusal = _refused(where, text, f"must be {texts.either(words)}")
            refusal.hint = _meant(text, words)
            raise refusal


def _spellings(path: str) -> Iterable[str]:
    """Yield the path as written, and with symbolic links resolved."""
    yield path
    with suppress(ValueError):  # the path cannot exist, for example because of a NUL
        yield os.path.realpath(path)


def _read_members(name: str, value: object) -> list[object] | tuple[object, ...]:
    if isinstance(value, list | tuple) and value:
        return value
    raise _refused(name, value, "must be a list of at least one condition")


def _read_lineage_type(value: object) -> set[str]:
    """Return which of model and dataset the answer shows; both by default."""
    allowed = "must be 'model', 'dataset', None, or {'eq': …} or {'in': […]} of these"
    if value is None or value == {}:
        return set(_LINEAGE_TYPES)
    wanted: list[object] = []
    given: dict[Any, Any] = value if isinstance(value, dict) else {"eq": value}
    for key, named in given.items():
        if key not in ("eq", "in") or (key == "in" and not (isinstance(named, list | tuple) and named)):
            raise _refused(f"lineage_type {key}", named, allowed)
        wanted.extend(named if key == "in" else [named])
    if not all(isinstance(name, str) and name in _LINEAGE_TYPES for name in wanted):
        raise _refused("lineage_type", value, allowed)
    return {str(name) for name in wanted}


def _read_page(condition: dict[str, object]) -> PageBounds | None:
    if "limit" not in condition and "offset" not in condition:
        return None
    limit = _read_count("limit", condition.get("limit", DEFAULT_LIMIT), 1, MAX_LIMIT, "jobs in a page")
    number = _read_count("offset", condition.get("offset", 0), 0, MAX_PAGE_NUMBER, "page number, from 0")
    return PageBounds(limit, limit * number)


def _read_count(name: str, value: object, least: int, greatest: int, meaning: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= greatest:
        return value
    raise _refused(name, value, f"must be an int from {least} to {greatest} ({meaning})")


def _read_sort(condition: dict[str, object]) -> tuple[SortKey, ...]:
    if "sorted_by" in condition:
        return _read_sorted_by(condition)
    if "sorted_name" in condition:
        return (_read_sort_key(condition["sorted_name"], condition.get("sorted_type")),)
    if "sorted_type" in condition:
        raise _refused("sorted_type", condition["sorted_type"], "needs sorted_name beside it")
    return ()


def _read_sorted_by(condition: dict[str, object]) -> tuple[SortKey, ...]:
    pairs = condition["sorted_by"]
    if "sorted_name" in condition or "sorted_type" in condition:
        raise _refused("sorted_by", pairs, "cannot be used together with sorted_name or sorted_type")
    if not isinstance(pairs, list | tuple) or not 0 < len(pairs) <= MAX_SORT_KEYS:
        raise _refused("sorted_by", pairs, f"must be a list of 1 to {MAX_SORT_KEYS} pairs [name, type]")
    keys: dict[Subject, SortKey] = {}
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise _refused("sorted_by", pair, "must be a pair [name, 'ascending' or 'descending']")
        key = _read_sort_key(*pair)
        keys.setdefault(key.subject, key)
    return tuple(keys.values())


def _read_sort_key(name: object, direction: object) -> SortKey:
    if direction not in ("ascending", "descending", None):
        raise _refused("sorted_type", direction, "must be 'ascending', 'descending' or None")
    return SortKey(read_subject(name), direction == "descending")


def _refused(where: str, value: object, requirement: str) -> LineageSearchConditionParamError:
    return LineageSearchConditionParamError(
        f"Search condition: {where} = {texts.shown(value)} {requirement}."
    )


# ---- What a name in a condition means: a field, a metric, or a user-defined value


_OLD_METRIC_PREFIX = "metric_"
_FIELDS_ALLOWED = ", ".join(
    [
        *(field.name for field in SEARCHABLE),
        *(f"{prefix}<name>" for prefix in (METRIC_PREFIX, *SUMMARY_PREFIXES, USER_PREFIX)),
    ]
)


def read_subject(name: object) -> Subject:
    """Return the field, metric or user-defined value of a public name, in any of its spellings.

    Raises LineageSearchConditionParamError for anything else.
    """
    if isinstance(name, str):
        if name in SPELLINGS and SPELLINGS[name].searchable:
            return Subject(SPELLINGS[name].type, SPELLINGS[name].name)
        for public, stored in SUMMARY_PREFIXES.items():
            if name.startswith(public) and name != public:
                return Subject("metric_summary", texts.to_stored(stored + name.removeprefix(public)))
        prefixes: tuple[tuple[str, SubjectType], ...] = (
            (METRIC_PREFIX, "metric"),
            (_OLD_METRIC_PREFIX, "metric"),
            (USER_PREFIX, "user_defined"),
        )
        for prefix, subject_type in prefixes:
            if name.startswith(prefix) and len(name) > len(prefix):
                return Subject(subject_type, texts.to_stored(name.removeprefix(prefix)))
    raise LineageSearchConditionParamError(
        f"Search condition: {texts.shown(name)} is not a field: use one of {_FIELDS_ALLOWED}.",
        hint=_meant(name, [*(field.name for field in SEARCHABLE), *_with_prefixes(name)]),
    )


def _meant(word: object, known: Iterable[str]) -> str | None:
    """Return a hint with the closest of some words; None if none comes close."""
    return texts.meant(word, known) or None if isinstance(word, str) else None


def _with_prefixes(name: object) -> Iterable[str]:
    """Return the names that a name with a misspelt prefix, such as `metrics/accuracy`, may mean."""
    rest = str(name).partition("/")[2]
    return [f"{prefix}{rest}" for prefix in (METRIC_PREFIX, *SUMMARY_PREFIXES, USER_PREFIX) if rest]


# ---- What a condition must be so that jobs may be removed by it, and how it reads in words. Pure
# What a question may leave open, because a person sees the answer, a removal refuses: parts that restrict nothing,
# values that a field never has, an order or a page, which it would ignore.


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
                hint="Leave it out, and select the jobs to remove by comparisons.",
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
                f"Search condition: {name} {operator} NaN: nothing equals NaN, so it matches no job or every job.",
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


def condition_in_words(condition: Mapping[str, Any]) -> str:
    """Return a condition as a part of a sentence, such as `optimizer is "Adam" and loss is at least 2`."""
    return " and ".join(part for name, value in condition.items() for part in _parts(name, value))


def _parts(name: str, value: Any) -> Iterable[str]:
    if name in ("and", "or"):
        joined = f" {name} ".join(_grouped(member, several=len(value) > 1) for member in value)
        yield f"({joined})" if name == "or" and len(value) > 1 else joined
    elif name == "not":
        yield f"not ({condition_in_words(value)})"
    elif name not in CONTROL_KEYS:
        for operator, compared in value.items():
            yield _comparison(name, operator, compared)


def _grouped(member: Mapping[str, Any], *, several: bool) -> str:
    words = condition_in_words(member)
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
