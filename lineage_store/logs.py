"""Logging of the programs: readable lines on a terminal, one JSON object per line elsewhere.

In: a level and a format. Out: a root logger that writes to stderr, with times in UTC as in RFC 3339. Promises:
passwords in URLs and connection strings are starred out; control characters, as in a file name, are escaped. Only the
command line calls this; the library never configures logging.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

from pythonjsonlogger.json import JsonFormatter

from lineage_store.json_values import iso
from lineage_store.texts import escaped, without_passwords

_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class _Timed(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return iso(datetime.fromtimestamp(record.created, UTC))


class ConsoleFormatter(_Timed):
    """`time level message key=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        named = ((name, escaped(str(value))) for name, value in vars(record).items() if name not in _STANDARD)
        extra = " ".join(f"{name}={value}" for name, value in named)
        first, newline, rest = escaped(line, keep_lines=True).partition("\n")
        return without_passwords(f"{first} {extra}".rstrip() + newline + rest)


class LineFormatter(_Timed, JsonFormatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return without_passwords(super().format(record))


def configure(level: str, style: str) -> None:
    """Send log lines to stderr; `style` is console, json or auto."""
    handler = logging.StreamHandler()
    if style == "console" or (style == "auto" and sys.stderr.isatty()):
        handler.setFormatter(ConsoleFormatter("%(asctime)s %(levelname)-7s %(message)s"))
    else:
        names = {"asctime": "time", "levelname": "level", "name": "logger"}
        fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
        handler.setFormatter(LineFormatter(fields, rename_fields=names))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
