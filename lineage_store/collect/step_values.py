"""Add a step's values to a SummaryCollector's record: input image, loss, learning rate, histograms; and the graph.

In: MindSpore's run arguments. Out: values that are pending in the record. Promises: each kind is tried on its own; one
that fails is logged once and then left out.
"""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, get_context

from lineage_store.collect.attempts import Attempts
from lineage_store.collect.collector_options import Collected
from lineage_store.collect.facts.learning_rates import LearningRates
from lineage_store.collect.facts.run import RunArguments, loss_of, optimizer_of
from lineage_store.collect.record import SummaryRecord
from lineage_store.errors import LineageLogError
from lineage_store.plugins import GRAPH, HISTOGRAM, IMAGE, SCALAR

DEFAULT_HISTOGRAMS = 5
"""Number of parameters whose histograms are collected if none are named: the optimizer's first ones."""


class StepValues:
    """Adds the requested values. Caches the optimizer, because finding it takes a walk through the network."""

    def __init__(self, collected: Collected, attempts: Attempts) -> None:
        self._collected = collected
        self._attempts = attempts
        self._optimizer: Any = None
        self._rates: LearningRates | None = None

    def forget(self) -> None:
        """Forget the optimizer, because a new training may have another one."""
        self._optimizer = self._rates = None

    def add(self, record: SummaryRecord, run: RunArguments) -> None:
        """Queue the values of the step that has ended."""
        ask, collected = self._attempts.ask, self._collected
        if collected.input_data:
            ask("the input data", _add_input, record, run)
        if collected.metric:
            ask("the loss", _add_loss, record, run)
        if collected.learning_rate:
            ask("the learning rate", self._add_learning_rates, record, run)
        if collected.histograms:
            ask("histograms of parameters", self._add_histograms, record, run)

    def _add_learning_rates(self, record: SummaryRecord, run: RunArguments) -> None:
        if self._rates is None:
            self._rates = LearningRates(self._optimizer_of(run))
        for group, rate in enumerate(self._rates.last()):
            name = f"learning_rate_group_{group}" if group else "learning_rate"
            record.add_value(SCALAR, f"{name}/auto", rate)

    def _add_histograms(self, record: SummaryRecord, run: RunArguments) -> None:
        parameters = self._optimizer_of(run).parameters
        names = self._collected.histogram_names
        chosen = parameters[:DEFAULT_HISTOGRAMS]
        if names is not None:
            chosen = [each for each in parameters if names.match(each.name)]
        for each in chosen:
            tag = f"{each.name}/auto"
            self._attempts.ask(f"the histogram {tag}", record.add_value, HISTOGRAM, tag, each.data)

    def _optimizer_of(self, run: RunArguments) -> Any:
        if self._optimizer is None:
            self._optimizer = optimizer_of(run)
        if self._optimizer is None:
            raise LineageLogError("The training has no optimizer of MindSpore's.")
        return self._optimizer


def add_graph(record: SummaryRecord, run: RunArguments) -> None:
    """Queue the computational graph of the network in training; there is none in PyNative mode."""
    graph = run["train_network"].get_func_graph_proto()
    if graph is None:
        raise LineageLogError("MindSpore has none, as in PyNative mode.")
    record.add_value(GRAPH, "train_network/auto", graph)


def _add_input(record: SummaryRecord, run: RunArguments) -> None:
    if run["dataset_sink_mode"] and get_context("device_target") in ("Ascend", "GPU"):
        raise LineageLogError("The data sink to the device, and the host does not see them.")
    element = run["train_dataset_element"]
    image = element[0] if isinstance(element, list | tuple) and element else element
    if not isinstance(image, Tensor):
        raise TypeError(f"the first column is no Tensor but {type(image).__name__}")
    record.add_value(IMAGE, "input_data/auto", image)


def _add_loss(record: SummaryRecord, run: RunArguments) -> None:
    loss = loss_of(run)
    if loss is None:
        raise LineageLogError("The network has no output.")
    record.add_value(SCALAR, "loss/auto", loss)
