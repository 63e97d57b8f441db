"""`lineagemgr/lineages`, `optimizer/targets/search`, `datasets/dataset_graph`: lineage, labels and remarks.

Conditions are first checked as MindInsight checks them; the store answers those that pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import LARGEST_LABEL, LONGEST_REMARK
from lineage_store.server.mindinsight.conditions import read_condition, refused
from lineage_store.server.mindinsight.importance import analysed
from lineage_store.server.mindinsight.protocol import Query, RefusedError, wrong_value
from lineage_store.server.mindinsight.site import Site

_NESTED = ("operations", "sampler", "children")
_TYPES = (str, bool, int, float, list)
"""The order of keys in MindInsight's pipelines: by the types of their values, and `_NESTED` last."""


def lineages(site: Site, body: Any) -> dict[str, Any]:
    """Return the lineage of the jobs that match the condition in a request's body."""
    found = search(site, body)
    for each in found["object"]:
        if "dataset_graph" in each:
            each["dataset_graph"] = in_order(each["dataset_graph"])
    return found


def search(site: Site, body: Any) -> dict[str, Any]:
    """Return the store's answer to the condition in a request's body. Raises RefusedError."""
    condition = dict(read_condition({} if body is None else body))
    if "summary_dir" in condition:
        ids = condition["summary_dir"].items()
        condition["summary_dir"] = {operator: _without_paths(value) for operator, value in ids}
    if not site.base_dir:
        return {"customized": {}, "object": [], "count": 0}
    try:
        return site.store.filter_lineage(condition, base_dir=site.base_dir)
    except LineageSearchConditionParamError as error:
        raise refused(str(error)) from None


def _without_paths(ids: Any) -> Any:
    """Replace absolute paths, which the store would accept as ids, by "", which no job is called."""
    if isinstance(ids, list):
        return [_without_paths(each) for each in ids]
    return "" if isinstance(ids, str) and ids.startswith("/") else ids


def targets(site: Site, body: Any) -> dict[str, Any]:
    """Return how hyper-parameters correlate with results, among the jobs that match."""
    return analysed(search(site, body)["object"])


def annotation(query: Query, body: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the train id and the new label and remark of a request. Raises RefusedError."""
    if not isinstance(body, dict):
        raise wrong_value("The request body should be a dict.")
    train_id = _relative(query.get("train_id"))
    if not body.keys() <= _CHECKS.keys():
        raise _invalid("Keys of added_info must be in ['tag', 'remark'].")
    for name, value in body.items():
        _CHECKS[name](value)
    return train_id, body


def _check_tag(tag: object) -> None:
    if not isinstance(tag, int) or isinstance(tag, bool):
        raise _invalid("'tag' must be int.")
    if not 0 <= tag <= LARGEST_LABEL:
        raise _invalid(f"The tag should in [0, {LARGEST_LABEL}].")


def _check_remark(remark: object) -> None:
    if not isinstance(remark, str):
        raise _invalid("'remark' must be str.")
    if len(remark) > LONGEST_REMARK:
        raise _invalid(f"The length of remark should in [0, {LONGEST_REMARK}].")


_CHECKS = {"tag": _check_tag, "remark": _check_remark}


def require_lineage(site: Site, train_id: str) -> None:
    """Raise RefusedError if the job does not exist or has no lineage of a dataset."""
    site.job(train_id, train_id)
    if site.lineage_of(train_id, "dataset") is None:
        raise wrong_value(f"Cannot update the lineage for tran job {train_id}, because it does not exist.")


def dataset_graph(site: Site, query: Query) -> dict[str, Any]:
    """Return a job's dataset pipeline; nothing if it recorded none."""
    train_id = _relative(query.get("train_id"))
    found = site.lineage_of(train_id, "dataset")
    if found is None or not found["dataset_graph"]:
        return {}
    return {"dataset_graph": in_order(found["dataset_graph"]), "summary_dir": train_id}


def _relative(train_id: str | None) -> str:
    if train_id is None or not train_id.startswith("./") or train_id.count("/") > 1:
        raise wrong_value("Summary dir should be relative path starting with './'.")
    return train_id


def _invalid(detail: str) -> RefusedError:
    return RefusedError("50542081", f"ValueError. {detail}")


def in_order(value: Any) -> Any:
    """Return a part of a pipeline with its keys in MindInsight's order; lists keep their order."""
    if isinstance(value, list):
        return [in_order(each) for each in value]
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value, key=lambda key: _rank(key, value[key]))}
    return value


def _rank(key: str, value: Any) -> tuple[int, str]:
    if key in _NESTED:
        return len(_TYPES) + _NESTED.index(key), key
    return next((rank for rank, type_ in enumerate(_TYPES) if isinstance(value, type_)), 0), key
