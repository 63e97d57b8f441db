"""What all verbs share: the global options, and from them the settings and the store.

In: global options, as the program's entry has read them. Out: loaded settings, an open store, notes on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lineage_store import setting_sources
from lineage_store.setting_sources import LoadedSettings
from lineage_store.texts import escaped, without_passwords

if TYPE_CHECKING:
    from lineage_store.api import LineageStore


@dataclass(slots=True)
class Session:
    """One run of the program."""

    database: str | None = None
    read_database: str | None = None
    config_file: str | None = None
    verbosity: int = 0
    """-1 quiet, 0 normal, 1 and more: verbose."""

    def settings(self, **flags: Any) -> LoadedSettings:
        """The settings with flags on top; a flag that is None was not given."""
        urls = {"database_url": self.database, "read_database_url": self.read_database}
        return setting_sources.load({**urls, **flags}, config_file=self.config_file)

    def open_store(self, *, create: bool = False, writes: bool = False, **flags: Any) -> LineageStore:
        """The store; the caller closes it, best by `with`. Only verbs that fill it may `create` it.

        One that `writes` looks where it writes to, whatever a standby shows.
        """
        from lineage_store.api import LineageStore

        if create or writes:
            flags["read_database_url"] = ""
        return LineageStore(settings=self.settings(**flags).settings, create=create)

    def warn_of_passwords(self, *urls: str | None) -> None:
        """Say so where one of the URLs that were given on the command line has a password."""
        if any(url is not None and without_passwords(url) != url for url in urls):
            self.note(
                "Every user of this host can read the password in the process list: "
                "use PGPASSFILE, or LINEAGE_STORE_DATABASE_URL in the environment."
            )

    def note(self, text: str) -> None:
        """Tell the user something that is not what was asked for: on stderr, unless quiet."""
        if self.verbosity >= 0:
            with suppress(OSError):  # a stderr that is full keeps nobody from what was asked for
                click.echo(escaped(text, keep_lines=True), err=True)

    def working(self, what: str, *, wanted: bool = True) -> AbstractContextManager[Callable[[str], None]]:
        """Show on a terminal what is done, for how long, and how far it is said to have come; not where it is quiet."""
        from lineage_store.cli.progress import working

        return working(what, wanted=wanted and self.verbosity >= 0)


pass_session = click.make_pass_decorator(Session)


def agreed(question: str, otherwise: str = "say --yes") -> bool:
    """What a person at the terminal answers; where nobody is there, what to do `otherwise` is an error of usage."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"Nobody is there to be asked: {otherwise}.")
    return click.confirm(escaped(question), err=True)
