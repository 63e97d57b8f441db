"""Which names are log files, what a name says, and how the writer composes one.

In: the name of a file (no directory). Out: a LogFileName, or why a name that looks like one does not count.
MindSpore writes `{prefix}.out.events.summary.{seconds}.{device}.{host}{suffix}`, older versions without the
device, MindInsight 0.3 without the prefix. A log file is, as in MindInsight, any name with `summary.` and
digits in it; it holds lineage when it ends in `_lineage`. Ours in addition: hidden and temporary names, and
explanations, do not count. It does not know whether the file exists or what is in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lineage_store.eventlog.values import FileKind
from lineage_store.times import CALENDAR_END

SUMMARY_SUFFIX = "_MS"
LINEAGE_SUFFIX = "_lineage"

_LOG_FILE = re.compile(r"summary\.(?P<timestamp>\d+)")
# A number before the host is the device, unless it is the first quarter of an IPv4 address in an older name.
_DEVICE = re.compile(r"\.(?P<device>\d{1,9})(?=\.)(?!\.\d+\.\d+\.\d+(?:_|$))")
_KNOWN_SUFFIX = re.compile(r"(?:_MS)?_lineage$|_MS$")
_TEMPORARY = re.compile(r"~$|\.(?:swp|swo|tmp|temp|part|partial)$|^#.*#$", re.IGNORECASE)


class LogFileName(NamedTuple):
    """What the name of a log file says."""

    name: str
    kind: FileKind
    timestamp: int
    """When the writer was opened, seconds since the epoch."""
    device: int | None
    """Device or rank; None in names of older versions."""
    host: str
    prefix: str
    suffix: str
    """`_MS`, `_lineage` or `_MS_lineage`; another suffix cannot be told from the host and stays with it."""

    @property
    def order(self) -> tuple[int, str]:
        """The order of a job's log files: by timestamp, then by name."""
        return self.timestamp, self.name


def parse(name: str) -> LogFileName | None:
    """What the name says, or None when it does not count as a log file (`ignored_reason` tells why)."""
    match = _LOG_FILE.search(name)
    if match is None or _ignored_reason(name, match):
        return None
    before, after = name[: match.start()], name[match.end() :]
    device = _DEVICE.match(after)
    suffix = _KNOWN_SUFFIX.search(after)
    return LogFileName(
        name=name,
        kind="lineage" if name.endswith(LINEAGE_SUFFIX) else "summary",
        timestamp=int(match["timestamp"]),
        device=int(device["device"]) if device else None,
        host=after[device.end() if device else 0 : suffix.start() if suffix else None].removeprefix("."),
        prefix=before.removesuffix("out.events.").removesuffix("."),
        suffix=suffix[0] if suffix else "",
    )


def ignored_reason(name: str) -> str | None:
    """Why a name with `summary.` and digits in it does not count as a log file; None when it does, or has none."""
    match = _LOG_FILE.search(name)
    return _ignored_reason(name, match) if match else None


def _ignored_reason(name: str, match: re.Match[str]) -> str | None:
    if name.endswith("_explain"):
        return "an explanation file of MindInsight's XAI, which is out of scope"
    if name.endswith(".pb"):
        return "a graph file (.pb), which holds no events"
    if name.startswith("."):
        return "a hidden file, as editors, rsync and NFS make them"
    if _TEMPORARY.search(name):
        return "a temporary or backup file, by its name"
    # int() refuses very long digit strings; no file system has names as long as this.
    if len(match["timestamp"]) > 255 or int(match["timestamp"]) > CALENDAR_END:
        return "the timestamp in the name lies behind the year 9999"
    return None


def compose(prefix: str, timestamp: int, device: int | None, host: str, suffix: str = SUMMARY_SUFFIX) -> str:
    """The name MindSpore gives a log file; device None and prefix "" give the older forms."""
    parts = [prefix, "out.events.summary", str(timestamp), None if device is None else str(device), host]
    return ".".join(part for part in parts if part) + suffix
