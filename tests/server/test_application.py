"""The application as a whole: it answers below its prefix, with errors that help."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest

from helpers.base_dirs import ROOT
from helpers.scraped import scraped
from helpers.served import serving
from lineage_store.config import SETTING_FIELDS
from lineage_store.errors import ConfigError
from lineage_store.server import refusals, require_web


def test_the_store_is_well(client: httpx.Client) -> None:
    answer = client.get("/api/v1/health")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert [each["kind"] for each in answer.json()["findings"]] == []


def test_what_is_not_there_is_a_problem(client: httpx.Client) -> None:
    answer = client.get("/api/v1/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["kind"] == "not_found"
    assert "/api/v1/openapi.json" in answer.json()["remedy"]


@pytest.mark.parametrize(
    "path", ["/", "/jobs/x", "/metrics", "/api/v1/base-dirs", "/api/v1/jobs", "/api/v1/x"]
)
def test_head_is_answered_as_get_without_its_body(client: httpx.Client, path: str) -> None:
    told = [client.get(path), client.head(path)]
    assert told[1].content == b""
    changing = ("date", "content-length") if path == "/metrics" else ("date",)
    ours, asked = ({**each.headers} for each in told)
    for name in changing:
        del ours[name], asked[name]
    assert (told[1].status_code, asked) == (told[0].status_code, ours)


def test_what_is_allowed_instead_is_told(client: httpx.Client) -> None:
    assert client.delete("/api/v1/health").headers["allow"] == "GET, HEAD"
    assert client.put("/api/v1/series").headers["allow"] == "POST"


def test_the_head_of_a_stream_ends(client: httpx.Client) -> None:
    for _ in range(2):  # on one connection
        answer = client.head("/api/v1/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
    counted = scraped(client.get("/metrics").text)
    assert counted.value("lineage_store_requests_total", method="HEAD", route="/events", status=200) == 2
    assert counted.value("lineage_store_event_streams") == 0


def test_a_body_that_is_not_said_to_be_json_is_refused_with_what_to_say(client: httpx.Client) -> None:
    """As curl sends it by itself."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/api/v1/series", content='{"series": []}', headers=form)
    assert (answer.status_code, answer.json()["kind"]) == (422, "invalid_request")
    assert "Content-Type: application/json" in answer.json()["remedy"]
    wrong = client.post("/api/v1/series", json={"series": 7}).json()
    assert "openapi.json" in wrong["remedy"]


def test_all_paths_begin_with_the_prefix(sqlite_url: str) -> None:
    with serving(sqlite_url, url_path_prefix="lineage/") as client:
        assert client.get("/lineage/api/v1/health").status_code == 200
        assert client.get("/lineage/api/v1/openapi.json").status_code == 200
        assert client.get("/api/v1/health").status_code == 404
        assert client.get("/lineage?x=1").headers["location"] == "/lineage/"


@pytest.mark.parametrize("prefix", ["a b", "a?b", "..", "a/../b", "{x}", "a//b", "http://x"])
def test_a_prefix_that_no_path_begins_with_is_refused(sqlite_url: str, prefix: str) -> None:
    with (
        pytest.raises(ConfigError, match="serve_url_path_prefix"),
        serving(sqlite_url, url_path_prefix=prefix),
    ):
        pass


def test_a_store_that_is_not_there_is_told_with_its_kind_and_remedy(empty_sqlite_url: str) -> None:
    with serving(empty_sqlite_url) as client:
        answer = client.get("/api/v1/health")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["kind"].startswith("database_")
    assert "init" in answer.json()["detail"] + answer.json()["remedy"]


def test_the_documentation_has_every_setting_and_every_kind_of_problem() -> None:
    told = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    assert [
        name
        for name in (field.name for field in SETTING_FIELDS)
        if name.startswith("serve_") and name not in told
    ] == []
    assert [kind for kind in refusals.REFUSED if f"`{kind}`" not in told] == []
    kinds = {
        refusals.problem_kind(error())
        for error in refusals.STATUS
        if error.__module__ == "lineage_store.errors"
    }
    by_cause = {"lineage_query_summary_data", "lease_held", "lineage_param_missing"}
    assert [kind for kind in kinds - by_cause if f"`{kind}`" not in told] == []


def test_importing_the_package_does_not_import_the_server() -> None:
    script = "import lineage_store, lineage_store.server, sys; print('fastapi' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout == b"False\n"
    )


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(ConfigError, match=r"pip install 'lineage-store\[web\]'"):
        require_web()
