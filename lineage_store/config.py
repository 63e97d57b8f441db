"""Settings: flag > environment > file > default, each known by one row below.

In: overrides (flags), `LINEAGE_STORE_*` variables, one TOML file. Out: a frozen `Settings`, and each value's origin.
The file is the first of: the flag, `LINEAGE_STORE_CONFIG`, ./lineage_store.toml, the user's config directory,
/etc/lineage_store.toml. One in the working directory, which may be a base dir, is passed over, with a warning, where
another user could have written it. A value that does not fit is refused with the name, the place and what fits; so is
a name that no setting has. Relative base dirs become absolute: in the file from its directory, else from the working
directory.
"""

from __future__ import annotations

import logging
import math
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from lineage_store.errors import ConfigError

log = logging.getLogger(__name__)

ENVIRONMENT_PREFIX = "LINEAGE_STORE_"
MEBIBYTE = 1 << 20
MOST: Mapping[Any, float] = {float: 1e9, int: 1 << 48}
"""The most that a setting may be, by its type: 30 years in seconds, a count. Timers, dates and databases hold these."""

# After the prefix: what the tests are told, and what Kubernetes tells every container of services that are named so.
_OF_OTHERS = re.compile(r"TEST_.+|(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_\d+_.+)?)")


def _setting(default: Any, meaning: str, *, least: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"meaning": meaning, "least": least, "choices": choices})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, its default and its meaning."""

    database_url: str = _setting("", "database of the store; empty: SQLite in the user's state directory")
    read_database_url: str = _setting(
        "", "hot standby of database_url, which answers what only asks; empty: database_url does"
    )
    base_dirs: tuple[str, ...] = _setting(
        (), "directories of job directories that the daemon follows; relative: to the file's directory"
    )
    recursive: bool = _setting(False, "look for jobs at any depth instead of one level below a base dir")
    follow_symlinks: bool = _setting(False, "follow symbolic links that stay inside the base dir")
    allow_network_filesystem: bool = _setting(
        False, "use SQLite on a network filesystem all the same (unsafe)"
    )
    pool_size: int = _setting(15, "connections to the database that a process opens at most", least=1)
    statement_timeout_s: float = _setting(900.0, "seconds after which a statement is ended; 0: none", least=0)
    poll_interval_s: float = _setting(1.0, "seconds between two looks at live jobs", least=0.05)
    discovery_interval_s: float = _setting(
        2.0, "seconds between two searches for new jobs and files", least=0.05
    )
    finished_interval_s: float = _setting(
        600.0, "seconds between two re-reads of finished files' ends", least=1
    )
    live_within_s: float = _setting(600.0, "a job that grew within so many seconds is live", least=1)
    suspect_grace_s: float = _setting(600.0, "seconds before bytes that make no frame are given up", least=0)
    lease_s: float = _setting(15.0, "seconds that a lead lasts without a sign of life", least=1)
    chunk_bytes: int = _setting(4 * MEBIBYTE, "bytes read from one file at a time", least=4096)
    max_frame_bytes: int = _setting(64 * MEBIBYTE, "longest frame that is believed", least=4096)
    most_damages: int = _setting(
        1000, "places of one chunk that hold no frame or no event; a file with more is left alone", least=1
    )
    most_lineage_bytes: int = _setting(
        8 * MEBIBYTE, "bytes of a job's lineage events that are taken in, as JSON", least=4096
    )
    most_lineage_events: int = _setting(100_000, "lineage events of a job that are taken in", least=1)
    most_user_values: int = _setting(
        10_000, "user-defined values of a job that are taken in, those written again included", least=1
    )
    most_metrics: int = _setting(10_000, "metrics of one evaluation that is taken in", least=1)
    most_dataset_nodes: int = _setting(
        10_000, "nodes of one dataset pipeline that is taken in, their parameters included", least=1
    )
    most_tags: int = _setting(
        50_000, "tags of a log file that are taken in, and values of one summary event", least=1
    )
    most_event_parts: int = _setting(
        2_000_000,
        "parts of one summary event that is taken in: values, buckets, nodes of a graph",
        least=1000,
    )
    vectorised: bool = _setting(
        True, "decode many events at once; false takes the plain path, for comparison"
    )
    progress_deadline_s: float = _setting(
        50.0,
        "seconds without progress in a base dir after which the daemon ends, to be started anew",
        least=1,
    )
    reading_deadline_s: float = _setting(
        30.0,
        "seconds that reading a file apart may take, or one batch of an ingest, which ends after a tenth of them",
        least=0.1,
    )
    slow_reading_s: float = _setting(
        1.0,
        "seconds that the daemon's files wait for one that is read; it is read apart from then on",
        least=0.1,
    )
    job_reading_s: float = _setting(
        5.0,
        "seconds of reading within a minute after which a job's files wait for those of all others",
        least=0,
    )
    reading_memory_bytes: int = _setting(
        1024 * MEBIBYTE, "memory that the daemon's reading process may take", least=64 * MEBIBYTE
    )
    batch_rows: int = _setting(50_000, "rows in one write transaction, about", least=1)
    batch_bytes: int = _setting(32 * MEBIBYTE, "log bytes in one write transaction, about", least=4096)
    batch_files: int = _setting(500, "log files in one write transaction", least=1)
    cycle_history: int = _setting(10_000, "ingest cycles kept per base dir", least=1)
    serve_host: str = _setting(
        "127.0.0.1", "address that the server listens at; one that others reach needs serve_token_file"
    )
    serve_port: int = _setting(8080, "port that the server listens at; 0: any that is free", least=0)
    serve_names: str = _setting(
        "", "names by which browsers may call the server beside serve_host, separated by commas"
    )
    serve_url_path_prefix: str = _setting("", "what all paths of the server begin with, such as /lineage")
    serve_token_file: str = _setting(
        "", "file with the token that the server asks for; empty: none, and only this host may ask"
    )
    serve_allow_remarks: bool = _setting(
        False, "let whoever reaches the server put labels and remarks on jobs; with a token they may"
    )
    serve_heavy_reads: int = _setting(
        4, "questions that take long which the server works on at once", least=1
    )
    serve_statement_timeout_s: float = _setting(
        30.0, "seconds after which a statement of the server is ended; 0: as statement_timeout_s", least=0
    )
    serve_body_bytes: int = _setting(MEBIBYTE, "longest body of a request that the server takes", least=1024)
    mindinsight_ui: str = _setting(
        "", "directory of MindInsight's own page, ui/dist of its wheel; the server shows it at /mindinsight/"
    )
    mindinsight_limits: int = _setting(
        1,
        "how many times MindInsight's limits its API has here (1,000 scalars and 10 images a tag, 300 tags)",
        least=1,
    )
    metrics_port: int = _setting(0, "port of this host at which a daemon tells its metrics; 0: none", least=0)
    log_level: str = _setting(
        "info", "how much the daemon logs", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "auto", "console, json, or auto (json when not on a terminal)", choices=("auto", "console", "json")
    )


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings with the origin of every value and the file that was read (None: no file)."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None


SETTING_FIELDS = fields(Settings)
_TYPES = get_type_hints(Settings)
_NAMES = {setting.name for setting in SETTING_FIELDS}
_VARIABLES = {"CONFIG", *(name.upper() for name in _NAMES)}
"""What follows the prefix in the environment."""


def load(
    overrides: Mapping[str, Any] | None = None,
    *,
    config_file: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> LoadedSettings:
    """Read all sources. Raises ConfigError that names the setting, its place and what fits."""
    path = find_file(config_file, environment)
    here = Path()
    sources: list[tuple[str, Mapping[str, Any], Path]] = [
        (f"file {path}", _read_file(path) if path else {}, path.parent if path else here),
        ("environment", _from_environment(environment), here),
        ("flag", {name: value for name, value in (overrides or {}).items() if value is not None}, here),
    ]
    values: dict[str, Any] = {}
    origins = dict.fromkeys((setting.name for setting in SETTING_FIELDS), "default")
    for origin, source, directory in sources:
        for name, value in source.items():
            values[name] = convert(name, value, origin, directory)
            origins[name] = f"{ENVIRONMENT_PREFIX}{name.upper()}" if origin == "environment" else origin
    return LoadedSettings(replace(Settings(), **values), origins, path)


def find_file(flag: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    """The configuration file in force; one that is named must exist."""
    named = flag or environment.get(f"{ENVIRONMENT_PREFIX}CONFIG")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(f"The configuration file {path} does not exist.")
        return path
    of_user = user_directory("config")
    here = Path("lineage_store.toml")
    candidates = [here, of_user and of_user / "lineage_store.toml", Path("/etc/lineage_store.toml")]
    if os.path.lexists(here) and not _is_trusted(here):
        candidates.remove(here)
        log.warning("%s is passed over: another user could have written it.", here.absolute())
    return next((path for path in candidates if path and path.is_file()), None)


def _is_trusted(path: Path) -> bool:
    """Whether nobody but this user and root could have put the file there, or can write to it."""
    try:
        link, file = path.lstat(), path.stat()
    except OSError:
        return False
    return {link.st_uid, file.st_uid} <= {0, os.geteuid()} and not file.st_mode & stat.S_IWOTH


def convert(name: str, value: Any, origin: str, directory: Path) -> Any:
    """Turn a raw value (text from the environment, TOML value, flag) into the setting's type, or refuse it.

    Args:
        directory: where relative paths begin.
    """
    if name not in _NAMES:
        raise ConfigError(f"Unknown setting {name!r} ({origin}).", hint=_did_you_mean(name, _NAMES))
    converted = _convert_type(_TYPES[name], value, directory)
    metadata = next(setting.metadata for setting in SETTING_FIELDS if setting.name == name)
    if converted is None:
        wanted = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}
        what = wanted.get(_TYPES[name], "a list of paths")
        raise ConfigError(f"Setting {name} = {value!r} ({origin}) must be {what}.")
    if metadata["least"] is not None and not converted >= metadata["least"]:
        raise ConfigError(f"Setting {name} = {value!r} ({origin}) must be at least {metadata['least']}.")
    most = MOST.get(_TYPES[name])
    if most is not None and converted > most:
        raise ConfigError(f"Setting {name} = {value!r} ({origin}) must be at most {most:.0f}.")
    if metadata["choices"] and converted not in metadata["choices"]:
        raise ConfigError(
            f"Setting {name} = {value!r} ({origin}) must be one of {', '.join(metadata['choices'])}."
        )
    return converted


def _convert_type(wanted: Any, value: Any, directory: Path) -> Any:
    if wanted is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        return value if isinstance(value, bool) else words.get(str(value).lower())
    if wanted is str:
        return value if isinstance(value, str) else None
    if wanted in (int, float):
        return _number(wanted, value)
    parts = value.split(os.pathsep) if isinstance(value, str) else value
    if isinstance(parts, list | tuple) and all(isinstance(part, str) and part for part in parts):
        return tuple(str(Path(directory, os.path.expanduser(part)).absolute()) for part in parts)
    return None


def _number(wanted: type[int] | type[float], value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | wanted):
        return None
    try:
        number = wanted(value)
        return number if math.isfinite(number) else None
    except (ValueError, OverflowError):
        return None


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    for variable in sorted(environment):
        if not _is_known(variable):
            name = variable.upper().removeprefix(ENVIRONMENT_PREFIX)
            hint = _did_you_mean(name, _VARIABLES, ENVIRONMENT_PREFIX)
            raise ConfigError(f"Unknown setting {variable} (environment).", hint=hint)
    given = {name: environment.get(f"{ENVIRONMENT_PREFIX}{name.upper()}") for name in _NAMES}
    return {name: value for name, value in given.items() if value is not None}


def _is_known(variable: str) -> bool:
    """Whether an environment variable is a setting, or is none of ours."""
    if not variable.upper().startswith(ENVIRONMENT_PREFIX):
        return True
    name = variable.removeprefix(ENVIRONMENT_PREFIX)
    return name in _VARIABLES or _OF_OTHERS.fullmatch(name) is not None


def _did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    from difflib import get_close_matches

    names = sorted(known)
    if close := get_close_matches(name, names, n=1):
        return f"Did you mean {prefix}{close[0]}?"
    return f"Known settings: {', '.join(prefix + each for each in names)}."


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error}.") from error


def user_directory(kind: str) -> Path | None:
    """Where this user has settings (`config`) or a store (`state`); None for a user without a home directory."""
    import platformdirs

    try:
        path: Path = getattr(platformdirs, f"user_{kind}_path")("lineage-store")
    except RuntimeError:
        return None
    return path if path.is_absolute() else None  # older versions leave the ~ as it is
