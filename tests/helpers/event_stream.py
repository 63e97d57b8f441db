"""Server-Sent Events, parsed as a client does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True, slots=True)
class Event:
    """One event, or a comment."""

    kind: str
    """comment for a heartbeat."""
    token: str
    data: Any

    @property
    def jobs(self) -> list[tuple[str, str | None]]:
        """Return kind and job of each of its changes."""
        return [(each["kind"], each["train_id"]) for each in self.data["changes"]]


@contextmanager
def event_stream(client: httpx.Client, since: str | None = None) -> Iterator[Iterator[Event]]:
    """Yield the events of a server from a token on; None: from now on."""
    headers = {} if since is None else {"Last-Event-ID": since}
    with client.stream("GET", "/api/v1/events", headers=headers) as response:
        if response.status_code != 200:
            response.read()
        response.raise_for_status()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _events(response.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[Event]:
    fields = dict[str, str]()
    for line in lines:
        name, _, value = line.partition(": ")
        if line == ":":
            yield Event("comment", "", None)
        elif line:
            fields[name] = value
        elif "event" in fields:
            yield Event(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
            fields = {}
