"""Options that take words of a fixed list: a wrong one is refused with the closest and with all that are allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection

import click

from lineage_store.texts import closest


def one_of(words: Collection[str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback for an option that takes one of these words."""

    def check(_context: click.Context, _option: click.Parameter, word: str | None) -> str | None:
        if word is None or word in words:
            return word
        raise click.BadParameter(refusal(word, words))

    return check


def refusal(word: str, words: Collection[str], *, also: Collection[str] = ()) -> str:
    """What to say of a word that is not allowed; `also` are words that could be meant, too many to be listed."""
    close = closest(word, [*words, *also])
    guess = f" Did you mean {close}?" if close else ""
    return f"{word!r} is none of {', '.join(words)}.{guess}"
