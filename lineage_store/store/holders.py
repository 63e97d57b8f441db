"""Who holds a lease: a name that tells one process from all others, and whether that process is still there.

In: nothing, or a holder's name. Out: a name, or an answer: yes, no, or None where this process cannot know.
Promises: no process of another host, boot or PID namespace (a container of the same host name) is taken for gone, nor
one of another user that /proc does not show. Does not know leases.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from pathlib import Path

_NAME = re.compile(r".*:([1-9]\d{0,8}):([0-9a-f]{8})-(\d+)-[0-9a-f]+", re.DOTALL)


def holder_name() -> str:
    """Who this process is, to other ingesters: host, process id; where and since when it has that; and a nonce."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{_place()}-{begun(pid)}-{secrets.token_hex(3)}"


def lives(holder: str) -> bool | None:
    """Whether a holder's process is there; None for one that this process cannot see."""
    name = _NAME.fullmatch(holder)
    if name is None or name[2] != _place():
        return None
    pid = int(name[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    state, since = _state_and_begin(pid)
    return None if not since else since == name[3] and state not in "ZX"


def begun(pid: int) -> str:
    """When a process began, in ticks since the machine did: tells it from a later one of the same number."""
    return _state_and_begin(pid)[1]


def _state_and_begin(pid: int) -> tuple[str, str]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]


def _place() -> str:
    """Where process ids mean the same: this boot of this machine, this namespace. Empty where that is not told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:8]
