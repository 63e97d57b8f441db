"""What a SummaryRecord needs from MindSpore: emitted values, the compiled graph, the device number.

In: nothing, or a network. Out: values that the network's summary operators emitted since the last call, a graph, the
number in log file names. Promises: MindSpore is used only if the script has imported it; without it there are no
values, and the number comes from the launcher's environment.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

_EMITTED_NAME = re.compile(r"(.+)\[:(.+)\]")


class Operators:
    """The values that summary operators emit, in graph and in PyNative mode."""

    _op_finished_init = False
    """MindSpore's `_sync_summary_data`, which is called with this object as its record, uses this attribute."""

    def forget(self) -> None:
        """Drop the values that were emitted before this recorder was opened."""
        if "mindspore" in sys.modules:
            from mindspore.ops.operations import debug_ops
            from mindspore.train.summary import summary_record

            summary_record._get_summary_tensor_data()
            debug_ops.SUMMARY_TENSOR_CACHE = []  # of PyNative mode; MindSpore's own recorder does not clear it

    def drain(self, step: int) -> Iterator[tuple[str, str, Any]]:
        """Yield (plugin, tag, tensor) of the emitted values; only the last value of each plugin and tag.

        Raises RuntimeError if an Ascend device does not deliver its values.
        """
        if "mindspore" not in sys.modules:
            return
        from mindspore.ops.operations import debug_ops
        from mindspore.train.summary import summary_record

        if hasattr(summary_record.SummaryRecord, "_sync_summary_data"):
            summary_record.SummaryRecord._sync_summary_data(self, step)
        pynative, debug_ops.SUMMARY_TENSOR_CACHE = debug_ops.SUMMARY_TENSOR_CACHE, []
        named = [
            {"name": f"{tag}[:{operator.removesuffix('Summary')}]", "data": value}
            for operator, tag, value in pynative
        ]
        summary_record._cache_summary_tensor_data(named)
        for name, value in summary_record._get_summary_tensor_data().items():
            if match := _EMITTED_NAME.match(name):
                yield match[2].lower(), match[1], value


def is_cell(value: Any) -> bool:
    """Return whether `value` is a MindSpore Cell."""
    mindspore = sys.modules.get("mindspore")
    return mindspore is not None and isinstance(value, mindspore.nn.Cell)


def compiled_graph(network: Any) -> bytes | None:
    """Return the serialised ModelProto of a compiled network; None before it is compiled, and in PyNative mode."""
    try:
        from mindspore.graph.api import _cell_graph_executor
    except ImportError:  # MindSpore before 2.8
        from mindspore.common.api import _cell_graph_executor
    graph = _cell_graph_executor.get_optimize_graph_proto(network)
    return graph or None


def device_number() -> int:
    """Return the device or rank for file names: MindSpore's, else the launcher's `RANK`, else 0."""
    if "mindspore" not in sys.modules:
        rank = os.environ.get("RANK", "")
        return int(rank) if re.fullmatch("[0-9]{1,9}", rank) else 0
    from mindspore import context
    from mindspore.communication.management import GlobalComm, get_group_size, get_rank

    if get_group_size() > 1 or GlobalComm.WORLD_COMM_GROUP == "nccl_world_group":
        return int(get_rank())
    return int(context.get_context("device_id"))
