"""Which base dir is meant: a path becomes the base dir with its id, or an error that lists the known base dirs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_store.api.paths import PathLike, real_path
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.texts import from_stored, to_stored

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class BaseDir:
    """A base dir that the store knows."""

    id: int
    path: Path


def find(connection: Connection, base_dir: PathLike) -> BaseDir:
    """Return the base dir at a path. Raises LineageParamSummaryPathError when the store does not know it."""
    from lineage_store.store.catalog import registry

    path = real_path(base_dir)
    found = registry.base_dir_id(connection, to_stored(str(path)))
    if found is None:
        raise unknown(connection, path)
    return BaseDir(found, path)


def find_all(connection: Connection, base_dir: PathLike | None) -> list[BaseDir]:
    """Return the base dir at a path as a list of one; None: all base dirs of the store. Raises as `find` does."""
    from lineage_store.store.catalog import registry

    if base_dir is not None:
        return [find(connection, base_dir)]
    return [BaseDir(number, Path(from_stored(path))) for number, path in registry.base_dirs(connection)]


def ids(connection: Connection, base_dir: PathLike | None) -> list[int] | None:
    """Return the id of the base dir at a path as a list of one, or None for None, which means all. Raises as `find`."""
    return None if base_dir is None else [find(connection, base_dir).id]


def unknown(connection: Connection, path: Path) -> LineageParamSummaryPathError:
    """Return the error for a base dir that the store does not know: where it was moved to, or the known base dirs."""
    from lineage_store.store.catalog import moved, registry

    if found := moved.moved_to(connection, to_stored(str(path))):
        now = from_stored(found[1])
        return LineageParamSummaryPathError(
            f"The base dir {path} was moved to {now}.", hint=f"Ask for {now}."
        )
    known = ", ".join(from_stored(other) for _, other in registry.base_dirs(connection)) or "none"
    return LineageParamSummaryPathError(
        f"The store does not know the base dir {path}.", hint=f"Ingest it first. Known base dirs: {known}."
    )
