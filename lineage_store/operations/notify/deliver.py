"""Send a message to a webhook or a command, and check that it was accepted.

In: a plan, a message. Out: nothing; NotTakenError says why it must be sent again. Promises: ends within DEADLINE_S
whatever the other side and the resolver of names do; follows no redirect; errors contain no part of the address.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from base64 import b64encode
from concurrent.futures import Future
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, unquote

from lineage_store.operations.notify.plan import Plan

STEP_S, DEADLINE_S = 10.0, 20.0
"""Timeout of each network operation, and of the whole delivery."""


class NotTakenError(Exception):
    """A message was not accepted. The text says why, and may be logged."""


def deliver(plan: Plan, message: bytes) -> None:
    """Send a message. Raises NotTakenError."""
    try:
        if plan.address is not None:
            _post(plan.address, message)
        else:
            _run(plan.command, message)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise NotTakenError(str(reason)) from None


def _post(address: SplitResult, message: bytes) -> None:
    """Post the message in a thread of its own, because nothing interrupts the resolution of a name.

    A thread that is left behind sends nothing any more, and ends when the resolver gives up.
    """
    ends_at, outcome = time.monotonic() + DEADLINE_S, Future[int]()

    def post() -> None:
        try:
            outcome.set_result(_status_of(address, message, ends_at))
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            outcome.set_exception(error)

    threading.Thread(target=post, name="notify delivery", daemon=True).start()
    try:
        status = outcome.result(timeout=DEADLINE_S)
    except Exception:
        if time.monotonic() >= ends_at:
            raise _late() from None
        raise
    if not 200 <= status < 300:
        redirects = ", and redirects are not followed" if status // 100 == 3 else ""
        raise NotTakenError(f"it answered {status}{redirects}")


def _status_of(address: SplitResult, message: bytes, ends_at: float) -> int:
    """Post the message and return the status of the answer. Raises TimeoutError instead of sending it too late."""
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    headers = {"Content-Type": "application/json", "User-Agent": "lineage-store"}
    if address.username is not None:
        user = f"{unquote(address.username)}:{unquote(address.password or '')}".encode()
        headers["Authorization"] = f"Basic {b64encode(user).decode()}"
    target = f"{address.path or '/'}?{address.query}" if address.query else address.path or "/"
    with closing(kind(str(address.hostname), address.port, timeout=STEP_S)) as connection:
        connection.connect()
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        # A server that sends a byte now and then never exceeds the timeout of one operation.
        end = threading.Timer(left_s, _cut, (connection.sock,))
        end.daemon = True
        end.start()
        try:
            connection.request("POST", target, message, headers)
            return connection.getresponse().status
        finally:
            end.cancel()


def _cut(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _late() -> NotTakenError:
    return NotTakenError(f"it did not take it within {DEADLINE_S:g} s")


def _run(command: tuple[str, ...], message: bytes) -> None:
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(  # noqa: S603 - the command of the daemon's operator
        command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
    )
    try:
        process.communicate(message, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise NotTakenError(f"it did not end within {DEADLINE_S:g} s") from None
    if process.returncode:
        raise NotTakenError(f"it ended with {process.returncode}")
