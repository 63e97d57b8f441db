"""What MindInsight's REST API has in common: parameters, refusals, and how JSON is written.

In: pairs of a query string; values. Out: parameters read as MindInsight reads them; `RefusedError`, which is an error's
status, code and message; JSON bytes. Promises: JSON that every parser takes. MindInsight writes a bare NaN where a
metric or a landscape has one, which is no JSON; here it is the text that its own page makes of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code, self.status = code, status
        self.message = " ".join(message.split())
        super().__init__(self.message)


NO_SUCH_JOB = "50545005"
NO_SUCH_PATH = RefusedError("50545001", "404 Not Found.", 404)
NO_SUCH_METHOD = RefusedError("50545002", "405 Method Not Allowed.", 405)
SYSTEM_ERROR = RefusedError("50540000", "System error.", 500)


def no_such_job(detail: str = "") -> RefusedError:
    """The store knows no such job; MindInsight's page then leaves for the list of jobs."""
    return RefusedError(NO_SUCH_JOB, "Train job is not exist." + (f" Detail: {detail}" if detail else ""))


def wrong_type(name: str, expected: str) -> RefusedError:
    """A parameter of another type."""
    return RefusedError("50540001", f"Invalid parameter type. '{name}' expect {expected} type.")


def wrong_value(detail: str) -> RefusedError:
    """A value that is not allowed."""
    return RefusedError("50540002", f"Invalid parameter value. {detail}")


def missing(name: str) -> RefusedError:
    """A parameter that must be there."""
    return RefusedError("50540003", f"Param missing. '{name}' is required.")


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a request, in their order, decoded once; of a name that is there twice the first counts."""

    pairs: Sequence[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        """Every value of a name."""
        return [value for key, value in self.pairs if key == name]

    def get(self, name: str) -> str | None:
        """The first value of a name."""
        return next(iter(self.all(name)), None)

    def required(self, name: str) -> str:
        """A text that must be there and not be empty."""
        value = self.get(name)
        if not value:
            raise missing(name)
        return value

    def integer(self, name: str, default: int) -> int:
        """A whole number, as Python reads it."""
        value = self.get(name)
        return default if value is None else read_integer(name, value)

    def page(self, *, default: int, most: int) -> tuple[int, int]:
        """A page's number, from 0, and its length."""
        offset = self.integer("offset", 0)
        if offset < 0:
            raise wrong_value("'offset' should be greater than or equal to 0.")
        limit = self.integer("limit", default)
        if not 1 <= limit <= most:
            raise wrong_value(f"'limit' should in [1, {most}].")
        return offset, limit


@dataclass(frozen=True, slots=True)
class Picture:
    """An answer that is an image, as it was recorded."""

    content: bytes

    @property
    def media_type(self) -> str:
        """What it begins like; a browser takes what is none of these for nothing that it shows."""
        return next(
            (name for start, name in _PICTURES.items() if self.content.startswith(start)),
            "application/octet-stream",
        )


_PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
}


def read_integer(name: str, value: str) -> int:
    """The number in a parameter."""
    try:
        return int(value)
    except ValueError:
        raise wrong_type(name, "Integer") from None


def to_json(value: Any) -> bytes:
    """JSON as MindInsight writes it: compact, ASCII, with a line's end."""
    return (json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n").encode()
