"""Our answers compared with those of MindInsight 2.3.1's server that are recorded in recorded.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from helpers import mindinsight_record
from helpers.mindinsight_base_dir import make_base_dir
from helpers.mindinsight_requests import Answered, Asked, ask, may_stand_for
from helpers.served import serving
from lineage_store import LineageStore

RECORDED = json.loads(mindinsight_record.FILE.read_text())


@pytest.mark.parametrize("name", ["made", "golden"])
@pytest.mark.slow
def test_every_answer_is_the_recorded_one(name: str, corpus: Path, sqlite_url: str, tmp_path: Path) -> None:
    requests: Callable[[httpx.Client], Iterator[Asked]] = getattr(mindinsight_record, name)
    base_dir = corpus if name == "golden" else make_base_dir(tmp_path / name)
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
    with serving(sqlite_url, allow_remarks=True) as client:
        different = {
            key: [ours, theirs.content]
            for asked in requests(client)
            for key in [mindinsight_record.key(asked)]
            for theirs in [Answered(*RECORDED[name][key])]
            for ours in [mindinsight_record.kept(ask(client, asked))]
            if not may_stand_for(asked, Answered(*ours), theirs)
        }
    assert different == {}
