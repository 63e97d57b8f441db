"""The one spelling of a path that the store uses."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from lineage_store.beneath import base_dir_above, resolved
from lineage_store.errors import LineageParamSummaryPathError

PathLike = str | os.PathLike[str]
LONGEST_BYTES, LONGEST_NAME_BYTES = 4095, 255
"""The longest path, and the longest name in a path, that Linux accepts."""


def real_path(path: PathLike) -> Path:
    """Return the one spelling of a path that the store uses: absolute, with symbolic links resolved.

    Raises LineageParamSummaryPathError for an invalid path.
    """
    return Path(resolved(absolute_path(path)))


def absolute_path(path: PathLike) -> Path:
    """Return a path made absolute. Unlike `real_path`, this does not access the disk, which might not answer.

    Raises LineageParamSummaryPathError for an invalid path.
    """
    try:
        text = os.fspath(path)
    except TypeError as error:
        raise LineageParamSummaryPathError(f"{path!r} is no path; give a str or a pathlib.Path.") from error
    if not isinstance(text, str) or not text.strip() or not _can_be(text):
        raise LineageParamSummaryPathError(f"{path!r} is no path.")
    named = Path(os.path.expanduser(text))
    return named if named.is_absolute() else Path.cwd() / named


def place_of(path: PathLike, known: Container[str]) -> tuple[str, str] | None:
    """Return which of the `known` base dirs contains a path, and the train id of the path; None if none does.

    A symbolic link in the base dir is resolved if its target is in the base dir too. Raises as `real_path` does.
    """
    if (found := base_dir_above(absolute_path(path), known)) is None:
        return None
    base_dir, beneath = found
    real = Path(resolved(base_dir / beneath))
    beneath = real.relative_to(base_dir).as_posix() if real.is_relative_to(base_dir) else beneath
    return str(base_dir), "./" if beneath == "." else f"./{beneath}"


def _can_be(text: str) -> bool:
    """Whether Linux allows a file to have this path."""
    try:
        path = os.fsencode(text)
    except UnicodeEncodeError:
        return False
    longest = max(map(len, path.split(b"/")))
    return b"\0" not in path and len(path) <= LONGEST_BYTES and longest <= LONGEST_NAME_BYTES
