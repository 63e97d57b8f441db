"""Convert unix times that may lie beyond the calendar to points in time. Pure.

In: unix time in seconds, any number. Out: aware datetimes in UTC. Promises: file names, ingest and views share one last
second, CALENDAR_END.
"""

from __future__ import annotations

from datetime import UTC, datetime

CALENDAR_BEGIN = -62_135_596_800
"""The first second of the year 1, the first that Python can write as a date; unix time in seconds."""
CALENDAR_END = 253_402_300_799
"""The last second of the year 9999, the last that Python and SQL can write as a date; unix time in seconds."""

PLAUSIBLE_SINCE = 946_684_800
"""The first second of the year 2000; unix time in seconds. What is recorded to be older was written by a host without
a clock, or made up."""


def from_unix(seconds: int) -> datetime:
    """Convert unix time; times before 1970 or after CALENDAR_END become the nearest of the two."""
    return datetime.fromtimestamp(min(max(seconds, 0), CALENDAR_END), UTC)


def instant(seconds: float | None) -> datetime | None:
    """Convert unix time; return None for None and for times that `datetime` cannot hold."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
