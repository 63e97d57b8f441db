"""Our own API answers the same as the Python API."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import httpx
import numpy as np
import pytest

from helpers.log_writer import Log
from helpers.served import serving
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.plain_values import for_json
from lineage_store.query.samples import buckets
from lineage_store.server.own import models

API = "/api/v1"
PAYLOADS, RUN = "./payloads", "./run_039"


@pytest.fixture
def store(stored_url: str) -> Iterator[LineageStore]:
    with LineageStore(stored_url) as store:
        yield store


@pytest.fixture
def key(client: httpx.Client) -> str:
    """The key of the one base dir."""
    (base_dir,) = got(client, "base-dirs")["base_dirs"]
    return str(base_dir["key"])


def got(client: httpx.Client, path: str, **parameters: Any) -> Any:
    answer = client.get(f"{API}/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: httpx.Client, path: str, **parameters: Any) -> tuple[int, str]:
    answer = client.get(f"{API}/{path}", params=parameters)
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["kind"]


def test_a_page_of_jobs_by_words_and_by_condition(client: httpx.Client, store: LineageStore) -> None:
    wanted = {"metric/accuracy": {"ge": 0.1}, "sorted_by": [["metric/accuracy", "descending"]], "limit": 3}
    expected = store.lineage.filter(wanted)
    by_words = got(client, "jobs", where="metric/accuracy>=0.1", sort="metric/accuracy:desc", limit=3)
    by_dict = got(client, "jobs", condition=json.dumps(wanted), limit=3)
    assert by_words == by_dict
    assert by_words["count"] == expected["count"]
    assert [job["train_id"] for job in by_words["jobs"]] == [job["summary_dir"] for job in expected["object"]]
    for job, found in zip(by_words["jobs"], expected["object"], strict=True):
        lineage = for_json(found["model_lineage"])
        assert (job["metric"], job["user_defined"]) == (lineage.pop("metric"), lineage.pop("user_defined"))
        assert job["fields"] == lineage
        assert job["state"] == "finished"
        assert got(client, job["url"])["job"]["train_id"] == job["train_id"]


def test_a_condition_may_say_which_page_is_wanted(client: httpx.Client) -> None:
    asked = {"condition": '{"limit": 2, "offset": 1}'}
    found = got(client, "jobs", **asked)
    assert found == got(client, "jobs", limit=2, page=1)
    assert found["page"] == 1
    assert got(client, "jobs", **asked, page=0) == got(client, "jobs", limit=2)
    assert refused(client, "jobs", condition='{"limit": 101}') == (400, "lineage_search_condition_param")


def test_every_column_of_a_curve_is_documented() -> None:
    assert get_args(models.ColumnName) == (*buckets.SAMPLE_COLUMNS, *buckets.BUCKET_COLUMNS)


def test_only_the_fields_that_are_asked_for(client: httpx.Client) -> None:
    (job,) = got(client, "jobs", fields=["network", "metric/accuracy"], limit=1, where="metric/accuracy>0")[
        "jobs"
    ]
    assert (list(job["fields"]), list(job["metric"]), job["user_defined"]) == (["network"], ["accuracy"], {})


def test_the_best_of_a_metric_is_a_field_where_it_is_asked_for(
    client: httpx.Client, store: LineageStore
) -> None:
    best = "metric_best/accuracy"
    asked = {"fields": best, "where": f"{best} is not null", "sort": f"{best}:desc"}
    jobs = got(client, "jobs", limit=5, **asked)["jobs"]
    table = store.jobs({"sorted_name": best, "sorted_type": "descending"}, columns=[best], limit=5)
    assert [job["fields"] for job in jobs] == [{best: value} for (value,) in table.rows]
    assert got(client, "values", name=best)["values"]


def test_all_jobs_as_columns(client: httpx.Client, store: LineageStore) -> None:
    answer = got(client, "jobs", form="columns", fields=["network", "metric/accuracy", "epoch"])
    columns = {column["name"]: column for column in answer["columns"]}
    expected = list(store.lineage.iterate())
    assert answer["count"] == len(expected)
    network = columns["network"]
    words = [None if code is None else network["words"][code] for code in network["codes"]]
    assert words == [each["model_lineage"]["network"] for each in expected]
    assert columns["epoch"]["numbers"] == [each["model_lineage"]["epoch"] for each in expected]
    accuracy = [each["model_lineage"]["metric"].get("accuracy") for each in expected]
    assert columns["metric/accuracy"]["numbers"] == for_json(accuracy)


def test_what_conditions_may_name_and_compare_with(client: httpx.Client, store: LineageStore) -> None:
    names = got(client, "names")
    assert {kind: known for kind, known in names.items() if kind != "fields"} == store.names()
    assert set(names) == {"fields", "metric", "metric_best", "metric_first", "user_defined"}
    known = got(client, "values", name="optimizer", part="o", limit=1)["values"]
    assert [(each["value"], each["jobs"]) for each in known] == store.values("optimizer", "o", most=1)
    assert refused(client, "values", name="optimiser") == (400, "lineage_search_condition_param")


def test_who_follows_from_where_an_answer_stood_misses_nothing(
    client: httpx.Client, store: LineageStore, corpus: Path
) -> None:
    first = client.get(f"{API}/jobs", params={"limit": 1})
    store.job((corpus, RUN)).annotate(label=1)
    missed = got(client, "changes", since=first.headers["lineage-since"])["changes"]
    assert [change["train_id"] for change in missed] == [RUN]
    known = {"If-None-Match": client.get(f"{API}/names").headers["etag"]}
    again = client.get(f"{API}/names", headers=known)
    assert (again.status_code, again.headers["lineage-since"]) == (304, store.changes.since("now").since)


def test_what_is_known_beside_lineage_is_named_shown_and_searched_by(
    client: httpx.Client, store: LineageStore
) -> None:
    names = {each["name"]: each["type"] for each in got(client, "names")["fields"]}
    assert (names["state"], names["updated_at"], names["tag"]) == ("text", "time", "integer")
    known = [each["value"] for each in got(client, "values", name="state")["values"]]
    assert set(known) == {job.state for job in store.lineage.jobs()}
    asked = {"where": ["updated_at > 2000-01-01", f"state={known[0]}"], "fields": ["host", "updated_at"]}
    page = got(client, "jobs", limit=100, **asked)["jobs"]
    jobs = {job.train_id: job for job in store.lineage.jobs()}
    for found in page:
        fields = {"host": jobs[found["train_id"]].host, "updated_at": found["updated_at"]}
        assert (found["state"], found["fields"]) == (known[0], fields)
    columns = {each["name"]: each for each in got(client, "jobs", form="columns", **asked)["columns"]}
    times = [columns["updated_at"]["words"][code] for code in columns["updated_at"]["codes"]]
    assert sorted(times) == sorted(each["updated_at"] for each in page)


def test_jobs_without_lineage_are_among_all_jobs(client: httpx.Client, store: LineageStore) -> None:
    expected = [(job.train_id, job.state) for job in store.lineage.jobs()]
    answer = got(client, "train-jobs")["jobs"]
    assert [(job["train_id"], job["state"]) for job in answer] == expected
    assert got(client, "train-jobs", state="missing")["jobs"] == []
    completed = [job.train_id for job in store.lineage.jobs(outcome="completed")]
    assert completed
    told = got(client, "train-jobs", outcome="completed")["jobs"]
    assert [(job["train_id"], job["outcome"]) for job in told] == [(each, "completed") for each in completed]
    shown = got(client, "jobs", where="outcome=completed", fields="outcome", limit=100)["jobs"]
    assert {job["train_id"] for job in shown} <= set(completed)
    assert all(job["fields"] == {"outcome": "completed"} for job in shown)


def test_wrong_questions_are_refused_with_what_is_allowed(client: httpx.Client) -> None:
    refusal = (400, "lineage_search_condition_param")
    assert refused(client, "jobs", where="accuracy") == refusal
    assert refused(client, "jobs", where="metric/acuracy>1") == refusal
    assert refused(client, "jobs", fields="networ") == refusal
    assert refused(client, "jobs", condition="{") == refusal
    assert refused(client, "jobs", condition="[]") == refusal
    assert refused(client, "jobs", limit=101) == (422, "invalid_request")
    assert refused(client, "jobs", base="0" * 12) == (404, "lineage_param_summary_path")


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ("jobs?limt=3", "Did you mean limit?"),
        ("jobs?Sort=network&where=network=LeNet", "Did you mean sort?"),
        ("payload/0/x?plugn=image&tag=a&step=1", "Did you mean plugin?"),
        ("jobs/0/x/lineage?zzz", "Known parameters: keys."),
        ("events?sinc=now", "Did you mean since?"),
        ("health?base=", "Known parameters: none."),
    ],
)
def test_a_parameter_that_an_endpoint_does_not_have_is_told_with_the_closest(
    client: httpx.Client, asked: str, remedy: str
) -> None:
    answer = client.get(f"{API}/{asked}")
    assert (answer.status_code, answer.json()["kind"]) == (400, "lineage_param_value")
    name = asked.partition("?")[2].partition("=")[0]
    told = answer.json()
    assert (told["detail"], told["remedy"]) == (f"There is no parameter {name!r} here.", remedy)


def test_a_body_with_a_name_that_is_not_there_changes_nothing(
    stored_url: str, store: LineageStore, corpus: Path
) -> None:
    with serving(stored_url, allow_remarks=True) as client:
        (base_dir,) = got(client, "base-dirs")["base_dirs"]
        place = f"{API}/jobs/{base_dir['key']}/run_039/annotation"
        answer = client.put(place, json={"tag": 1, "remak": "good"})
        assert (answer.status_code, answer.json()["kind"]) == (422, "invalid_request")
        assert "body.remak" in answer.json()["detail"]
        series = [{"base": base_dir["key"], "name": "run_039", "tag": "loss/auto"}]
        for wrong in ({"point": 10}, {"columns": ["valu"]}, {"points": "10"}):
            assert client.post(f"{API}/series", json={"series": series, **wrong}).status_code == 422
        assert client.put(place, json={"tag": True}).status_code == 422
    (found,) = store.lineage.filter({"summary_dir": {"eq": RUN}}, base_dir=corpus)["object"]
    assert found["added_info"] == {}


def test_who_has_the_answer_already_is_told_so_until_something_changes(
    client: httpx.Client, store: LineageStore, corpus: Path
) -> None:
    first = client.get(f"{API}/jobs", params={"limit": 2})
    known = {"If-None-Match": first.headers["etag"]}
    again = client.get(f"{API}/jobs", params={"limit": 2}, headers=known)
    assert (again.status_code, again.content) == (304, b"")
    as_strong = {"If-None-Match": f'"other", {first.headers["etag"].removeprefix("W/")}'}
    assert client.get(f"{API}/jobs", params={"limit": 2}, headers=as_strong).status_code == 304
    assert client.get(f"{API}/jobs", params={"limit": 3}, headers=known).status_code == 200
    store.job((corpus, RUN)).annotate(remark="better")
    assert client.get(f"{API}/jobs", params={"limit": 2}, headers=known).status_code == 200


@pytest.mark.parametrize(
    "asked",
    [
        {"where": "updated_at last 7 days"},
        {"condition": '{"or": [{"updated_at": {"lt": "36 hours ago"}}]}'},
        {"where": "updated_at last week", "form": "columns"},
    ],
)
def test_what_changes_with_the_time_is_never_told_as_unchanged(
    client: httpx.Client, asked: dict[str, str]
) -> None:
    first = client.get(f"{API}/jobs", params=asked)
    assert (first.status_code, "etag" in first.headers, "lineage-since" in first.headers) == (
        200,
        False,
        True,
    )
    assert client.get(f"{API}/jobs", params=asked, headers={"If-None-Match": "W/"}).status_code == 200


def test_everything_about_one_job(client: httpx.Client, store: LineageStore, corpus: Path, key: str) -> None:
    job, report = f"jobs/{key}/run_039", store.job((corpus, RUN)).report()
    assert got(client, job)["job"]["network"] == report.job["network"]
    assert got(client, f"{job}/tags")["tags"] == store.job((corpus, RUN)).tags()
    assert len(got(client, f"{job}/tags")["series"]) == len(report.series)
    assert got(client, f"{job}/tags", series=False) == {"tags": store.job((corpus, RUN)).tags(), "series": []}
    assert got(client, f"{job}/lineage") == for_json(store.job((corpus, RUN)).lineage())
    assert (
        got(client, f"{job}/lineage", keys="metric")["metric"] == store.job((corpus, RUN)).lineage()["metric"]
    )
    assert len(got(client, f"{job}/evaluations")["metrics"]) == len(
        store.job((corpus, RUN)).evaluation_rows()
    )
    assert {row["log_file"] for row in got(client, f"{job}/files")["files"]} == {
        row["log_file"] for row in report.log_files
    }
    assert refused(client, f"jobs/{key}/nobody/tags") == (404, "train_job_not_found")


def test_a_job_whose_name_is_odd_is_found_by_its_url(sqlite_url: str, tmp_path: Path) -> None:
    names = ["a b/ü%2F", "deep/tags", "deep", "..%2e", "back\\slash", "_\udcff", "new\nline", "last\n"]
    for name in names:
        Log().train(network="LeNet5").write_lineage(tmp_path / "odd" / name)
    with LineageStore(sqlite_url, settings=Settings(recursive=True)) as store:
        store.ingest(tmp_path / "odd")
    with serving(sqlite_url) as client:
        jobs = got(client, "jobs")["jobs"]
        assert len(jobs) == len(names)
        for job in jobs:
            ending = "/" if job["train_id"].endswith("/tags") else ""
            assert got(client, job["url"] + ending)["job"]["train_id"] == job["train_id"]
            assert got(client, f"{job['url']}/tags")["tags"] == {}


def test_numbers_of_any_size_are_told_as_columns(sqlite_url: str, tmp_path: Path) -> None:
    metrics = f'{{"vast": {10**400}, "best": Infinity, "some": 0.5}}'
    Log().train(network="LeNet5").evaluation(metrics).write_lineage(tmp_path / "base" / "a")
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
    with serving(sqlite_url) as client:
        names = [f"metric/{name}" for name in ("vast", "best", "some")]
        found = got(client, "jobs", form="columns", fields=names)["columns"]
        assert [each["numbers"] for each in found if each["name"] in names] == [
            [10**400],
            ["Infinity"],
            [0.5],
        ]


def test_what_is_below_a_job_is_found_whatever_its_name(database_url: str, tmp_path: Path) -> None:
    log = Log().version().scalar(1, "loss", 1.0).tensor(1, "weights", np.zeros(2, "<f4"))
    log.write_summary(tmp_path / "odd" / "new\nline")
    Log().train(network="LeNet5").evaluation({"accuracy": 0.5}).write_lineage(tmp_path / "odd" / "new\nline")
    with LineageStore(database_url) as store:
        store.ingest(tmp_path / "odd")
    with serving(database_url, allow_remarks=True) as client:
        (job,) = got(client, "jobs")["jobs"]
        url, payload = job["url"], {"plugin": "tensor", "tag": "weights"}
        assert got(client, f"{url}/tags")["tags"] == {"scalar": ["loss"], "tensor": ["weights"]}
        assert got(client, f"{url}/lineage")["summary_dir"].endswith("/new\nline")
        assert got(client, f"{url}/evaluations")["metrics"][0]["value"] == 0.5
        assert len(got(client, f"{url}/files")["files"]) == 2
        place = url.removeprefix("jobs/")
        assert got(client, f"payloads/{place}", **payload)["count"] == 1
        assert got(client, f"payload/{place}", **payload, step=1)["value"] == [0.0, 0.0]
        assert client.put(f"{API}/{url}/annotation", json={"remark": "odd"}).status_code == 204
        assert got(client, url)["job"]["remark"] == "odd"


def test_curves_of_several_jobs(client: httpx.Client, store: LineageStore, corpus: Path, key: str) -> None:
    names = [
        (job.train_id, tag)
        for job in store.lineage.jobs()
        for tag in store.job((corpus, job.train_id)).tags().get("scalar", [])
    ]
    series = [{"base": key, "name": job.removeprefix("./"), "tag": tag} for job, tag in names]
    unknown = {"base": key, "name": "nobody", "tag": "loss"}
    question = {"series": [unknown, *series], "points": 20}
    answer = client.post(f"{API}/series", json=question).json()
    assert answer["missing"] == [0]
    wanted = [((corpus, train_id), tag) for train_id, tag in names]
    expected = store.buckets(wanted, points=20)
    assert [curve["number"] - 1 for curve in answer["curves"]] == [curve.number for curve in expected]
    assert any(curve["bucketed"] for curve in answer["curves"])
    for curve, other in zip(answer["curves"], expected, strict=True):
        assert curve["columns"] == {name: for_json(column.tolist()) for name, column in other.columns.items()}

    binary = client.post(
        f"{API}/series",
        json={**question, "form": "columns", "columns": ["step", "value", "max", "nan_count"]},
    )
    header, numbers = of_columns(binary.content)
    assert header["missing"] == [0]
    for curve, other in zip(header["curves"], expected, strict=True):
        for name, place in curve["columns"].items():
            found = 0.0 if place is None else numbers[place : place + curve["rows"]]
            np.testing.assert_equal(np.broadcast_to(found, curve["rows"]), other.columns[name].astype(float))


def of_columns(content: bytes) -> tuple[Any, np.ndarray]:
    """What a browser makes of the columns."""
    begin = 4 + int.from_bytes(content[:4], "little")
    assert begin % 8 == 0
    return json.loads(content[4:begin]), np.frombuffer(content[begin:], "<f8")


def test_payloads_are_listed_and_given_as_they_were_recorded(
    client: httpx.Client, store: LineageStore, corpus: Path, key: str
) -> None:
    tags = store.job((corpus, PAYLOADS)).tags()
    place, tag = f"{key}/payloads", {plugin: names[0] for plugin, names in tags.items()}
    asked: dict[str, Any]
    (image,) = store.job((corpus, PAYLOADS)).images(tag["image"])[:1]
    listed = got(client, f"payloads/{place}", plugin="image", tag=tag["image"])
    assert listed["payloads"][0]["step"] == image.step
    png = client.get(
        f"{API}/payload/{place}", params={"plugin": "image", "tag": tag["image"], "step": image.step}
    )
    assert (png.headers["content-type"], png.content) == ("image/png", image.read().png)

    (histogram,) = store.job((corpus, PAYLOADS)).histograms(tag["histogram"])[:1]
    asked = {"plugin": "histogram", "tag": tag["histogram"], "step": histogram.step}
    assert got(client, f"payload/{place}", **asked)["count"] == histogram.read().count.tolist()

    for name in tags["tensor"]:
        sample = store.job((corpus, PAYLOADS)).tensors(name)[0]
        tensor, asked = sample.read(), {"plugin": "tensor", "tag": name, "step": sample.step}
        assert got(client, f"payload/{place}", **asked)["value"] == for_json(tensor.tolist())
        npy = client.get(f"{API}/payload/{place}", params={**asked, "form": "npy", "part": ":1"})
        np.testing.assert_equal(np.load(io.BytesIO(npy.content)), tensor[:1])
        part = ",".join(["0"] * (tensor.ndim + 1))
        assert refused(client, f"payload/{place}", **asked, part=part) == (400, "lineage_param_value")

    file = store.job((corpus, RUN)).tags()["graph"][0]
    graph = got(client, f"payload/{key}/run_039", plugin="graph", tag=file, step=0)
    assert len(graph["nodes"]) == len(store.job((corpus, RUN)).graphs(file)[0].read()["nodes"])


def test_a_payload_whose_file_is_gone_says_which(sqlite_url: str, tmp_path: Path, corpus: Path) -> None:
    import shutil

    base_dir = tmp_path / "moved"
    shutil.copytree(corpus, base_dir)
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
        tag = store.job((base_dir, PAYLOADS)).tags()["image"][0]
        step = store.job((base_dir, PAYLOADS)).images(tag)[0].step
    shutil.rmtree(base_dir / "payloads")
    with serving(sqlite_url) as client:
        (listed,) = got(client, "base-dirs")["base_dirs"]
        asked: dict[str, Any] = {"plugin": "image", "tag": tag, "step": step}
        answer = client.get(f"{API}/payload/{listed['key']}/payloads", params=asked)
        assert (answer.status_code, answer.json()["kind"]) == (410, "payload_unavailable")
        assert str(base_dir / "payloads") in answer.json()["detail"]


def test_labels_and_remarks_are_taken_where_that_is_allowed(
    stored_url: str, store: LineageStore, corpus: Path
) -> None:
    with serving(stored_url, allow_remarks=True) as client:
        (base_dir,) = got(client, "base-dirs")["base_dirs"]
        place = f"{API}/jobs/{base_dir['key']}/run_039/annotation"
        assert client.put(place, json={"tag": 3, "remark": "ü <b>"}).status_code == 204
        job = store.job((corpus, RUN)).report().job
        assert (job["label"], job["remark"]) == (3, "ü <b>")
        assert client.put(place, json={"tag": 11}).status_code == 422
        assert client.put(place, json={}).status_code == 400
        assert client.put(place.replace("run_039", "nobody"), json={"tag": 1}).status_code == 404
    with serving(stored_url) as client:
        refused = client.put(place, json={"tag": 4})
        assert (refused.status_code, refused.json()["kind"]) == (403, "remarks_off")
    assert store.job((corpus, RUN)).report().job["label"] == 3


def test_urls_of_the_answer_are_quoted(client: httpx.Client) -> None:
    urls = {job["train_id"]: job["url"] for job in got(client, "train-jobs")["jobs"]}
    assert all(url.endswith(quote(name.removeprefix("./"))) for name, url in urls.items())
