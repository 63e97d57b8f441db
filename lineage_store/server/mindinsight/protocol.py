"""What all endpoints of MindInsight's API share: reading parameters, refusals, writing JSON.

In: the pairs of a query string; values. Out: parameters, read as MindInsight reads them; `RefusedError`, with the
status, code and message of an error; JSON bytes. Promises: the JSON is valid. MindInsight itself writes a bare NaN for
a metric or a landscape that has one, which is not JSON; here NaN is the text into which its page turns it.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from lineage_store.plain_values import for_json
from lineage_store.plugins import GRAPH, HISTOGRAM, IMAGE, LANDSCAPE, SCALAR, TENSOR
from lineage_store.server.decoding import Content

_MOST_BYTES, _MOST_OF_ONE = 64 << 20, 8 << 20
METHODS = ("GET", "POST", "PUT", "DELETE")
HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",
    "X-XSS-Protection": "1; mode=block",
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Allow-Methods": ", ".join(METHODS),
    "Content-Security-Policy": "img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; frame-src 'self'; "
    "frame-ancestors 'self'; default-src 'self'; script-src 'self' 'unsafe-eval'",
    "X-Download-Options": "noopen",
    "Cache-Control": "no-store",
    "Pragma": "no-cache",
}
"""Headers of every answer. MindInsight's page needs 'unsafe-eval': it generates scripts."""


class RefusedError(Exception):
    """The reason to answer a request with an error: MindInsight's code, a message on one line, an HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code, self.status = code, status
        self.message = " ".join(message.split())
        super().__init__(code, self.message, status)  # so that it comes out of another process as it is

    def __str__(self) -> str:
        return self.message


NO_SUCH_JOB, LARGE_TENSOR = "50545005", "50545016"
_NOTHING_OF = {
    GRAPH: ("5054500C", "Graph is not exist."),
    IMAGE: ("5054500D", "Image is not exist."),
    SCALAR: ("5054500E", "Scalar value is not exist."),
    HISTOGRAM: ("5054500F", "Histogram value is not exist."),
    TENSOR: ("50545012", "Tensor value is not exist."),
    LANDSCAPE: ("50545017", "Landscape is not exist."),
}
NO_SUCH_PATH = RefusedError("50545001", "404 Not Found.", 404)
NO_SUCH_METHOD = RefusedError("50545002", "405 Method Not Allowed.", 405)
SYSTEM_ERROR = RefusedError("50540000", "System error.", 500)


def unknown_job(detail: str = "") -> RefusedError:
    """Return the refusal for an unknown job, at which MindInsight's page goes back to the list of jobs."""
    return RefusedError(NO_SUCH_JOB, "Train job is not exist." + (f" Detail: {detail}" if detail else ""))


def wrong_type(name: str, expected: str) -> RefusedError:
    """Return the refusal for a parameter of a wrong type."""
    return RefusedError("50540001", f"Invalid parameter type. '{name}' expect {expected} type.")


def wrong_value(detail: str) -> RefusedError:
    """Return the refusal for a value that is not allowed."""
    return RefusedError("50540002", f"Invalid parameter value. {detail}")


def missing(name: str) -> RefusedError:
    """Return the refusal for a missing parameter."""
    return RefusedError("50540003", f"Param missing. '{name}' is required.")


def nothing_of(plugin: str, detail: str = "", status: int = 400) -> RefusedError:
    """Return the refusal for samples of a plugin that are not there, or cannot be shown."""
    code, message = _NOTHING_OF[plugin]
    return RefusedError(code, message + (f" Detail: {detail}" if detail else ""), status)


def too_costly(plugin: str, reason: str) -> RefusedError:
    """Return the refusal for payloads of a plugin that take too much time or memory; `reason` is a sentence."""
    if plugin == TENSOR:
        return RefusedError(LARGE_TENSOR, f"Tensor is too large to show on UI. Detail: {reason}", 422)
    return nothing_of(plugin, reason, 422)


@dataclass(frozen=True, slots=True)
class QueryParameters:
    """The decoded parameters of a request, in their order."""

    pairs: Sequence[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        """Return all values of a name."""
        return [value for key, value in self.pairs if key == name]

    def get(self, name: str) -> str | None:
        """Return the first value of a name, or None."""
        return next(iter(self.all(name)), None)

    def required(self, name: str) -> str:
        """Return the first value of a name. Raises RefusedError if it is missing or empty."""
        value = self.get(name)
        if not value:
            raise missing(name)
        return value

    def integer(self, name: str, default: int) -> int:
        """Return the integer of a name. Raises RefusedError for anything that Python's `int` refuses."""
        value = self.get(name)
        return default if value is None else integer_of(name, value)

    def page(self, *, default: int, most: int) -> tuple[int, int]:
        """Return the page's number, from 0, and its length. Raises RefusedError if they are out of range."""
        offset = self.integer("offset", 0)
        if offset < 0:
            raise wrong_value("'offset' should be greater than or equal to 0.")
        limit = self.integer("limit", default)
        if not 1 <= limit <= most:
            raise wrong_value(f"'limit' should in [1, {most}].")
        return offset, limit


def picture(content: bytes) -> Content:
    """Return an image, with the media type that its first bytes indicate."""
    names = (name for start, name in _PICTURES.items() if content.startswith(start))
    return Content(content, next(names, "application/octet-stream"))


_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
}


def integer_of(name: str, value: str) -> int:
    """Return the integer that a parameter's value spells. Raises RefusedError."""
    try:
        return int(value)
    except ValueError:
        raise wrong_type(name, "Integer") from None


def compact_json(value: Any) -> bytes:
    """Return JSON as MindInsight writes it: compact, ASCII, with a newline; but NaN and infinities as texts."""
    try:
        text = _compact(value)
    except ValueError:  # NaN or an infinity: too rare to search for first
        text = _compact(for_json(value))
    return f"{text}\n".encode()


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


class KeptAnswers:
    """A cache of answers, because MindInsight's page repeats the same requests every ten seconds, in every tab.

    Keys are made of a request and the state of the store. The answers used least recently are removed; one above
    `_MOST_OF_ONE` bytes is not stored. Threads may share a cache.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[Hashable, Content] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Content | None:
        """Return the stored answer, or None."""
        with self._lock:
            found = self._answers.get(key)
            if found is not None:
                self._answers.move_to_end(key)
            return found

    def keep(self, key: Hashable, answer: Content) -> None:
        """Store an answer, unless it is too large."""
        if len(answer.content) > _MOST_OF_ONE:
            return
        with self._lock:
            if key not in self._answers:
                self._answers[key] = answer
                self._bytes += len(answer.content)
            while self._bytes > _MOST_BYTES:
                self._bytes -= len(self._answers.popitem(last=False)[1].content)
