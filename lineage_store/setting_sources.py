"""Load settings from their sources: flag > environment > file > default.

In: overrides (flags), `LINEAGE_STORE_*` variables, one TOML file. Out: the `Settings` of `config.py`, and each
value's origin. The file is the first of: the flag, `LINEAGE_STORE_CONFIG`, ./lineage_store.toml, the user's config
directory, /etc/lineage_store.toml. The file in the working directory, which may be a base dir, is skipped with a
warning if another user owns it or may write to it, and any of the last three if this user may not read it. An unknown
variable is refused. Relative paths start in the file's directory, those of other sources in the working directory.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lineage_store.config import NAMES, SETTING_FIELDS, Settings, convert, did_you_mean, user_directory
from lineage_store.errors import ConfigError

log = logging.getLogger(__name__)

ENVIRONMENT_PREFIX = "LINEAGE_STORE_"
_HERE = Path("lineage_store.toml")
# Rest of variables that are not settings: those of the tests, and those that Kubernetes sets for services of our name.
_OF_OTHERS = re.compile(r"TEST_.+|(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_\d+_.+)?)")
_NAME_ANOTHER = f"name another one with --config or {ENVIRONMENT_PREFIX}CONFIG."
_OF_ANOTHER = (
    f"another user could have written it. Take that permission away (chmod go-w), or {_NAME_ANOTHER}"
)
_ONLY_OURS = "Write the secret into a file of yours that nobody else may write to or read (chmod 600)."
_LONGEST_TEXT = 1 << 16
_ACCESS_LIST = "system.posix_acl_access"
_VARIABLES = {"CONFIG", *(name.upper() for name in NAMES)}
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
    values: dict[str, Any] = {}
    origins = dict.fromkeys((setting.name for setting in SETTING_FIELDS), "default")
    for origin, source, directory in sources:
        for name, value in source.items():
            values[name] = convert(name, value, origin, directory)
            origins[name] = f"{ENVIRONMENT_PREFIX}{name.upper()}" if origin == "environment" else origin
    return LoadedSettings(replace(Settings(), **values), origins, path)


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
        log.warning("%s is passed over: %s", _HERE.absolute(), _OF_ANOTHER)
    for path in filter(os.path.isfile, filter(None, candidates)):
        if os.access(path, os.R_OK):
            return path
        log.warning("%s is passed over: this user may not read it.", path)
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
    """Read a file. `must_be_ours`: raise ConfigError for what another user has put there since it was looked at."""
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
