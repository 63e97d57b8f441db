"""Lengths of time as people write them: `90d`, `36h`, `2w`. Pure."""

from __future__ import annotations

import re

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """What an option's number and unit come to, in seconds. Raises click.BadParameter."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is no length of time: write 90d, 36h, 45m, 30s or 2w.")
    return float(match[1]) * _SECONDS[match[2]]
