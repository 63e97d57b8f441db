"""A fixture that closes the recorders that a test leaves open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lineage_store.collect import SummaryRecord


@pytest.fixture(autouse=True)
def _no_open_recorder() -> Iterator[None]:
    yield
    left = SummaryRecord._open() if SummaryRecord._open is not None else None
    if left is not None:
        left.close()
