"""`init`, `db`, `backup` and `restore`: create, upgrade, lay out, copy and back up the database."""

from __future__ import annotations

import click

from lineage_store.cli.session import CliSession, pass_session
from lineage_store.errors import ExitCode


@click.command("init")
@pass_session
def init_verb(session: CliSession) -> None:
    """Create or upgrade the store; show where it is.

    `ingest` and `daemon` make a store by themselves; this verb also upgrades an old one.

    \b
    lineage-store init
    lineage-store --database postgresql://lineage@localhost/lineage init
    """
    from lineage_store.api import administration

    settings = session.settings().settings
    with session.working("Upgrading"):
        administration.upgrade_schema(settings)
    click.echo(f"{administration.store_url_shown(settings)} is ready (schema {administration.HEAD}).")


@click.group("db")
def db_verb() -> None:
    """Manage the database: schema, roles, layout, copies."""


@db_verb.command("upgrade")
@pass_session
def upgrade_verb(session: CliSession) -> None:
    """Bring the schema up to date, in one transaction. Stop the daemon first.

    \b
    lineage-store db upgrade
    """
    from lineage_store.api import administration

    settings = session.settings().settings
    before, needed = administration.schema_found(settings), administration.HEAD
    with session.working("Upgrading"):
        administration.upgrade_schema(settings, create=False)
    click.echo(f"Schema {before} -> {needed}." if before != needed else "Up to date.")


@db_verb.command("current")
@pass_session
def current_verb(session: CliSession) -> None:
    """Print the schema version of the database; `none` when it is empty.

    \b
    lineage-store db current
    """
    from lineage_store.api import administration

    click.echo(administration.schema_found(session.settings().settings) or "none")


@db_verb.command("check")
@pass_session
def check_verb(session: CliSession) -> None:
    """Check whether this release can use the database; exits 4 when it cannot.

    \b
    lineage-store db check && systemctl restart lineage-store
    """
    from lineage_store.api import administration

    administration.check_schema(session.settings().settings)
    click.echo(f"Schema {administration.HEAD}, as this release needs it.")
    if layout := administration.layout(session.settings().settings):
        click.echo(layout)


@db_verb.command("choose-best")
@pass_session
def choose_best_verb(session: CliSession) -> None:
    """Choose the best result of each metric anew, after less_is_better was changed.

    From the evaluations in the store: log files are not read. A daemon gives way meanwhile; send it SIGHUP so that it
    uses the changed setting.

    \b
    lineage-store db choose-best
    """
    with session.open_store(writes=True) as store, session.working("Choosing"):
        jobs = store.repair.choose_best()
    click.echo(f"{jobs:,} jobs have another best now." if jobs else "Nothing to do: no job has another best.")


@db_verb.command("partition")
@click.option(
    "--by-jobs", type=click.IntRange(min=1), metavar="N", help="Jobs per partition, such as 100000."
)
@click.option("--undo", is_flag=True, help="Move the samples back into tables without partitions.")
@pass_session
def partition_verb(session: CliSession, by_jobs: int | None, undo: bool) -> None:
    """Partition the samples of a PostgreSQL store by job, while it is used.

    `gc` then drops a partition whose jobs have all gone, instead of deleting its rows; new partitions are made ahead of
    need. Samples are copied: the disk must have room for them once more. Reading and ingest continue; at the end they
    wait for a moment. If it was interrupted, run it again to resume.

    \b
    lineage-store db partition --by-jobs 100000
    lineage-store db partition --undo
    """
    from lineage_store.api import administration

    if undo == (by_jobs is not None):
        raise click.UsageError("Give --by-jobs N or --undo.")
    settings = session.settings().settings
    with session.working("Laying out samples"):
        changed = administration.partition(settings, by_jobs, session.note)
    layout = administration.layout(settings) or "Samples have no partitions."
    click.echo(layout if changed else f"Nothing to do. {layout}")


@db_verb.command("distribute")
@click.option("--samples", is_flag=True, help="Distribute the sample tables; must be given.")
@click.option(
    "--shards", default=32, show_default=True, type=click.IntRange(1, 32_000), help="Shards per table."
)
@click.option("--dry-run", is_flag=True, help="Dry run: print the SQL.")
@pass_session
def distribute_verb(session: CliSession, samples: bool, shards: int, dry_run: bool) -> None:
    """Distribute the samples of a PostgreSQL store over the workers of Citus, by job.

    Everything else stays on the coordinator. In one transaction, for which writes wait; run again it does what is left.
    docs/citus.md says what to install, how many shards, and what is slower then.

    \b
    lineage-store db distribute --samples --dry-run
    lineage-store db distribute --samples --shards 64
    """
    from lineage_store.api import administration

    if not samples:
        raise click.UsageError("Give --samples.")
    with session.working("Distributing"):
        statements = administration.distribute(session.settings().settings, shards, dry_run=dry_run)
    if dry_run:
        click.echo("\n".join(f"{statement};" for statement in statements))
    else:
        click.echo(f"Distributed ({len(statements)} statements)." if statements else "Nothing to do.")


@db_verb.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--anew", is_flag=True, help="Remove what an unfinished copy left in TO, and start over.")
@pass_session
def copy_verb(session: CliSession, source: str, target: str, anew: bool) -> None:
    """Copy a whole store into an empty database, of the other kind or of the same.

    Labels, remarks, removed jobs and jobs whose log files are gone come along, under the same ids; in the end every row
    of both is compared. FROM is read as of one moment. If it was interrupted, run it again to resume, provided that
    nothing has written to FROM meanwhile; until it has ended, TO is no store.

    \b
    lineage-store db copy sqlite:////var/lib/lineage-store/store.db postgresql://lineage@host/lineage
    """
    from lineage_store.api import administration

    session.warn_of_passwords(source, target)
    settings = session.settings().settings
    with session.working("Copying"):
        found = administration.copy_store(settings, source, target, anew=anew, progress=session.note)
    if found.leaders:
        session.note(
            "An ingester holds the lease of FROM: what it wrote since this began is not in TO; ingest there reads it "
            "from the log files; labels and remarks since then are in FROM only."
        )
    click.echo(f"Copied and compared: {sum(found.rows.values()):,} rows of {len(found.rows)} tables.")


@db_verb.command("grant")
@click.option("--owner", metavar="ROLE", help="Role that owns the tables, and upgrades them.")
@click.option("--ingest", metavar="ROLE", help="Role of the daemon: reads and writes rows.")
@click.option(
    "--reader",
    "readers",
    metavar="ROLE",
    multiple=True,
    help="Role that reads everything; repeat it for more.",
)
@click.option(
    "--analyst",
    "analysts",
    metavar="ROLE",
    multiple=True,
    help="Role that reads only the views; repeat it for more.",
)
@click.option("--dry-run", is_flag=True, help="Dry run: print the SQL.")
@pass_session
def grant_verb(
    session: CliSession,
    owner: str | None,
    ingest: str | None,
    readers: tuple[str, ...],
    analysts: tuple[str, ...],
    dry_run: bool,
) -> int:
    """Grant PostgreSQL roles the rights they need.

    The roles must exist. Readers use every read-only verb, analysts `sql` on the views; both with limits on time.
    Run it as the owner of the database and its tables, or as a superuser, and again after an upgrade that brings new
    tables or views. Who may not alter the roles cannot set the limits, and only a superuser can revoke functions that
    write or lock in a READ ONLY transaction: the one statement that a superuser must run is printed then, and the exit
    code is 3.

    \b
    lineage-store db grant --owner lineage_owner --ingest lineage_ingest --reader lineage_reader
    lineage-store db grant --analyst grafana --dry-run
    """
    from lineage_store.api import administration

    settings = session.settings().settings
    roles, statements = administration.grant(settings, owner, ingest, readers, analysts, dry_run=dry_run)
    if dry_run:
        click.echo("\n".join(f"{statement};" for statement in statements))
    else:
        click.echo(f"Granted: {', '.join(roles)}.")
        if statements:
            session.note("Not restricted enough yet: some of it only a superuser may do. Let one run:")
            click.echo(f"{statements[0]};")
            return ExitCode.PARTLY_DONE
    return ExitCode.OK


# ---- `backup` and `restore`: write the whole store to one file, and read it back


@click.command("backup")
@click.argument("file", metavar="TO", type=click.Path(dir_okay=False))
@click.option(
    "--mode",
    default="600",
    show_default=True,
    metavar="OCTAL",
    help="Permissions of the file; 444: all read it.",
)
@pass_session
def backup_verb(session: CliSession, file: str, mode: str) -> None:
    """Write a backup of the whole store into a file.

    It is of one moment, checked, and replaces an older one when it is whole; the store may be written to meanwhile. On
    SQLite it is a store itself: with --mode 444, other users can query it. On PostgreSQL it is an archive of
    `pg_dump -Fc`, and the server's pg_dump, or a newer one, must be on the PATH; others get a role (`db grant`).

    \b
    lineage-store backup /srv/backups/lineage.db
    lineage-store backup /srv/share/lineage.db --mode 444
    lineage-store --database sqlite:////srv/share/lineage.db filter     # as another user
    """
    permissions = _octal(mode)
    with session.open_store(writes=True) as store, session.working("Backing up") as far:
        size = store.backup(file, mode=permissions, progress=far)
    click.echo(f"{file}: {size:,} bytes.")


def _octal(mode: str) -> int:
    try:
        permissions = int(mode, 8)
    except ValueError:
        permissions = -1
    if not 0o400 <= permissions <= 0o777:
        raise click.BadParameter(f"{mode!r} is no octal mode such as 444 or 640.", param_hint="--mode")
    return permissions


@click.command("restore")
@click.argument("file", metavar="FROM", type=click.Path(dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace the current contents of the store.")
@pass_session
def restore_verb(session: CliSession, file: str, replace: bool) -> int:
    """Restore the store from a backup.

    Only rows are taken from the backup: tables and views are made anew, nothing in it is run. A backup in which
    something acts, such as a trigger, or in which a table or view of ours was changed, is refused by name. Indexes,
    views and tables of an administrator are listed, and not restored.

    Stop the daemon first. What log files have gained since the backup is read again by the next ingest, or by the
    daemon when it starts; labels and remarks of the time since are lost. In a new database, rights and limits of roles
    are put back as `db grant` gives them, where those exist, and listed; where this user may not set the limits, the
    one statement that a superuser must run is printed, and the exit code is 3.

    \b
    lineage-store restore /srv/backups/lineage.db
    lineage-store --database postgresql://lineage@host/new restore /srv/backups/lineage.dump
    """
    from lineage_store.api import administration

    settings = session.settings().settings
    with session.working("Restoring") as far:
        found = administration.restore(settings, file, replace=replace, progress=far)
    click.echo(f"{administration.store_url_shown(settings)} holds {found.jobs:,} jobs again.")
    if found.last_ingest_at is not None:
        since = f"{found.last_ingest_at:%Y-%m-%d %H:%M:%S} UTC"
        click.echo(f"What log files have gained since {since} is read by the next ingest.")
    if found.not_restored:
        click.echo(f"Objects of an administrator in it were not restored: {', '.join(found.not_restored)}.")
    if found.rights:
        click.echo(f"Rights as the backup says: {', '.join(found.rights)}.")
    if found.left is None:
        return ExitCode.OK
    session.note("Without limits on time yet: only a superuser may alter readers and analysts. Let one run:")
    click.echo(f"{found.left};")
    return ExitCode.PARTLY_DONE
