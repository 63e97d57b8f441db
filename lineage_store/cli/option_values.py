"""What an option's text means: a word of a fixed list, a length of time, a path. Pure, but for click's error.

A wrong word is refused with the closest and with all that are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import click

from lineage_store.texts import escaped, meant

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class _Path(click.Path):
    """Any text, which shells complete as a path: the verb tells what is wrong with one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


PATH = _Path()


def seconds(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """What an option's number and unit come to, in seconds. Raises click.BadParameter."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is no length of time: write 90d, 36h, 45m, 30s or 2w.")
    return float(match[1]) * _SECONDS[match[2]]


def one_of(words: Collection[str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback for an option that takes one of these words."""

    def check(_context: click.Context, _option: click.Parameter, word: str | None) -> str | None:
        if word is None or word in words:
            return word
        raise click.BadParameter(refusal(word, words))

    return check


def refusal(word: str, words: Collection[str], *, also: Collection[str] = ()) -> str:
    """What to say of a word that is not allowed; `also` are words that could be meant, too many to be listed."""
    guess = escaped(meant(word, [*words, *also]))
    return f"{word!r} is none of {', '.join(words)}. {guess}".rstrip()
