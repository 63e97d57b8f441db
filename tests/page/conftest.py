"""The built page on a real server, in Debian's Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from helpers.log_writer import Log
from helpers.served import serving
from lineage_store import LineageStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

sync_api = pytest.importorskip("playwright.sync_api", reason="the page's tests need playwright")

CHROMIUM = (
    os.environ.get("LINEAGE_STORE_TEST_CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
)
sync_api.expect.set_options(timeout=60_000)
LONG = "a name that nobody would have chosen who looked at it on a narrow screen"
SWEEP = ("Adam", "SGD", "Momentum", "Adam", "SGD", "Adam", "SGD", "Adam", "SGD", "Adam")


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty store on SQLite, for the page sees answers alone, and tests/server compares those of both databases.

    Tests of the main path, and of a database that is away, say `databases.on_each`.
    """
    url: str = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")
    return url


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """Ten jobs that differ in their optimizers, learning rates, accuracies and curves; one of them has payloads."""
    path, named = tmp_path / "base", dict[str, Any]({LONG: "long"})
    for number, optimizer in enumerate(SWEEP):
        job, rate = path / f"sweep_{number}", 10.0 ** -(1 + number % 5)
        about = Log().train(
            network="LeNet5",
            optimizer=optimizer,
            learning_rate=rate,
            epoch=number + 1,
            loss=1.0 / (number + 1),
        )
        about.evaluation({"accuracy": number / 10}).user_info(
            owner="=1+1", size=number * number, **named
        ).write_lineage(job)
        log = Log().version()
        for step in range(1, 40):
            log.scalar(step, "loss", float("nan") if step == 7 else number + 1.0 / step)
        if number == 0:
            log.histogram(1, "w", [0.0, 1.0, 2.0, float("nan"), float("inf")]).histogram(2, "w", [0.0, 3.0])
            log.image(1, "input", [[[255, 0, 0], [0, 255, 0]]]).tensor(
                1, "t", [[1.0, 2.0], [3.0, float("nan")]]
            )
            log.landscape("loss_landscape", [[1.0, 2.0, 3.0], [2.0, 3.0, 4.0], [3.0, 4.0, 9.0]])
            log.graph("Conv2D", "ReLU", "MatMul")
        log.write_summary(job)
    return path


@pytest.fixture
def served(database_url: str, base_dir: Path) -> Iterator[httpx.Client]:
    """A server on the jobs, that takes remarks."""
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
    with serving(database_url, allow_remarks=True) as client:
        yield client


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, served: httpx.Client) -> Iterator[Page]:
    """A page of a browser; a word on its console, or a failure in it, fails the test."""
    context = browser.new_context(base_url=str(served.base_url), viewport={"width": 1280, "height": 860})
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(message.text) if _is_wrong(message) else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    yield page
    context.close()
    assert wrong == []


def _is_wrong(message: ConsoleMessage) -> bool:
    """An answer that refuses is for the page to tell; Chromium notes it all the same."""
    return message.type in ("error", "warning") and not message.text.startswith("Failed to load resource")
