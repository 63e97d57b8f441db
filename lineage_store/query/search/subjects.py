"""What a name in a condition means: a field, a metric, or a user-defined value.

In: a name as the caller wrote it. Out: a `Subject`. Promises: the error for an unknown name lists the allowed names and
the closest one, and shows only the beginning of a long name. Does not know what the store has.
"""

from __future__ import annotations

from collections.abc import Iterable

from lineage_store import texts
from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import METRIC_PREFIX, SEARCHABLE, SPELLINGS, SUMMARY_PREFIXES, USER_PREFIX
from lineage_store.query.search.operators import SubjectType
from lineage_store.query.search.tree import Subject

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
        hint=meant(name, [*(field.name for field in SEARCHABLE), *_with_prefixes(name)]),
    )


def meant(word: object, known: Iterable[str]) -> str | None:
    """Return a hint with the closest of some words; None if none comes close."""
    return texts.meant(word, known) or None if isinstance(word, str) else None


def _with_prefixes(name: object) -> Iterable[str]:
    """Return the names that a name with a misspelt prefix, such as `metrics/accuracy`, may mean."""
    rest = str(name).partition("/")[2]
    return [f"{prefix}{rest}" for prefix in (METRIC_PREFIX, *SUMMARY_PREFIXES, USER_PREFIX) if rest]
