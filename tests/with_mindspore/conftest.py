"""Collect no tests here without MindSpore: `make test-mindspore` has an environment with it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("mindspore") else ["test_*.py"]


@pytest.fixture
def pynative() -> None:
    """MindSpore runs on the CPU, one operator at a time."""
    import mindspore

    mindspore.set_device("CPU")
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
