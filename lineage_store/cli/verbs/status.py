"""`status` and `doctor`: the state of the store and of ingest, and what to do about problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from lineage_store.cli.output import (
    Style,
    asked_columns,
    listing_options,
    write_json,
    write_mappings,
    write_pairs,
    write_rows,
)
from lineage_store.cli.session import PATH, CliSession, pass_session, seconds
from lineage_store.config import SETTING_FIELDS
from lineage_store.errors import DatabaseUnavailableError, ExitCode
from lineage_store.findings import Finding, exit_code
from lineage_store.texts import escaped, shown_url

if TYPE_CHECKING:
    from lineage_store.api.reports import DaemonStatus, Replay, StoreStatus, WriteAheadLog


PROBLEM_COLUMNS = ("subject", "kind", "what", "remedy", "since")
DAEMON_COLUMNS = ("base_dir", "shard", "holder", "state", "since", "what", "remedy")
SHARD_COLUMNS = ("base_dir", "shard", "leader", "led_since", "searched_at")
POLICY_COLUMNS = ("base_dir", "policy", "jobs", "last_removed_at")
FINDING_COLUMNS = ("severity", "subject", "kind", "what", "remedy")
CYCLE_COLUMNS = (
    *("base_dir", "finished_at", "files_read", "bytes_read", "events"),
    *("waiting_files", "pending_bytes", "problems", "holder"),
)


@click.command("status")
@click.argument("base_dir", type=PATH, required=False)
@click.option(
    "--problems",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Show at most this many open problems.",
)
@click.option("--cycles", type=click.IntRange(min=1), help="Show this many of the last passes per base dir.")
@click.option("--check", is_flag=True, help="Show only what is wrong, and exit 1 or 3 for it.")
@click.option(
    "--within",
    callback=seconds,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="With --check: maximum age of the last full search.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@pass_session
def status_verb(
    session: CliSession,
    base_dir: str | None,
    problems: int,
    cycles: int | None,
    check: bool,
    within: float,
    as_json: bool,
) -> int:
    """Show the status of the store.

    Per base dir: who holds its lease, or that of each shard, how far behind ingest is, jobs by state, open problems and
    the last pass; and what daemons on this host report, also while the database cannot be written or does not answer
    (exit 5).

    With --check a sentence for each problem, and an exit code: 0 all is well; 1 somewhere nothing is read (nobody
    holds the lease, the base dir cannot be listed, log files wait and none is read, or a daemon on this host fails); 3
    some log files are suspect, quarantined, torn or unreadable, the others are read, or the backlog grows; 5 the
    database is unreachable or locked. A backlog that is being read is shown with its time left, and is no failure.

    \b
    lineage-store status
    lineage-store status /shared/summaries --json
    lineage-store status --cycles 20
    lineage-store status --check --within 2h
    """
    from lineage_store.api import administration

    if check:
        return _check(session, base_dir, within, as_json)

    daemons = administration.daemons(session.settings().settings, base_dir)
    try:
        with session.open_store() as store:
            found = store.health.status(base_dir, problems=problems)
            passes = store.health.cycles(base_dir, limit=cycles) if cycles else None
            checked = _Checked(
                store.opened.url,
                found,
                daemons,
                passes,
                store.health.write_ahead_log(),
                store.health.standby(),
            )
    except DatabaseUnavailableError as error:
        if not as_json:
            _print_daemons(daemons)
            raise
        unavailable = {"cause": error.cause, "reason": error.message, "remedy": error.hint}
        write_json({"unavailable": unavailable, "daemons": list(map(asdict, daemons))})
        return error.exit_code
    if as_json:
        write_json(checked.as_json())
    else:
        checked.print(session)
    return 0


@click.command("doctor")
@click.argument("base_dirs", type=PATH, metavar="[DIR]...", nargs=-1)
@listing_options
@pass_session
def doctor_verb(session: CliSession, base_dirs: Sequence[str], style: Style) -> int:
    """Check what ingest needs; exit 1 if something fails.

    Checks versions, the database and its place; and for DIR and the base dirs of the settings and the store the
    filesystem, permissions, depth and who holds the lease.

    \b
    lineage-store doctor
    lineage-store doctor /shared/summaries
    """
    from lineage_store.api import administration

    findings = list(administration.doctor(session.settings().settings, base_dirs))
    if style == "table" and asked_columns() is None:
        _print_findings(findings)
    else:
        write_mappings(FINDING_COLUMNS, map(asdict, findings), style)
    return 1 if any(finding.is_wrong for finding in findings) else 0


def _check(session: CliSession, base_dir: str | None, within_s: float, as_json: bool) -> int:
    """Print the findings, and return the exit code."""
    from lineage_store.api import administration

    unavailable = None
    try:
        with session.open_store() as store:
            findings = store.health.findings(base_dir, within_s=within_s)
    except DatabaseUnavailableError as error:
        unavailable = error.exit_code
        findings = administration.findings_without_database(session.settings().settings, base_dir, error)
    if as_json:
        write_json(
            {
                "well": exit_code(findings) == ExitCode.OK,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    elif not findings:
        click.echo("All is well.")
    else:
        for finding in findings:
            click.echo(escaped(str(finding)))
    return exit_code(findings) if unavailable is None else unavailable


@dataclass(frozen=True, slots=True)
class _Checked:
    """What `status` prints about a store that answers."""

    url: str
    status: StoreStatus
    daemons: Sequence[DaemonStatus]
    passes: Sequence[Mapping[str, Any]] | None
    """The last passes, with --cycles; None: print the last pass of each base dir only in JSON."""
    log: WriteAheadLog | None
    standby: Replay | None

    def as_json(self) -> dict[str, Any]:
        found = self.status
        return {
            "database": self.url,
            "base_dirs": found.base_dirs,
            "shards": found.shards,
            "daemons": list(map(asdict, self.daemons)),
            "last_cycles": found.cycles if self.passes is None else self.passes,
            "problems": list(map(asdict, found.problems)),
            "known_twice": list(map(asdict, found.known_twice)),
            "write_ahead_log": None if self.log is None else asdict(self.log),
            "removed_by_policy": found.removed_by_policy,
            "policies_wait": list(map(asdict, found.policies_wait)),
            "backlogs": list(map(asdict, found.backlogs)),
            "standby": None if self.standby is None else asdict(self.standby),
        }

    def print(self, session: CliSession) -> None:
        found, beside = self.status, (self.log, self.standby)
        click.echo(f"Store: {self.url}" + ("" if self.standby is None else f"\nStandby: {self.standby}"))
        for finding in filter(
            None, (*(each and each.finding for each in beside), *found.known_twice, *found.policies_wait)
        ):
            session.note(str(finding))
        if not found.base_dirs:
            session.note("It holds no base dir yet: run `lineage-store ingest BASE_DIR`.")
        for row in found.base_dirs:
            pairs = [(name, value) for name, value in row.items() if name != "base_dir"]
            write_pairs(pairs, title=row["base_dir"])
        for backlog in found.backlogs:
            click.echo(escaped(str(backlog.finding)))
        _print_shards(found)
        _print_daemons(self.daemons)
        if found.removed_by_policy:
            write_mappings(POLICY_COLUMNS, found.removed_by_policy, title="Removed by policy")
        if found.problems:
            write_mappings(PROBLEM_COLUMNS, map(asdict, found.problems), title="Open problems")
            opened = sum(row["open_problems"] for row in found.base_dirs)
            if more := opened - sum(problem.problems for problem in found.problems):
                session.note(f"... and {more:,} more: see `lineage-store problems`.")
        if self.passes is not None:
            write_mappings(CYCLE_COLUMNS, self.passes, title="Last passes")


def _print_shards(status: StoreStatus) -> None:
    """Print the shards of base dirs that have several."""
    divided = {row["base_dir"] for row in status.base_dirs if row["shards"] > 1}
    if divided:
        shards = (row for row in status.shards if row["base_dir"] in divided)
        write_mappings(SHARD_COLUMNS, shards, title="Shards")


def _print_daemons(daemons: Sequence[DaemonStatus]) -> None:
    if daemons:
        write_mappings(DAEMON_COLUMNS, map(_daemon_row, daemons), title="Daemons on this host")


def _daemon_row(status: DaemonStatus) -> dict[str, object]:
    found = asdict(status.finding) if status.finding else {}
    names = {name: getattr(status, name) for name in ("base_dir", "shard", "holder")}
    return {**found, **names, "state": status.title}


def _print_findings(findings: Iterable[Finding]) -> None:
    for finding in findings:
        click.echo(escaped(f"{finding.severity:10}  {finding.subject}: {finding.what}"))
        if finding.remedy:
            click.echo(escaped(f"{'':10}  {finding.remedy}"))


# ---- `config show`: every setting, its value, and where that comes from


@click.group("config")
def config_verb() -> None:
    """Show the settings."""


@config_verb.command("show")
@listing_options
@pass_session
def config_show_verb(session: CliSession, style: Style) -> None:
    """Print every setting: its value, where that comes from, what it means.

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


# ---- `completion`: the script by which a shell completes verbs and options


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_verb(context: click.Context, shell: str) -> None:
    """Print a shell's completion script for verbs and options.

    \b
    lineage-store completion bash > ~/.local/share/bash-completion/completions/lineage-store
    lineage-store completion zsh > "${fpath[1]}/_lineage-store"
    lineage-store completion fish > ~/.config/fish/completions/lineage-store.fish
    """
    from lineage_store.cli.app import COMPLETION, PROGRAM

    completer = get_completion_class(shell)
    assert completer is not None, "click knows every shell of the choice"
    program = context.find_root().command
    click.echo(completer(program, {}, PROGRAM, COMPLETION).source())
