"""A browser that measures a page: times of painting and drawing, bytes received, memory.

In: an address. Out: a `View`, whose times are milliseconds since its navigation. Promises: each view has a browser
context of its own, so nothing is cached; the time of drawing on a canvas is the begin of the next frame.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTH, HEIGHT = 1280, 860
_QUIET_MS = 700
_PROBE = """(() => {
  const probe = (window.probe = { shown: 0, frames: null });
  const stroke = CanvasRenderingContext2D.prototype.stroke;
  let waiting = false;
  CanvasRenderingContext2D.prototype.stroke = function (...path) {
    stroke.apply(this, path);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      waiting = false;
      probe.shown = performance.now();
    }));
  };
  let before = 0;
  const frame = (now) => {
    if (probe.frames) probe.frames.push(now - before);
    before = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})()"""


class View:
    """An open page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._devtools = page.context.new_cdp_session(page)
        self._received = 0
        self._devtools.on("Network.loadingFinished", self._receive)
        self._devtools.send("Network.enable")

    def drawn(self, after: float = 0) -> float:
        """Wait until nothing more is drawn; return when the last line was drawn after the time `after`."""
        ends = f"probe.shown > {after} && performance.now() - probe.shown > {_QUIET_MS} && probe.shown"
        return float(self.page.wait_for_function(ends, timeout=120_000).json_value())

    def now(self) -> float:
        """Return the current time by the page's clock."""
        return self.number("performance.now()")

    def number(self, expression: str) -> float:
        """Evaluate a JavaScript expression to a number."""
        return float(self.page.evaluate(expression))

    def received_bytes(self) -> int:
        """Return the bytes received so far, headers included, open streams excluded."""
        return self._received

    def heap_bytes(self) -> int:
        """Return the size of JavaScript's heap after a garbage collection."""
        self._devtools.send("HeapProfiler.collectGarbage")
        return int(self._devtools.send("Runtime.getHeapUsage")["usedSize"])

    def frames_while_dragging(self, start: tuple[float, float], end: tuple[float, float]) -> list[float]:
        """Drag the mouse from one place to another; return the duration of each frame meanwhile, in ms."""
        mouse, steps = self.page.mouse, 120
        mouse.move(*start)
        mouse.down()
        self.page.evaluate("probe.frames = []")
        for step in range(1, steps + 1):
            mouse.move(*(a + (b - a) * step / steps for a, b in zip(start, end, strict=True)))
        frames: list[float] = self.page.evaluate("probe.frames")
        mouse.up()
        return frames[1:]

    def _receive(self, event: dict[str, Any]) -> None:
        self._received += int(event["encodedDataLength"])


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def view(chromium: Browser, address: str) -> Iterator[View]:
    """Open a page at an address."""
    context = chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT}, bypass_csp=True)
    page = context.new_page()
    page.add_init_script(_PROBE)
    found = View(page)
    page.goto(address, wait_until="commit")
    yield found
    context.close()
