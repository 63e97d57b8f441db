"""`ingest` and `daemon`: read log files into the store, once or continuously."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from lineage_store.cli.session import PATH, CliSession, pass_session, progress_bar
from lineage_store.config import MOST_SHARDS, Settings
from lineage_store.errors import ExitCode, LeaseHeldError
from lineage_store.program import Before, handled
from lineage_store.texts import escaped

if TYPE_CHECKING:
    from lineage_store.api import LineageStore
    from lineage_store.api.reports import IngestReport


SHOWN_PROBLEMS = 3

recursive_option = click.option(
    "--recursive", is_flag=True, default=None, help="Search for jobs at any depth, not one level below."
)


@click.command("ingest")
@click.argument("base_dirs", type=PATH, metavar="BASE_DIR...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Dry run: list what would be read.")
@recursive_option
@pass_session
def ingest_verb(session: CliSession, base_dirs: Sequence[str], dry_run: bool, recursive: bool | None) -> int:
    """Read new contents of log files into the store.

    BASE_DIR is the directory of the job directories. Only what was not read before is read. Exits 3 when some files
    have problems: what is good in them is stored.

    \b
    lineage-store ingest /shared/summaries
    lineage-store ingest --dry-run --recursive /shared/summaries /shared/other-team
    """
    code = 0
    with session.open_store(create=True, recursive=recursive) as store, _ended_by_signal() as ended:
        for base_dir in base_dirs:
            if dry_run:
                click.echo(escaped(str(store.plan(base_dir)), keep_lines=True))
                continue
            try:
                report = _ingest(session, store, base_dir, ended)
            except LeaseHeldError:
                if not ended:
                    raise
                return 128 + ended[0]
            click.echo(escaped(str(report), keep_lines=True))
            if not report.complete:
                _show_problems(session, store, report)
                code = ExitCode.PARTLY_DONE
            if ended:
                session.note("Stopped early; the next run continues where this one ended.")
                return 128 + ended[0]
    return code


@click.command("daemon")
@click.argument("base_dirs", type=PATH, metavar="[BASE_DIR]...", nargs=-1)
@recursive_option
@click.option("--until-eof", is_flag=True, help="Exit when stdin closes (for parent processes).")
@click.option(
    "--metrics-port", type=click.IntRange(1, 65535), help="Serve metrics on this port of 127.0.0.1."
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    help="Divide the jobs of each base dir into this many shards, for as many daemons.",
)
@pass_session
def daemon_verb(
    session: CliSession,
    base_dirs: Sequence[str],
    recursive: bool | None,
    until_eof: bool,
    metrics_port: int | None,
    shards: int | None,
) -> None:
    """Follow base dirs as their log files grow.

    Without BASE_DIR those of the setting `base_dirs`. New samples are in SQL within 3 seconds. On SIGTERM and SIGINT
    it finishes the current transaction and exits 0; on SIGHUP it reloads the settings file. Exits 7, to be
    restarted, when a base dir makes no progress for progress_deadline_s.

    Daemons share base dirs, and the shards of one: each holds as many leases as the others; those of a dead one are
    taken over. The number of shards stays with the base dir until a daemon is started with another one.

    \b
    lineage-store daemon /shared/summaries
    lineage-store daemon --shards 4 /shared/summaries
    LINEAGE_STORE_LOG_FORMAT=json lineage-store daemon
    """
    from lineage_store import program

    level = "debug" if session.verbosity > 0 else "error" if session.verbosity < 0 else None
    flags: dict[str, Any] = {"recursive": recursive, "metrics_port": metrics_port, "shards": shards}

    def read_settings() -> Settings:
        settings = session.settings(log_level=level, read_database_url="", **flags).settings
        program.configure(settings.log_level, settings.log_format)
        return settings

    read_settings()
    with session.open_store(create=True, log_level=level, **flags) as store:
        store.run_daemon(base_dirs, stop=_set_at_eof() if until_eof else None, reload=read_settings)


def _set_at_eof() -> threading.Event:
    """Return an event that is set when standard input ends: when the process at its other end has exited."""
    ended = threading.Event()

    def wait() -> None:
        while os.read(0, 4096):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def _ingest(session: CliSession, store: LineageStore, base_dir: str, ended: Sequence[int]) -> IngestReport:
    total = store.plan(base_dir).bytes_to_read
    with progress_bar(total, wanted=session.verbosity >= 0) as progress:
        return store.ingest(base_dir, progress=progress, should_stop=lambda: bool(ended))


def _show_problems(session: CliSession, store: LineageStore, report: IngestReport) -> None:
    shown = store.repair.some_problems(report.base_dir, most=SHOWN_PROBLEMS)
    for problem in shown:
        session.note(f"{problem.subject}: {problem.what} {problem.remedy}")
    if (more := report.problems - sum(problem.problems for problem in shown)) > 0:
        session.note(f"... and {more:,} more: see `lineage-store problems`.")


@contextmanager
def _ended_by_signal() -> Iterator[list[int]]:
    """Append SIGINT and SIGTERM to the list: the first lets the current transaction finish, the second interrupts."""
    ended: list[int] = []

    def end(number: int, frame: FrameType | None, before: Before) -> None:
        if ended and callable(before):
            before(number, frame)
        ended.append(number)

    with handled(end, signal.SIGINT, signal.SIGTERM):
        yield ended


# ---- `serve`: runs the HTTP server, and a daemon beside it


_DEFAULTS = Settings()


@click.command("serve")
@click.argument("base_dirs", type=PATH, metavar="[BASE_DIR]...", nargs=-1)
@click.option("--host", metavar="ADDRESS", help=f"Address to listen on.  [default: {_DEFAULTS.serve_host}]")
@click.option(
    "--port", type=int, help=f"Port to listen on; 0: any free port.  [default: {_DEFAULTS.serve_port}]"
)
@click.option("--url-path-prefix", metavar="PATH", help="URL prefix, when behind a proxy.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="File with the access token; required unless only this host can connect.",
)
@click.option("--allow-remarks", is_flag=True, default=None, help="Allow annotations without a token.")
@recursive_option
@click.option(
    "--mindinsight-ui", metavar="DIR", help="Serve MindInsight's own page, in DIR, at /mindinsight/."
)
@click.option("--no-open", is_flag=True, help="Open no browser.")
@pass_session
def serve_verb(
    session: CliSession,
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

    With BASE_DIR a daemon follows those as long as the server runs, in a process of its own; one that follows
    them already is used. Without, what is in the store is shown. The extra `web` must be installed.

    \b
    lineage-store serve /shared/summaries
    lineage-store serve --host 0.0.0.0 --token-file ~/.lineage-token --no-open
    """
    from lineage_store import program
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
    from lineage_store.api.administration import database_url
    from lineage_store.server.running import DaemonProcess, run_server

    settings = loaded.settings
    program.configure(settings.log_level, settings.log_format)
    LineageStore(settings=settings, create=bool(base_dirs), read_only=not base_dirs).close()
    with ExitStack() as beside:
        if base_dirs:
            url = database_url(settings)
            beside.enter_context(DaemonProcess(base_dirs, url, loaded.file, recursive=settings.recursive))
        run_server(settings, say=session.note, opens_browser=not no_open)
