"""What a kind of finding is: how bad it is, what is said of it, and what to do. Pure; knows no kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; everything that can be read is read."""
    SOME_FILES = "some files"
    """Some log files cannot be read, the others are; or one of several daemons cannot go on, or the standby."""
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
    """In few words, for a line that counts several or has little room."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """Other remedies, by the case in which they apply."""
    gives_up_bytes: bool = False
    """Whether its byte range was given up: those bytes are quarantined."""
    joins: bool = False
    """Whether ranges that meet are one, though words differ: the words of the first stand for all."""

    @property
    def title(self) -> str:
        """Its heading, or its name in plain words."""
        return self.heading or self.name.replace("_", " ")

    @property
    def anchor(self) -> str:
        """Where the documentation tells of it, below docs/."""
        return f"faults.md#{self.name}"

    def remedy_in(self, case: str) -> str:
        """The remedy in a case; where there is no other, the one of the kind."""
        return self.remedies[case] if case else self.remedy


OK, NOTE, SOME_FILES, STANDSTILL = Severity
