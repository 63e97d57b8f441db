"""Our answers compared with those of MindInsight 2.3.1's own server on the same files, by `make test-mindspore`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers import mindinsight_record
from helpers.mindinsight_base_dir import make_base_dir
from helpers.mindinsight_requests import Asked, ask, conditions, get, tags_of
from helpers.mindinsight_server import mindinsight, open_job
from helpers.served import serving
from lineage_store import LineageStore

pytestmark = [pytest.mark.mindinsight, pytest.mark.timeout(600)]


@contextmanager
def both(base_dir: Path, url: str, home: Path) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Clients of our server and of its own."""
    with LineageStore(url) as store:
        store.ingest(base_dir)
    with mindinsight(base_dir, home) as theirs, serving(url) as ours:
        yield ours, theirs


def test_five_hundred_conditions_are_answered_alike(corpus: Path, sqlite_url: str, tmp_path: Path) -> None:
    with both(corpus, sqlite_url, tmp_path) as (ours, theirs):
        everything = ask(ours, Asked("POST", "lineagemgr/lineages", {})).content["object"]
        for asked in conditions(everything, 500):
            assert ask(ours, asked) == ask(theirs, asked), asked


def test_all_scalars_are_answered_alike(corpus: Path, sqlite_url: str, tmp_path: Path) -> None:
    with both(corpus, sqlite_url, tmp_path) as (ours, theirs):
        found = 0
        for train_id, tags in tags_of(ours).items():
            open_job(theirs, train_id)
            for tag in tags["scalar"]:
                asked = get("datavisual/scalar/metadata", ("train_id", train_id), ("tag", tag))
                assert ask(ours, asked) == ask(theirs, asked), asked
                found += 1
        assert found > 30


def test_the_record_is_what_its_server_answers(corpus: Path, tmp_path: Path) -> None:
    updating = "LINEAGE_STORE_TEST_UPDATE_SNAPSHOTS" in os.environ
    record = {} if updating else json.loads(mindinsight_record.FILE.read_text())
    answers: dict[str, dict[str, mindinsight_record.Kept]] = {}
    for name, base_dir in (("made", make_base_dir(tmp_path / "made")), ("golden", corpus)):
        home = tmp_path / f"home_{name}"
        home.mkdir()
        url = f"sqlite:///{tmp_path / name}.sqlite3"
        with both(base_dir, url, home) as (ours, theirs):
            opened = mindinsight_record.GOLDEN_JOBS if name == "golden" else tags_of(ours)
            for train_id in opened:
                open_job(theirs, train_id)
            requests = getattr(mindinsight_record, name)(ours)
            answers[name] = dict(sorted(_told(theirs, requests, record.get(name, {})).items()))
    if updating:
        mindinsight_record.FILE.write_text(mindinsight_record.as_lines(answers))
    else:
        assert record == json.loads(mindinsight_record.as_lines(answers))


def _told(
    theirs: httpx.Client, requests: Iterable[Asked], record: Mapping[str, Any]
) -> dict[str, mindinsight_record.Kept]:
    """Its answers. It loads jobs in the background: what is not as recorded is asked for again, for a minute."""
    told: dict[str, mindinsight_record.Kept] = {}
    waiting, deadline = {mindinsight_record.key(asked): asked for asked in requests}, time.monotonic() + 60
    while waiting:
        for request, asked in list(waiting.items()):
            told[request] = mindinsight_record.kept(ask(theirs, asked))
            if json.loads(json.dumps(told[request])) == record.get(request):
                del waiting[request]
        if not record or time.monotonic() > deadline:
            break
        time.sleep(0.5 if waiting else 0)
    return told
