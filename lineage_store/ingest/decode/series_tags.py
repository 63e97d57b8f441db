"""What the series of a value is called: the one place that says so, whoever decodes the value.

In: the plugin and the stored tag of a value, and the name of its file. Out: the tag of its series.
Promises: a tag stays what the training chose, "" included. Does not know which path decoded the value.
"""

from __future__ import annotations

from lineage_store.plugins import GRAPH


def series_tag(plugin: str, tag: str, file_name: str) -> str:
    """The tag itself; a graph has none on the wire, so that its file's name stands in for it."""
    return file_name if plugin == GRAPH else tag
