"""Which base dir is meant: what the caller gave becomes an id, or the one error that lists what the store knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from lineage_store.api.paths import PathLike, real_path
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.ingest.base_dirs import stored_path
from lineage_store.store.catalog import registry
from lineage_store.texts import from_stored


@dataclass(frozen=True, slots=True)
class BaseDir:
    """A base dir that the store knows."""

    id: int
    path: Path


def find(connection: Connection, base_dir: PathLike) -> BaseDir:
    """The base dir at a path. Raises LineageParamSummaryPathError when the store does not know it."""
    path = real_path(base_dir)
    found = registry.base_dir_id(connection, stored_path(path))
    if found is None:
        raise unknown(connection, path)
    return BaseDir(found, path)


def find_all(connection: Connection, base_dir: PathLike | None) -> list[BaseDir]:
    """The one that is named, or (None) all that the store knows. Raises as `find` does."""
    if base_dir is not None:
        return [find(connection, base_dir)]
    return [BaseDir(number, Path(from_stored(path))) for number, path in registry.base_dirs(connection)]


def unknown(connection: Connection, path: Path) -> LineageParamSummaryPathError:
    """The error that names a base dir which the store does not know, and those that it does."""
    known = ", ".join(from_stored(other) for _, other in registry.base_dirs(connection)) or "none"
    return LineageParamSummaryPathError(
        f"The store does not know the base dir {path}.", hint=f"Ingest it first. Known base dirs: {known}."
    )
