"""Read facts from the objects of a MindSpore training: networks, optimizers, datasets, run arguments.

In: MindSpore's objects; `run_context.original_args()`, MindSpore's dict. Out: MindSpore's objects or plain values; None
where the training has no such object. Optimizers are those of `mindspore.nn`, and those of `mindspore.mint` and
`mindspore.experimental`, which MindSpore's own collector does not know. Promises: nothing is written, and the
training's objects stay unchanged. Functions raise what MindSpore raises; callers run them through `Failures`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore import dataset as sources
from mindspore.experimental.optim import Optimizer as ExperimentalOptimizer
from mindspore.nn.loss.loss import LossBase
from mindspore.train import ModelCheckpoint

from lineage_store.collect.environment import collect_environment
from lineage_store.collect.lost_values import Failures
from lineage_store.collect.user_values import UserValues, recordable

RunArguments = dict[str, Any]

TRAIN: Final = "train"
EVAL: Final = "eval"
OPTIMIZERS = (nn.Optimizer, ExperimentalOptimizer)
_OF_DIRECTORIES = (
    *(sources.ImageFolderDataset, sources.MnistDataset, sources.Cifar10Dataset),
    *(sources.Cifar100Dataset, sources.VOCDataset, sources.CelebADataset),
)
_PLACES: dict[str, tuple[type, ...]] = {
    "dataset_dir": _OF_DIRECTORIES,
    "dataset_file": (sources.ManifestDataset,),
    "dataset_files": (sources.MindDataset, sources.TFRecordDataset, sources.TextFileDataset),
}
"""The kinds of sources by the attribute that names their files; others, such as generators and arrays, have none."""
_PLAIN = (str, bool, int, float)
_LIST_LENGTH = 16
"""Longer lists are not taken for parameters."""


def optimizer_of(run: RunArguments) -> Any | None:
    """Return the model's optimizer, else the first one in the running network, else None."""
    given = run.get("optimizer")
    if given is not None:
        return given if isinstance(given, OPTIMIZERS) else None
    for cell in _cells(run):
        for candidate in (cell, getattr(cell, "optimizer", None)):
            if isinstance(candidate, OPTIMIZERS):
                return candidate
    return None


def loss_function_of(run: RunArguments) -> Any | None:
    """Return the model's loss function, else the first one in the running network, else None."""
    given = run.get("loss_fn")
    return given if given is not None else next((c for c in _cells(run) if isinstance(c, LossBase)), None)


def loss_of(run: RunArguments) -> np.floating[Any] | None:
    """Return the mean of the network's first output, in its precision; in float32 for bfloat16, which numpy lacks.

    Raises TypeError if the output is no number, list of numbers or tensor.
    """
    output = run.get("net_outputs")
    if isinstance(output, list | tuple):
        output = output[0] if output else None
    if output is None:
        return None
    values = np.asarray(output.asnumpy() if hasattr(output, "asnumpy") else output)
    if values.dtype.name == "bfloat16":
        values = values.astype(np.float32)
    mean: np.floating[Any] = np.mean(values)
    return mean


def checkpoint_of(run: RunArguments) -> str | None:
    """Return the path of the file last written by the last ModelCheckpoint among the callbacks; None without one."""
    names = [each.latest_ckpt_file_name for each in run["list_callback"] if isinstance(each, ModelCheckpoint)]
    return os.path.realpath(names[-1]) if names and names[-1] else None


def checkpoint_bytes(checkpoint: str | None) -> int:
    """Return the bytes of the model file; 0 without one, and if it no longer exists."""
    try:
        return os.path.getsize(checkpoint) if checkpoint else 0
    except FileNotFoundError:
        return 0


def backbone_of(run: RunArguments) -> Any:
    """Return the network without the training's wrappers: optimizer, loss, gradient scaling."""
    named = (cell for cell in _cells(run) if hasattr(cell, "_backbone"))
    network = next((cell._backbone for cell in named), run["train_network"])
    while "network" in (children := network.name_cells()):
        network = network.network
        if "optimizer" in children:
            break
    return network


def _cells(run: RunArguments) -> Iterator[Any]:
    """Yield the running network and every cell in it, outermost first."""
    network = run["train_network" if run["mode"] == TRAIN else "eval_network"]
    return (cell for _, cell in network.cells_and_names())


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Location and size of the data at the end of a pipeline."""

    path: str | None
    """Directory of the first source; None if the pipeline names none."""
    count: int
    """Samples per epoch, rounded up to full batches."""
    batch_size: int


def facts_of(dataset: Any) -> DatasetFacts:
    """Return directory, number of samples and batch size of a pipeline."""
    batch_size = int(dataset.get_batch_size())
    return DatasetFacts(source_path(dataset), int(dataset.get_dataset_size() * batch_size), batch_size)


def source_path(dataset: Any) -> str | None:
    """Return the directory of the first source, found by following first inputs; for a file, its directory."""
    while (path := _own_path(dataset)) is None:
        if not dataset.children:
            return None
        dataset = dataset.children[0]
    return os.path.dirname(path) if os.path.isfile(path) else path


def _own_path(dataset: Any) -> str | None:
    for attribute, kinds in _PLACES.items():
        if isinstance(dataset, kinds):
            place = getattr(dataset, attribute)
            path = place if isinstance(place, str) else next(iter(place or []), None)
            return path or None
    return None


def reproduction_of(run: RunArguments, failures: Failures) -> UserValues:
    """Return the result of `collect_environment`, with the parameters of the training's optimizer."""
    optimizer = failures.guard("the optimizer", optimizer_of, run)
    parameters = failures.guard("the optimizer's parameters", parameters_of, optimizer) or {}
    return recordable("collect_environment", collect_environment() | {"optimizer": parameters})


def parameters_of(optimizer: Any) -> dict[str, Any]:
    """Return the constructor arguments of an optimizer, such as weight decay, without the learning rate.

    Most in `mindspore.nn` keep them in `init_args`, those in `mindspore.mint` and `mindspore.experimental` in
    `defaults`, others in attributes with the arguments' names.
    """
    named = getattr(optimizer, "init_args", None) or getattr(optimizer, "defaults", None)
    if named is None:
        arguments = inspect.signature(type(optimizer)).parameters
        named = {name: getattr(optimizer, name) for name in arguments if hasattr(optimizer, name)}
    return {name: value for name, value in _plain(named) if name not in ("lr", "learning_rate")}


def _plain(named: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in named.items():
        if isinstance(value, Tensor | Parameter):
            # Through text, to get the shortest decimal, such as 0.8 instead of 0.800000011920929.
            value = float(str(value.asnumpy().reshape(-1)[0])) if value.size == 1 else None
        items = value if isinstance(value, list | tuple) and len(value) <= _LIST_LENGTH else [value]
        if all(isinstance(item, _PLAIN) for item in items):
            yield name, value
