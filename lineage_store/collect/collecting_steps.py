"""Decide which plugins a SummaryCollector collects at which steps. Pure.

In: the requested frequencies and the length of the training, in steps, or in epochs if the data sink to the device and
the host sees no single steps. Out: for a step, the plugins to collect. Tensors are large, so by default at most 20 of a
training are kept. Does not know the first step, at which the collector always collects everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lineage_store.plugins import TENSOR

MOST_TENSORS = 20


class Due(NamedTuple):
    """Which plugins are collected at a step or epoch."""

    tensors: bool
    others: bool

    def takes(self, plugin: str) -> bool:
        """Return whether the values of a plugin are collected."""
        return self.tensors if plugin == TENSOR else self.others


EVERYTHING, NOTHING = Due(tensors=True, others=True), Due(tensors=False, others=False)


@dataclass(frozen=True, slots=True)
class CollectingSteps:
    """The plan of one training."""

    frequency: int
    tensors: range

    def at(self, number: int) -> Due:
        """Return which plugins to collect at a step or epoch after the first."""
        return Due(tensors=number in self.tensors, others=number % self.frequency == 0)


def plan(total: int, frequency: int, tensor_frequency: int | None) -> CollectingSteps:
    """Return the plan of a training of `total` steps or epochs."""
    return CollectingSteps(frequency, _tensor_steps(total, frequency, tensor_frequency))


def _tensor_steps(total: int, frequency: int, tensor_frequency: int | None) -> range:
    others = range(0, total + 1, frequency)
    if tensor_frequency is not None:
        return range(0, total + 1, tensor_frequency)
    if len(others) <= MOST_TENSORS:
        return others
    spread = total // (MOST_TENSORS - 1)
    if spread > 1:
        return range(0, total + 1, spread)[:MOST_TENSORS]
    # There is no step 0, so that 20 of these 21 remain.
    return range(total + 1)[: MOST_TENSORS + 1]
