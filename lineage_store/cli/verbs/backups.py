"""`backup` and `restore`: write the whole store to one file, and read it back."""

from __future__ import annotations

import click

from lineage_store.cli.session import Session, pass_session
from lineage_store.errors import ExitCode


@click.command("backup")
@click.argument("file", metavar="TO", type=click.Path(dir_okay=False))
@pass_session
def backup_verb(session: Session, file: str) -> None:
    """Write a backup of the whole store into a file.

    It is of one moment, checked, and replaces an older one when it is whole; the store may be written to meanwhile. On
    PostgreSQL it is an archive of `pg_dump -Fc`, and the server's pg_dump, or a newer one, must be on the PATH.

    \b
    lineage-store backup /srv/backups/lineage.db
    """
    with session.open_store(writes=True) as store, session.working("Backing up") as far:
        size = store.backup(file, told=far)
    click.echo(f"{file}: {size:,} bytes.")


@click.command("restore")
@click.argument("file", metavar="FROM", type=click.Path(dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace what the store holds now.")
@pass_session
def restore_verb(session: Session, file: str, replace: bool) -> int:
    """Let the store be what a backup says.

    Only rows are taken from the backup: tables and views are made anew, nothing in it is run. A backup in which
    something acts, such as a trigger, or in which a table or view of ours was changed, is refused by name. Indexes,
    views and tables of an administrator are told, and not restored.

    Stop the daemon first. What log files have gained since the backup is read again by the next ingest, or by the
    daemon when it starts; labels and remarks of the time since are lost. In a new database, rights and limits of roles
    are put back as `db grant` gives them, where those exist, and told; where this user may not set the limits, the one
    statement that a superuser must run is printed, and the exit code is 3.

    \b
    lineage-store restore /srv/backups/lineage.db
    lineage-store --database postgresql://lineage@host/new restore /srv/backups/lineage.dump
    """
    from lineage_store.api import without_store

    settings = session.settings().settings
    with session.working("Restoring") as far:
        found = without_store.restore(settings, file, replace=replace, told=far)
    click.echo(f"{without_store.shown_url(settings)} holds {found.jobs:,} jobs again.")
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
