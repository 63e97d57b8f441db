"""Take the screenshots of the page in README: the example jobs, in Debian's Chromium.

    python tools/pictures.py

Out: docs/pictures/*.png, of the built page.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
SIZE = {"width": 1200, "height": 760}


def main() -> None:
    """Serve the example jobs, and take screenshots of the page."""
    with tempfile.TemporaryDirectory() as directory:
        program = [sys.executable, "-m", "lineage_store", "--database", f"sqlite:///{directory}/store.db"]
        subprocess.run([*program, "ingest", str(ROOT / "examples" / "summary_base")], check=True)
        serving = [*program, "serve", "--port", "0", "--no-open", str(ROOT / "examples" / "summary_base")]
        with subprocess.Popen(serving, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            assert server.stdout is not None
            address = next(word for line in server.stdout for word in line.split() if word.startswith("http"))
            try:
                _take(address)
            finally:
                server.terminate()


def _take(address: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--force-device-scale-factor=1"]
        )
        page = browser.new_context(base_url=address, viewport=SIZE, color_scheme="dark").new_page()  # type: ignore[arg-type]
        page.goto("jobs?sort=-metric/accuracy")
        page.get_by_role("link", name="run_").first.wait_for()
        page.wait_for_timeout(1000)  # until the lines are drawn
        page.screenshot(path=PICTURES / "jobs.png")
        chosen = page.get_by_role("link", name="run_").evaluate_all(
            "links => links.slice(0, 4).map(l => l.pathname)"
        )
        jobs = ",".join(quote(path.split("/job/")[1], safe="") for path in chosen)
        page.goto(f"compare?jobs={jobs}")
        page.get_by_role("img").first.wait_for()
        page.wait_for_timeout(1000)
        page.screenshot(path=PICTURES / "compare.png")
        browser.close()


if __name__ == "__main__":
    main()
