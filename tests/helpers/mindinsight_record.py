"""The recorded answers of MindInsight 2.3.1's server in a file: short answers in full, long ones as a digest.

In: answers. Out: their recorded form, by request. `make test-mindspore` checks that the server's answers are those in
the file; with LINEAGE_STORE_TEST_UPDATE_SNAPSHOTS=1 it rewrites the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from helpers.mindinsight_requests import Answered, Asked, of_base_dir, of_job, remarks, tags_of

FILE = Path(__file__).parent.parent / "server" / "mindinsight" / "recorded.json"
GOLDEN_JOBS = ("./run_039", "./restart", "./odd_values", "./payloads")
_LONGEST, _MOST_TAGS = 160, 4
Kept = tuple[int, str, Any]


def kept(answered: Answered) -> Kept:
    """Return the recorded form of an answer."""
    text = json.dumps(answered.content, sort_keys=True)
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return answered.status, answered.media_type, answered.content if len(text) <= _LONGEST else digest


def key(asked: Asked) -> str:
    """Return the name of a request in the file."""
    return f"{asked.method} {asked.path} {json.dumps(asked.body) if asked.body is not None else ''}".strip()


def as_lines(answers: Mapping[str, Mapping[str, Kept]]) -> str:
    """Return the content of the file: one line per request."""
    parts = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f"{json.dumps(asked)}: {json.dumps(told)}" for asked, told in by_request.items())
        + "\n}"
        for name, by_request in answers.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def made(client: httpx.Client) -> Iterator[Asked]:
    """Yield the requests about the jobs that `mindinsight_base_dir` makes."""
    tags = tags_of(client)
    train_ids = [train_id for train_id, plugins in tags.items() if any(plugins.values())]
    yield from of_base_dir(train_ids)
    for train_id in train_ids:
        yield from of_job(train_id, {plugin: names[:_MOST_TAGS] for plugin, names in tags[train_id].items()})
    yield from remarks("./tuned_1")


def golden(client: httpx.Client) -> Iterator[Asked]:
    """Yield the requests about some of the golden jobs."""
    tags = tags_of(client)
    for train_id in GOLDEN_JOBS:
        yield from of_job(train_id, tags[train_id])
