"""Convert the values of `add_value` to a form that the training can no longer change, and pass them on as batches.

In: a number, a numpy array, a tensor of MindSpore, PyTorch or JAX, or a protobuf message. Out: a float, a copied array,
or bytes; in frozen entries and batches, which any thread may read. Promises: a value of a wrong type or shape is
refused here, in the training's thread, with its name and what would fit. Imports no framework, and protobuf only to
read a graph, because MindSpore 2.7 to 2.9 must be imported before it: tensors are recognised by their methods, messages
by their descriptors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store import plugins
from lineage_store.errors import InvalidTagError, LineageParamTypeError, LineageParamValueError
from lineage_store.eventlog.values import EventDecodeError
from lineage_store.plugins import GRAPH, IMAGE, LANDSCAPE, SCALAR

ARRAY_PLUGINS = tuple(plugin.name for plugin in plugins.PLUGINS if plugin.is_array)
LINEAGE_MESSAGES = {
    "train_lineage": "TrainLineage",
    "eval_lineage": "EvaluationLineage",
    "dataset_graph": "DatasetGraph",
    "custom_lineage_data": "UserDefinedInfo",
}
"""The name of the message that each plugin of lineage takes."""
PLUGINS = (*ARRAY_PLUGINS, *LINEAGE_MESSAGES, plugins.GRAPH, plugins.LANDSCAPE)

Held = float | NDArray[Any] | bytes
_ENCODED_ELEMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class AddedValue:
    """One value added."""

    plugin: str
    tag: str
    value: Held

    @property
    def array_bytes(self) -> int:
        """Bytes of memory that the value takes, now and encoded; 0 for a single number."""
        if isinstance(self.value, float):
            return 0
        if isinstance(self.value, bytes):
            return 2 * len(self.value)
        return self.value.nbytes + _ENCODED_ELEMENT_BYTES * self.value.size


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """The values of one call."""

    step: int
    wall_time: float
    """Unix time in seconds."""
    entries: tuple[AddedValue, ...]
    """Grouped by plugin."""
    export_tensors: bool = False


def plugin_of(plugin: str) -> str:
    """Check a plugin's name, and return it in MindSpore's spelling; LANDSCAPE, as documented, is accepted, too."""
    known = LANDSCAPE if plugin == "LANDSCAPE" else plugin
    if known not in PLUGINS:
        raise LineageParamValueError(
            f"There is no plugin {plugin!r} to record.", hint=f"Take one of {', '.join(PLUGINS)}."
        )
    return known


def tag_of(name: str) -> str:
    """Check that a name is non-empty text that can be written as UTF-8, and return it."""
    if not isinstance(name, str) or not name:
        raise InvalidTagError(f"A value's name must be a non-empty str, but is {name!r}.")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidTagError(f"The name {name!r} cannot be written as UTF-8: {error.reason}.") from error
    return name


def added_value(plugin: str, tag: str, value: Any) -> AddedValue:
    """Convert `value` to the form that `encoding` takes for this plugin."""
    return AddedValue(plugin, tag, _held(plugin, tag, value))


def _held(plugin: str, name: str, value: Any) -> Held:
    if plugin == SCALAR:
        return _scalar(name, value)
    if plugin in ARRAY_PLUGINS:
        return _array(plugin, name, value)
    if plugin == GRAPH:
        return _graph(value)
    return _message(plugin, value, "LossLandscape" if plugin == LANDSCAPE else LINEAGE_MESSAGES[plugin])


def _scalar(name: str, value: Any) -> float:
    number = _only_item(value)
    if isinstance(number, float | int):
        return _as_float(number)
    array = _as_numpy(SCALAR, name, value)
    if array.size != 1:
        raise LineageParamValueError(
            f"The scalar {name!r} must have one element, but has the shape {array.shape}."
        )
    return float(array.item())


def _only_item(value: Any) -> Any:
    """Return `value.item()`, which is much faster than an array of one element; the value itself if that fails."""
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
    if plugin == IMAGE and array.ndim != 4:
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
        # PyTorch refuses to convert a tensor that requires a gradient or is on a device.
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
    """Return the serialised GraphProto of a GraphProto, a ModelProto, or the bytes of a ModelProto."""
    kind = _kind(value)
    if kind == "GraphProto":
        return bytes(value.SerializeToString())
    model = value.SerializeToString() if kind == "ModelProto" else value
    if not isinstance(model, bytes):
        raise LineageParamTypeError(
            f"A graph must be the bytes of a ModelProto, or a GraphProto, but is a {type(value).__name__}."
        )
    from lineage_store.eventlog.mindspore.events import parse_message
    from lineage_store.eventlog.mindspore.wire import anf_ir_pb2

    try:
        return parse_message(anf_ir_pb2.ModelProto, model).graph.SerializeToString()
    except EventDecodeError as error:
        raise LineageParamValueError(f"The graph cannot be read: {error}") from error


def _message(plugin: str, value: Any, wanted: str) -> bytes:
    if _kind(value) != wanted:
        raise LineageParamTypeError(
            f"A value of the plugin {plugin!r} must be a {wanted} message, but is a {type(value).__name__}."
        )
    return bytes(value.SerializeToString())


def _kind(value: Any) -> str | None:
    """Return the name of a protobuf message's type, in any descriptor pool; None for other values."""
    return getattr(getattr(value, "DESCRIPTOR", None), "name", None)
