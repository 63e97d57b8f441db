"""Send a message to a webhook or a command, and check that it was accepted.

In: a plan, a message. Out: nothing; NotTakenError says why it must be sent again. Promises: ends within DEADLINE_S
whatever the other side and the resolver of names do; follows no redirect; errors contain no part of the address.
"""

from __future__ import annotations

import operator
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
import time
from base64 import b64encode
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, unquote, urlsplit

from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.texts import meant

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
    return NotTakenError(f"it did not read it within {DEADLINE_S:g} s")


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


# ---- Check the settings `notify_…`, which say what is sent to whom. Pure
# In: settings. Out: a frozen plan, or None if they name no receiver. Promises: a ConfigError names the setting, but
# never contains the address, which may have secrets.


PROBLEM, LAG, FINISHED, METRIC = KINDS = ("problem", "lag", "finished", "metric")
_HOLDS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_BOUND = re.compile(r"(?P<metric>.+?)\s*(?P<sign>[<>]=?)\s*(?P<value>\S+)")


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a metric, such as `accuracy >= 0.9`."""

    metric: str
    sign: str
    value: float

    def is_passed_by(self, value: float) -> bool:
        """Return whether a job with this value of the metric is notified."""
        return bool(_HOLDS[self.sign](value, self.value))

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent, and to whom: an address or a command."""

    name: str
    address: SplitResult | None
    command: tuple[str, ...]
    kinds: frozenset[str]
    lag_s: float
    bounds: tuple[Bound, ...]


def plan_of(settings: Settings) -> Plan | None:
    """Return the plan of some settings; None if they name no receiver. Raises ConfigError."""
    if not (settings.notify_url or settings.notify_command):
        return None
    if settings.notify_url and settings.notify_command:
        raise ConfigError(
            "Settings notify_url and notify_command are both given.",
            hint="Give one: the command may do more.",
        )
    address = _address(settings.notify_url) if settings.notify_url else None
    kinds = frozenset(_listed(settings.notify_on))
    for kind in kinds.difference(KINDS):
        hint = meant(kind, KINDS) or f"Known: {', '.join(KINDS)}."
        raise ConfigError(f"Setting notify_on has {kind!r}, which is no kind of notification.", hint=hint)
    bounds = tuple(map(_bound, _listed(settings.notify_metrics)))
    command = _command(settings.notify_command)
    return Plan(settings.notify_name, address, command, kinds, settings.notify_lag_s, bounds)


def _address(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        fits = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        fits = False
    if not fits or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(
            "Setting notify_url is no address of a webhook.",
            hint="Write http://host/path or https://host/path.",
        )
    return address


def _command(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(
            f"Setting notify_command cannot be split into words: {error}.",
            hint="Write it as in a shell: every quotation mark needs its second.",
        ) from None


def _bound(text: str) -> Bound:
    found = _BOUND.fullmatch(text)
    try:
        if found is not None:
            return Bound(found["metric"], found["sign"], float(found["value"]))
    except ValueError:
        pass
    raise ConfigError(f"Setting notify_metrics has {text!r}, which is no bound.", hint="Write accuracy>=0.9.")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
