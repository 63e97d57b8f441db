"""`GET changes`: the changes since a token, page by page. `server/own/events.py` streams them as they happen."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.api.changes import MOST_CHANGES
from lineage_store.api.reports import Change
from lineage_store.server.answers import JsonResponse
from lineage_store.server.own import models
from lineage_store.server.own.names import key_of, url_of
from lineage_store.server.state import Ask
from lineage_store.texts import to_stored

router = APIRouter(tags=["changes"])

Since = Annotated[str | None, Query(description="Token of an earlier answer; now: only what comes.")]


@router.get("/changes", response_model=models.ChangesPage)
async def changes(
    ask: Ask, since: Since = None, limit: Annotated[int, Query(ge=1, le=MOST_CHANGES)] = 500
) -> Response:
    """What has changed since a token, and the token to go on with; without one, everything there is.

    `GET /api/v1/events` streams the same as Server-Sent Events: docs/changes.md.
    """

    def question(store: LineageStore) -> dict[str, Any]:
        answer = store.changes(since, limit=limit)
        found = list(map(shown, answer.changes))
        return {"changes": found, "since": answer.since, "more": answer.more}

    return JsonResponse(await ask(question))


def shown(change: Change) -> dict[str, object]:
    """Return a change in the form of `models.Change`."""
    base_dir, train_id = change.base_dir, change.train_id
    return {
        "kind": change.kind,
        "base": key_of(base_dir),
        "base_dir": to_stored(base_dir),
        "train_id": None if train_id is None else to_stored(train_id),
        "url": None if train_id is None or change.state is None else url_of(base_dir, train_id),
        **{name: getattr(change, name) for name in ("state", "revision", "at")},
    }
