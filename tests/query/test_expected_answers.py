"""Our answers about the golden jobs, compared with those of MindInsight 2.3.1.

The exceptions: `dataset_mark` is a digest of the pipeline here and a number there, so only its equality is compared;
inside a dataset graph the order of keys is that of a protobuf map, which means nothing; what MindInsight refuses is
refused here too, in other words.
"""

from __future__ import annotations

import copy
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_store import LineageSearchConditionParamError, LineageStore
from lineage_store.api import Job

EXPECTED = Path(__file__).parent.parent / "golden" / "expected"
ALL = json.loads((EXPECTED / "lineage_all.json").read_text())
CASES = json.loads((EXPECTED / "lineage_cases.json").read_text())
SCALARS = json.loads((EXPECTED / "scalars.json").read_text())


@pytest.fixture(scope="module")
def store(module_database_url: str, corpus: Path) -> Iterator[LineageStore]:
    """The golden jobs, ingested once per database."""
    with LineageStore(module_database_url) as store:
        store.ingest(corpus)
        yield store


def test_the_whole_listing_is_equal(store: LineageStore, corpus: Path) -> None:
    assert _comparable(store.lineage.filter(base_dir=corpus)) == _comparable(ALL)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_an_answer_is_equal(store: LineageStore, corpus: Path, case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(LineageSearchConditionParamError):
            store.lineage.filter(case["condition"], base_dir=corpus)
    else:
        assert _comparable(store.lineage.filter(case["condition"], base_dir=corpus)) == _comparable(
            case["result"]
        )


def test_jobs_share_a_mark_exactly_when_they_share_a_pipeline(store: LineageStore, corpus: Path) -> None:
    graphs: dict[str, set[str]] = defaultdict(set)
    for item in store.lineage.iterate(base_dir=corpus):
        graphs[item["model_lineage"]["dataset_mark"]].add(json.dumps(item["dataset_graph"], sort_keys=True))
    distinct = {json.dumps(item["dataset_graph"], sort_keys=True) for item in ALL["object"]}
    assert all(len(of_mark) == 1 for of_mark in graphs.values())
    assert len(graphs) == len(distinct)


def test_scalars_are_equal(store: LineageStore, corpus: Path) -> None:
    for train_id, tags in SCALARS.items():
        for tag, expected in tags.items():
            found = store.job((corpus, train_id)).scalars(tag)
            finite = [
                None if value != value or abs(value) == float("inf") else value for value in found.values
            ]
            assert [
                list(row) for row in zip(found.steps.tolist(), found.wall_times.tolist(), finite, strict=True)
            ] == expected, (train_id, tag)


def test_every_payload_reads_back_and_tensors_equal_their_export(store: LineageStore, corpus: Path) -> None:
    readers = {
        "histogram": Job.histograms,
        "image": Job.images,
        "tensor": Job.tensors,
        "graph": Job.graphs,
    }
    read: Counter[str] = Counter()
    for job in map(store.job, store.lineage.jobs(corpus)):
        for plugin, tags in job.tags().items():
            for sample in (
                sample for tag in tags if plugin in readers for sample in readers[plugin](job, tag)
            ):
                assert sample.read() is not None
                read[plugin] += 1
    (exported,) = corpus.glob("payloads/export_*/tensor")
    for path in exported.glob("*.npy"):
        tag, _, step = path.stem.rpartition("_")
        (sample,) = store.job((corpus, "./payloads")).tensors(tag, start=int(step), stop=int(step) + 1)
        np.testing.assert_array_equal(sample.read(), np.load(path))
    assert read.keys() == readers.keys()
    assert read["tensor"] == len(list(exported.glob("*.npy"))) > 0


def _comparable(answer: dict[str, Any]) -> str:
    """JSON text, in which NaN equals NaN and the order of keys counts; marks left out, graphs' keys sorted."""
    answer = copy.deepcopy(answer)
    for item in answer["object"]:
        item.get("model_lineage", {}).pop("dataset_mark", None)
        if "dataset_graph" in item:
            item["dataset_graph"] = json.dumps(item["dataset_graph"], sort_keys=True)
    return json.dumps(answer, indent=1)
