"""Convert a dataset pipeline to the DatasetGraph of a lineage event.

In: a MindSpore dataset. Out: the same message as from MindSpore: the last operation is the root, its inputs are the
children. For values at which MindSpore's own collector raises and ends the training (integers beyond 32 bits, lists of
text in an operation), the value is stored as text. Python functions in a pipeline have no serialised form and are left
out.
"""

from __future__ import annotations

import json
from typing import Any

from mindspore import dataset as sources

from lineage_store.collect.wire_bytes import fits
from lineage_store.eventlog.mindspore.wire import lineage_pb2

_Parameters = lineage_pb2.OperationParameter


def graph_of(dataset: Any) -> lineage_pb2.DatasetGraph:
    """Return the pipeline that ends in `dataset`. Raises what `mindspore.dataset.serialize` raises."""
    message = lineage_pb2.DatasetGraph()
    content = sources.serialize(dataset)
    if isinstance(content, dict) and "children" in content:
        _fill(message, content)
    return message


def _fill(message: lineage_pb2.DatasetGraph, content: dict[str, Any]) -> None:
    for child in filter(None, content.get("children") or []):
        _fill(message.children.add(), child)
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


def _fill_parameter(message: _Parameters, key: str, value: Any) -> None:
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
