"""The default location of the store: a SQLite file in the user's state directory.

In: nothing. Out: a database URL. If the state directory is on a network filesystem (as on most clusters), is another
user's, cannot be made or cannot be written to, the store is in a private directory below /var/tmp, which is local and
survives reboots. A store that exists stays the default one while the other directory has none, so that no jobs are
missed.
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
    """Return the URL of this user's own store; unless `make_directory` is false, make its directory (mode 0700).

    Raises DatabaseUnavailableError if there is no directory that can be used.
    """
    home = user_directory("state")
    candidates = [FALLBACK] if home is None or is_network(filesystem_type(home)) else [home, FALLBACK]
    there = next(filter(_holds_our_store, candidates), None)
    if there is not None or not make_directory:
        return _url(there or candidates[0])
    for directory in candidates:
        with suppress(OSError):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(directory) and os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
                return _url(directory)
    raise DatabaseUnavailableError(
        f"No directory for the store can be made or written to: {' nor '.join(map(str, candidates))}.",
        hint="Name one: LINEAGE_STORE_DATABASE_URL=sqlite:////path/to/store.db.",
    )


def _holds_our_store(directory: Path) -> bool:
    with suppress(OSError):
        return (directory / FILE_NAME).exists() and _is_ours(directory)
    return False


def _is_ours(directory: Path) -> bool:
    """Return whether a directory is this user's: in /var/tmp anybody may make directories, and links to others."""
    status = directory.stat(follow_symlinks=directory != FALLBACK)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _url(directory: Path) -> str:
    return f"sqlite:///{directory / FILE_NAME}"
