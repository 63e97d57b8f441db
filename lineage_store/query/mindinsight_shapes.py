"""Rows become the answer in the shape of MindInsight 2.3.1.

In: rows of a page and the number of matches. Out: `{"customized", "object", "count"}`. Pure.
Promises: key names, key order and value types are MindInsight's; NaN in a metric is a float NaN. If the answer covers
several base dirs, each object has the additional key `base_dir`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lineage_store import texts
from lineage_store.fields import PREFIXES
from lineage_store.query.condition import SearchCondition
from lineage_store.query.job_sql import Found


def to_answer(
    rows: Sequence[Found], count: int | None, condition: SearchCondition, base_dirs: Mapping[int, str]
) -> dict[str, Any]:
    """Return the whole answer; `customized` covers the returned page.

    `base_dirs` are paths by id, if several base dirs are asked for; otherwise empty.
    """
    # parsing one document is faster than parsing many small ones
    lineages = json.loads(f"[{','.join([row.model_lineage for row in rows])}]")
    page = zip(rows, lineages, strict=True)
    return {
        "customized": _customized(lineages),
        "object": [to_object(row, model_lineage, condition, base_dirs) for row, model_lineage in page],
        "count": count,
    }


def to_object(
    row: Found, model_lineage: dict[str, Any], condition: SearchCondition, base_dirs: Mapping[int, str]
) -> dict[str, Any]:
    """Return one job of the answer; `model_lineage` is the row's JSON, parsed."""
    shown: dict[str, Any] = {"summary_dir": texts.from_stored(row.train_id)}
    if condition.shows_model:
        shown["model_lineage"] = model_lineage
    if condition.shows_dataset:
        shown["dataset_graph"] = json.loads(row.dataset_graph) if row.dataset_graph else {}
    annotations = {"tag": row.tag, "remark": row.remark}
    shown["added_info"] = {name: value for name, value in annotations.items() if value is not None}
    if base_dirs:
        shown["base_dir"] = texts.from_stored(base_dirs[row.base_dir_id])
    return shown


def _customized(lineages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe the page's metrics and user-defined values in order of appearance, each with its values' common type."""
    types: dict[tuple[str, str], set[type]] = defaultdict(set)
    for lineage in lineages:
        for group in PREFIXES:
            for name, value in lineage[group].items():
                types[group, name].add(type(value))
    labelled = ((f"{PREFIXES[group]}{name}", group, found) for (group, name), found in types.items())
    return {
        label: {"label": label, "required": group == "metric", "type": _common_type(found)}
        for label, group, found in labelled
    }


def _common_type(types: set[type]) -> str:
    if len(types) == 1:
        return next(iter(types)).__name__
    return "float" if types == {int, float} else "mixed"
