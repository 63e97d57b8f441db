"""The server's metrics: those of the store, and of the requests to the server."""

from __future__ import annotations

import httpx

from helpers.event_stream import event_stream
from helpers.scraped import Scraped, scraped
from helpers.served import serving


def scrape(client: httpx.Client) -> Scraped:
    answer = client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    return scraped(answer.text)


def test_requests_are_counted_by_the_template_of_their_route(client: httpx.Client) -> None:
    for _ in range(2):
        client.get("/api/v1/health")
    client.get("/v1/mindinsight/datavisual/train-jobs?limit=1")
    client.get("/no/such/path")
    client.request("BREW", "/api/v1/health")
    client.get("/api/v1/health", headers={"Host": "other.example"})
    found, counted = scrape(client), "lineage_store_requests_total"
    assert found.value(counted, method="GET", route="/health", status=200) == 2
    assert found.value(counted, route="/v1/mindinsight/datavisual/train-jobs", status=200) == 1
    assert found.value(counted, method="GET", route="other", status=404) == 1
    assert found.value(counted, method="GET", route="other", status=421) == 1
    assert found.value(counted, method="other") == 1
    assert found.value("lineage_store_request_duration_seconds_count", route="/health") >= 2


def test_the_store_is_measured(client: httpx.Client) -> None:
    found = scrape(client)
    assert found.value("lineage_store_database_up") == 1
    assert found.value("lineage_store_ingested_samples_total") > 0


def test_clients_that_follow_are_counted(client: httpx.Client) -> None:
    with event_stream(client) as events:
        next(events)
        assert scraped(httpx.get(f"{client.base_url}/metrics").text).value("lineage_store_event_streams") == 1


def test_a_store_that_does_not_open_is_told(empty_sqlite_url: str) -> None:
    with serving(empty_sqlite_url) as client:
        assert scrape(client).value("lineage_store_database_up") == 0
