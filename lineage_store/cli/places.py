"""Which job an argument means: a directory, or an id below a base dir.

In: what the user typed, perhaps a base dir. Out: (base dir, train id) of a job that the store may know.
Promises: a path that leads below a base dir of the store is that job; `./name` or `name` is looked up where there is
one base dir, or one that has such a job; anything else is an error that lists what is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lineage_store.errors import LineageParamSummaryPathError, TrainJobNotFoundError

if TYPE_CHECKING:
    from lineage_store.api import LineageStore


def find_job(store: LineageStore, text: str, base_dir: str | None = None) -> tuple[str, str]:
    """(base dir, train id); raises TrainJobNotFoundError, LineageParamSummaryPathError."""
    return _find(store, text, base_dir, removed=False)


def find_removed(store: LineageStore, text: str, base_dir: str | None = None) -> tuple[str, str]:
    """(base dir, train id) of a job that was removed, or is there; raises as `find_job` does."""
    return _find(store, text, base_dir, removed=True)


def _find(store: LineageStore, text: str, base_dir: str | None, *, removed: bool) -> tuple[str, str]:
    from lineage_store.api import place_of, real_path

    known = store.base_dirs()
    if not known:
        raise TrainJobNotFoundError("The store is empty.", hint="Run `lineage-store ingest BASE_DIR` first.")
    if base_dir is not None and not Path(text).is_absolute():
        return str(real_path(base_dir)), _train_id(text)
    place = place_of(text, known)
    if place is not None and (Path(text).is_absolute() or real_path(text).is_dir()):
        return place
    if Path(text).is_absolute():
        raise TrainJobNotFoundError(f"{text} is not below a base dir of the store ({', '.join(known)}).")
    train_id = _train_id(text)
    return known[0] if len(known) == 1 else _only_one_with(store, train_id, removed=removed), train_id


def find_base_dir(store: LineageStore, base_dir: str | None) -> str | None:
    """The base dir that was named; None for all."""
    from lineage_store.api import real_path

    return None if base_dir is None else str(real_path(base_dir))


def _train_id(text: str) -> str:
    name = text.removeprefix("./").strip("/")
    return "./" if name in ("", ".") else f"./{name}"


def _only_one_with(store: LineageStore, train_id: str, *, removed: bool) -> str:
    """The one base dir that has such a job."""
    having = store.base_dirs_with(train_id, removed=removed)
    if len(having) == 1:
        return having[0]
    if having:
        raise LineageParamSummaryPathError(
            f"Several base dirs have a job {train_id}: {', '.join(having)}.",
            hint="Say which with --base-dir.",
        )
    raise TrainJobNotFoundError(
        f"No base dir of the store has a job {train_id}.", hint="`lineage-store jobs` lists them."
    )
