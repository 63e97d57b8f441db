"""What add_value takes for each plugin, brought into a form that the training can no longer change.

In: a number, a numpy array, a tensor of MindSpore, PyTorch or JAX, or a protobuf message. Out: a float, an array of
our own, or bytes. Promises: whatever cannot be written is refused here, in the training's own thread, with the name
and what would fit. Imports neither a framework nor protobuf: a tensor is known by its methods, a message by its
descriptor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store import plugins
from lineage_store.errors import InvalidTagError, LineageParamTypeError, LineageParamValueError
from lineage_store.eventlog.values import EventDecodeError

ARRAY_PLUGINS = tuple(plugin.name for plugin in plugins.PLUGINS if plugin.is_array)
LINEAGE_MESSAGES = {
    "train_lineage": "TrainLineage",
    "eval_lineage": "EvaluationLineage",
    "dataset_graph": "DatasetGraph",
    "custom_lineage_data": "UserDefinedInfo",
}
"""The message that each plugin of lineage takes."""
PLUGINS = (*ARRAY_PLUGINS, *LINEAGE_MESSAGES, plugins.GRAPH, plugins.LANDSCAPE)

Held = float | NDArray[Any] | bytes


def plugin_of(plugin: str) -> str:
    """The plugin's name as MindSpore spells it; the documentation's LANDSCAPE is taken, too."""
    known = "landscape" if plugin == "LANDSCAPE" else plugin
    if known not in PLUGINS:
        raise LineageParamValueError(
            f"There is no plugin {plugin!r} to record.", hint=f"Take one of {', '.join(PLUGINS)}."
        )
    return known


def tag_of(name: str) -> str:
    """The name, which must be text that is not empty and can be written as UTF-8."""
    if not isinstance(name, str) or not name:
        raise InvalidTagError(f"A value's name must be a non-empty str, but is {name!r}.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidTagError(f"The name {name!r} cannot be written as UTF-8: {error.reason}.") from error
    return name


def held(plugin: str, name: str, value: Any) -> Held:
    """`value` in the form that `encoding` takes for this plugin."""
    if plugin == "scalar":
        return _scalar(name, value)
    if plugin in ARRAY_PLUGINS:
        return _array(plugin, name, value)
    if plugin == "graph":
        return _graph(value)
    return _message(plugin, value, "LossLandscape" if plugin == "landscape" else LINEAGE_MESSAGES[plugin])


def _scalar(name: str, value: Any) -> float:
    number = _only_item(value)
    if isinstance(number, float | int):
        return _as_float(number)
    array = _as_numpy("scalar", name, value)
    if array.size != 1:
        raise LineageParamValueError(
            f"The scalar {name!r} must have one element, but has the shape {array.shape}."
        )
    return float(array.item())


def _only_item(value: Any) -> Any:
    """What `item()` gives, which is much faster than an array of one element; the value itself if that fails."""
    try:
        return value.item()
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return value


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _array(plugin: str, name: str, value: Any) -> NDArray[Any]:
    array = np.array(_as_numpy(plugin, name, value), order="C")
    if plugin == "image" and array.ndim != 4:
        raise LineageParamValueError(
            f"The image {name!r} must have 4 dimensions (batch, channels, height, width), "
            f"but has the shape {array.shape}."
        )
    if array.ndim == 0:
        raise LineageParamValueError(
            f"The {plugin} {name!r} must have at least one dimension.", hint="Record it as a scalar."
        )
    return array


def _as_numpy(plugin: str, name: str, value: Any) -> NDArray[Any]:
    if hasattr(value, "asnumpy"):  # MindSpore
        value = value.asnumpy()
    elif hasattr(value, "detach"):
        # PyTorch, which gives no array of a tensor that keeps a gradient or lives on a device.
        value = value.detach().cpu().numpy()
    if not isinstance(value, float | int) and not hasattr(value, "__array__"):
        raise LineageParamTypeError(
            f"The {plugin} {name!r} must be a tensor, a numpy array or a number, "
            f"but is a {type(value).__name__}."
        )
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.name != "bfloat16":
        raise LineageParamTypeError(
            f"The {plugin} {name!r} must hold booleans, integers or floats, but holds {array.dtype}."
        )
    return array.astype(np.float32)


def _graph(value: Any) -> bytes:
    """The GraphProto in a serialised ModelProto, as MindSpore's compiler gives it, or in a message of either."""
    kind = _kind(value)
    if kind == "GraphProto":
        return bytes(value.SerializeToString())
    model = value.SerializeToString() if kind == "ModelProto" else value
    if not isinstance(model, bytes):
        raise LineageParamTypeError(
            f"A graph must be the bytes of a ModelProto, or a GraphProto, but is a {type(value).__name__}."
        )
    from lineage_store.eventlog.mindspore.messages import parse
    from lineage_store.eventlog.mindspore.wire import anf_ir_pb2

    try:
        return parse(anf_ir_pb2.ModelProto, model).graph.SerializeToString()
    except EventDecodeError as error:
        raise LineageParamValueError(f"The graph cannot be read: {error}") from error


def _message(plugin: str, value: Any, wanted: str) -> bytes:
    if _kind(value) != wanted:
        raise LineageParamTypeError(
            f"A value of the plugin {plugin!r} must be a {wanted} message, but is a {type(value).__name__}."
        )
    return bytes(value.SerializeToString())


def _kind(value: Any) -> str | None:
    """The name of a protobuf message's type, whoever registered it."""
    return getattr(getattr(value, "DESCRIPTOR", None), "name", None)
