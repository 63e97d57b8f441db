"""Prometheus metrics as a scraper parses them: samples by name and labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Scraped:
    """The families of one scrape."""

    families: list[Metric]

    def value(self, name: str, **labels: object) -> float:
        """Return the value of the only sample with a name and these labels; it may have others too."""
        wanted = {label: str(value) for label, value in labels.items()}.items()
        (found,) = [
            sample.value
            for sample in self._samples()
            if sample.name == name and wanted <= sample.labels.items()
        ]
        return float(found)

    def labels(self) -> dict[str, set[str]]:
        """Return by name the labels that its samples have."""
        found = dict[str, set[str]]()
        for sample in self._samples():
            found.setdefault(sample.name, set()).update(sample.labels)
        return found

    def _samples(self) -> Iterable[Any]:
        return [sample for family in self.families for sample in family.samples]


def scraped(text: str) -> Scraped:
    """Parse a text in Prometheus' format."""
    return Scraped(list(text_string_to_metric_families(text)))
