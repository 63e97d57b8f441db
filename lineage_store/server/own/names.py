"""How URLs name base dirs and jobs.

In: paths and train ids, as the store has them. Out: a key of twelve hexadecimal digits for a base dir, and a job's
train id without its `./`; and back. Promises: what a client names is looked up in the store, never on a disk. Names
that are no Unicode are in the form in which the store keeps them.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Annotated
from urllib.parse import quote

from fastapi import Path
from starlette.convertors import PathConvertor, register_url_convertor

from lineage_store.api import LineageStore
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.texts import from_stored, to_stored

_KEY_DIGITS = 12

Base = Annotated[str, Path(description="Key of a base dir, as `GET base-dirs` tells it.")]
Name = Annotated[
    str,
    Path(
        description="A job's train id without its `./`. One that ends like a path of this API, such as `a/tags`, is "
        "named with a slash behind it."
    ),
]


class _JobName(PathConvertor):
    """A job's name in the path of a route, as `{name:job}`: Starlette's own `path` has no line breaks."""

    regex = "(?s:.*)"


register_url_convertor("job", _JobName())


@lru_cache(maxsize=1024)
def key_of(base_dir: str) -> str:
    """What stands for a base dir in URLs: the same wherever the store is."""
    return hashlib.sha256(to_stored(base_dir).encode()).hexdigest()[:_KEY_DIGITS]


def base_dir_of(store: LineageStore, key: str) -> str:
    """The base dir's path. Raises LineageParamSummaryPathError."""
    known = {key_of(base_dir): base_dir for base_dir in store.base_dirs()}
    if key not in known:
        raise LineageParamSummaryPathError(
            f"The store knows no base dir with the key {key!r}.",
            hint=f"Known keys: {', '.join(known) or 'none'}.",
        )
    return known[key]


def train_id_of(name: str) -> str:
    """The id of a job."""
    return f"./{from_stored(name.removesuffix('/'))}"


def name_of(train_id: str) -> str:
    """A job's name in URLs, before it is quoted."""
    return to_stored(train_id).removeprefix("./")


def url_of(base_dir: str, train_id: str) -> str:
    """Where a job is, below `/api/v1/`."""
    return f"jobs/{key_of(base_dir)}/{quote(name_of(train_id))}"
