"""THE table of settings: one row each, with default, meaning and limits.

In: a raw value: text of the environment, a TOML value, a flag. Out: a value of the type that `Settings` declares.
Promises: a value that does not fit is refused with its name, its origin and what would fit; so is an unknown name.
Relative paths start in the caller's directory. Does not know where values come from (`config.py`).
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import stat
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from lineage_store.errors import ConfigError
from lineage_store.texts import meant

MEBIBYTE = 1 << 20
MOST_SHARDS = 64
MOST: Mapping[Any, float] = {float: 1e9, int: 1 << 48}
"""The default maximum of a setting, by type: 30 years in seconds, or a count. Timers and databases can hold it."""

_FILE = re.compile(r"()(?![/~])(.+)")
_URL_OF_FILE = re.compile(r"(sqlite(?:\+pysqlite)?:///)(?![/~]|:memory:)(.+)")
"""Both match values with a relative path of a file: group 1 is what precedes the path, group 2 the path."""


def _setting(
    default: Any,
    meaning: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    secret: bool = False,
    relative: re.Pattern[str] | None = None,
) -> Any:
    limits = {"least": least, "most": most, "choices": choices, "secret": secret, "relative": relative}
    return field(default=default, metadata={"meaning": meaning, **limits})


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of time, memory and size that suit every machine we know: constants, which a test may set as a setting.

    The settings file has none of them. On a machine that needs another one, `LINEAGE_STORE_LIMITS` does:
    `slow_reading_s=5 reading_deadline_s=60`.
    """

    batch_rows: int = _setting(50_000, "approximate number of rows in one write transaction", least=1)
    batch_bytes: int = _setting(32 * MEBIBYTE, "approximate log bytes in one write transaction", least=4096)
    batch_files: int = _setting(500, "most log files in one write transaction", least=1)
    chunk_bytes: int = _setting(4 * MEBIBYTE, "bytes read from one file at a time", least=4096)
    max_frame_bytes: int = _setting(64 * MEBIBYTE, "longest frame that is accepted", least=4096)
    vectorised: bool = _setting(True, "decode many events at once; false decodes one by one, for comparison")
    reading_deadline_s: float = _setting(
        30.0,
        "seconds for reading a slow file, or a batch; an ingest's batch ends after a tenth of them",
        least=0.1,
    )
    slow_reading_s: float = _setting(
        1.0,
        "seconds that other files wait for one; a slower file is read separately from then on",
        least=0.1,
    )
    job_reading_s: float = _setting(
        5.0,
        "seconds of reading per minute after which a job's files wait for all other jobs",
        least=0,
    )
    reading_memory_bytes: int = _setting(
        1024 * MEBIBYTE, "most memory of the daemon's reading process", least=64 * MEBIBYTE
    )
    progress_deadline_s: float = _setting(
        50.0,
        "seconds without progress in a base dir after which the daemon exits, to be restarted",
        least=1,
    )
    finished_interval_s: float = _setting(
        600.0, "seconds between two checks of finished files for growth", least=1
    )
    most_damages: int = _setting(
        1000, "most damaged places in one chunk; a file with more is not read any more", least=1
    )
    most_lineage_bytes: int = _setting(
        8 * MEBIBYTE, "most bytes of a job's lineage events, as JSON, that are stored", least=4096
    )
    most_lineage_events: int = _setting(100_000, "most lineage events of a job that are stored", least=1)
    most_user_values: int = _setting(
        10_000, "most user-defined values of a job that are stored, repeated ones included", least=1
    )
    most_metrics: int = _setting(10_000, "most metrics of one evaluation that are stored", least=1)
    most_dataset_nodes: int = _setting(
        10_000, "most nodes, parameters included, of a dataset pipeline that is stored", least=1
    )
    most_tags: int = _setting(
        50_000, "most tags of a log file, and most values of one summary event, that are stored", least=1
    )
    most_event_parts: int = _setting(
        2_000_000,
        "most parts of a summary event that is stored: values, buckets, nodes of a graph",
        least=1000,
    )
    cycle_history: int = _setting(10_000, "number of ingest cycles kept per base dir", least=1)
    keep_thinned_buckets: int = _setting(
        1000,
        "buckets of a thinned scalar, each with count, min, max, mean; shorter ones stay whole",
        least=10,
        most=100_000,
    )
    keep_every_s: float = _setting(
        3600.0, "seconds between two times that a daemon applies these policies", least=1
    )
    pool_size: int = _setting(15, "most connections to the database that a process opens", least=1)
    serve_heavy_reads: int = _setting(4, "most slow questions that the server answers at once", least=1)
    serve_body_bytes: int = _setting(MEBIBYTE, "longest request body that the server accepts", least=1024)


@dataclass(frozen=True, slots=True)
class Settings(Limits):
    """Every setting, its default and its meaning."""

    database_url: str = _setting(
        "", "database of the store; empty: a SQLite file in the user's state directory", relative=_URL_OF_FILE
    )
    read_database_url: str = _setting(
        "", "hot standby of database_url that answers read-only questions; empty: database_url answers them"
    )
    base_dirs: tuple[str, ...] = _setting(
        (), "directories of job directories that the daemon follows; relative to this file's directory"
    )
    recursive: bool = _setting(False, "look for jobs at any depth instead of one level below a base dir")
    follow_symlinks: bool = _setting(False, "follow symbolic links that stay inside the base dir")
    allow_network_filesystem: bool = _setting(False, "allow SQLite on a network filesystem (unsafe)")
    statement_timeout_s: float = _setting(
        900.0, "seconds after which a statement is cancelled; 0: never", least=0
    )
    poll_interval_s: float = _setting(1.0, "seconds between two checks of live jobs", least=0.05)
    discovery_interval_s: float = _setting(
        2.0, "seconds between two searches for new jobs and files", least=0.05
    )
    live_within_s: float = _setting(600.0, "a job is live if it grew within this many seconds", least=1)
    suspect_grace_s: float = _setting(
        600.0, "seconds before bytes that are no valid frame are given up", least=0
    )
    lease_s: float = _setting(15.0, "seconds that a lease lasts unless its holder renews it", least=1)
    shards: int = _setting(
        0,
        "number of shards of each base dir's jobs, for as many daemons; 0: unchanged",
        least=0,
        most=MOST_SHARDS,
    )
    less_is_better: str = _setting(
        "loss,error,err,mae,mse,rmse,perplexity,ppl,wer,cer,fid,nll,distance,time,latency",
        "a metric whose name contains one of these words, separated by commas, is better when lower",
    )
    serve_host: str = _setting(
        "127.0.0.1",
        "address on which the server listens; if others can reach it, serve_token_file is required",
    )
    serve_port: int = _setting(
        8080, "port on which the server listens; 0: any free port", least=0, most=65535
    )
    serve_names: str = _setting(
        "", "host names, besides serve_host, by which browsers may call the server, separated by commas"
    )
    serve_url_path_prefix: str = _setting("", "prefix of all paths of the server, such as /lineage")
    serve_token_file: str = _setting(
        "",
        "file with the token that the server requires; empty: no token, and only this host may ask",
        relative=_FILE,
    )
    serve_allow_remarks: bool = _setting(
        False, "allow labels and remarks without a token; with a token they are always allowed"
    )
    serve_statement_timeout_s: float = _setting(
        30.0, "seconds after which a statement of the server is cancelled; 0: statement_timeout_s", least=0
    )
    mindinsight_ui: str = _setting(
        "",
        "directory of MindInsight's own page (ui/dist in its wheel), served at /mindinsight/",
        relative=_FILE,
    )
    mindinsight_limits: int = _setting(
        1,
        "factor on the limits of MindInsight's API (1,000 scalars and 10 images a tag, 300 tags)",
        least=1,
    )
    metrics_port: int = _setting(
        0, "port of this host on which a daemon serves its metrics; 0: none", least=0, most=65535
    )
    log_level: str = _setting(
        "info", "how much the daemon logs", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "auto", "console, json, or auto (json when not on a terminal)", choices=("auto", "console", "json")
    )
    keep_days: int = _setting(
        0, "a daemon removes a job after so many days without sign of life; 0: never", least=0, most=365_000
    )
    keep_jobs: int = _setting(
        0, "number of newest jobs kept in each base dir, in equal shares of their owners; 0: all", least=0
    )
    keep_store_bytes: int = _setting(
        0,
        "approximate database size of all jobs, in equal shares of their owners, beyond which the oldest are removed; "
        "0: no limit",
        least=0,
    )
    keep_labelled: bool = _setting(True, "keep jobs with a label or remark, whatever the other settings say")
    keep_every_step_days: int = _setting(
        0,
        "a daemon thins a job's scalars after so many days without sign of life; 0: never",
        least=0,
        most=365_000,
    )
    notify_url: str = _setting(
        "", "http or https address to which a daemon POSTs notifications; empty: none", secret=True
    )
    notify_command: str = _setting(
        "",
        "command that gets notifications on its stdin, instead of notify_url; run without a shell",
        secret=True,
    )
    notify_on: str = _setting("problem, lag, finished, metric", "kinds of notifications, separated by commas")
    notify_lag_s: float = _setting(
        300.0, "seconds without a full search after which a base dir lags", least=1
    )
    notify_metrics: str = _setting(
        "", "bounds of metrics to notify of, separated by commas: accuracy>=0.9, loss<0.1"
    )
    notify_name: str = _setting(
        "default", "name under which the store remembers what was sent; each receiver needs its own"
    )


LIMIT_FIELDS = fields(Limits)
SETTING_FIELDS = fields(Settings)[len(LIMIT_FIELDS) :]
_TYPES = get_type_hints(Settings)
_WORDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}
NAMES = {setting.name for setting in SETTING_FIELDS}
_LIMIT_NAMES = {limit.name for limit in LIMIT_FIELDS}


def convert(name: str, value: Any, origin: str, directory: Path) -> Any:
    """Convert a raw value to the setting's type; relative paths start in `directory`. Raises ConfigError."""
    if name in _LIMIT_NAMES:
        raise ConfigError(f"{name} is no setting but a limit ({origin}).", hint=_limit_hint(name))
    if name not in NAMES:
        table, _, rest = name.partition("_")
        in_table = f"In the table [{table}] it is {rest.removeprefix(f'{table}_')}." if rest in NAMES else ""
        raise ConfigError(f"Unknown setting {name!r} ({origin}).", hint=in_table or did_you_mean(name, NAMES))
    return _fitting(name, value, origin, directory)


def _limit_hint(name: str) -> str:
    return (
        f"Where a machine needs another one, write {ENVIRONMENT_PREFIX}LIMITS={name}=…, beside other limits."
    )


def _fitting(name: str, value: Any, origin: str, directory: Path = Path()) -> Any:
    """Convert the value of a known setting or limit. Raises ConfigError."""
    converted = _convert_type(_TYPES[name], value, directory)
    setting = next(each for each in fields(Settings) if each.name == name)
    if (wanted := _wanted(_TYPES[name], converted, setting.metadata)) is not None:
        raise ConfigError(
            f"Setting {name} = {value!r} ({origin}) must be {wanted}.",
            hint=f"Correct it, or leave it out: its default is {json.dumps(setting.default)}.",
        )
    if (relative := setting.metadata["relative"]) and (named := relative.fullmatch(converted)):
        return f"{named[1]}{directory / named[2]}"
    return converted


def _wanted(of_type: Any, converted: Any, limits: Mapping[str, Any]) -> str | None:
    """Say what a value that does not fit should be; return None for one that fits."""
    if converted is None:
        return _WORDS.get(of_type, "a list of paths")
    if limits["least"] is not None and not converted >= limits["least"]:
        return f"at least {limits['least']}"
    if (most := limits["most"] or MOST.get(of_type)) is not None and converted > most:
        return f"at most {most:.0f}"
    choices = limits["choices"]
    return f"one of {', '.join(choices)}" if choices and converted not in choices else None


def _convert_type(wanted: Any, value: Any, directory: Path) -> Any:
    if wanted is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        return value if isinstance(value, bool) else words.get(str(value).lower())
    if wanted is str:
        return value if isinstance(value, str) else None
    if wanted in (int, float):
        return _number(wanted, value)
    parts = value.split(os.pathsep) if isinstance(value, str) and value else () if value == "" else value
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


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the hint for an unknown name: the most similar known name, or all known names."""
    names = sorted(known)
    return meant(name, names, prefix) or f"Known settings: {', '.join(prefix + each for each in names)}."


def user_directory(kind: str) -> Path | None:
    """Return this user's directory of settings (`config`) or of the store (`state`); None without a home directory."""
    import platformdirs

    try:
        path: Path = getattr(platformdirs, f"user_{kind}_path")("lineage-store")
    except RuntimeError:
        return None
    return path if path.is_absolute() else None  # older versions do not expand the ~


# ---- Load settings from their sources: flag > environment > file > default
# In: overrides (flags), `LINEAGE_STORE_*` variables, one TOML file. Out: the `Settings` of `config.py`, and each
# value's origin. The file is the first of: the flag, `LINEAGE_STORE_CONFIG`, ./lineage_store.toml, the user's config
# directory, /etc/lineage_store.toml. The file in the working directory, which may be a base dir, is skipped with a
# warning if another user owns it or may write to it, and any of the last three if this user may not read it. An
# unknown variable is refused. Relative paths start in the file's directory, those of other sources in the working
# directory.


log = logging.getLogger(__name__)

ENVIRONMENT_PREFIX = "LINEAGE_STORE_"
_HERE = Path("lineage_store.toml")
# Rest of variables that are not settings: those of the tests, and those that Kubernetes sets for services of our name.
_OF_OTHERS = re.compile(r"TEST_.+|(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_\d+_.+)?)")
_NAME_ANOTHER = f"name another one with --config or {ENVIRONMENT_PREFIX}CONFIG."
_OF_ANOTHER = f"another user could have written it. Remove that permission (chmod go-w), or {_NAME_ANOTHER}"
_ONLY_OURS = "Write the secret into a file of yours that only you may read and write (chmod 600)."
_LONGEST_TEXT = 1 << 16
_ACCESS_LIST = "system.posix_acl_access"
_VARIABLES = {"CONFIG", "LIMITS", *(name.upper() for name in NAMES)}
"""The known variables, without the prefix."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings with the origin of every value and the file that was read (None: no file)."""

    settings: Settings
    origins: Mapping[str, str]
    file: Path | None


def load(
    overrides: Mapping[str, Any] | None = None,
    *,
    config_file: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> LoadedSettings:
    """Read all sources. Raises ConfigError that names the setting, its origin and what would fit."""
    named = config_file or environment.get(f"{ENVIRONMENT_PREFIX}CONFIG")
    path, here = _named_file(named) if named else _first_file(), Path()
    in_file = _read_file(path, must_be_ours=path == _HERE and not named) if path else {}
    sources: list[tuple[str, Mapping[str, Any], Path]] = [
        (f"file {path}", in_file, path.parent if path else here),
        ("environment", _from_environment(environment), here),
        ("flag", {name: value for name, value in (overrides or {}).items() if value is not None}, here),
    ]
    values = _limits(environment.get(f"{ENVIRONMENT_PREFIX}LIMITS", ""))
    origins = dict.fromkeys((setting.name for setting in SETTING_FIELDS), "default")
    for origin, source, directory in sources:
        for name, value in source.items():
            values[name] = convert(name, value, origin, directory)
            origins[name] = f"{ENVIRONMENT_PREFIX}{name.upper()}" if origin == "environment" else origin
    return LoadedSettings(replace(Settings(), **values), origins, path)


def _limits(text: str) -> dict[str, Any]:
    """Read `LINEAGE_STORE_LIMITS`: name=value, separated by blanks or commas. Raises ConfigError."""
    found = dict[str, Any]()
    for given in text.replace(",", " ").split():
        name, _, value = given.partition("=")
        if name not in _LIMIT_NAMES:
            raise ConfigError(
                f"Unknown limit {name!r} in {ENVIRONMENT_PREFIX}LIMITS.",
                hint=did_you_mean(name, _LIMIT_NAMES),
            )
        found[name] = _fitting(name, value, f"{ENVIRONMENT_PREFIX}LIMITS")
    return found


def _named_file(named: str | Path) -> Path:
    """Return the configuration file that somebody named. Raises ConfigError if it is missing."""
    path = Path(named).expanduser()
    if not os.path.isfile(path):
        raise ConfigError(f"There is no configuration file {path}.", hint=f"Put it there, or {_NAME_ANOTHER}")
    return path


def _first_file() -> Path | None:
    """Return the first configuration file that is there and may be used; None if there is none."""
    of_user = user_directory("config")
    candidates = [_HERE, of_user and of_user / "lineage_store.toml", Path("/etc/lineage_store.toml")]
    if os.path.lexists(_HERE) and not _is_trusted(_HERE):
        candidates.remove(_HERE)
        log.warning("%s is skipped: %s", _HERE.absolute(), _OF_ANOTHER)
    for path in filter(os.path.isfile, filter(None, candidates)):
        if os.access(path, os.R_OK):
            return path
        log.warning("%s is skipped: this user may not read it.", path)
    return None


def read_secret(file: str, what: str) -> str:
    """Return the text of a file that somebody named and that has a secret.

    Raises ConfigError for a file that is no regular one (a FIFO without a writer would be waited for without end), that
    another user could have written, or that cannot be read. Warns about one that everybody may read.
    """
    path = Path(file).expanduser()
    try:
        link = path.lstat()
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"The {what} {file} is no regular file.", hint=_ONLY_OURS)
            if link.st_uid not in (0, os.geteuid()) or not _is_ours_alone(status, opened.fileno()):
                raise ConfigError(
                    f"The {what} {file} is not used: another user could have written it.", hint=_ONLY_OURS
                )
            if status.st_mode & stat.S_IROTH:
                log.warning("every user of this host can read the %s %s: chmod go-r", what, file)
            return opened.read(_LONGEST_TEXT).decode()
    except (OSError, ValueError) as error:
        raise ConfigError(f"The {what} {file} cannot be read: {error}.", hint=_ONLY_OURS) from error


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's values by the names of settings: `url` in the table `[notify]` is `notify_url`."""
    found = dict[str, Any]()
    for name, value in values.items():
        if isinstance(value, dict):
            found |= {f"{name}_{key}": item for key, item in value.items()}
        else:
            found[name] = value
    return found


def _is_trusted(path: Path) -> bool:
    """Return whether this user or root owns the file and any link to it, and nobody else may write to the file.

    Who may write to the directory is of no account: what they put in the file's place is theirs.
    """
    try:
        link, file = path.lstat(), path.stat()
        return link.st_uid in (0, os.geteuid()) and _is_ours_alone(file, path)
    except OSError:
        return False


def _is_ours_alone(status: os.stat_result, file: Path | int) -> bool:
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & stat.S_IWOTH:
        return False
    # With an access list, the group's permission to write may be that of somebody on the list.
    return not status.st_mode & stat.S_IWGRP or (
        _is_own_group(status.st_uid, status.st_gid) and not _has_access_list(file)
    )


def _has_access_list(file: Path | int) -> bool:
    try:
        return sys.platform == "linux" and _ACCESS_LIST in os.listxattr(file)
    except OSError:  # the filesystem has none
        return False


def _is_own_group(uid: int, gid: int) -> bool:
    """Return whether a group is the user's own, of the user's name and without other members, as umask 002 wants it."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return (user.pw_gid, user.pw_name) == (gid, group.gr_name) and {*group.gr_mem} <= {user.pw_name}


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    for variable in sorted(environment):
        if not _is_known(variable):
            name = variable.upper().removeprefix(ENVIRONMENT_PREFIX)
            if name.lower() in _LIMIT_NAMES:
                raise ConfigError(f"{variable} is no setting but a limit.", hint=_limit_hint(name.lower()))
            hint = did_you_mean(name, _VARIABLES, ENVIRONMENT_PREFIX)
            raise ConfigError(f"Unknown setting {variable} (environment).", hint=hint)
    given = {name: environment.get(f"{ENVIRONMENT_PREFIX}{name.upper()}") for name in NAMES}
    return {name: value for name, value in given.items() if value is not None}


def _is_known(variable: str) -> bool:
    """Return whether an environment variable is a setting, or is not meant for this package."""
    if not variable.upper().startswith(ENVIRONMENT_PREFIX):
        return True
    name = variable.removeprefix(ENVIRONMENT_PREFIX)
    return name in _VARIABLES or _OF_OTHERS.fullmatch(name) is not None


def _read_file(path: Path, *, must_be_ours: bool) -> dict[str, Any]:
    """Read a file. `must_be_ours`: raise ConfigError for what another user has put there since it was checked."""
    try:
        with path.open("rb") as file:
            if must_be_ours and not _is_ours_alone(os.fstat(file.fileno()), file.fileno()):
                raise ConfigError(f"The configuration file {path} has just changed: {_OF_ANOTHER}")
            return flattened(tomllib.loads(file.read().decode()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        what = "Let this user read it" if isinstance(error, OSError) else "Write it as TOML in UTF-8"
        raise ConfigError(
            f"The configuration file {path} cannot be read: {error}.", hint=f"{what}, or {_NAME_ANOTHER}"
        ) from error
