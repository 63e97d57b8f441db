"""Where the store is when nobody says: a SQLite file in the user's state directory.

In: nothing. Out: a database URL. When the home directory is on a network filesystem, as on most clusters, the store
goes to a private directory below /var/tmp instead, which survives reboots and is local.
"""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_state_path

from lineage_store.store.filesystem import filesystem_type, is_network

FILE_NAME = "store.db"


def default_url() -> str:
    """The URL of this user's own store; its directory is made (mode 0700) if need be."""
    directory = user_state_path("lineage-store")
    if is_network(filesystem_type(directory)):
        directory = Path("/var/tmp") / f"lineage-store-{os.getuid()}"  # noqa: S108 - made private below
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{directory / FILE_NAME}"
