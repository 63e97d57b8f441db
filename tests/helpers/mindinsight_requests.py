"""Requests to MindInsight's REST API, which its server and ours both get, and the comparison of their answers.

In: the tags of the jobs of a base dir. Out: requests; answers in a form that can be compared. Not compared are
`dataset_mark`, which is a digest in our answers; the spelling of NaN, which MindInsight writes as invalid JSON; the
sign of zero, which SQLite loses; the last digits of an importance, which depend on the version of NumPy.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from lineage_store.plain_values import for_json

BEGIN = "/v1/mindinsight/"
Tags = Mapping[str, Mapping[str, Sequence[str]]]
"""The tags of each job, by plugin."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    method: str
    path: str
    """The path with the query."""
    body: Any = None
    """Sent as JSON; text is sent unchanged."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The comparable parts of an answer."""

    status: int
    media_type: str
    content: Any
    """The parsed JSON, or the length of other content."""


def ask(client: httpx.Client, asked: Asked) -> Answered:
    """Send the request."""
    body = asked.body if isinstance(asked.body, str) else json.dumps(asked.body)
    sent: dict[str, Any] = {"content": body, "headers": {"Content-Type": "application/json"}}
    answer = client.request(asked.method, BEGIN + asked.path, **({} if asked.method == "GET" else sent))
    media_type = answer.headers["content-type"].partition(";")[0]
    is_json = media_type == "application/json"
    return Answered(
        answer.status_code, media_type, comparable(answer.json()) if is_json else len(answer.content)
    )


def may_stand_for(asked: Asked, ours: Answered, theirs: Answered) -> bool:
    """Return whether our answer equals theirs, or answers where their server fails or has dropped the step."""
    if ours == theirs or (theirs.status == 500 and ours.status < 500):
        return True
    code = theirs.content.get("error_code") if isinstance(theirs.content, dict) else None
    return code in _DROPPED and "step=" in asked.path and ours.status < 500


_DROPPED = ("5054500D", "50545014")
"""No such image, no such tensor: the store has every step."""


def comparable(content: Any, key: str = "") -> Any:
    """Return JSON without the parts that need not be equal."""
    if isinstance(content, dict):
        return {key: comparable(value, key) for key, value in content.items() if key != "dataset_mark"}
    if isinstance(content, list):
        return [comparable(value) for value in content]
    if isinstance(content, float):
        return for_json(round(content, 12) if key == "importance" else content + 0.0)
    return content


def tags_of(client: httpx.Client) -> Tags:
    """Return the tags that the server lists, after opening each job."""
    jobs = client.get(f"{BEGIN}datavisual/train-jobs", params={"limit": 999}).json()["train_jobs"]
    return {job["train_id"]: job["plugins"] for job in jobs}


def get(path: str, *pairs: tuple[str, object]) -> Asked:
    """Return a GET with these parameters."""
    return Asked("GET", f"{path}?{urlencode(pairs)}" if pairs else path)


def of_job(train_id: str, tags: Mapping[str, Sequence[str]]) -> Iterator[Asked]:
    """Yield all requests of the page about one job, and more of the same kinds."""
    job = ("train_id", train_id)
    for plugin in (*tags, "loss"):
        yield get("datavisual/single-job", ("plugin_name", plugin), job)
    yield get("datavisual/plugins", job, ("manual_update", "TRUE"))
    yield get("datasets/dataset_graph", job)
    yield get("datavisual/landscape/intervals", job)
    yield get("datavisual/landscape/landscapes", job, ("type", "final"), ("metadata", "true"))
    yield Asked("POST", "lineagemgr/lineages", {"summary_dir": {"in": [train_id]}})
    for tag in (*tags["scalar"], "loss/scalar", "no/such"):
        yield get("datavisual/scalar/metadata", job, ("tag", tag))
        yield get("datavisual/scalars", job, ("tag", tag), ("train_id", "./nope"), ("tag", "no/scalar"))
    for tag in (*tags["histogram"], "no/histogram"):
        yield get("datavisual/histograms", job, ("tag", tag))
    for tag in (*tags["image"], "no/image"):
        yield get("datavisual/image/metadata", job, ("tag", tag))
        for step in ("-1", "1", " 2 ", "1000", "a", "1.0", "") if tags["image"] else ():
            yield get("datavisual/image/single-image", job, ("tag", tag), ("step", step))
    yield from _of_tensors(
        job, [*tags["tensor"], *tags["scalar"][:1], "no/tensor", ""] if tags["tensor"] else ["no"]
    )
    yield from _of_graph(job, tags) if tags["graph"] else (get("datavisual/graphs/nodes", job),)


def _of_tensors(job: tuple[str, object], tags: Sequence[str]) -> Iterator[Asked]:
    path = "datavisual/tensors"
    for tag in tags:
        yield get(path, job, ("tag", tag))
        for detail in ("stats", "histogram", "all", "") if len(tags) > 1 else ():
            yield get(path, job, ("tag", tag), ("detail", detail))
        for dims in (*_SLICES, *(_BAD_SLICES if tag == tags[0] else ())):
            for step in ("0", "2"):
                yield get(path, job, ("tag", tag), ("detail", "data"), ("step", step), ("dims", dims))
        yield get(path, job, ("tag", tag), ("detail", "data"), ("step", "a"), ("dims", "[]"))
        yield get(path, job, ("tag", tag), ("detail", "data"), ("step", 77), ("dims", "[:,:]"))


_SLICES = ("[:,:]", "[:]", "[]", "[0,0]", "[-1,:]", "[5:9,:]", "[:,5:9]", "[::-1, ::2 ]")
_BAD_SLICES = ("[:,:,:]", "[a,:]", "[:a]", "[9,9]", "[0,0,0]", "0,0", "[0,]", "")


def _of_graph(job: tuple[str, object], tags: Mapping[str, Sequence[str]]) -> Iterator[Asked]:
    yield get("datavisual/graphs/nodes", job, ("mode", "x"))
    yield get("datavisual/graphs/nodes", job, ("tag", ""))
    for mode, plugin in (("normal", "graph"), ("optimize", "optimized_graph")):
        common = (job, ("mode", mode), *(("tag", tag) for tag in tags[plugin]))
        for name in ("", "Default", "Default/network-WithLossCell", "no/such"):
            yield get("datavisual/graphs/nodes", *common, ("name", name))
            yield get("datavisual/graphs/nodes/all", *common, ("name", name))
            yield get("datavisual/graphs/single-node", *common, ("name", name))
        for search in ("conv", "Default", "/", "", "momentum["):
            offset = ("offset", int(search == "conv"))
            yield get("datavisual/graphs/nodes/names", *common, ("search", search), offset, ("limit", 20))
        for wrong in (("limit", 1001), ("limit", 0), ("offset", -1), ("limit", "a")):
            yield get("datavisual/graphs/nodes/names", *common, ("search", "conv"), wrong)


def of_base_dir(train_ids: Sequence[str]) -> Iterator[Asked]:
    """Yield requests about all jobs together, and invalid requests."""
    first, last = train_ids[0], train_ids[-1]
    for query in ("", "?limit=3", "?limit=3&offset=2", "?offset=10000", "?limit=999", *_BAD_PAGES):
        yield get(f"datavisual/train-jobs{query}")
    for train_id in (first, "./nope", "nope", "", "./a\0b"):
        yield from _of_any(("train_id", train_id))
    for path in _NEED_PARAMETERS:
        yield get(f"datavisual/{path}")
        yield get(f"datavisual/{path}", ("train_id", "./nope"))
    yield get("datavisual/plugins", ("train_id", first), ("manual_update", "yes"))
    yield get("datavisual/landscape/landscapes")
    yield get("datavisual/landscape/landscapes", ("train_id", first), ("train_id", last), ("type", "x"))
    for method, path in (
        ("GET", "ui-config"),
        ("GET", "no/such"),
        ("PUT", "ui-config"),
        ("PATCH", "no/such"),
    ):
        yield Asked(method, path)
    yield from (
        Asked("OPTIONS", "ui-config"),
        Asked("POST", "datavisual/plugins"),
        Asked("DELETE", "no/such"),
    )
    for train_ids_asked in ([first, "./nope", first], [], 5, [5]):
        yield Asked("POST", "datavisual/train-job-caches", {"train_ids": train_ids_asked})
    for body in ("", "null", "{}", "{"):
        yield Asked("POST", "datavisual/train-job-caches", body)
    for body in ("", "null", "{}", "{", "5", "[]", '"x"'):
        yield Asked("POST", "lineagemgr/lineages", body)
        yield Asked("POST", "optimizer/targets/search", body)


def _of_any(job: tuple[str, object]) -> Iterator[Asked]:
    """Yield requests about a job that may not exist."""
    for path in ("datavisual/train-jobs", "datasets/dataset_graph", "datavisual/landscape/intervals"):
        yield get(path, job)
    for path in (
        "plugins",
        "scalar/metadata",
        "histograms",
        "image/metadata",
        "tensors",
        "image/single-image",
    ):
        yield get(f"datavisual/{path}", job, ("tag", "no/such"), ("step", 1))
    yield get("datavisual/landscape/landscapes", job)


_NEED_PARAMETERS = (
    *("plugins", "single-job", "scalar/metadata", "scalars", "histograms", "image/metadata", "tensors"),
    *("graphs/nodes", "graphs/nodes/all", "graphs/nodes/names", "graphs/single-node"),
)
_BAD_PAGES = ("?limit=1000", "?limit=0", "?limit=a", "?limit=", "?offset=-1", "?offset=1.0")


def conditions(objects: Sequence[Mapping[str, Any]], number: int, seed: int = 0) -> Iterator[Asked]:
    """Yield random conditions on values that jobs have, with order and pages; some are refused."""
    chance = random.Random(seed)
    values = _values(objects)
    for _ in range(number):
        condition: dict[str, Any] = {}
        for name in chance.sample(list(values), chance.choice((0, 1, 1, 2, 3))):
            operator = chance.choice(("eq", "lt", "gt", "le", "ge", "in", "in", "not_in"))
            some = [chance.choice(values[name]) for _ in range(chance.randint(1, 3))]
            condition[name] = {operator: some if operator in ("in", "not_in") else some[0]}
        order = {
            "sorted_name": chance.choice([*values, "tag", "no"]),
            "sorted_type": chance.choice(("ascending", "descending", None)),
        }
        page = {"limit": chance.choice((1, 3, 10, 0)), "offset": chance.choice((0, 0, 1, 2))}
        types = {"lineage_type": {"in": chance.choice((["model"], ["dataset"], ["model", "dataset"]))}}
        for likelihood, part in ((0.5, order), (0.4, page), (0.3, types)):
            condition |= part if chance.random() < likelihood else {}
        yield Asked("POST", "lineagemgr/lineages", condition)


def _values(objects: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of the jobs, by the names that conditions use."""
    values: dict[str, list[Any]] = {"summary_dir": [each["summary_dir"] for each in objects]}
    for each in objects:
        model = dict(each["model_lineage"])
        for group in ("metric", "user_defined"):
            for key, value in model.pop(group).items():
                values.setdefault(f"{group}/{key}", []).append(value)
        for name in model.keys() - {"dataset_mark"}:
            values.setdefault(name, []).append(model[name])
    return dict(sorted(values.items()))


def remarks(train_id: str) -> Iterator[Asked]:
    """Yield labels and remarks, some of which are refused; at the end the job is as before."""
    wrong: list[Any] = [{"tag": 1.0}, {"tag": 11}, {"tag": None}, {"remark": 5}, {"x": 5}]
    wrong += [{"remark": "x" * 129}, {"tag": "x", "y": 1}, [], 5, {}]
    for train, body in (
        *((train_id, body) for body in wrong),
        *((other, {}) for other in ("nope", "./a/b", "./nope", "")),
        ("./nope", {"tag": "x"}),
        ("nope", []),
    ):
        yield Asked("PUT", f"lineagemgr/lineages?{urlencode({'train_id': train})}", body)
