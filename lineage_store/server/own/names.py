"""The names of base dirs and jobs in URLs.

In: paths and train ids, as the store has them. Out: a key of twelve hexadecimal digits for a base dir, and a job's
train id without its `./`; and back. Promises: a name from a client is looked up in the store, never on a disk. A name
that is not Unicode has the same escapes as in the database.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Path
from starlette.convertors import PathConvertor, register_url_convertor

from lineage_store.api import JobUrl, LineageStore, no_such_key
from lineage_store.texts import to_stored, url_key

_Base = Annotated[str, Path(description="Key of a base dir, as `GET base-dirs` lists it.")]
_Name = Annotated[
    str,
    Path(
        description="A job's train id without its `./`. One that ends like a path of this API, such as `a/tags`, is "
        "named with a slash behind it."
    ),
]


class _JobName(PathConvertor):
    """The convertor of `{name:job}` in a route: like Starlette's `path`, but it also matches line breaks."""

    regex = "(?s:.*)"


register_url_convertor("job", _JobName())


def key_of(base_dir: str) -> str:
    """Return a base dir's key in URLs, which depends on its path alone."""
    return url_key(to_stored(base_dir))


def base_dir_of(store: LineageStore, key: str) -> str:
    """Return the path of a key's base dir. Raises LineageParamSummaryPathError."""
    known = {key_of(base_dir): base_dir for base_dir in list(store.base_dirs)}
    if key not in known:
        raise no_such_key(key, known)
    return known[key]


async def _named(base: _Base, name: _Name) -> JobUrl:
    return JobUrl(base, name)


Named = Annotated[JobUrl, Depends(_named)]
"""The parameter of an endpoint below `{base}/{name:job}`; `Job(store, named)` is the job."""


def url_of(base_dir: str, train_id: str) -> str:
    """Return a job's URL, below `/api/v1/`."""
    name = to_stored(train_id).removeprefix("./")
    return f"jobs/{key_of(base_dir)}/{quote(name)}"
