"""Messages to systemd about the daemon: `READY=1`, `STATUS=…`, `WATCHDOG=1`, `STOPPING=1` (sd_notify(3)).

In: lines. Out: one datagram to the socket in $NOTIFY_SOCKET; nothing when the variable is not set. Promises: never
waits and never raises OSError: a service manager that does not listen is no reason to stop ingest.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


def notify(*lines: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send lines such as `READY=1`; return whether they were sent. A name that begins with @ is an abstract socket."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    message = "\n".join(line.replace("\n", " ") for line in lines)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto(message.encode(errors="replace"), address)
    except OSError:
        return False
    return True
