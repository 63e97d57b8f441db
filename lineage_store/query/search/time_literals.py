"""Parse the times with which a condition compares.

In: a datetime; unix seconds; ISO text such as `2026-11-01`, which means midnight, or `2026-11-01T08:00+02:00`; a
duration before now: `last 7 days`, `36 hours ago`. Out: whole unix seconds, as the store has them. A value that does
not fit raises ValueError with what is allowed. Promises: a time without a zone is UTC. Does not know SQL.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from lineage_store.query.search.literals import MAX_CHOICES, Choices
from lineage_store.times import CALENDAR_END

_BEFORE_NOW = re.compile(
    r"(?:the\s+)?last\s+(?P<last>\d+\s+)?(?P<unit>[a-z]+?)s?|(?P<ago>\d+)\s+(?P<units>[a-z]+?)s?\s+ago"
)
_UNITS = ("second", "minute", "hour", "day", "week")
_ALLOWED = "a datetime, unix seconds, or text such as '2026-11-01', '2026-11-01T08:00:00Z', 'last 7 days'"


def read_floor(value: object) -> int:
    """Parse a time and round it down to a whole second."""
    return math.floor(_seconds(value))


def read_ceiling(value: object) -> int:
    """Parse a time and round it up to a whole second."""
    return math.ceil(_seconds(value))


def read_times(value: object) -> Choices:
    """Parse a list of times, with None for a missing one. A time that is no whole second equals nothing."""
    if not isinstance(value, list | tuple) or len(value) > MAX_CHOICES:
        raise ValueError(f"a list or tuple of at most {MAX_CHOICES} points in time")
    if any(map(is_before_now, value)):
        raise ValueError("a point in time: only lt, le, gt and ge compare with how long ago something was")
    seconds = [_seconds(item) for item in value if item is not None]
    return Choices(tuple({int(each): None for each in seconds if each == int(each)}), missing=None in value)


def is_before_now(value: object) -> bool:
    """Whether a value is a duration before now, whose meaning changes as time passes."""
    return isinstance(value, str) and _BEFORE_NOW.fullmatch(value.strip().lower()) is not None


def _seconds(value: object) -> float:
    seconds = math.nan
    if isinstance(value, str):
        value = _read_text(value.strip())
    if isinstance(value, datetime):
        seconds = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    if not -CALENDAR_END <= seconds <= CALENDAR_END:
        raise ValueError(_ALLOWED)
    return seconds


def _read_text(text: str) -> datetime | None:
    if before := _BEFORE_NOW.fullmatch(text.lower()):
        unit, number = before["unit"] or before["units"], int(before["last"] or before["ago"] or 1)
        if unit not in _UNITS or number > CALENDAR_END:
            return None
        try:
            return datetime.now(UTC) - timedelta(**{f"{unit}s": number})
        except OverflowError:  # before the year 1
            return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
