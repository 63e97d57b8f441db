"""Check the settings `notify_…`, which say what is sent to whom. Pure.

In: settings. Out: a frozen plan, or None if they name no receiver. Promises: a ConfigError names the setting, but never
contains the address, which may have secrets.
"""

from __future__ import annotations

import operator
import re
import shlex
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.texts import meant

PROBLEM, LAG, FINISHED, METRIC = KINDS = ("problem", "lag", "finished", "metric")
_HOLDS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_BOUND = re.compile(r"(?P<metric>.+?)\s*(?P<sign>[<>]=?)\s*(?P<value>\S+)")


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a metric, such as `accuracy >= 0.9`."""

    metric: str
    sign: str
    value: float

    def is_passed_by(self, value: float) -> bool:
        """Return whether a job with this value of the metric is notified."""
        return bool(_HOLDS[self.sign](value, self.value))

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent, and to whom: an address or a command."""

    name: str
    address: SplitResult | None
    command: tuple[str, ...]
    kinds: frozenset[str]
    lag_s: float
    bounds: tuple[Bound, ...]


def plan_of(settings: Settings) -> Plan | None:
    """Return the plan of some settings; None if they name no receiver. Raises ConfigError."""
    if not (settings.notify_url or settings.notify_command):
        return None
    if settings.notify_url and settings.notify_command:
        raise ConfigError(
            "Settings notify_url and notify_command are both given.",
            hint="Give one: the command may do more.",
        )
    address = _address(settings.notify_url) if settings.notify_url else None
    kinds = frozenset(_listed(settings.notify_on))
    for kind in kinds.difference(KINDS):
        hint = meant(kind, KINDS) or f"Known: {', '.join(KINDS)}."
        raise ConfigError(f"Setting notify_on has {kind!r}, which is nothing that is told.", hint=hint)
    bounds = tuple(map(_bound, _listed(settings.notify_metrics)))
    command = _command(settings.notify_command)
    return Plan(settings.notify_name, address, command, kinds, settings.notify_lag_s, bounds)


def _address(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        fits = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        fits = False
    if not fits or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(
            "Setting notify_url is no address of a webhook.",
            hint="Write http://host/path or https://host/path.",
        )
    return address


def _command(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(
            f"Setting notify_command cannot be split into words: {error}.",
            hint="Write it as in a shell: every quotation mark needs its second.",
        ) from None


def _bound(text: str) -> Bound:
    found = _BOUND.fullmatch(text)
    try:
        if found is not None:
            return Bound(found["metric"], found["sign"], float(found["value"]))
    except ValueError:
        pass
    raise ConfigError(f"Setting notify_metrics has {text!r}, which is no bound.", hint="Write accuracy>=0.9.")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
