"""What recorded answers cannot show: remarks, values beyond MindInsight's limits, removed jobs, the page."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from helpers.log_writer import Log
from helpers.mindinsight_base_dir import make_base_dir
from helpers.served import serving
from lineage_store import LineageStore
from lineage_store.errors import ConfigError

BEGIN = "/v1/mindinsight"
ROW = {"train_id": "./a"}


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    return tmp_path / "summaries"


@pytest.fixture
def client(database_url: str, base_dir: Path) -> Iterator[httpx.Client]:
    """A server on a store with a job that recorded something of everything."""
    log = Log().version().scalar(1, "loss", 0.5).histogram(1, "w", [1.0, 2.0]).tensor(1, "t", [1.0])
    log.image(1, "picture", [[[1, 2, 3]]]).graph("Conv2D").landscape("land", [[1.0]])
    log.write_summary(base_dir / "a")
    Log().train(network="A", loss=0.5).evaluation({"acc": float("nan")}).write_lineage(base_dir / "a")
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "no_lineage")
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    with serving(database_url, allow_remarks=True) as client:
        yield client


def added_info(client: httpx.Client) -> dict[str, object]:
    condition = {"summary_dir": {"in": ["./a"]}}
    (found,) = client.post(f"{BEGIN}/lineagemgr/lineages", json=condition).json()["object"]
    shown: dict[str, object] = found["added_info"]
    return shown


def test_labels_and_remarks_are_kept_beside_each_other(client: httpx.Client) -> None:
    path = f"{BEGIN}/lineagemgr/lineages"
    assert client.put(path, params=ROW, json={"tag": 3}).json() == {"status": "success"}
    assert client.put(path, params=ROW, json={"remark": "測試"}).json() == {"status": "success"}
    assert added_info(client) == {"tag": 3, "remark": "測試"}


@pytest.mark.parametrize(
    ("body", "content_type"), [("{", "application/json"), ("{}", "text/plain"), ("", "application/json")]
)
def test_a_remark_that_is_no_json_is_refused(client: httpx.Client, body: str, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    answer = client.put(f"{BEGIN}/lineagemgr/lineages", params=ROW, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "50540002")


@pytest.mark.parametrize("content_type", ["Application/JSON; charset=utf-8", "application/vnd.x+json"])
def test_json_is_told_by_its_type_however_it_is_written(client: httpx.Client, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    answer = client.put(f"{BEGIN}/lineagemgr/lineages", params=ROW, content='{"tag": 2}', headers=headers)
    assert (answer.json(), added_info(client)) == ({"status": "success"}, {"tag": 2})


def test_of_a_label_and_a_remark_the_first_that_is_wrong_is_told(client: httpx.Client) -> None:
    for body, name in (({"remark": 5, "tag": "x"}, "remark"), ({"tag": "x", "remark": 5}, "tag")):
        told = client.put(f"{BEGIN}/lineagemgr/lineages", params=ROW, json=body).json()["error_msg"]
        assert told.startswith(f"ValueError. '{name}' must be")


def test_a_label_that_would_break_its_page_is_refused(client: httpx.Client) -> None:
    answer = client.put(f"{BEGIN}/lineagemgr/lineages", params=ROW, json={"tag": True})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "50542081")


def test_a_job_without_lineage_takes_no_remark(client: httpx.Client) -> None:
    row = {"train_id": "./no_lineage"}
    answer = client.put(f"{BEGIN}/lineagemgr/lineages", params=row, json={"remark": "x"})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "50540002")


def test_where_remarks_are_not_allowed_none_is_taken(client: httpx.Client, database_url: str) -> None:
    with serving(database_url) as careful:
        answer = careful.put(f"{BEGIN}/lineagemgr/lineages", params=ROW, json={"remark": "x"})
    assert (answer.status_code, answer.json()["error_code"]) == (403, "50540000")
    assert added_info(client) == {}


def test_a_metric_that_is_nan_is_valid_json(client: httpx.Client) -> None:
    answer = client.post(f"{BEGIN}/lineagemgr/lineages", content="")
    assert '"acc":"NaN"' in answer.text


def test_what_a_missing_log_file_held_is_not_there_and_no_path_is_told(
    client: httpx.Client, base_dir: Path
) -> None:
    for file in (base_dir / "a").iterdir():
        file.unlink()
    for path, code in (
        ("datavisual/histograms?train_id=./a&tag=w/histogram", "5054500F"),
        ("datavisual/image/single-image?train_id=./a&tag=picture/image&step=1", "5054500D"),
        ("datavisual/tensors?train_id=./a&tag=t/tensor&detail=stats", "50545014"),
        ("datavisual/graphs/nodes?train_id=./a", "5054500C"),
    ):
        answer = client.get(f"{BEGIN}/{path}")
        assert (answer.status_code, answer.json()["error_code"]) == (400, code), path
        assert str(base_dir) not in answer.text, path
    assert client.get(f"{BEGIN}/datavisual/scalar/metadata?train_id=./a&tag=loss/scalar").status_code == 200
    assert client.get(f"{BEGIN}/datavisual/landscape/intervals?train_id=./a").json() == {"intervals": []}


def test_a_path_outside_is_no_job(client: httpx.Client, base_dir: Path) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir.parent / "other")
    for train_id in ("./../other", "../other", str(base_dir.parent / "other"), "%2e%2e/other"):
        params = {"train_id": train_id, "manual_update": "true"}
        answer = client.get(f"{BEGIN}/datavisual/plugins", params=params)
        assert (answer.status_code, answer.json()["error_code"]) == (400, "50545005")
        assert str(base_dir.parent) not in answer.text.replace(train_id, "")


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        (
            "single-job?plugin_name=image&train_id=./nope",
            "50545005",
            "Can not find the train job in data manager.",
        ),
        ("single-job?plugin_name=nothing", "50540003", "'train_id' is required."),
        ("plugins?train_id=./a&manual_update=", "50540002", "must be 'false' or 'true'."),
    ],
)
def test_wrong_questions_about_a_job_are_refused_as_by_its_server(
    client: httpx.Client, asked: str, code: str, told: str
) -> None:
    answer = client.get(f"{BEGIN}/datavisual/{asked}")
    assert (answer.status_code, answer.json()["error_code"]) == (400, code)
    assert answer.json()["error_msg"].endswith(told)


def test_targets_are_searched_among_what_is_asked_for(client: httpx.Client) -> None:
    body = {"lineage_type": {"in": ["dataset"]}}
    found = client.post(f"{BEGIN}/optimizer/targets/search", json=body).json()
    assert (found["metadata"]["train_ids"], found["targets"]) == (["./a"], [])


def test_an_absolute_path_is_no_id_of_a_job_and_none_is_told(client: httpx.Client, base_dir: Path) -> None:
    for path in (str(base_dir / "a"), "/etc", str(base_dir / ".." / "a")):
        for comparison, count in (({"eq": path}, 0), ({"in": [path, "./a"]}, 1), ({"not_in": [path]}, 1)):
            answer = client.post(f"{BEGIN}/lineagemgr/lineages", json={"summary_dir": comparison})
            assert (answer.status_code, answer.json()["count"]) == (200, count)


def test_every_answer_has_the_headers_of_its_server(client: httpx.Client) -> None:
    for path in ("ui-config", "nothing", "datavisual/plugins"):
        headers = client.get(f"{BEGIN}/{path}").headers
        assert "'unsafe-eval'" in headers["content-security-policy"]
        assert (headers["cache-control"], headers["x-frame-options"]) == ("no-store", "SAMEORIGIN")
    assert client.head(f"{BEGIN}/ui-config").status_code == 405


def test_a_comparison_of_a_thousand_jobs_fits_into_a_url(client: httpx.Client) -> None:
    asked = "&".join(
        ["tag=loss/scalar", *(f"train_id=./a_job_with_a_long_name_{number}" for number in range(1000))]
    )
    address = client.base_url.host, client.base_url.port
    with socket.create_connection((str(address[0]), address[1] or 0)) as connection:
        start, end = f"GET {BEGIN}/datavisual/scalars?", f"{asked} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for part in (start, end[:20_000], end[20_000:]):
            connection.sendall(part.encode())
            time.sleep(0.05)  # so that it arrives in parts
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_a_store_without_base_dirs_has_no_jobs(sqlite_url: str) -> None:
    with serving(sqlite_url) as client:
        assert client.get(f"{BEGIN}/datavisual/train-jobs").json()["total"] == 0
        assert client.post(f"{BEGIN}/lineagemgr/lineages").json() == {
            "customized": {},
            "object": [],
            "count": 0,
        }
        assert client.get(f"{BEGIN}/datavisual/plugins?train_id=./a").json()["error_code"] == "50545005"
        assert client.get(f"{BEGIN}/datasets/dataset_graph?train_id=./a").json() == {}


def test_a_database_that_is_down_is_told_in_its_shape(empty_sqlite_url: str) -> None:
    with serving(empty_sqlite_url) as client:
        answer = client.get(f"{BEGIN}/datavisual/train-jobs")
        assert client.get(f"{BEGIN}/ui-config").json() == {"enable_debugger": False}
    assert (answer.status_code, answer.json()) == (
        503,
        {"error_code": "50540000", "error_msg": "System error."},
    )


def test_of_several_base_dirs_the_first_of_the_settings_counts(sqlite_url: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        Log().scalar(1, name, 0.5).write_summary(tmp_path / name / name)
        with LineageStore(sqlite_url) as store:
            store.ingest(tmp_path / name)
    for name in ("one", "two"):
        with serving(sqlite_url, base_dirs=(str(tmp_path / name),)) as client:
            assert client.get(f"{BEGIN}/datavisual/train-jobs").json()["name"] == name


def test_a_job_beyond_the_newest_looks_unloaded_until_somebody_opens_it(
    sqlite_url: str, tmp_path: Path
) -> None:
    for number in range(17):
        path = Log().scalar(1, "loss", 0.5).write_summary(tmp_path / f"job_{number}", 1_700_000_000 + number)
        os.utime(path, (1_700_000_000 + number,) * 2)
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path)
    plugins = f"{BEGIN}/datavisual/plugins"
    with serving(sqlite_url) as client:
        for train_id, tags in (("./job_2", ["loss/scalar"]), ("./job_1", [])):
            assert client.get(plugins, params={"train_id": train_id}).json()["plugins"]["scalar"] == tags
        (job,) = client.get(f"{BEGIN}/datavisual/train-jobs?train_id=./job_1").json()["train_jobs"]
        assert (job["cache_status"], job["plugins"]["scalar"]) == ("NOT_IN_CACHE", ["loss/scalar"])
        client.get(plugins, params={"train_id": "./job_1", "manual_update": "true"})
        assert client.get(plugins, params={"train_id": "./job_1"}).json()["plugins"]["scalar"] == [
            "loss/scalar"
        ]
        caches = client.post(
            f"{BEGIN}/datavisual/train-job-caches", json={"train_ids": ["./job_0", "./job_1"]}
        )
        assert [each["cache_status"] for each in caches.json()["cache_result"]] == ["NOT_IN_CACHE", "CACHED"]
        assert client.get(plugins, params={"train_id": "./job_0"}).json()["plugins"]["scalar"] == [
            "loss/scalar"
        ]


def test_a_setting_raises_the_limits(sqlite_url: str, tmp_path: Path) -> None:
    with LineageStore(sqlite_url) as store:
        store.ingest(make_base_dir(tmp_path / "made"))
    for limits, scalars, images, tags in ((1, 1000, 10, 294), (2, 1500, 15, 310)):
        with serving(sqlite_url, mindinsight_limits=limits) as client:
            for path, tag, number in (
                ("scalar/metadata?train_id=./long", "loss/scalar", scalars),
                ("image/metadata?train_id=./images", "picture/image", images),
            ):
                answer = client.get(f"{BEGIN}/datavisual/{path}&tag={tag}")
                assert len(answer.json()["metadatas"]) == number
            single_job = "datavisual/single-job?plugin_name=scalar&train_id=./many_tags"
            assert len(client.get(f"{BEGIN}/{single_job}").json()["train_jobs"][0]["tags"]) == tags


def test_its_page_is_served_with_the_api_beside_it(sqlite_url: str, tmp_path: Path) -> None:
    page = tmp_path / "dist"
    (page / "static").mkdir(parents=True)
    (page / "index.html").write_text("<title>MindInsight</title>")
    (page / "static" / "app.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    (page / "static" / "link").symlink_to(tmp_path / "secret")
    with serving(sqlite_url, mindinsight_ui=str(page), url_path_prefix="/x") as client:
        assert client.get("/x/mindinsight").headers["location"].endswith("/x/mindinsight/")
        answer = client.get("/x/mindinsight/")
        assert (answer.status_code, answer.text) == (200, "<title>MindInsight</title>")
        assert "'unsafe-eval'" in answer.headers["content-security-policy"]
        assert client.get("/x/mindinsight/v1/mindinsight/ui-config").json() == {"enable_debugger": False}
        assert client.get("/x/mindinsight/static/app.js").text == "1"
        for path in ("static/link", "..%2fsecret", "static/..%2f..%2fsecret", "%252e%252e/secret", "static"):
            assert client.get(f"/x/mindinsight/{path}").status_code == 404


def test_a_directory_without_its_page_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"no index\.html in"),
        serving(sqlite_url, mindinsight_ui=str(tmp_path)),
    ):
        pass
