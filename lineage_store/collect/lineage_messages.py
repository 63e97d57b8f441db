"""Create the messages of a lineage event from the run arguments of a callback, and from a dataset pipeline.

In: run arguments and `Failures`, which handles facts that cannot be read; a MindSpore dataset. Out: TrainLineage,
EvaluationLineage and DatasetGraph, with the fields that MindSpore fills. Promises: a field whose fact is unknown stays
unset. For values of a pipeline at which MindSpore's own collector raises and ends the training (integers beyond 32
bits, lists of text in an operation), the value is stored as text. Python functions in a pipeline have no serialised
form and are left out.
"""

from __future__ import annotations

import json
from typing import Any

from mindspore import dataset as sources

from lineage_store.collect.facts import (
    RunArguments,
    checkpoint_bytes,
    checkpoint_of,
    facts_of,
    loss_function_of,
    loss_of,
    optimizer_of,
)
from lineage_store.collect.learning_rates import LearningRates
from lineage_store.collect.lost_values import Failures
from lineage_store.eventlog.mindspore.wire import lineage_pb2
from lineage_store.plain_values import fits


def train_lineage(
    run: RunArguments, failures: Failures, *, learning_rate: float | None = None
) -> lineage_pb2.TrainLineage:
    """Create the lineage of a training at its end. `learning_rate`: as read earlier; None: read it now."""
    optimizer = failures.guard("the optimizer", optimizer_of, run)
    if learning_rate is None and optimizer is not None:
        learning_rate = failures.guard("the learning rate", initial_rate, optimizer)
    loss_function = failures.guard("the loss function", loss_function_of, run)
    dataset = failures.guard("the training dataset", facts_of, run["train_dataset"])
    checkpoint = failures.guard("the model file", checkpoint_of, run)
    loss = failures.guard("the loss", loss_of, run)

    message = lineage_pb2.TrainLineage()
    _fill(
        message.hyper_parameters,
        optimizer=_class_name(optimizer),
        learning_rate=learning_rate,
        loss_function=_class_name(loss_function),
        epoch=run["epoch_num"],
        parallel_mode=run["parallel_mode"],
        device_num=run["device_number"],
        batch_size=dataset and dataset.batch_size,
    )
    _fill(message.algorithm, network=_class_name(run["network"]), loss=None if loss is None else float(loss))
    _fill(
        message.train_dataset,
        train_dataset_path=dataset and dataset.path,
        train_dataset_size=dataset and dataset.count,
    )
    _fill(message.model, path=json.dumps({"ckpt": checkpoint}), size=checkpoint_bytes(checkpoint))
    return message


def initial_rate(optimizer: object) -> float | None:
    """Return the initial learning rate of an optimizer."""
    return LearningRates(optimizer).initial()


def evaluation_lineage(run: RunArguments, failures: Failures) -> lineage_pb2.EvaluationLineage:
    """Create the lineage of an evaluation: its metrics and its dataset."""
    dataset = failures.guard("the evaluation dataset", facts_of, run["valid_dataset"])
    metric = failures.guard("the metrics", json.dumps, run["metrics"])
    message = lineage_pb2.EvaluationLineage()
    _fill(message, metric=metric)
    _fill(
        message.valid_dataset,
        valid_dataset_path=dataset and dataset.path,
        valid_dataset_size=dataset and dataset.count,
    )
    return message


def _class_name(thing: object) -> str | None:
    return None if thing is None else type(thing).__name__


def _fill(message: Any, **fields: Any) -> None:
    """Set the fields that are not None, except for a count beyond int32, which the format cannot hold."""
    for name, value in fields.items():
        if value is None or (isinstance(value, int) and name != "size" and not fits(value, 32)):
            continue
        setattr(message, name, value)


def graph_of(dataset: Any) -> lineage_pb2.DatasetGraph:
    """Return the pipeline that ends in `dataset`: the last operation is the root, its inputs are the children.

    Raises what `mindspore.dataset.serialize` raises.
    """
    message = lineage_pb2.DatasetGraph()
    content = sources.serialize(dataset)
    if isinstance(content, dict) and "children" in content:
        _fill_graph(message, content)
    return message


def _fill_graph(message: lineage_pb2.DatasetGraph, content: dict[str, Any]) -> None:
    for child in filter(None, content.get("children") or []):
        _fill_graph(message.children.add(), child)
    for key, value in content.items():
        if key == "children":
            continue
        if key == "operations" and value:
            for operation in value:
                _fill_operation(message.operations.add(), operation)
        elif key == "sampler" and value:
            _fill_operation(message.sampler, value)
        else:
            _fill_parameter(message.parameter, key, value)


def _fill_operation(message: lineage_pb2.Operation, content: dict[str, Any] | None) -> None:
    for key, value in (content or {}).items():
        is_list = isinstance(value, list | tuple)
        if is_list and all(isinstance(item, int) and fits(item, 32) for item in value):
            message.size.extend(value)
        elif is_list and all(isinstance(item, int | float) for item in value):
            message.weights.extend(value)
        else:
            _fill_parameter(message.operationParam, key, value)


def _fill_parameter(message: lineage_pb2.OperationParameter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        message.mapBool[key] = value
    elif isinstance(value, int) and fits(value, 32):
        message.mapInt[key] = value
    elif isinstance(value, float):
        message.mapDouble[key] = value
    elif isinstance(value, list | tuple):
        if value and key != "operations":
            message.mapStrList[key].strValue.extend("" if item is None else _text(item) for item in value)
    else:
        message.mapStr[key] = str(value) if isinstance(value, str | None) else _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, default=repr)
