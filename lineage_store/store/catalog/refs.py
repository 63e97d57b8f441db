"""Which base dir and which job is meant: a name is resolved once, and whatever follows takes ids.

In: what a person typed (a directory, an id ./name, a pair of base dir and id), rows of the store's own lists, tables of
jobs, names in URLs. Out: `BaseDirRef`, `JobRef`, `JobName`, or an error that says what is known.
Promises: what the store has by the text that was given is found by SQL alone, however long a disk takes to answer, and
wherever the directory is by now. The disk is asked only about a path that the store does not have by its text, because
symbolic links may lead from it to one that the store has. A name in a URL never asks it. An absolute path, or a path to
an existing directory, means the job there if it is below a base dir of the store; `./name` or `name` means the job in
the store's only base dir, or in the only one that has such a job. Any number of jobs takes two statements.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lineage_store.errors import LineageParamSummaryPathError, LineageParamTypeError, TrainJobNotFoundError
from lineage_store.paths import PathLike, absolute_path, place_of, real_path
from lineage_store.texts import from_stored, shown, to_stored, url_key

if TYPE_CHECKING:
    from typing import TypeAlias

    from sqlalchemy import Select

    from lineage_store.store.database.sql import Session

    JobLike: TypeAlias = "PathLike | tuple[PathLike, str] | _Row | _Resolved | JobUrl | JobRef | JobName"
    JobsLike: TypeAlias = "Iterable[JobLike] | _Table"


class BaseDirRef(NamedTuple):
    """A base dir that the store knows."""

    id: int
    path: Path
    """As the store has it: for messages, and to open files below it."""


class JobRef(NamedTuple):
    """A job that the store knows."""

    base_dir_id: int
    job_id: int


class JobName(NamedTuple):
    """A job by its names, which the store need not know."""

    base_dir: BaseDirRef
    train_id: str
    """`./name` below the base dir."""

    @property
    def place(self) -> tuple[str, str]:
        """Its names as answers have them: the path of its base dir, and its id."""
        return str(self.base_dir.path), self.train_id


class JobUrl(NamedTuple):
    """A job as a URL names it: the key of its base dir, and its stored id without the `./`."""

    key: str
    name: str


class _Row(Protocol):
    """A row of the store's own lists of jobs."""

    @property
    def base_dir(self) -> str: ...
    @property
    def train_id(self) -> str: ...


class _Resolved(Protocol):
    """A `Job`."""

    def resolve(self, session: Session) -> JobRef: ...


class _Table(Protocol):
    """A table of jobs, of ours or of pandas, polars or Arrow, with the columns `base_dir` and `summary_dir`."""

    def __getitem__(self, name: Any, /) -> Any: ...


# ---- Jobs


def job(session: Session, given: JobLike, base_dir: PathLike | None = None) -> JobRef:
    """Return the job that is meant; `base_dir`: where it is, if `given` is an id.

    Raises TrainJobNotFoundError, LineageParamSummaryPathError, LineageParamTypeError.
    """
    return each_job(session, [given], base_dir)[0]


def jobs(session: Session, given: JobsLike) -> list[JobRef]:
    """Return the jobs that are meant, without repetitions. Raises as `job`."""
    return list(dict.fromkeys(each_job(session, listed_jobs(given))))


def each_job(session: Session, given: Sequence[JobLike], base_dir: PathLike | None = None) -> list[JobRef]:
    """Return the job that each means. Raises as `job`."""
    known = _Known(session)
    found = zip(given, known.resolved(given, base_dir), strict=True)
    return [ref or _required(session, asked, base_dir, known) for asked, ref in found]


def listed_jobs(given: JobsLike) -> list[JobLike]:
    """Return the rows of a table of jobs as pairs, and a list as it is. Raises LineageParamTypeError."""
    if isinstance(given, str | os.PathLike):
        raise LineageParamTypeError(f"jobs = {given!r} must be a list of jobs.", hint="Write [job].")
    table: Any = given
    columns = getattr(given, "column_names", getattr(given, "columns", None))
    if columns is None:
        return list(table)
    if not {"base_dir", "summary_dir"} <= set(columns):
        raise LineageParamTypeError("The table of jobs has no columns base_dir and summary_dir.")
    return list(zip(*(map(str, table[name]) for name in ("base_dir", "summary_dir")), strict=True))


def known_among(session: Session, given: Sequence[JobLike]) -> list[JobRef | None]:
    """Return the job that each means; None for one that the store does not know. Raises as `base_dir`."""
    known = _Known(session)
    found = known.resolved(given, None)
    for number, asked in enumerate(given):
        if found[number] is None and (
            isinstance(asked, str | os.PathLike) or not known.has_base_dir_of(asked)
        ):
            with suppress(TrainJobNotFoundError):
                found[number] = _required(session, asked, None, known)
    return found


def name(
    session: Session, given: JobLike, base_dir: PathLike | None = None, *, removed: bool = False
) -> JobName:
    """Return the names of the job that is meant, which the store need not know.

    `removed`: an id may also be that of a job that was removed. Raises as `job`.
    """
    known = _Known(session)
    if (ref := known.resolved([given], base_dir)[0]) is not None:
        return job_names(session, [ref])[0]
    return _name_on_disk(session, given, base_dir, known, removed=removed)


def job_names(session: Session, refs: Sequence[JobRef]) -> list[JobName]:
    """Return the names of jobs. Raises TrainJobNotFoundError if one of them is gone."""
    found = {
        JobRef(base_dir_id, number): JobName(
            BaseDirRef(base_dir_id, Path(from_stored(path))), from_stored(train_id)
        )
        for number, base_dir_id, train_id, path in _rows(
            session, "names", wanted=[ref.job_id for ref in refs]
        )
    }
    for ref in refs:
        if ref not in found:
            raise TrainJobNotFoundError("The job is gone from the store.", hint="Name it again.")
    return [found[ref] for ref in refs]


def no_such_job(train_id: str, base_dir: Path | str) -> TrainJobNotFoundError:
    """Return the error for a job that the store does not know."""
    return TrainJobNotFoundError(
        f"The store knows no train job {train_id!r} below {base_dir}.",
        hint="Ids look like ./name: `lineage-store jobs` lists them, `why PATH` explains why one is missing.",
    )


def no_such_key(key: str, known: Iterable[str]) -> LineageParamSummaryPathError:
    """Return the error for a key in a URL that stands for no base dir."""
    return LineageParamSummaryPathError(
        f"The store knows no base dir with the key {key!r}.",
        hint=f"Known keys: {', '.join(known) or 'none'}.",
    )


def stored_id(train_id: str) -> str:
    """Return a train id as the store has it. Raises LineageParamTypeError when it is no text."""
    if not isinstance(train_id, str):
        raise LineageParamTypeError(f"train_id = {shown(train_id)} must be a text such as './run_7'.")
    return to_stored(train_id)


# ---- Base dirs


def base_dir(session: Session, given: PathLike) -> BaseDirRef:
    """Return the base dir at a path. Raises LineageParamSummaryPathError when the store does not know it."""
    found = known_base_dir(session, given)
    if found is None:
        raise unknown(session, real_path(given))
    return found


def known_base_dir(session: Session, given: PathLike) -> BaseDirRef | None:
    """Return the base dir at a path; None when the store does not know it."""
    path = as_written(given)
    found = None if path is None else _at(session, path)
    return found or _at(session, real_path(given))


def base_dirs(session: Session, given: PathLike | None = None) -> list[BaseDirRef]:
    """Return the base dir at a path as a list of one; None: all base dirs of the store. Raises as `base_dir`."""
    from lineage_store.store.catalog import registry

    if given is not None:
        return [base_dir(session, given)]
    return [
        BaseDirRef(number, Path(from_stored(path))) for number, path in registry.stored_base_dirs(session)
    ]


def ids(session: Session, given: PathLike | None) -> list[int] | None:
    """Return the id of the base dir at a path as a list of one, or None for None, which means all. Raises likewise."""
    return None if given is None else [base_dir(session, given).id]


def spelling(session: Session, path: PathLike) -> Path:
    """Return a path as the store spells it: as it is written, if that is below a base dir; else with links resolved."""
    known, written = {each.path for each in base_dirs(session)}, as_written(path)
    if written is not None and not known.isdisjoint((written, *written.parents)):
        return written
    return real_path(path)


def unknown(session: Session, path: Path) -> LineageParamSummaryPathError:
    """Return the error for a base dir that the store does not know: where it was moved to, or the known base dirs."""
    from lineage_store.store.catalog import registry

    if found := registry.moved_to(session, to_stored(str(path))):
        now = from_stored(found[1])
        return LineageParamSummaryPathError(
            f"The base dir {path} was moved to {now}.", hint=f"Ask for {now}."
        )
    known = ", ".join(str(each.path) for each in base_dirs(session)) or "none"
    return LineageParamSummaryPathError(
        f"The store does not know the base dir {path}.", hint=f"Ingest it first. Known base dirs: {known}."
    )


def as_written(path: PathLike) -> Path | None:
    """Return a path made absolute as it is written; None where a `..` behind a link could mean something else.

    The working directory, from which a relative path starts, has no links in it. Raises LineageParamSummaryPathError
    for an invalid path.
    """
    whole = absolute_path(path)
    relative = os.fspath(path).split("/")
    while relative and relative[0] in ("..", ".", "") and not os.path.isabs(path):
        del relative[0]
    return None if ".." in relative else Path(os.path.normpath(whole))


def _at(session: Session, path: Path) -> BaseDirRef | None:
    from lineage_store.store.catalog import registry

    found = registry.base_dir_id(session, to_stored(str(path)))
    return None if found is None else BaseDirRef(found, path)


# ---- How a name is resolved: by its text, for all names at once; then one by one, with the disk


class _Known:
    """The base dirs of the store, by which names are resolved without the disk."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.base_dirs = {str(each.path): each for each in base_dirs(session)}
        self.by_key = {url_key(to_stored(path)): each for path, each in self.base_dirs.items()}

    def resolved(self, given: Sequence[JobLike], within: PathLike | None) -> list[JobRef | None]:
        """Return the job that each means by its text; None for one that is not known by it."""
        asked = [(each, list(self._names(each, within))) for each in given]
        ids = {to_stored(name.train_id) for _, names in asked for name in names}
        of_base_dirs = {name.base_dir.id for _, names in asked for name in names}
        rows = _rows(self._session, "ids", of_base_dirs=of_base_dirs, wanted=ids) if ids else []
        there = {(base_dir_id, train_id): number for number, base_dir_id, train_id in rows}
        return [self._ready(each) or self._chosen(names, there) for each, names in asked]

    def _ready(self, given: Any) -> JobRef | None:
        """Return what is a reference already, or what a `Job` finds."""
        if isinstance(given, JobRef):
            return given
        if isinstance(given, os.PathLike) or not hasattr(given, "resolve"):
            return None
        with suppress(TrainJobNotFoundError):
            found: JobRef = given.resolve(self._session)
            return found
        return None

    def has_base_dir_of(self, given: JobLike) -> bool:
        """Whether the base dir of a job is known by its text."""
        return any(True for _ in self._names(given, None))

    @staticmethod
    def _chosen(names: Sequence[JobName], there: Mapping[tuple[int, str], int]) -> JobRef | None:
        found = [
            JobRef(name.base_dir.id, there[key])
            for name in names
            if (key := (name.base_dir.id, to_stored(name.train_id))) in there
        ]
        return found[0] if len(found) == 1 else None

    def _names(self, given: JobLike, within: PathLike | None) -> Iterator[JobName]:
        """Yield the names that the text may mean; it means one if the store has exactly one of them."""
        match given:
            case JobRef():
                return
            case JobName():
                yield given
            case JobUrl(key, name):
                if key in self.by_key:
                    yield JobName(self.by_key[key], f"./{from_stored(name.removesuffix('/'))}")
            case str() | os.PathLike():
                yield from self._of_text(os.fspath(given), within)
            case (base_dir, train_id):
                yield from self._below(base_dir, train_id)
            case _ if hasattr(given, "resolve"):
                return
            case _ if hasattr(given, "train_id"):
                yield from self._below(given.base_dir, given.train_id)
            case _:
                raise LineageParamTypeError(
                    f"{given!r} is no job: give a directory, an id ./name or (base dir, id)."
                )

    def _below(self, base_dir: PathLike, train_id: str) -> Iterator[JobName]:
        stored_id(train_id)  # raises when it is no text
        path = as_written(base_dir)
        if path is not None and str(path) in self.base_dirs:
            yield JobName(self.base_dirs[str(path)], _train_id(train_id))

    def _of_text(self, text: str, within: PathLike | None) -> Iterator[JobName]:
        if within is not None and not os.path.isabs(text):
            yield from self._below(within, text)
            return
        inside = self.around(text)
        if inside is not None:
            yield inside
        elif not os.path.isabs(text):
            yield from (JobName(each, _train_id(text)) for each in self.base_dirs.values())

    def around(self, text: str) -> JobName | None:
        """Return the job that a path names as it is written, whether or not the store knows it."""
        path = as_written(text)
        if path is None:
            return None
        for above in (path, *path.parents):
            if (ref := self.base_dirs.get(str(above))) is not None:
                return JobName(ref, _train_id(path.relative_to(above).as_posix()))
        return None


def _required(session: Session, given: JobLike, base_dir: PathLike | None, known: _Known) -> JobRef:
    from lineage_store.store.catalog import registry

    found = _name_on_disk(session, given, base_dir, known, removed=False)
    number = registry.job_id(session, found.base_dir.id, to_stored(found.train_id))
    if number is None:
        raise no_such_job(found.train_id, found.base_dir.path)
    return JobRef(found.base_dir.id, number)


def _name_on_disk(
    session: Session, given: JobLike, within: PathLike | None, known: _Known, *, removed: bool
) -> JobName:
    """Return the names of a job that the store does not have by its text."""
    match given:
        case JobName():
            return given
        case JobUrl(key, name):
            if key not in known.by_key:
                raise no_such_key(key, known.by_key)
            return JobName(known.by_key[key], f"./{from_stored(name.removesuffix('/'))}")
        case str() | os.PathLike():
            return _path_on_disk(session, os.fspath(given), within, known, removed=removed)
    row: Any = given  # a pair, a `Job` or a row of a list
    if isinstance(row, tuple):
        return JobName(base_dir(session, row[0]), _train_id(row[1]))
    if hasattr(row, "resolve"):
        return job_names(session, [row.resolve(session)])[0]
    return JobName(base_dir(session, row.base_dir), row.train_id)


def _path_on_disk(
    session: Session, text: str, within: PathLike | None, known: _Known, *, removed: bool
) -> JobName:
    if not known.base_dirs:
        raise TrainJobNotFoundError("The store is empty.", hint="Run `lineage-store ingest BASE_DIR` first.")
    is_absolute = os.path.isabs(text)
    if within is not None and not is_absolute:
        return JobName(base_dir(session, within), _train_id(text))
    having = [] if is_absolute else _having(session, text, known, removed=removed)
    if removed and len(having) == 1:
        return having[0]
    place = place_of(text, known.base_dirs)
    if place is not None and (is_absolute or os.path.isdir(real_path(text))):
        return JobName(known.base_dirs[place[0]], place[1])
    if is_absolute:
        if (inside := known.around(text)) is not None:
            return inside
        raise TrainJobNotFoundError(
            f"{text} is not below a base dir of the store ({', '.join(known.base_dirs)}).",
            hint=f"`lineage-store why {text}` explains what to do.",
        )
    if len(known.base_dirs) == 1:
        having = [JobName(each, _train_id(text)) for each in known.base_dirs.values()]
    if len(having) == 1:
        return having[0]
    if having:
        raise LineageParamSummaryPathError(
            f"Several base dirs have a job {_train_id(text)}: {', '.join(each.place[0] for each in having)}.",
            hint="Say which with --base-dir, in Python by (base dir, id).",
        )
    raise TrainJobNotFoundError(
        f"No base dir of the store has a job {_train_id(text)}.", hint="`lineage-store jobs` lists them."
    )


def _having(session: Session, text: str, known: _Known, *, removed: bool) -> list[JobName]:
    """Return the jobs of this id, one of each base dir; `removed`: also those that were removed."""
    from lineage_store.store.catalog import registry

    stored = to_stored(_train_id(text))
    return [
        JobName(each, _train_id(text))
        for each in known.base_dirs.values()
        if registry.job_id(session, each.id, stored) is not None
        or (removed and registry.of_job(session, each.id, stored) is not None)
    ]


def _train_id(text: str) -> str:
    name = text.removeprefix("./").strip("/")
    return "./" if name in ("", ".") else f"./{name}"


def _rows(session: Session, what: str, **wanted: Iterable[object]) -> Sequence[Any]:
    from lineage_store.store.database.sql import Query, listed

    dialect = session.kind
    return session.rows(
        Query(_statements(dialect)[what]), **{n: listed(dialect, v) for n, v in wanted.items()}
    )


@cache
def _statements(dialect: str) -> Mapping[str, Select[Any]]:
    """Return the SELECTs of job ids by names, and of names by job ids."""
    from sqlalchemy import bindparam, select

    from lineage_store.store.database.sql import one_of
    from lineage_store.store.schema.tables import base_dir as base_dirs
    from lineage_store.store.schema.tables import train_job

    wanted: Any = bindparam("wanted")
    own = select(train_job.c.id, train_job.c.base_dir_id, train_job.c.train_id)
    return {
        "ids": own.where(
            one_of(dialect, train_job.c.base_dir_id, bindparam("of_base_dirs")),
            one_of(dialect, train_job.c.train_id, wanted),
        ),
        "names": own.add_columns(base_dirs.c.path)
        .join(base_dirs, base_dirs.c.id == train_job.c.base_dir_id)
        .where(one_of(dialect, train_job.c.id, wanted), ~base_dirs.c.leaving),
    }
