"""Names of lease holders: unique names that identify a process, and whether the process of a name still runs.

In: nothing, or a holder's name. Out: a name; or yes, no, or None where this process cannot know.
Promises: `lives` never returns False for a process of another host, boot or PID namespace (such as a container with the
same host name), nor for another user's process that /proc hides. Does not know leases.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from pathlib import Path

from lineage_store.store.database.locks import state_and_begin

_NAME = re.compile(r".*:([1-9]\d{0,8}):([0-9a-f]{8})-(\d+)-[0-9a-f]+", re.DOTALL)


def holder_name() -> str:
    """Return a new, unique name for this process: `host:pid:place-start-nonce`, as `lives` reads it."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{_place()}-{begun(pid)}-{secrets.token_hex(3)}"


def process_of(holder: str) -> str:
    """Return the process part of a holder's name: a daemon holds each of its leases under another name."""
    return holder.rpartition(":")[0]


def lives(holder: str) -> bool | None:
    """Return whether a holder's process still runs; None if this process cannot see it."""
    name = _NAME.fullmatch(holder)
    if name is None or name[2] != _place():
        return None
    pid = int(name[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the process exists, but belongs to another user
    state, since = state_and_begin(pid)
    return None if not since else since == name[3] and state not in "ZX"


def begun(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; "" if unknown. Tells apart uses of one process id."""
    return state_and_begin(pid)[1]


def _place() -> str:
    """Return a digest of this boot and PID namespace, within which process ids are unique; "" if /proc lacks them."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:8]
