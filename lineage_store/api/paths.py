"""The one spelling of a path that the store uses."""

from __future__ import annotations

import os
from pathlib import Path

from lineage_store.errors import LineageParamSummaryPathError

PathLike = str | os.PathLike[str]


def real_path(path: PathLike) -> Path:
    """The one spelling of a path that the store uses. Raises LineageParamSummaryPathError for what is no path."""
    try:
        text = os.fspath(path)
    except TypeError as error:
        raise LineageParamSummaryPathError(f"{path!r} is no path; give a str or a pathlib.Path.") from error
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise LineageParamSummaryPathError(f"{path!r} is no path.")
    return Path(os.path.realpath(os.path.expanduser(text)))
