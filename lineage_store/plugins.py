"""THE table of plugins: the sorts of values that a training records beside lineage, and where each is stored.

One row per plugin. A new plugin needs a new row here, a field in proto/summary.proto and a decoder in
eventlog.mindspore.payloads (and a description in eventlog.mindspore.events if SQL should have its shape or element
type). Ingest then stores its samples, `tags` lists them and verification reads them. Does not know SQL or protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SCALAR = "scalar"
HISTOGRAM = "histogram"
IMAGE = "image"
TENSOR = "tensor"
GRAPH = "graph"
LANDSCAPE = "landscape"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One sort of values."""

    name: str
    field: str
    """The protobuf field that holds a value: a field of Summary.Value, or of Event for a graph."""
    suffixes: tuple[str, ...]
    """Suffixes that MindInsight appends to its tags; a tag is found with and without them."""
    table: Literal["scalar_sample", "payload_sample"] = "payload_sample"
    """The table of its samples: scalar_sample has their values, payload_sample their positions in the log file."""
    dtype: str | None = None
    """The element type of all its values; None: each value states its own, or has none."""
    has_statistics: bool = False
    """Whether a sample has counts, minimum, maximum and sum of the numbers it was made from."""
    is_array: bool = False
    """Whether a training records it as an array of numbers."""

    @property
    def has_value(self) -> bool:
        """Whether its values are stored in the database."""
        return self.table == "scalar_sample"


PLUGINS: tuple[Plugin, ...] = (
    Plugin(name=SCALAR, field="scalar_value", suffixes=("/scalar",), table="scalar_sample", is_array=True),
    Plugin(name=HISTOGRAM, field="histogram", suffixes=("/histogram",), has_statistics=True, is_array=True),
    Plugin(name=IMAGE, field="image", suffixes=("/image",), dtype="png", is_array=True),
    Plugin(name=TENSOR, field="tensor", suffixes=("/tensor",), is_array=True),
    Plugin(name=GRAPH, field="graph_def", suffixes=("/graph",)),
    Plugin(name=LANDSCAPE, field="loss_landscape", suffixes=("/loss_landscape", "/landscape")),
)

BY_NAME: dict[str, Plugin] = {plugin.name: plugin for plugin in PLUGINS}
BY_FIELD: dict[str, Plugin] = {plugin.field: plugin for plugin in PLUGINS}
