"""The page's files: one document for all routes, and nothing but what was built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from helpers.served import serving
from lineage_store.server import application

SCRIPT = b"console.log('here')"


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """What a build leaves behind, with a secret beside it."""
    (tmp_path / "static" / "assets").mkdir(parents=True)
    (tmp_path / "static" / "index.html").write_text("<html><head></head><body></body></html>")
    (tmp_path / "static" / "assets" / "index-1.js").write_bytes(SCRIPT)
    (tmp_path / "secret.js").write_text("secret")
    return tmp_path / "static"


@pytest.fixture
def client(sqlite_url: str, static: Path) -> Iterator[httpx.Client]:
    with serving(sqlite_url, routers=[application.router_at("/lineage", static)]) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/", "/jobs", "/job/0123/a%2Fb/curves", "/job/0123/a%0Ab", "/compare?jobs=a", "/health"]
)
def test_every_route_has_the_document_which_says_where_it_lives(client: httpx.Client, path: str) -> None:
    answer = client.get(f"/lineage{path}")
    assert answer.status_code == 200
    assert '<base href="/lineage/" />' in answer.text
    assert (
        "script-src" not in answer.headers["content-security-policy"]
    )  # default-src 'self' holds for scripts
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_files_are_kept_by_browsers_for_ever_and_come_zipped(client: httpx.Client) -> None:
    answer = client.get("/lineage/assets/index-1.js")
    assert (answer.content, answer.headers["content-encoding"]) == (SCRIPT, "gzip")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"].startswith("text/javascript")
    plain = client.get("/lineage/assets/index-1.js", headers={"Accept-Encoding": "identity"})
    assert plain.content == SCRIPT
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize(
    "name", ["..%2f..%2fsecret.js", "%2e%2e/%2e%2e/secret.js", "secret.js", "..%252f..%252fsecret.js"]
)
def test_nothing_else_is_given_out(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/lineage/assets/{name}")
    assert answer.status_code == 404
    assert "secret" not in answer.text.replace("secret.js", "")


def test_a_page_that_is_not_built_says_how(sqlite_url: str, tmp_path: Path) -> None:
    with serving(sqlite_url, routers=[application.router_at("/lineage", tmp_path)]) as client:
        assert "make page" in client.get("/lineage/").text
