"""Where the store is when nobody says: a SQLite file in the user's state directory.

In: nothing. Out: a database URL. When the home directory is on a network filesystem, as on most clusters, cannot be
written or is none, the store goes to a private directory below /var/tmp instead, which survives reboots and is local.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from lineage_store.config import user_directory
from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.database.filesystem import filesystem_type, is_network

FILE_NAME = "store.db"
FALLBACK = Path("/var/tmp") / f"lineage-store-{os.getuid()}"  # noqa: S108 - made private, and only used if ours


def default_url(*, make_directory: bool = True) -> str:
    """The URL of this user's own store; its directory is made (mode 0700) if need be, and if it may be.

    Raises DatabaseUnavailableError when no directory can be made.
    """
    home = user_directory("state")
    candidates = [FALLBACK] if home is None or is_network(filesystem_type(home)) else [home, FALLBACK]
    if not make_directory:
        there = (each for each in candidates if (each / FILE_NAME).exists() and _is_ours(each))
        return _url(next(there, candidates[0]))
    for directory in candidates:
        with suppress(OSError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(directory):
                return _url(directory)
    raise DatabaseUnavailableError(
        f"No directory for the store can be made: {' nor '.join(map(str, candidates))}.",
        hint="Name one: LINEAGE_STORE_DATABASE_URL=sqlite:////path/to/store.db.",
    )


def _is_ours(directory: Path) -> bool:
    """Whether a directory is this user's: anybody may make directories in /var/tmp, and links to others' there."""
    status = directory.stat(follow_symlinks=directory != FALLBACK)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _url(directory: Path) -> str:
    return f"sqlite:///{directory / FILE_NAME}"
