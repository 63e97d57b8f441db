"""Which job an argument means: a directory, an id below a base dir, a pair of both, or a job of the store's own lists.

In: the user's argument, and perhaps a base dir. Out: (base dir, train id), which the store need not know.
Promises: an absolute path, or a path to an existing directory, means the job there if it is below a base dir of the
store; `./name` or `name` means the job in the store's only base dir, or in the only one that has such a job; anything
else is an error that says what is known.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_store.errors import LineageParamSummaryPathError, LineageParamTypeError, TrainJobNotFoundError
from lineage_store.paths import PathLike, place_of, real_path
from lineage_store.texts import from_stored, to_stored

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from lineage_store.query.jobs import JobRow
    from lineage_store.query.table import Table
    from lineage_store.store.database.session import Session

    JobLike: TypeAlias = PathLike | tuple[PathLike, str] | JobRow
    JobsLike: TypeAlias = Iterable[JobLike] | Table


def find_each(session: Session, jobs: JobsLike) -> list[tuple[str, str]]:
    """Return (base dir, train id) of each job, without repetitions.

    `jobs` may be a table, of ours or of pandas, polars or Arrow, with the columns `base_dir` and `summary_dir`. Raises
    as `find_one`.
    """
    if isinstance(jobs, str | os.PathLike):
        raise LineageParamTypeError(f"jobs = {jobs!r} must be a list of jobs.", hint="Write [job].")
    listed: Any = jobs
    columns = getattr(jobs, "column_names", getattr(jobs, "columns", None))
    if columns is not None:
        if not {"base_dir", "summary_dir"} <= set(columns):
            raise LineageParamTypeError("The table of jobs has no columns base_dir and summary_dir.")
        listed = zip(*(map(str, listed[name]) for name in ("base_dir", "summary_dir")), strict=True)
    return list(dict.fromkeys(find_one(session, job) for job in listed))


def find_one(session: Session, job: JobLike) -> tuple[str, str]:
    """Return (base dir, train id) of a job.

    Raises TrainJobNotFoundError, LineageParamSummaryPathError, LineageParamTypeError.
    """
    match job:
        case str() | os.PathLike():
            return find_job(session, os.fspath(job))
        case (base_dir, str(train_id)):
            return str(real_path(base_dir)), _train_id(train_id)
        case _ if hasattr(job, "train_id"):
            return job.base_dir, job.train_id
    raise LineageParamTypeError(f"{job!r} is no job: give a directory, an id ./name or (base dir, id).")


def ids(session: Session, base_dir: PathLike | None) -> list[int] | None:
    """Return the id of the base dir at a path as a list of one, or None for None, which means all. Raises as `find`."""
    return None if base_dir is None else [find(session, base_dir).id]


def find_job(
    session: Session, text: str, base_dir: str | None = None, *, removed: bool = False
) -> tuple[str, str]:
    """Return (base dir, train id) of a text; `removed`: also of a job that was removed from the store.

    Raises TrainJobNotFoundError, LineageParamSummaryPathError.
    """
    known = [str(each.path) for each in find_all(session, None)]
    if not known:
        raise TrainJobNotFoundError("The store is empty.", hint="Run `lineage-store ingest BASE_DIR` first.")
    if base_dir is not None and not Path(text).is_absolute():
        return str(real_path(base_dir)), _train_id(text)
    place = place_of(text, known)
    if place is not None and (Path(text).is_absolute() or os.path.isdir(real_path(text))):
        return place
    if Path(text).is_absolute():
        raise TrainJobNotFoundError(
            f"{text} is not below a base dir of the store ({', '.join(known)}).",
            hint=f"`lineage-store why {text}` explains what to do.",
        )
    train_id = _train_id(text)
    return known[0] if len(known) == 1 else _only_one_with(session, train_id, removed=removed), train_id


def _train_id(text: str) -> str:
    name = text.removeprefix("./").strip("/")
    return "./" if name in ("", ".") else f"./{name}"


def _only_one_with(session: Session, train_id: str, *, removed: bool) -> str:
    """Return the only base dir that has such a job; raises if there is none or several."""
    from lineage_store.store.catalog import registry

    stored = to_stored(train_id)
    having = [
        str(each.path)
        for each in find_all(session, None)
        if registry.job_id(session, each.id, stored) is not None
        or (removed and registry.of_job(session, each.id, stored) is not None)
    ]
    if len(having) == 1:
        return having[0]
    if having:
        raise LineageParamSummaryPathError(
            f"Several base dirs have a job {train_id}: {', '.join(having)}.",
            hint="Say which with --base-dir, in Python by (base dir, id).",
        )
    raise TrainJobNotFoundError(
        f"No base dir of the store has a job {train_id}.", hint="`lineage-store jobs` lists them."
    )


# ---- Which base dir is meant: a path becomes the base dir with its id, or an error that lists the known base dirs


@dataclass(frozen=True, slots=True)
class BaseDir:
    """A base dir that the store knows."""

    id: int
    path: Path


def find(session: Session, base_dir: PathLike) -> BaseDir:
    """Return the base dir at a path. Raises LineageParamSummaryPathError when the store does not know it."""
    from lineage_store.store.catalog import registry

    path = real_path(base_dir)
    found = registry.base_dir_id(session, to_stored(str(path)))
    if found is None:
        raise unknown(session, path)
    return BaseDir(found, path)


def find_all(session: Session, base_dir: PathLike | None) -> list[BaseDir]:
    """Return the base dir at a path as a list of one; None: all base dirs of the store. Raises as `find` does."""
    from lineage_store.store.catalog import registry

    if base_dir is not None:
        return [find(session, base_dir)]
    return [BaseDir(number, Path(from_stored(path))) for number, path in registry.base_dirs(session)]


def unknown(session: Session, path: Path) -> LineageParamSummaryPathError:
    """Return the error for a base dir that the store does not know: where it was moved to, or the known base dirs."""
    from lineage_store.store.catalog import registry

    if found := registry.moved_to(session, to_stored(str(path))):
        now = from_stored(found[1])
        return LineageParamSummaryPathError(
            f"The base dir {path} was moved to {now}.", hint=f"Ask for {now}."
        )
    known = ", ".join(from_stored(other) for _, other in registry.base_dirs(session)) or "none"
    return LineageParamSummaryPathError(
        f"The store does not know the base dir {path}.", hint=f"Ingest it first. Known base dirs: {known}."
    )
