"""The public names of the package: each is there, or says that MindSpore is missing."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from lineage_store import collect


@pytest.mark.parametrize("name", dir(collect))
def test_a_public_name_is_there_or_says_that_mindspore_is_not_installed(name: str) -> None:
    if find_spec("mindspore") or name in ("SummaryRecord", "collect_environment"):
        assert getattr(collect, name).__name__ == name
    else:
        with pytest.raises(
            ImportError, match=f"{name} is a callback of MindSpore's, which is not installed here"
        ):
            getattr(collect, name)
