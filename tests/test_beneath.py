"""Paths beneath a base dir while others change them; tests/operations/test_links_out.py tests who follows links."""

from __future__ import annotations

import threading
from pathlib import Path

from helpers.watching import exchange
from lineage_store.paths import resolved


def test_a_path_is_resolved_while_a_link_and_a_directory_change_places(tmp_path: Path) -> None:
    for name in ("directory", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            exchange(tmp_path / "directory", tmp_path / "link")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen = {resolved(tmp_path / "directory") for _ in range(5_000)}
    finally:
        stop.set()
        swapper.join()
    assert seen == {str(tmp_path / "directory"), str(tmp_path / "elsewhere")}
