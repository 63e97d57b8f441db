"""The packages that installing the package, or one of its extras, brings along."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

from helpers.base_dirs import ROOT

PACKAGE = "lineage-store"


def required_by(name: str, extras: list[str]) -> Iterator[Requirement]:
    """What a distribution requires here and now, with these extras."""
    for text in metadata.requires(name) or ():
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ["", *extras]):
            yield wanted


def test_no_extra_takes_the_numpy_of_mindspore_away() -> None:
    locked = (ROOT / "requirements" / "mindspore.txt").read_text(encoding="utf-8")
    numpy = re.search(r"^numpy==(\S+)", locked, re.MULTILINE)
    assert numpy is not None
    extras = metadata.metadata(PACKAGE).get_all("Provides-Extra", [])
    asked, waiting = set[str](), list(required_by(PACKAGE, extras))
    while waiting:
        wanted = waiting.pop()
        if wanted.name == "numpy":
            assert wanted.specifier.contains(numpy[1])
        elif wanted.name not in asked:
            asked.add(wanted.name)
            waiting += required_by(wanted.name, list(wanted.extras))
    assert {"pandas", "pyarrow", "psycopg-binary"} <= asked
