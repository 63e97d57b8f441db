"""The program itself: the table of verbs, the global options, the handling of errors and signals.

In: command-line arguments. Out: an exit code (`errors.ExitCode`; 130 and 143 after a signal). Promises: an error is a
message on stderr that says what was wrong and, where that is known, what to do; a traceback is shown only with `-v`.
Does not know: what any verb does.
"""

from __future__ import annotations

import errno
import importlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click

from lineage_store.cli.session import PATH, CliSession
from lineage_store.errors import ExitCode, MindInsightException
from lineage_store.program import handled
from lineage_store.texts import escaped, meant, without_passwords

PROGRAM = "lineage-store"
COMPLETION = "_LINEAGE_STORE_COMPLETE"
"""The variable that the script of the verb `completion` sets when the shell asks for completions."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

VERBS = {
    "init": "database",
    "ingest": "ingesting",
    "daemon": "ingesting",
    "serve": "ingesting",
    "status": "status",
    "jobs": "jobs",
    "show": "jobs",
    "filter": "jobs",
    "tail": "export",
    "sql": "export",
    "export": "export",
    "tags": "samples",
    "scalars": "samples",
    "evaluations": "samples",
    "images": "samples",
    "histograms": "samples",
    "compare": "jobs",
    "annotate": "jobs",
    "inspect": "repair",
    "why": "repair",
    "doctor": "status",
    "problems": "repair",
    "retry": "repair",
    "reingest": "repair",
    "verify": "repair",
    "gc": "gc",
    "forget": "gc",
    "move": "gc",
    "backup": "database",
    "restore": "database",
    "db": "database",
    "config": "status",
    "completion": "status",
}
"""The module of each verb, in the order in which help lists the verbs."""


class _Verbs(click.Group):
    """A group that imports a verb's module when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"lineage_store.cli.verbs.{VERBS[cmd_name]}")
        found: click.Command = getattr(module, f"{cmd_name}_verb")
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. {meant(args[0], VERBS)}".rstrip())
        return super().resolve_command(ctx, args)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--database", metavar="URL", help="The store: sqlite:////path/to/file or postgresql://user@host/name."
)
@click.option("--read-database", metavar="URL", help="Hot standby that answers read-only questions.")
@click.option(
    "--config",
    "config_file",
    type=PATH,
    metavar="FILE",
    help="Settings file, instead of the first one found.",
)
@click.option(
    "-v", "--verbose", count=True, help="Write more to stderr, tracebacks included; -vv for everything."
)
@click.option("-q", "--quiet", is_flag=True, help="Write only errors to stderr.")
@click.version_option(package_name="lineage-store", prog_name=PROGRAM)
@click.pass_obj
def app(
    session: CliSession,
    database: str | None,
    read_database: str | None,
    config_file: str | None,
    verbose: int,
    quiet: bool,
) -> None:
    """Keep what MindSpore trainings wrote into their log files in SQL, and ask it questions.

    \b
    Start with:
      lineage-store ingest /path/to/summary_base
      lineage-store filter --sort metric/accuracy:desc
      lineage-store sql "SELECT network, count(*) FROM v_job GROUP BY network"

    Settings come from flags, LINEAGE_STORE_* variables and lineage_store.toml: see `lineage-store config show`.
    """
    session.database, session.read_database, session.config_file = database, read_database, config_file
    session.verbosity = -1 if quiet else verbose
    session.warn_of_passwords(database, read_database)
    _log_to_stderr(session.verbosity)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program on these arguments (None: those of the process), and return its exit code."""
    session = CliSession()
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with _signals_interrupt() as received:
        try:
            code = _invoke(sys.argv[1:] if arguments is None else list(arguments), session)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard(sys.stdout)
            return 0
        except (KeyboardInterrupt, click.Abort):
            return 128 + (received[0] if received else signal.SIGINT)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the user gets a sentence
            return report(error, session.verbosity)
    return code if isinstance(code, int) else 0


def _open_what_is_closed() -> None:
    """Open /dev/null for each standard stream that is closed.

    Otherwise the next file that is opened, such as the database, would get the number of the stream and its output.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # `os.open` returns the lowest free number, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


def _invoke(arguments: list[str], session: CliSession) -> object:
    """Run the verb, and return what it returned. Unlike `click.Command.main`, let every error through."""
    if COMPLETION in os.environ:
        app.main(arguments, prog_name=PROGRAM)
    try:
        with app.make_context(PROGRAM, arguments, obj=session) as context:
            return app.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def report(error: Exception, verbosity: int) -> int:
    """Write an error to stderr, and return the exit code."""
    try:
        return _report(error, verbosity)
    except OSError:  # stderr is on a full disk or a closed pipe
        _discard(sys.stderr)
        return int(getattr(error, "exit_code", ExitCode.FAILED))


def _report(error: Exception, verbosity: int) -> int:
    if verbosity > 0:
        trace = without_passwords("".join(traceback.format_exception(error)))
        click.echo(escaped(trace, keep_lines=True), err=True, nl=False)
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, MindInsightException):
        message, hint, code = error.message, error.hint, error.exit_code
    elif isinstance(error, OSError) and error.filename is None and error.errno in _FULL:
        message, code = f"The output could not be written to its end: {error.strerror}", ExitCode.FAILED
        hint = "Make room where stdout, or a temporary file, goes to. What is there is incomplete."
    else:
        message, code = f"Unexpected {type(error).__name__}: {error}", ExitCode.FAILED
        hint = "This should not happen: please report it, with what `-v` before the verb prints."
    click.echo(f"Error: {escaped(without_passwords(message), keep_lines=True)}", err=True)
    if hint:
        click.echo(escaped(hint, keep_lines=True), err=True)
    return code


@contextmanager
def _signals_interrupt() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt on SIGINT and SIGTERM, and append the signal to the list. Verbs may handle them first."""
    received: list[int] = []

    def interrupt(number: int, *_: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    with handled(interrupt, signal.SIGINT, signal.SIGTERM):
        yield received


def _log_to_stderr(verbosity: int) -> None:
    level = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    handler = logging.StreamHandler()
    handler.setFormatter(_ForPeople())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("sqlalchemy").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)


class _ForPeople(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escaped(without_passwords(super().format(record)), keep_lines=True)


def _discard(stream: TextIO) -> None:
    """Redirect a broken stream to /dev/null, so that the interpreter's flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
