"""The libraries of the package's extras work with the numpy that MindSpore needs."""

from __future__ import annotations

from pathlib import Path

import mindspore
import pytest

from lineage_store import LineageStore
from lineage_store.collect import SummaryRecord

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300)]


def test_samples_go_into_pandas_and_arrow_beside_mindspore(tmp_path: Path, sqlite_url: str) -> None:
    with SummaryRecord(str(tmp_path / "job")) as record:
        record.add_value("scalar", "loss", mindspore.Tensor(0.5))
        record.record(1)
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path)
        found = store.job((tmp_path, "./job")).scalars("loss")
    assert found.to_pandas()["value"].tolist() == [0.5]
    assert found.to_arrow().column("value").to_pylist() == [0.5]
