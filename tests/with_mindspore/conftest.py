"""Collect no tests here without MindSpore: `make test-mindspore` has an environment with it."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("mindspore") else ["test_*.py"]
