"""`config show`: every setting, its value, and where that comes from."""

from __future__ import annotations

import click

from lineage_store.cli.output import Style, listing_options, write_rows
from lineage_store.cli.session import Session, pass_session
from lineage_store.config import SETTING_FIELDS
from lineage_store.texts import shown_url


@click.group("config")
def config_verb() -> None:
    """Show the settings."""


@config_verb.command("show")
@listing_options
@pass_session
def show_verb(session: Session, style: Style) -> None:
    """Print every setting, its value, where that comes from, and what it means.

    Later sources win: default, settings file, LINEAGE_STORE_* variables, flags.

    \b
    lineage-store config show
    LINEAGE_STORE_POLL_INTERVAL_S=5 lineage-store config show --json
    """
    loaded = session.settings()
    rows = []
    for setting in SETTING_FIELDS:
        value = getattr(loaded.settings, setting.name)
        if setting.name.endswith("database_url") and value:
            value = shown_url(value)
        if setting.metadata["secret"] and value:
            value = "***"
        if isinstance(value, tuple):
            value = list(value) if style == "json" else ", ".join(value)
        rows.append((setting.name, value, loaded.origins[setting.name], setting.metadata["meaning"]))
    write_rows(("setting", "value", "origin", "meaning"), rows, style)
    session.note(f"Settings file: {loaded.file or 'none found'}.")
