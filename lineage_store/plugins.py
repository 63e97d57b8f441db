"""THE table of plugins: what a training records beside lineage, where it stands on the wire and in the store.

One row per plugin. A new plugin is a new row here, its field in proto/summary.proto and its decoder in
eventlog.mindspore.payloads (and, where its shape or element type should be in SQL, a description in
eventlog.mindspore.events): ingest stores its samples, `tags` lists them, verification reads them. Does not know SQL or
protobuf.
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
    """What holds it on the wire: a field of a summary's value, of a graph a field of the event."""
    suffixes: tuple[str, ...]
    """What MindInsight puts behind its tags; a tag is found with and without."""
    table: Literal["scalar_sample", "payload_sample"] = "payload_sample"
    """Where its samples stand: with their values, or with the places of these in the log file."""
    dtype: str | None = None
    """The type of all its values; None: each tells its own, or has none."""
    has_statistics: bool = False
    """Whether samples come with counts and extremes of the numbers they are made of."""
    is_array: bool = False
    """Whether a training records it as an array of numbers."""

    @property
    def has_value(self) -> bool:
        """Whether its values are in the database."""
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
