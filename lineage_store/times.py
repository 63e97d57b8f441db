"""Where the calendar ends, and times of the unix clock that it may not hold. Pure.

In: seconds of the unix clock, as files and names have them: any number at all. Out: aware points in time. Promises: one
end of the calendar for file names, ingest and the views.
"""

from __future__ import annotations

from datetime import UTC, datetime

CALENDAR_END = 253_402_300_799
"""The last second of the year 9999, which is the last that Python and SQL can write as a date; unix s."""


def from_unix(seconds: int) -> datetime:
    """The nearest point in time that the calendar holds from 1970 on."""
    return datetime.fromtimestamp(min(max(seconds, 0), CALENDAR_END), UTC)


def instant(seconds: float | None) -> datetime | None:
    """The point in time; None where no calendar has it."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
