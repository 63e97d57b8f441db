"""What all verbs share: the global options, and the settings and the store that follow from them.

In: the global options that `app` has read. Out: loaded settings, an open store, notes on stderr.
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
    """-1: quiet, 0: normal, 1 and more: verbose."""

    def settings(self, **flags: Any) -> LoadedSettings:
        """Load the settings, overridden by flags; a flag that is None was not given."""
        urls = {"database_url": self.database, "read_database_url": self.read_database}
        return setting_sources.load({**urls, **flags}, config_file=self.config_file)

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
        """Write a remark to stderr, unless quiet."""
        if self.verbosity >= 0:
            with suppress(OSError):  # a stderr that cannot be written must not stop the verb
                click.echo(escaped(text, keep_lines=True), err=True)

    def working(self, what: str, *, wanted: bool = True) -> AbstractContextManager[Callable[[str], None]]:
        """As `progress.working`, but show nothing if quiet."""
        from lineage_store.cli.progress import working

        return working(what, wanted=wanted and self.verbosity >= 0)


pass_session = click.make_pass_decorator(Session)


def agreed(question: str, otherwise: str = "say --yes") -> bool:
    """Ask a yes/no question at the terminal. Raises click.UsageError with the advice `otherwise` without a terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"Nobody is there to be asked: {otherwise}.")
    return click.confirm(escaped(question), err=True)
