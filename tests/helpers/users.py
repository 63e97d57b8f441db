"""Two users of one store: run a block as another user, or keep a store open in another process of this user.

In: a SQLite file. Out: contexts. Only root can become another user; the files must be where both users have access.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ANOTHER_USER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

_HOLD = """
import sys
from lineage_store import LineageStore
from lineage_store.store.database.db import reading
store = LineageStore(sys.argv[1])
with reading(store.engine):
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_user() -> Iterator[None]:
    """Run the block as another user."""
    os.setresuid(ANOTHER_USER, ANOTHER_USER, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@contextmanager
def open_elsewhere(path: Path) -> Iterator[None]:
    """Keep the store open in another process of its user, as a daemon does."""
    command = [sys.executable, "-c", _HOLD, f"sqlite:///{path}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield
        assert process.stdin is not None
        process.stdin.close()
