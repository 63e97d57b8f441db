"""What a SummaryRecord asks of MindSpore: emitted values, the compiled graph, the device. Without MindSpore: nothing.

In: nothing, or a network. Out: values that the network's summary operators emitted since the last call, a graph, the
number in log file names. Promises: MindSpore is used only when the script has imported it; imports of it happen here,
inside functions.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

_EMITTED_NAME = re.compile(r"(.+)\[:(.+)\]")
_TYPE_OF_OPERATOR = {
    "ScalarSummary": "Scalar",
    "ImageSummary": "Image",
    "TensorSummary": "Tensor",
    "HistogramSummary": "Histogram",
}


class Operators:
    """The values that summary operators emit, in graph and in PyNative mode."""

    _op_finished_init = False
    """MindSpore's own wait for a device keeps its state in this attribute of a record."""

    def forget(self) -> None:
        """Drop what was emitted before this recorder."""
        if "mindspore" in sys.modules:
            from mindspore.ops.operations import debug_ops
            from mindspore.train.summary import summary_record

            summary_record._get_summary_tensor_data()
            debug_ops.SUMMARY_TENSOR_CACHE = []  # PyNative mode, which MindSpore's own recorder forgets to forget

    def drain(self, step: int) -> Iterator[tuple[str, str, Any]]:
        """(plugin, tag, tensor) of what was emitted; of a tag's values of one type the last.

        RuntimeError when an Ascend device does not deliver.
        """
        if "mindspore" not in sys.modules:
            return
        from mindspore.ops.operations import debug_ops
        from mindspore.train.summary import summary_record

        if hasattr(summary_record.SummaryRecord, "_sync_summary_data"):
            summary_record.SummaryRecord._sync_summary_data(self, step)
        pynative, debug_ops.SUMMARY_TENSOR_CACHE = debug_ops.SUMMARY_TENSOR_CACHE, []
        summary_record._cache_summary_tensor_data(
            [
                {"name": f"{tag}[:{_TYPE_OF_OPERATOR[operator]}]", "data": value}
                for operator, tag, value in pynative
            ]
        )
        for name, value in summary_record._get_summary_tensor_data().items():
            if match := _EMITTED_NAME.match(name):
                yield match[2].lower(), match[1], value


def is_network(value: Any) -> bool:
    """Whether it is a Cell of MindSpore."""
    mindspore = sys.modules.get("mindspore")
    return mindspore is not None and isinstance(value, mindspore.nn.Cell)


def compiled_graph(network: Any) -> bytes | None:
    """The serialised ModelProto of a network that was compiled; None before that and in PyNative mode."""
    try:
        from mindspore.graph.api import _cell_graph_executor
    except ImportError:  # MindSpore before 2.8
        from mindspore.common.api import _cell_graph_executor
    graph = _cell_graph_executor.get_optimize_graph_proto(network)
    return graph or None


def device_number() -> int:
    """The device or rank in file names: MindSpore's, else that of a distributed launcher, else 0."""
    if "mindspore" not in sys.modules:
        rank = os.environ.get("RANK", "")
        return int(rank) if re.fullmatch("[0-9]{1,9}", rank) else 0
    from mindspore import context
    from mindspore.communication.management import GlobalComm, get_group_size, get_rank

    if get_group_size() > 1 or GlobalComm.WORLD_COMM_GROUP == "nccl_world_group":
        return int(get_rank())
    return int(context.get_context("device_id"))
