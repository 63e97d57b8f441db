"""`serve`: runs the HTTP server, and a daemon beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import click

from lineage_store.cli.option_values import PATH
from lineage_store.cli.session import Session, pass_session
from lineage_store.cli.verbs.ingesting import recursive_option
from lineage_store.config import Settings

_DEFAULTS = Settings()


@click.command("serve")
@click.argument("base_dirs", type=PATH, metavar="[BASE_DIR]...", nargs=-1)
@click.option("--host", metavar="ADDRESS", help=f"Listen at this address.  [default: {_DEFAULTS.serve_host}]")
@click.option(
    "--port", type=int, help=f"Listen at this port; 0: any that is free.  [default: {_DEFAULTS.serve_port}]"
)
@click.option("--url-path-prefix", metavar="PATH", help="What all paths begin with, behind a proxy.")
@click.option("--token-file", metavar="FILE", help="Ask for the token in it; needed where others may ask.")
@click.option(
    "--allow-remarks", is_flag=True, default=None, help="Take labels and remarks without a token too."
)
@recursive_option
@click.option(
    "--mindinsight-ui", metavar="DIR", help="Show MindInsight's own page, in DIR, at /mindinsight/."
)
@click.option("--no-open", is_flag=True, help="Open no browser.")
@pass_session
def serve_verb(
    session: Session,
    base_dirs: Sequence[str],
    host: str | None,
    port: int | None,
    url_path_prefix: str | None,
    token_file: str | None,
    allow_remarks: bool | None,
    recursive: bool | None,
    mindinsight_ui: str | None,
    no_open: bool,
) -> None:
    """Serve what is in the store over HTTP.

    With BASE_DIR a daemon follows those as long as the server runs, in a process of its own; one that leads them
    already is used. Without, what is in the store is shown. The extra `web` must be installed.

    \b
    lineage-store serve /shared/summaries
    lineage-store serve --host 0.0.0.0 --token-file ~/.lineage-token --no-open
    """
    from lineage_store import logs
    from lineage_store.api import LineageStore
    from lineage_store.server import require_web

    require_web()
    loaded = session.settings(
        serve_host=host,
        serve_port=port,
        serve_url_path_prefix=url_path_prefix,
        serve_token_file=token_file,
        serve_allow_remarks=allow_remarks,
        recursive=recursive,
        mindinsight_ui=mindinsight_ui,
        base_dirs=base_dirs or None,
    )
    from lineage_store.api.without_store import database_url
    from lineage_store.server.child import DaemonProcess
    from lineage_store.server.running import run

    settings = loaded.settings
    logs.configure(settings.log_level, settings.log_format)
    LineageStore(settings=settings, create=bool(base_dirs), read_only=not base_dirs).close()
    with ExitStack() as beside:
        if base_dirs:
            url = database_url(settings)
            beside.enter_context(DaemonProcess(base_dirs, url, loaded.file, recursive=settings.recursive))
        run(settings, say=session.note, opens_browser=not no_open)
