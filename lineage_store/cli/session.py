"""What all verbs share: the global options, and the settings and the store that follow from them.

In: the global options that `app` has read. Out: loaded settings, an open store, notes on stderr.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lineage_store import config
from lineage_store.config import LoadedSettings
from lineage_store.texts import escaped, meant, without_passwords

if TYPE_CHECKING:
    from lineage_store.api import LineageStore
    from lineage_store.api.reports import Progress


@dataclass(slots=True)
class CliSession:
    """One run of the program."""

    database: str | None = None
    read_database: str | None = None
    config_file: str | None = None
    verbosity: int = 0
    """-1: quiet, 0: normal, 1 and more: verbose."""

    def settings(self, **flags: Any) -> LoadedSettings:
        """Load the settings, overridden by flags; a flag that is None was not given."""
        urls = {"database_url": self.database, "read_database_url": self.read_database}
        return config.load({**urls, **flags}, config_file=self.config_file)

    def open_store(self, *, create: bool = False, writes: bool = False, **flags: Any) -> LineageStore:
        """Open the store; the caller closes it, best by `with`.

        Args:
            create: make the store if it does not exist, for verbs that fill it.
            writes: the verb writes, so that it also reads from the primary and not from a standby.
        """
        from lineage_store.api import LineageStore

        if create or writes:
            flags["read_database_url"] = ""
        return LineageStore(settings=self.settings(**flags).settings, create=create)

    def warn_of_passwords(self, *urls: str | None) -> None:
        """Warn if one of the URLs from the command line has a password."""
        if any(url is not None and without_passwords(url) != url for url in urls):
            self.note(
                "Every user of this host can read the password in the process list: "
                "use PGPASSFILE, or LINEAGE_STORE_DATABASE_URL in the environment."
            )

    def note(self, text: str) -> None:
        """Write a note to stderr, unless quiet."""
        if self.verbosity >= 0:
            with suppress(OSError):  # a stderr that cannot be written must not stop the verb
                click.echo(escaped(text, keep_lines=True), err=True)

    def working(self, what: str, *, wanted: bool = True) -> AbstractContextManager[Callable[[str], None]]:
        """As `progress.working`, but show nothing if quiet."""

        return working(what, wanted=wanted and self.verbosity >= 0)


pass_session = click.make_pass_decorator(CliSession)


def agreed(question: str, otherwise: str = "say --yes") -> bool:
    """Ask a yes/no question at the terminal. Raises click.UsageError with the advice `otherwise` without a terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"Nobody is there to be asked: {otherwise}.")
    return click.confirm(escaped(question), err=True)


# ---- Shows progress on stderr, if that is a terminal


@contextmanager
def progress_bar(total_bytes: int, *, wanted: bool = True) -> Iterator[Callable[[Progress], None] | None]:
    """Show a progress bar for the length of the block; yield the function to update it, or None without a terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[events]:,} events"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=max(total_bytes, 1), events=0)
        yield lambda progress: bar.update(task, completed=progress.bytes_read, events=progress.events)


@contextmanager
def working(what: str, *, wanted: bool = True) -> Iterator[Callable[[str], None]]:
    """Show `what` and the time it takes, for the length of the block; yield a function that adds how far it has come.

    Nothing is shown without a terminal.
    """
    if not (wanted and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what)
        yield lambda far: bar.update(task, description=f"{what}: {far}")


# ---- Reads the texts of options: a word of a fixed list, a length of time, a path. Pure, except for click's error
# The refusal of a wrong word names all allowed words and the closest one.


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


def choice_of(words: Collection[str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
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
