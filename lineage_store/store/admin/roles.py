"""Roles on PostgreSQL: one owns and upgrades the store, one ingests, readers read everything, analysts only the views.

In: an engine whose user may grant, and names of existing roles. Out: the statements, run in one transaction or only
returned. Promises: granting again changes nothing; readers and analysts can only read, with time limits; no password
passes through here. New tables and views of a later release need another grant; existing ones keep theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from sqlalchemy import Engine, func, select, text
from sqlalchemy.exc import ProgrammingError

from lineage_store.errors import LineageStoreError, PermissionDeniedError
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import partitions
from lineage_store.store.schema.tables import STATISTICS, metadata
from lineage_store.store.schema.upgrade import VERSION_TABLE
from lineage_store.store.schema.views import VIEWS

READING_LIMITS = {
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "5s",
    "default_transaction_read_only": "on",
    "join_collapse_limit": "16",
    "from_collapse_limit": "16",
}
"""Settings for the sessions of readers and analysts in this database; an administrator may change them afterwards.

The collapse limits are raised because views have up to nine tables, and by default PostgreSQL reorders only eight."""
_WRITERS = """
SELECT 'pg_catalog.' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', p.oid
FROM pg_catalog.pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace
  AND p.proname ~ ('^(pg_logical_emit_message|pg_notify|pg_(try_)?advisory_(xact_)?lock(_shared)?|txid_current'
    '|pg_current_xact_id|lo_(creat|create|from_bytea|put|truncate|truncate64|unlink)|lowrite)$')
"""
"""The functions that write or lock also in a READ ONLY transaction: to the write-ahead log, or where others wait."""
_OF_EVERYBODY = text(
    f"WITH w(name, id) AS ({_WRITERS})"  # noqa: S608 - our own words
    " SELECT name FROM w WHERE has_function_privilege('public', id, 'EXECUTE') ORDER BY 1"
)
_OF_READERS = text(f"""
WITH w(name, id) AS ({_WRITERS})
SELECT r.rolname, w.name FROM pg_roles r CROSS JOIN w
WHERE EXISTS (SELECT FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
    WHERE c.oid = to_regclass(:view) AND a.grantee = r.oid AND a.grantee <> c.relowner)
  AND NOT EXISTS (SELECT FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
    WHERE c.oid = to_regclass(:table) AND a.grantee = r.oid AND a.privilege_type = 'INSERT')
  AND NOT r.rolsuper AND has_function_privilege(r.oid, w.id, 'EXECUTE')
ORDER BY 1, 2""")  # noqa: S608 - our own words
_OF_SUPERUSERS = (
    "GRANT EXECUTE ON FUNCTION pg_catalog.",
    "REVOKE EXECUTE ON FUNCTION pg_catalog.",
    "ALTER ROLE",
)
"""How statements begin that a user may be unable to run, who may all others."""
_DENIED, _UNKNOWN = "42501", "42704"
"""SQLSTATE insufficient_privilege and undefined_object."""
_WORKER = re.compile(r"while executing command on ([^\s\"]+)")
"""How Citus names the worker of an error, in its context."""
_WHO_GRANTS = (
    "A superuser grants, or the owner of database and tables, who gives tables only to roles that he may SET: "
    "`lineage-store db grant … --dry-run` prints the SQL for one."
)


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of roles; rights of roles that are not named stay as they are."""

    owner: str | None = None
    ingest: str | None = None
    readers: tuple[str, ...] = ()
    analysts: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        given = (self.owner, self.ingest, *self.readers, *self.analysts)
        yield from (role for role in given if role is not None)


def grant_roles(engine: Engine, roles: Roles) -> str | None:
    """Grant the rights in one transaction.

    Return a statement to be run by somebody who may alter the roles, or None if this user could do everything.
    Raises LineageStoreError for SQLite, a role that does not exist (also on a worker of Citus only), is named twice or
    is a superuser, or a reader that owns the tables; PermissionDeniedError if this user may not grant.
    """
    found = grant_statements(engine, roles)
    try:
        with writing(engine) as session:
            _refuse_stranger(session)
            return _run(session, found)
    except PermissionDeniedError as error:
        raise PermissionDeniedError(error.message, hint=_WHO_GRANTS, cause=error.cause) from error
    except ProgrammingError as error:
        if (missing := _missing_on_worker(error, roles)) is None:
            raise
        raise missing from error


def _missing_on_worker(error: ProgrammingError, roles: Roles) -> LineageStoreError | None:
    """Return what to raise if a worker of Citus lacks one of the roles; None for any other error."""
    said = getattr(error.orig, "diag", None)
    worker = _WORKER.search(getattr(said, "context", None) or "")
    if worker is None or getattr(error.orig, "sqlstate", None) != _UNKNOWN:
        return None
    words = str(getattr(said, "message_primary", ""))
    role = max((name for name in roles if name in words), key=len, default="ROLE")
    return LineageStoreError(
        f"The worker {worker[1]} has no role {role!r}, and nothing was granted: {words}.",
        hint=f"Make it on each worker as on the coordinator: CREATE ROLE {_quoted(role)} LOGIN. Roles made later reach "
        "the workers by themselves if the coordinator has citus.enable_create_role_propagation = on (docs/citus.md).",
    )


def _run(session: Session, statements: Sequence[str]) -> str | None:
    """Run statements; return one statement made of those that this user may not run, None if there are none."""
    left = [statement for statement in statements if not _is_run(session, statement)]
    return f"DO $limits$ BEGIN {'; '.join(left)}; END $limits$" if left else None


def _is_run(session: Session, statement: str) -> bool:
    """Run a statement; return False for one of `_OF_SUPERUSERS` that this user may not run."""
    # Of functions that are another's, PostgreSQL only warns that nothing was revoked.
    if statement.startswith(_OF_SUPERUSERS[:2]) and not _is_superuser(session):
        return False
    try:
        with session.savepoint():
            session.change(statement)
    except ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) == _DENIED and statement.startswith(_OF_SUPERUSERS):
            return False
        raise
    return True


def _is_superuser(session: Session) -> bool:
    return str(session.value("SHOW is_superuser")) == "on"


def writing_functions_of_readers(session: Session) -> dict[str, list[str]]:
    """Return, for each reader and analyst, the functions that it can call and that write or lock; empty on SQLite."""
    if session.kind == "sqlite":
        return {}
    found: dict[str, list[str]] = {}
    for role, name in session.rows(_OF_READERS, {"view": _VIEWS[0], "table": _TABLES[0]}):
        found.setdefault(role, []).append(name.removeprefix("pg_catalog."))
    return found


def _without_writers(session: Session, owner: str) -> list[str]:
    """Return the statements that leave the functions of `_WRITERS` to superusers; none if they are left already."""
    if not (writers := session.column(_OF_EVERYBODY)):
        return []
    upgrades = f"GRANT EXECUTE ON FUNCTION pg_catalog.pg_advisory_xact_lock(bigint) TO {_quoted(owner)}"
    return [upgrades, f"REVOKE EXECUTE ON FUNCTION {', '.join(writers)} FROM PUBLIC"]


def _refuse_stranger(session: Session) -> None:
    """Raise PermissionDeniedError if this user does not own the tables: PostgreSQL would only warn, not grant."""
    owns = text("SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = CAST(:name AS regclass)")
    if not session.value(owns, {"name": VERSION_TABLE}):
        raise PermissionDeniedError("The tables belong to another role.")


def grant_statements(engine: Engine, roles: Roles) -> list[str]:
    """Return the statements that `grant` runs. Raises LineageStoreError as `grant` does."""
    if engine.dialect.name != "postgresql":
        raise LineageStoreError(
            "Only PostgreSQL has roles.",
            hint="A SQLite store is its user's; `lineage-store backup FILE --mode 444` is for others.",
        )
    with reading(engine) as session:
        _refuse_unfit(session, list(roles))
        _refuse_owner(session, [*roles.readers, *roles.analysts])
        schema, database = session.one(select(func.current_schema(), func.current_database()))
        parts = partitions.partition_names(session)
        owner = roles.owner or session.value(_OWNER, {"name": VERSION_TABLE})
        writers = _without_writers(session, owner) if roles.readers or roles.analysts else []
    place = _Place(_quoted(schema), _quoted(database))
    functions = partitions.FUNCTIONS if parts else ()
    found = [f"REVOKE CREATE ON SCHEMA {place.schema} FROM PUBLIC"]
    if roles.ingest is not None:
        role = _quoted(roles.ingest)
        found += _of_ingest(role, place)
        found += [f"GRANT EXECUTE ON FUNCTION {place.schema}.{each} TO {role}" for each in functions]
    for reader in roles.readers:
        found += _of_reader(_quoted(reader), place, [*_TABLES, *_VIEWS, VERSION_TABLE])
    for analyst in roles.analysts:
        found += _of_reader(_quoted(analyst), place, [*_VIEWS, VERSION_TABLE])
    found += writers
    if roles.owner is not None:
        role = _quoted(roles.owner)
        found += _of_owner(role, place, parts)
        found += [f"ALTER FUNCTION {place.schema}.{each} OWNER TO {role}" for each in functions]
    return found


def put_limits_back(engine: Engine) -> str | None:
    """Set the limits of readers and analysts, who are found by their grants, in a restored database without them.

    A dump has all grants, except those on the database itself and the settings of roles in it. Return what is left to
    do, as `grant` does.
    """
    if engine.dialect.name == "sqlite":
        return None
    with reading(engine) as session:
        database = session.value(select(func.current_database()))
        names = session.column(_UNLIMITED, {"view": _VIEWS[0], "table": _TABLES[0]})
        owner = session.value(_OWNER, {"name": VERSION_TABLE})
        writers = _without_writers(session, owner) if names else []
    found = [*writers, *(each for name in names for each in _limits(_quoted(name), _quoted(database)))]
    with writing(engine) as session:
        return _run(session, found)


_OWNER = text("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = CAST(:name AS regclass)")


def put_back(engine: Engine, granted: Set[tuple[str, str, str]], owner: str | None) -> tuple[str, ...]:
    """Give the rights that an archive grants, as (role, relation, privilege), in the ways in which `grant` gives them.

    Who may insert jobs ingests, who may read them is a reader, who may read views an analyst, and `owner`, if given,
    owns the tables. Roles that this server does not have and superusers get nothing, nor does PUBLIC. Return who got
    what, in words.
    """
    with reading(engine) as session:
        plain = text(
            "SELECT rolname FROM pg_roles WHERE NOT rolsuper AND rolname <> current_user AND NOT rolname ^@ 'pg_'"
        )
        known = set(session.column(plain))
        schema, database = session.one(select(func.current_schema(), func.current_database()))
        parts = partitions.partition_names(session)
    place = _Place(_quoted(schema), _quoted(database))
    writers = {role for role, name, what in granted if name == _TABLES[0] and what == "INSERT"} & known
    readers = {
        role for role, name, what in granted if name == _TABLES[0] and what == "SELECT"
    } & known - writers
    analysts = {role for role, name, what in granted if name == _VIEWS[0] and what == "SELECT"} & known
    analysts -= writers | readers
    found = [each for role in sorted(writers) for each in _of_ingest(_quoted(role), place)]
    if parts:
        found += [
            f"GRANT EXECUTE ON FUNCTION {place.schema}.{each} TO {_quoted(role)}"
            for role in sorted(writers)
            for each in partitions.FUNCTIONS
        ]
    for role in sorted(readers):
        found += _reading(_quoted(role), place, [*_TABLES, *_VIEWS, VERSION_TABLE])
    for role in sorted(analysts):
        found += _reading(_quoted(role), place, [*_VIEWS, VERSION_TABLE])
    if owner is not None and owner in known:
        found += _of_owner(_quoted(owner), place, parts)
        if parts:
            found += [
                f"ALTER FUNCTION {place.schema}.{each} OWNER TO {_quoted(owner)}"
                for each in partitions.FUNCTIONS
            ]
    with writing(engine) as session:
        for statement in found:
            session.change(statement)
    some = (("owner", {owner} & known), ("ingest", writers), ("reader", readers), ("analyst", analysts))
    return tuple(f"{role} ({kind})" for kind, names in some for role in sorted(names, key=str))


_UNLIMITED = text("""
SELECT rolname FROM pg_roles r
WHERE EXISTS (SELECT FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
    WHERE c.oid = to_regclass(:view) AND a.grantee = r.oid AND a.grantee <> c.relowner)
  AND NOT EXISTS (SELECT FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
    WHERE c.oid = to_regclass(:table) AND a.grantee = r.oid AND a.privilege_type = 'INSERT')
  AND NOT EXISTS (SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
    WHERE s.setrole = r.oid AND d.datname = current_database())
ORDER BY 1
""")


@dataclass(frozen=True, slots=True)
class _Place:
    """The quoted names of the schema and the database."""

    schema: str
    database: str

    def named(self, names: Sequence[str]) -> str:
        return ", ".join(f"{self.schema}.{name}" for name in names)


_TABLES = [table.name for table in metadata.sorted_tables]
_VIEWS = [view.name for view in VIEWS]


def _of_ingest(role: str, place: _Place) -> list[str]:
    return [
        f"GRANT USAGE ON SCHEMA {place.schema} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {place.named(_TABLES)} TO {role}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {place.schema} TO {role}",
        f"GRANT SELECT ON {place.named([*_VIEWS, VERSION_TABLE])} TO {role}",
    ]


def _of_reader(role: str, place: _Place, names: Sequence[str]) -> list[str]:
    return [*_reading(role, place, names), *_limits(role, place.database)]


def _reading(role: str, place: _Place, names: Sequence[str]) -> list[str]:
    return [
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {place.schema} FROM {role}",
        f"GRANT USAGE ON SCHEMA {place.schema} TO {role}",
        f"GRANT SELECT ON {place.named(names)} TO {role}",
    ]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _limits(role: str, database: str) -> list[str]:
    return [
        f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC",
        *(
            f"ALTER ROLE {role} IN DATABASE {database} SET {name} = '{value}'"
            for name, value in READING_LIMITS.items()
        ),
    ]


def _of_owner(role: str, place: _Place, parts: Sequence[str]) -> list[str]:
    owned = [*_TABLES, *parts, VERSION_TABLE]
    tables = [f"ALTER TABLE {place.schema}.{name} OWNER TO {role}" for name in owned]
    views = [f"ALTER VIEW {place.schema}.{name} OWNER TO {role}" for name in _VIEWS]
    statistics = f"ALTER STATISTICS {place.schema}.{STATISTICS} OWNER TO {role}"
    temporary = (
        f"GRANT TEMPORARY ON DATABASE {place.database} TO {role}"  # upgrades attest with temporary tables
    )
    return [temporary, f"GRANT USAGE, CREATE ON SCHEMA {place.schema} TO {role}", *tables, *views, statistics]


def _refuse_owner(session: Session, readers: Sequence[str]) -> None:
    """Raise LineageStoreError if a reader owns the tables.

    Its grant revokes rights, and PostgreSQL checks foreign keys and runs views with the owner's rights.
    """
    owner = session.value(_OWNER, {"name": VERSION_TABLE})
    if owner in readers:
        raise LineageStoreError(
            f"The role {owner!r} owns the tables, and must be able to write them.", hint="Name another role."
        )


def _refuse_unfit(session: Session, names: Sequence[str]) -> None:
    if not names:
        raise LineageStoreError("No role is named.", hint="Give --owner, --ingest, --reader or --analyst.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise LineageStoreError(
            f"The role {twice[0]!r} is named twice.", hint="Each needs a role of its own."
        )
    query = text("SELECT rolname, rolsuper FROM pg_roles WHERE rolname = ANY(:names)")
    known = {row.rolname: row.rolsuper for row in session.rows(query, {"names": list(names)})}
    for name in names:
        if name not in known:
            raise LineageStoreError(
                f"There is no role {name!r}.",
                hint=f"An administrator makes it: CREATE ROLE {name} LOGIN; then \\password {name} in psql.",
            )
        if known[name]:
            raise LineageStoreError(
                f"The role {name!r} is a superuser, whom no grant restricts.", hint="Name another role."
            )
