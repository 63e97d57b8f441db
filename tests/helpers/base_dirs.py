"""Copies of committed base dirs with the modes and modification times that MindSpore gave them: Git keeps neither."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = ROOT / "examples" / "summary_base"


def copy_base_dir(source: Path, target: Path) -> Path:
    """Copy `source`; give each log file the time in its name, and mode 0400 for "the writer has finished"."""
    shutil.copytree(source, target)
    for path in target.glob("*/*summary.*"):
        timestamp = re.search(r"summary\.(\d+)", path.name)
        assert timestamp, path
        os.utime(path, (int(timestamp[1]), int(timestamp[1])))
        path.chmod(0o400)
    return target


def path_meant(of: int | str | Path, directory: int | None = None) -> str:
    """Return the path that a call of a function of `os` means, given a descriptor, or a name in an open directory."""
    if isinstance(of, int):
        return os.readlink(f"/proc/self/fd/{of}")
    return str(of) if directory is None else os.path.join(path_meant(directory), of)
