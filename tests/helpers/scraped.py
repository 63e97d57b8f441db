"""What Prometheus reads: samples by name and labels."""

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
        """The only sample of a name with these labels, and perhaps others."""
        wanted = {label: str(value) for label, value in labels.items()}.items()
        (found,) = [
            sample.value
            for sample in self._samples()
            if sample.name == name and wanted <= sample.labels.items()
        ]
        return float(found)

    def labels(self) -> dict[str, set[str]]:
        """The labels that the samples of each name have."""
        found = dict[str, set[str]]()
        for sample in self._samples():
            found.setdefault(sample.name, set()).update(sample.labels)
        return found

    def _samples(self) -> Iterable[Any]:
        return [sample for family in self.families for sample in family.samples]


def scraped(text: str) -> Scraped:
    """What a text in Prometheus' format holds."""
    return Scraped(list(text_string_to_metric_families(text)))
