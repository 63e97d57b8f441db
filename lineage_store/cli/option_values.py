"""Reads the texts of options: a word of a fixed list, a length of time, a path. Pure, except for click's error.

The refusal of a wrong word names all allowed words and the closest one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import click

from lineage_store.texts import escaped, meant

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class _Path(click.Path):
    """Any text, completed as a path by shells. It is not checked here: the verb reports a wrong path itself."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


PATH = _Path()


def seconds(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    """Return the seconds of a length of time such as `36h`; a callback for options. Raises click.BadParameter."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is no length of time: write 90d, 36h, 45m, 30s or 2w.")
    return float(match[1]) * _SECONDS[match[2]]


def one_of(words: Collection[str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a callback for an option that allows only these words."""

    def check(_context: click.Context, _option: click.Parameter, word: str | None) -> str | None:
        if word is None or word in words:
            return word
        raise click.BadParameter(refusal(word, words))

    return check


def refusal(word: str, words: Collection[str], *, also: Collection[str] = ()) -> str:
    """Return the message for a word that is not allowed; `also` are allowed words that are too many to list."""
    guess = escaped(meant(word, [*words, *also]))
    return f"{word!r} is none of {', '.join(words)}. {guess}".rstrip()
