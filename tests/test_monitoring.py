"""The files for Grafana and Prometheus in config/ use only metrics and labels that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.base_dirs import ROOT
from helpers.log_writer import Log
from helpers.scraped import scraped
from helpers.served import serving
from lineage_store import LineageStore
from lineage_store.config import Settings

DASHBOARD, ALERTS = ROOT / "config" / "grafana-dashboard.json", ROOT / "config" / "prometheus-alerts.yml"
NAME = re.compile(r"\b((?:lineage_store|process)_\w+|up)\b")
CHOSEN = re.compile(r"\b(\w+)\{(.*?)\}")
LABEL = re.compile(r'(\w+)\s*[=!]~?\s*"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
OF_PROMETHEUS = {"job", "instance", "le"}


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of every metric that a server tells of a store that has some trouble."""
    directory = tmp_path_factory.mktemp("monitored")
    Log().version().scalar(1, "loss", 0.5).raw(bytes(64)).write_summary(directory / "base" / "bad")
    url = f"sqlite:///{directory / 'store.db'}"
    with LineageStore(url, settings=Settings()) as store:
        store.ingest(directory / "base")
    with serving(url) as client:
        client.get("/api/v1/health")
        return {**scraped(client.get("/metrics").text).labels(), "up": set()}


def queries(node: Any) -> Iterator[str]:
    """Every `expr`, and every query of a variable, wherever it stands."""
    if isinstance(node, dict):
        yield from (value for name, value in node.items() if name in ("expr", "definition"))
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from queries(each)


def test_the_dashboard_can_be_read_and_shows_each_panel_once() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    for key in ("id", "title", "gridPos"):
        assert len({json.dumps(panel[key]) for panel in panels}) == len(panels) > 10
    assert all(target["expr"] for panel in panels for target in panel["targets"])


def test_the_alerts_can_be_read_and_say_what_to_do() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        assert {"alert", "expr", "for", "labels", "annotations"} == set(rule)
        assert {"summary", "description"} == set(rule["annotations"])
    names = [rule["alert"] for rule in group["rules"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("file", [DASHBOARD, ALERTS], ids=lambda path: path.name)
def test_every_query_names_metrics_and_labels_that_exist(file: Path, labels: dict[str, set[str]]) -> None:
    for query in queries(yaml.safe_load(file.read_text(encoding="utf-8"))):
        names = set(NAME.findall(query))
        assert names, f"{query} asks for nothing"
        assert names <= labels.keys(), f"{query} asks for {names - labels.keys()}"
        known = OF_PROMETHEUS.union(*(labels[name] for name in names))
        for name, chosen in CHOSEN.findall(query):
            assert set(LABEL.findall(chosen)) <= labels[name] | OF_PROMETHEUS, query
        for grouped in GROUPED.findall(query):
            assert set(re.findall(r"\w+", grouped)) <= known, query
