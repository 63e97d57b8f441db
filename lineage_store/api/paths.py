"""The one spelling of a path that the store uses."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from lineage_store.beneath import base_dir_above, resolved
from lineage_store.errors import LineageParamSummaryPathError

PathLike = str | os.PathLike[str]
LONGEST_BYTES, LONGEST_NAME_BYTES = 4095, 255
"""What Linux takes of a path, and of each name in it."""


def real_path(path: PathLike) -> Path:
    """The one spelling of a path that the store uses. Raises LineageParamSummaryPathError for what is no path."""
    return Path(resolved(absolute_path(path)))


def absolute_path(path: PathLike) -> Path:
    """A path as it was named, from the root; unlike `real_path` it asks no disk, which might not answer."""
    try:
        text = os.fspath(path)
    except TypeError as error:
        raise LineageParamSummaryPathError(f"{path!r} is no path; give a str or a pathlib.Path.") from error
    if not isinstance(text, str) or not text.strip() or not _can_be(text):
        raise LineageParamSummaryPathError(f"{path!r} is no path.")
    named = Path(os.path.expanduser(text))
    return named if named.is_absolute() else Path.cwd() / named


def place_of(path: PathLike, known: Container[str]) -> tuple[str, str] | None:
    """The base dir that holds a path, of those known, and the train id there; raises as `real_path` does.

    A symbolic link in the base dir stands for what it leads to, if that is in the base dir too, and else for itself.
    """
    if (found := base_dir_above(absolute_path(path), known)) is None:
        return None
    base_dir, beneath = found
    real = Path(resolved(base_dir / beneath))
    beneath = real.relative_to(base_dir).as_posix() if real.is_relative_to(base_dir) else beneath
    return str(base_dir), "./" if beneath == "." else f"./{beneath}"


def _can_be(text: str) -> bool:
    """Whether a file can have this path at all."""
    try:
        path = os.fsencode(text)
    except UnicodeEncodeError:
        return False
    longest = max(map(len, path.split(b"/")))
    return b"\0" not in path and len(path) <= LONGEST_BYTES and longest <= LONGEST_NAME_BYTES
