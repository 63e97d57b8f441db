"""At which steps a SummaryCollector collects what.

In: the frequencies that were asked for and the length of the training. Out, for a step, which plugins are collected.
Pure. Counted are steps, or epochs where the data sink to the device and the host sees no single step. The first one
counts always; tensors are large, so that by default no more than 20 of a training are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MOST_TENSORS = 20

PluginFilter = Callable[[str], bool]


def nothing(plugin: str) -> bool:
    """No plugin."""
    return False


def everything(plugin: str) -> bool:
    """Every plugin."""
    return True


def only_tensors(plugin: str) -> bool:
    """The plugin of TensorSummary."""
    return plugin == "tensor"


def all_but_tensors(plugin: str) -> bool:
    """Every plugin but TensorSummary's."""
    return plugin != "tensor"


@dataclass(frozen=True, slots=True)
class CollectingSteps:
    """The plan of one training."""

    frequency: int
    tensors: range

    def at(self, number: int) -> PluginFilter | None:
        """What is collected at a later step or epoch than the first; None is nothing."""
        if number % self.frequency == 0:
            return everything if number in self.tensors else all_but_tensors
        return only_tensors if number in self.tensors else None


def plan(total: int, frequency: int, tensor_frequency: int | None) -> CollectingSteps:
    """The plan of a training of `total` steps or epochs."""
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
    # 0 is no step: one more, so that 20 remain.
    return range(total + 1)[: MOST_TENSORS + 1]
