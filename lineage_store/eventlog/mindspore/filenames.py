"""Parse and compose the names of log files.

In: the name of a file (no directory). Out: a ParsedName, or why a name that looks like one does not count.
MindSpore writes `{prefix}.out.events.summary.{seconds}.{device}.{host}{suffix}`, older versions without the
device, MindInsight 0.3 without the prefix. As in MindInsight, a log file is any name that contains `summary.` and
digits; it holds lineage if it ends in `_lineage`. Unlike in MindInsight, hidden and temporary names, `.pb` files,
explanations, and what people and tools lay beside a log file (`_MS.bak`, `_MS.md5`, `_MS (1)`) do not count. Two
names also tell whether one file may be a copy of the other. Does not know whether a file exists or what is in it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lineage_store.eventlog.values import FileKind, ParsedName
from lineage_store.plain_values import CALENDAR_END

SUMMARY_SUFFIX = "_MS"
LINEAGE_SUFFIX = "_lineage"

_LOG_FILE = re.compile(r"summary\.(?P<timestamp>\d+)")
# A number before the host is the device, unless it is the first part of an IPv4 address in an older name.
_DEVICE = re.compile(r"\.(?P<device>\d{1,9})(?=\.)(?!\.\d+\.\d+\.\d+(?:_|$))")
_LINEAGE = re.compile(r"_lineage(?![0-9A-Za-z])[^/]*$")
_KNOWN_SUFFIX = re.compile(r"(?:_MS)?_lineage$|_MS$")
_ANY_SUFFIX = re.compile(r"(?:_MS)?_lineage(?![0-9A-Za-z])|_MS(?![0-9A-Za-z])")
_RANK = re.compile(
    r"(?:rank|device|dev|card|npu|gpu|worker|node|host|proc|local|shard|part)[-_.]?\d+", re.IGNORECASE
)
_IN_PARENTHESES = re.compile(r"\(\d+\)")
_TEMPORARY = re.compile(r"~$|\.(?:swp|swo|tmp|temp|part|partial)$|^#.*#$", re.IGNORECASE)

COMPANIONS: tuple[tuple[str, str], ...] = (
    (
        "a backup of a log file, by its name",
        r"\.(?:bak|bkp|backup|bck|old|orig|sav|save|saved|prev|rej)\d{0,3}|~",
    ),
    ("a rotated log file, by its name", r"\.\d{1,3}"),
    ("a numbered copy of a log file, by its name", r" ?\(\d{1,4}\)| - copy| copy(?: \d{1,4})?"),
    (
        "a packed log file, by its name",
        r"\.(?:gz|tgz|bz2|tbz2?|xz|txz|lzma|zst|zstd|lz4|br|z|zip|7z|rar|tar|gpg|pgp|enc|age)",
    ),
    (
        "checksums or a signature of a log file, by its name",
        r"\.(?:md5|md5sum|sha\d{0,3}|sha\d{1,3}sum|sum|crc|crc32c?|xxh\d{0,3}|b3|b2|sfv|asc|sig|etag|par2)",
    ),
    ("a lock of a log file, by its name", r"\.(?:lock|lck|pid)"),
    (
        "text about a log file, by its name",
        r"\.(?:txt|json|jsonl|csv|tsv|log|out|err|md|html?|xml|ya?ml|info|meta|idx|index|pdf|png|jpe?g|parquet|npz|pkl)",
    ),
    (
        "a temporary or unfinished copy of a log file, by its name",
        r"\.(?:tmp|temp|sw[opx]|part|partial|filepart|crdownload|download|aria2|dvc|inprogress|incomplete)",
    ),
)
"""THE table of what lies beside log files and is none, though its name has a log file's in it: why it does not count,
and the endings, of any case, behind a suffix that MindSpore gives. A recorder's own suffix may be any other."""
_ENDINGS = "|".join(pattern for _, pattern in COMPANIONS)
_COMPANION = re.compile(
    rf"(?:_MS|_lineage)(?i:{_ENDINGS})*?(?i:{'|'.join(f'({pattern})' for _, pattern in COMPANIONS)})$"
)
_ENDS_AS_COMPANION = re.compile(f"(?:{_ENDINGS})$", re.IGNORECASE)


def parse_name(name: str) -> ParsedName | None:
    """Parse the name; return None if it does not count as a log file (`ignored_reason` says why).

    Any suffix but `_MS`, `_lineage` and `_MS_lineage` cannot be separated from the host and stays part of it.
    """
    match = _LOG_FILE.search(name)
    if match is None or _ignored_reason(name, match):
        return None
    after = name[match.end() :]
    device = _DEVICE.match(after)
    suffix = _KNOWN_SUFFIX.search(after)
    return ParsedName(
        kind=file_kind(name),
        timestamp=int(match["timestamp"]),
        device=int(device["device"]) if device else None,
        host=after[device.end() if device else 0 : suffix.start() if suffix else None].removeprefix("."),
    )


def file_kind(name: str) -> FileKind:
    """Return what a log file of this name holds; what stands behind `_lineage` may be what a copy was named."""
    return "lineage" if _LINEAGE.search(name) and not name.endswith(SUMMARY_SUFFIX) else "summary"


def companion_ending(suffix: str) -> str | None:
    """Return the part of a suffix by which a file beside a log file, such as a backup, is told; None if it has none."""
    found = _ENDS_AS_COMPANION.search(suffix)
    return found.group() if found else None


def why_ignored(name: str) -> str | None:
    """Return why a name with `summary.` and digits does not count as a log file; None if it counts, or has neither."""
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
    if companion := _COMPANION.search(name, match.end()):
        return COMPANIONS[(companion.lastindex or 1) - 1][0]
    # int() refuses very long digit strings; no file system has names as long as this.
    if len(match["timestamp"]) > 255 or int(match["timestamp"]) > CALENDAR_END:
        return "the timestamp in the name lies behind the year 9999"
    return None


def is_regular(name: str) -> bool:
    """Whether a name ends as MindSpore's do: then it is more likely that of an original than that of a copy."""
    return _KNOWN_SUFFIX.search(name) is not None


def may_be_copies(name: str, other: str) -> bool:
    """Whether files with these names, which begin with the same bytes, may be copies, not of two devices.

    Devices are told apart by the number in the name, by numbers before it or words such as `rank_1`, and by the host.
    Whoever copies a file within its directory leaves the host, and adds something before or behind the name.
    """
    mine, its = _writer(name), _writer(other)
    return mine[0] == its[0] and _is_one_host(*sorted((mine[1], its[1]), key=len))


@lru_cache(maxsize=1024)
def _writer(name: str) -> tuple[tuple[object, ...], str]:
    """What tells devices apart in a log file's name, and what stands behind its timestamp."""
    match = _LOG_FILE.search(name)
    before, behind = (name[: match.start()], name[match.end() :]) if match else (name, "")
    numbers = tuple(re.findall(r"\d+", _IN_PARENTHESES.sub("", before)))
    device = _DEVICE.match(behind)
    return (numbers, device and device["device"], *sorted(_RANK.findall(name.lower()))), behind


def _is_one_host(shorter: str, longer: str) -> bool:
    """Whether what stands behind the timestamp of two names has the same host, and one or both have more behind it."""
    cores = [each[: suffix.end()] for each in (shorter, longer) if (suffix := _ANY_SUFFIX.search(each))]
    if len(cores) == 2:
        return cores[0] == cores[1]
    more = longer.removeprefix(shorter)
    if not longer.startswith(shorter) or not more or _ANY_SUFFIX.match(more) or cores[:1] == [shorter]:
        return longer.startswith(shorter)
    return not more[0].isalnum() and not re.fullmatch(r"[-_.]\d+", more) and not cores


def compose(prefix: str, timestamp: int, device: int | None, host: str, suffix: str = SUMMARY_SUFFIX) -> str:
    """Return the name that MindSpore gives a log file; device None and prefix "" give the older forms."""
    parts = [prefix, "out.events.summary", str(timestamp), None if device is None else str(device), host]
    return ".".join(part for part in parts if part) + suffix
