"""OpenLineage's own client, whose classes are generated from its schemas, makes the same events as an export."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from lineage_store import LineageStore

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


def test_the_official_client_makes_the_same_events(sqlite_url: str, corpus: Path) -> None:
    serde = pytest.importorskip("openlineage.client.serde").Serde
    out = io.BytesIO()
    with LineageStore(sqlite_url) as store:
        store.ingest(corpus)
        store.export(to=out, format="openlineage")
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert any(event["inputs"] and event["outputs"] for event in events)
    for event in events:
        assert serde.to_dict(rebuilt(event)) == serde.to_dict(event)
    with pytest.raises(ValueError, match="UUID"):
        rebuilt({**events[0], "run": {**events[0]["run"], "runId": "1"}})


def rebuilt(event: dict[str, Any]) -> Any:
    """The same event of the client's classes, which know the fields, the types and the version of the schema."""
    from openlineage.client import event_v2
    from openlineage.client.generated import base
    from openlineage.client.generated.output_statistics_output_dataset import (
        OutputStatisticsOutputDatasetFacet,
    )

    run, content = event["run"], {name: event[name] for name in ("eventTime", "producer")}
    inputs = [
        _with_facets(event_v2.InputDataset, each, inputFacets=base.InputDatasetFacet)
        for each in event["inputs"]
    ]
    outputs = [
        _with_facets(event_v2.OutputDataset, each, outputFacets=OutputStatisticsOutputDatasetFacet)
        for each in event["outputs"]
    ]
    return event_v2.RunEvent(
        **content,
        eventType=event_v2.RunState(event["eventType"]),
        run=_with_facets(event_v2.Run, run, facets=base.RunFacet),
        job=event_v2.Job(**event["job"]),
        inputs=inputs,
        outputs=outputs,
    )


def _with_facets(of: Any, content: dict[str, Any], **kinds: Any) -> Any:
    """An object of the client with its facets as objects of the client."""
    made = {
        name: {key: _facet(kind, facet) for key, facet in content[name].items()}
        for name, kind in kinds.items()
    }
    return of(**{**content, **made})


def _facet(kind: Any, facet: dict[str, Any]) -> Any:
    content = {name: value for name, value in facet.items() if not name.startswith("_")}
    return kind(producer=facet["_producer"]).with_additional_properties(**content)
