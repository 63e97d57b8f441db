"""What a SummaryCollector collects, and at which steps. Pure.

In: `collect_specified_data` and `keep_default_action` as the user gave them; the frequencies and the length of the
training, in steps, or in epochs if the data sink to the device and the host sees no single steps. Out: `Collected`; a
plan that says for each step which plugins to collect, but for the first step, at which a collector always collects
everything. Promises: all mistakes in the arguments are refused here, before a training starts; the user's dicts and
lists are never changed or kept. Defaults are MindSpore's; for `num_samples`, that of MindSpore's documentation (128),
not of its code (2048). Tensors are large: by default at most MOST_TENSORS of a training are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from lineage_store.collect.arguments import require_type
from lineage_store.errors import LineageParamValueError
from lineage_store.plugins import TENSOR

UNITS = ("step", "epoch")
SHORTEST_INTERVAL = 3
SIZES = range(3, 257)
MOST_TENSORS = 20

_LANDSCAPE_DEFAULTS: dict[str, Any] = {
    "landscape_size": 40,
    "unit": "step",
    "num_samples": 128,
    "create_landscape": {"train": True, "result": True},
}
_DEFAULT_INTERVALS = [list(range(1, 10)), list(range(10, 20))]
_SWITCHES = (
    "collect_metric",
    "collect_graph",
    "collect_train_lineage",
    "collect_eval_lineage",
    "collect_input_data",
    "collect_dataset_graph",
)
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(_SWITCHES, True),
    "histogram_regular": None,
    "collect_landscape": {**_LANDSCAPE_DEFAULTS, "intervals": _DEFAULT_INTERVALS},
}
_OURS = ("collect_learning_rate", "collect_environment")


@dataclass(frozen=True, slots=True)
class LandscapeStates:
    """Which states of the network are saved, for loss landscapes that are computed later."""

    size: int
    unit: str
    """Unit of the numbers in `intervals`, which start at 1: "step" or "epoch"."""
    create: dict[str, bool]
    num_samples: int
    intervals: list[list[int]]

    def wants(self, unit: str, number: int) -> bool:
        """Return whether the state after that step or epoch is saved."""
        return unit == self.unit and any(number in interval for interval in self.intervals)

    def states(self, last: int) -> int:
        """Return how many states are saved in a training whose last step or epoch is `last`."""
        return len({number for interval in self.intervals for number in interval if 1 <= number <= last})


@dataclass(frozen=True, slots=True)
class Selection:
    """Which kinds of values are collected."""

    metric: bool = False
    graph: bool = False
    train_lineage: bool = False
    eval_lineage: bool = False
    input_data: bool = False
    dataset_graph: bool = False
    learning_rate: bool = False
    environment: bool = False
    histograms: bool = False
    histogram_names: re.Pattern[str] | None = None
    """Matches the beginning of the names of parameters to collect; None: the optimizer's first five parameters."""
    landscape: LandscapeStates | None = None


def parse_selection(specified: object, keep_default_action: object) -> Selection:
    """Check the two arguments. Raises LineageParamTypeError and LineageParamValueError."""
    require_type("keep_default_action", keep_default_action, bool)
    require_type("collect_specified_data", specified, dict, type(None))
    given: dict[str, Any] = specified if isinstance(specified, dict) else {}
    for key in given:
        require_type("a key of collect_specified_data", key, str)
    _check_keys("collect_specified_data", given, {*_DEFAULTS, *_OURS})
    chosen = _DEFAULTS | given if keep_default_action else given
    for name in (*_SWITCHES, *_OURS):
        require_type(name, chosen.get(name, False), bool)
    return Selection(
        **{name.removeprefix("collect_"): chosen.get(name, False) for name in (*_SWITCHES, *_OURS)},
        histograms="histogram_regular" in chosen,
        histogram_names=_pattern(chosen.get("histogram_regular")),
        landscape=_landscape(chosen.get("collect_landscape")),
    )


def _check_keys(name: str, given: dict[Any, Any], allowed: set[str]) -> None:
    if unknown := sorted(set(given) - allowed, key=str):
        raise LineageParamValueError(f"{name} does not know {unknown}; it takes {sorted(allowed)}.")


def _pattern(regular: object) -> re.Pattern[str] | None:
    require_type("histogram_regular", regular, str, type(None))
    if not isinstance(regular, str):
        return None
    try:
        return re.compile(regular)
    except re.error as error:
        raise LineageParamValueError(
            f"histogram_regular {regular!r} is no regular expression: {error}."
        ) from error


def _landscape(given: object) -> LandscapeStates | None:
    require_type("collect_landscape", given, dict, type(None))
    if not isinstance(given, dict):
        return None
    _check_keys("collect_landscape", given, {*_LANDSCAPE_DEFAULTS, "intervals"})
    chosen = _LANDSCAPE_DEFAULTS | given
    for name, default in _LANDSCAPE_DEFAULTS.items():
        require_type(name, chosen[name], type(default))
    if chosen["landscape_size"] not in SIZES:
        raise LineageParamValueError(
            f"landscape_size must be from {SIZES[0]} to {SIZES[-1]}, not {chosen['landscape_size']}."
        )
    if chosen["unit"] not in UNITS:
        raise LineageParamValueError(f"unit must be 'step' or 'epoch', not {chosen['unit']!r}.")
    _check_keys("create_landscape", chosen["create_landscape"], {"train", "result"})
    for name, value in chosen["create_landscape"].items():
        require_type(f"create_landscape: {name}", value, bool)
    return LandscapeStates(
        size=chosen["landscape_size"],
        unit=chosen["unit"],
        create=dict(chosen["create_landscape"]),
        num_samples=chosen["num_samples"],
        intervals=_intervals(chosen.get("intervals")),
    )


def _intervals(given: object) -> list[list[int]]:
    require_type("intervals of collect_landscape", given, list)
    intervals: list[list[int]] = given if isinstance(given, list) else []
    for interval in intervals:
        require_type("an interval of collect_landscape", interval, list)
        if len(interval) < SHORTEST_INTERVAL:
            raise LineageParamValueError(
                f"an interval of collect_landscape must have {SHORTEST_INTERVAL} numbers or more, not {interval}."
            )
        for number in interval:
            # MindSpore accepts a bool, too.
            require_type("a number in an interval of collect_landscape", number, int, bool)
    return [list(interval) for interval in intervals]


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


def plan_steps(total: int, frequency: int, tensor_frequency: int | None) -> CollectingSteps:
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
