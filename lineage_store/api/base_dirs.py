"""Which base dirs an operation is about, and which have a job."""

from __future__ import annotations

from lineage_store.api import LineageStore, PathLike, real_path
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.store.catalog import registry, tombstones
from lineage_store.store.database import engine as engines
from lineage_store.texts import from_stored, to_stored


def base_dirs(store: LineageStore, base_dir: PathLike | None) -> list[tuple[int, str]]:
    """(id, path) of one base dir, or of all. Raises LineageParamSummaryPathError when the store does not know it."""
    with engines.reading(store.engine) as connection:
        known = [(number, from_stored(path)) for number, path in registry.base_dirs(connection)]
    if base_dir is None:
        return known
    wanted = str(real_path(base_dir))
    found = [(number, path) for number, path in known if path == wanted]
    if not found:
        names = ", ".join(path for _, path in known) or "none"
        raise LineageParamSummaryPathError(
            f"The store does not know the base dir {wanted}.", hint=f"Known base dirs: {names}."
        )
    return found


def base_dirs_with(store: LineageStore, train_id: str, *, removed: bool = False) -> list[str]:
    """The base dirs that have a job of this id, by path; with `removed`, those too from which it was removed."""
    stored = to_stored(train_id)
    with engines.reading(store.engine) as connection:
        return [
            from_stored(path)
            for number, path in registry.base_dirs(connection)
            if registry.job_id(connection, number, stored) is not None
            or (removed and tombstones.of_job(connection, number, stored) is not None)
        ]
