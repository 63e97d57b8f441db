"""Read facts about a training from a callback's run arguments: optimizer, loss function, loss, model file.

In: `run_context.original_args()`, MindSpore's dict. Out: MindSpore's objects or plain values; None if the training
has no such object. Optimizers are those of `mindspore.nn`, and those of `mindspore.mint` and
`mindspore.experimental`, which MindSpore's own collector does not know.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from mindspore import nn
from mindspore.experimental.optim import Optimizer as ExperimentalOptimizer
from mindspore.nn.loss.loss import LossBase
from mindspore.train import ModelCheckpoint

RunArguments = dict[str, Any]

TRAIN, EVAL = "train", "eval"
OPTIMIZERS = (nn.Optimizer, ExperimentalOptimizer)


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


def size_of(checkpoint: str | None) -> int:
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
