"""The row type of the tables of finding kinds: severity, text and remedies. Pure. Does not know any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; everything readable is read."""
    SOME_FILES = "some files"
    """Some log files cannot be read, the others are; or one of several daemons, or the standby, cannot work; or
    something waits for a person."""
    STANDSTILL = "standstill"
    """Nothing is read or written there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding."""

    name: str
    severity: Severity
    what: str
    remedy: str = ""
    """What to do; empty: nothing."""
    heading: str = ""
    """A short text for a line that counts several findings or has little room."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """Alternative remedies, by the case in which they apply."""
    gives_up_bytes: bool = False
    """Whether the bytes of its range are given up, that is, quarantined."""
    ranged: bool = False
    """Whether it is about byte ranges of a log file: it is counted, and stays; others are states, which end."""
    joins: bool = False
    """Whether adjacent ranges are one place, with the text of the first: a chunk may end anywhere in it."""

    @property
    def title(self) -> str:
        """Its heading, or its name in plain words."""
        return self.heading or self.name.replace("_", " ")

    @property
    def anchor(self) -> str:
        """Its section of the documentation, relative to docs/."""
        return f"faults.md#{self.name}"


OK, NOTE, SOME_FILES, STANDSTILL = Severity
