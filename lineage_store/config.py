"""Settings: flag > environment > file > default, each known by one row below.

In: overrides (flags), `LINEAGE_STORE_*` variables, one TOML file. Out: a frozen `Settings`, and each value's origin.
The file is the first of: the flag, `LINEAGE_STORE_CONFIG`, ./lineage_store.toml, the user's config directory,
/etc/lineage_store.toml. A value that does not fit is refused with the name, the place and what fits.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from lineage_store.errors import ConfigError

ENVIRONMENT_PREFIX = "LINEAGE_STORE_"
MEBIBYTE = 1 << 20


def _setting(default: Any, meaning: str, *, least: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"meaning": meaning, "least": least, "choices": choices})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, its default and its meaning."""

    database_url: str = _setting("", "database of the store; empty: SQLite in the user's state directory")
    base_dirs: tuple[str, ...] = _setting((), "directories of job directories that the daemon follows")
    recursive: bool = _setting(False, "look for jobs at any depth instead of one level below a base dir")
    follow_symlinks: bool = _setting(False, "follow symbolic links that stay inside the base dir")
    allow_network_filesystem: bool = _setting(
        False, "use SQLite on a network filesystem all the same (unsafe)"
    )
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
        "seconds that the daemon's reading process may take for one batch, which ends after a tenth of them",
        least=0.1,
    )
    reading_memory_bytes: int = _setting(
        1024 * MEBIBYTE, "memory that the daemon's reading process may take", least=64 * MEBIBYTE
    )
    batch_rows: int = _setting(50_000, "rows in one write transaction, about", least=1)
    batch_bytes: int = _setting(32 * MEBIBYTE, "log bytes in one write transaction, about", least=4096)
    batch_files: int = _setting(500, "log files in one write transaction", least=1)
    cycle_history: int = _setting(10_000, "ingest cycles kept per base dir", least=1)
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


def load(
    overrides: Mapping[str, Any] | None = None,
    *,
    config_file: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> LoadedSettings:
    """Read all sources. Raises ConfigError that names the setting, its place and what fits."""
    path = find_file(config_file, environment)
    sources: list[tuple[str, Mapping[str, Any]]] = [
        (f"file {path}", _read_file(path) if path else {}),
        ("environment", _from_environment(environment)),
        ("flag", {name: value for name, value in (overrides or {}).items() if value is not None}),
    ]
    values: dict[str, Any] = {}
    origins = dict.fromkeys((setting.name for setting in SETTING_FIELDS), "default")
    for origin, source in sources:
        for name, value in source.items():
            values[name] = convert(name, value, origin)
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
    candidates = [
        Path("lineage_store.toml"),
        _user_config_dir() / "lineage_store.toml",
        Path("/etc/lineage_store.toml"),
    ]
    return next((path for path in candidates if path.is_file()), None)


def convert(name: str, value: Any, origin: str) -> Any:
    """Turn a raw value (text from the environment, TOML value, flag) into the setting's type, or refuse it."""
    if name not in _NAMES:
        known = ", ".join(sorted(_NAMES))
        raise ConfigError(f"Unknown setting {name!r} ({origin}).", hint=f"Known settings: {known}.")
    converted = _convert_type(_TYPES[name], value)
    metadata = next(setting.metadata for setting in SETTING_FIELDS if setting.name == name)
    if converted is None:
        wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
        what = wanted.get(_TYPES[name], "a list of paths")
        raise ConfigError(f"Setting {name} = {value!r} ({origin}) must be {what}.")
    if metadata["least"] is not None and not converted >= metadata["least"]:
        raise ConfigError(f"Setting {name} = {value!r} ({origin}) must be at least {metadata['least']}.")
    if metadata["choices"] and converted not in metadata["choices"]:
        raise ConfigError(
            f"Setting {name} = {value!r} ({origin}) must be one of {', '.join(metadata['choices'])}."
        )
    return converted


def _convert_type(wanted: Any, value: Any) -> Any:
    if wanted is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        return value if isinstance(value, bool) else words.get(str(value).lower())
    if wanted is str:
        return value if isinstance(value, str) else None
    if wanted in (int, float):
        if isinstance(value, bool):
            return None
        try:
            return (
                wanted(value) if isinstance(value, str) or wanted is float or isinstance(value, int) else None
            )
        except (ValueError, TypeError):
            return None
    parts = value.split(os.pathsep) if isinstance(value, str) else value
    if isinstance(parts, list | tuple) and all(isinstance(part, str) and part for part in parts):
        return tuple(parts)
    return None


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    found = {
        setting.name: environment.get(f"{ENVIRONMENT_PREFIX}{setting.name.upper()}")
        for setting in SETTING_FIELDS
    }
    return {name: value for name, value in found.items() if value is not None}


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error}.") from error


def _user_config_dir() -> Path:
    from platformdirs import user_config_path

    return user_config_path("lineage-store")
