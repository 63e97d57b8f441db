"""Attestation: whether a database's catalog is that of a store, and which other objects there act on the store.

In: a session whose database has a store of a known revision and layout. Out: which of our objects were changed or
are missing, which others act on ours (triggers, functions, rules, constraints …), and which are an administrator's own
indexes, views and tables. Promises: what a catalog must be comes from the migrations, the tables and the views in the
code, never from the database; nothing of the store's own code or rows is run; the database is not changed.

On SQLite the text of every object is compared. On PostgreSQL names and kinds are, and by a digest all definitions as
the server itself words them; `compared` makes our objects anew in a transaction that is taken back, and compares word
by word: it needs no digest, but the right to make temporary tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256

from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from lineage_store.errors import Cause, PermissionDeniedError
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import descriptions, partitions
from lineage_store.store.schema.tables import STATISTICS, exists_on, metadata
from lineage_store.store.schema.views import VIEWS
from lineage_store.texts import escaped

Key = tuple[str, str]
"""The kind and the name of an object."""
Make = Callable[[Session], None]
"""Makes the tables of one revision, and of HEAD the views, in an empty database or schema."""


@dataclass(frozen=True, slots=True)
class Attested:
    """What a catalog has beside a store, and what of the store is not as it should be. Each by kind and name."""

    foreign: tuple[str, ...] = ()
    """Objects of others that act on ours."""
    changed: tuple[str, ...] = ()
    """Our tables and indexes that were changed."""
    missing: tuple[str, ...] = ()
    """Our tables and indexes that are not there."""
    views: tuple[str, ...] = ()
    """Our views that were changed."""
    missing_views: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    """An administrator's indexes, views and tables."""

    @property
    def altered(self) -> tuple[str, ...]:
        """Everything for which a store is refused, in words."""
        return (
            *(f"{each} is not ours" for each in self.foreign),
            *(f"{each} was changed" for each in (*self.changed, *self.views)),
            *(f"{each} is missing" for each in (*self.missing, *self.missing_views)),
        )


def examine_schema(session: Session, version_table: str, *, make: Make | None = None) -> Attested:
    """Compare the catalog with that of this release; with `make`, with what that makes: the tables of an older one.

    On PostgreSQL, what the digest alone can tell is told as `OTHER_WORDS`.
    """
    if session.kind == "sqlite":
        return _examine_sqlite(session, version_table, make)
    return _examine_postgresql(session, version_table)


# --- SQLite ---------------------------------------------------------------------------------------------------------

_SCHEMA = "SELECT type, name, sql FROM sqlite_schema"
_OF_SQLITE = {
    "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",
    "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}
"""Tables that SQLite makes itself."""
_OF_ALEMBIC = (
    "CREATE TABLE {0} ( version_num VARCHAR(32) NOT NULL, CONSTRAINT {0}_pkc PRIMARY KEY (version_num) )"
)
_OWN = re.compile(r"CREATE (?:(TABLE|VIEW)|(?:UNIQUE )?(INDEX)|(VIRTUAL) TABLE)\s")
"""The beginning of what SQLite stores of the statement that made an object; anything else was written there by hand."""
_CALL = re.compile(r"(?!in\b|and\b|or\b|not\b)\b\w+\s*\(", re.IGNORECASE)
_COLLATIONS = frozenset({"BINARY", "NOCASE", "RTRIM"})


def _examine_sqlite(session: Session, version_table: str, make: Make | None) -> Attested:
    expected = _expected(version_table) if make is None else _made_in_memory(make)
    rows = session.rows(_SCHEMA)
    found = {(row.type, row.name): row.sql for row in rows}
    changed = {key for key in expected if key in found and _normal(found[key] or "") != expected[key]}
    own, foreign = set[Key](), set[Key]()
    for kind, name, sql in rows:
        if (kind, name) in expected or _is_of_sqlite(kind, name, sql):
            continue
        begins = _OWN.match(sql or "")
        is_own = begins is not None and kind == (begins[1] or begins[2] or "table").lower()
        is_own = is_own and not name.startswith("sqlite_")
        (own if is_own else foreign).add((kind, name))
    if own:
        acting = {("index", name) for name in _acting_indexes(session, expected)}
        own, foreign = own - acting, foreign | acting
    return _attested(foreign, changed, expected.keys() - found.keys(), own)


def _attested(foreign: Set[Key], changed: Set[Key], missing: Set[Key], own: Set[Key]) -> Attested:
    misnamed = {(kind, name) for kind, name in own if _KIND_OF.get(name, kind) != kind}
    return Attested(
        _shown(foreign | misnamed),
        _shown(changed, views=False),
        _shown(missing, views=False),
        _shown(changed, views=True),
        _shown(missing, views=True),
        _shown(own - misnamed),
    )


_KIND_OF = dict.fromkeys(metadata.tables, "table") | dict.fromkeys(descriptions.NAMES, "view")


def _shown(keys: Set[Key], *, views: bool | None = None) -> tuple[str, ...]:
    """Name objects, or of ours only the tables or the views; what belongs to one that is named adds nothing."""
    whole = {name for kind, name in keys if kind in ("table", "view")}
    some = [
        (kind, name)
        for kind, name in sorted(keys)
        if (kind in ("table", "view") or name.split(".")[0] not in whole)
        and views in (None, name.split(".")[0] in descriptions.NAMES)
    ]
    return tuple(f"the {kind} {escaped(name)}" for kind, name in some)


def _is_of_sqlite(kind: str, name: str, sql: str | None) -> bool:
    if sql is None:
        return kind == "index" and name.startswith("sqlite_autoindex_")
    return kind == "table" and _OF_SQLITE.get(name) == sql


def _acting_indexes(session: Session, expected: Iterable[Key]) -> set[str]:
    """Return the indexes of others on our tables that refuse rows, or compute something when a row is written."""
    keys, acting = set(expected), set[str]()
    for _, table in (key for key in keys if key[0] == "table"):
        for row in session.rows(f'PRAGMA index_list("{table}")'):
            if row.origin != "c" or ("index", row.name) in keys:
                continue
            quoted = row.name.replace('"', '""')
            columns = session.rows(f'PRAGMA index_xinfo("{quoted}")')
            sql = session.value(
                "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?", (row.name,)
            )
            where = re.split(r"\bWHERE\b", sql or "", maxsplit=1, flags=re.IGNORECASE)[1:]
            if (
                row.unique
                or any(column.cid == -2 or (column.coll or "BINARY") not in _COLLATIONS for column in columns)
                or any(_CALL.search(condition) for condition in where)
            ):
                acting.add(row.name)
    return acting


@cache
def _expected(version_table: str) -> Mapping[Key, tuple[str, ...]]:
    """Return the normal text of every object that a store of this release has on SQLite.

    A test sees to it that the migrations make the same; to run them would take half of a second of every process.
    """
    dialect = sqlite.dialect()
    found: dict[Key, str] = {
        ("table", version_table): _OF_ALEMBIC.format(version_table),
        ("table", descriptions.SCHEMA_DOC): descriptions.CREATE_SCHEMA_DOC,
    }
    for table in metadata.sorted_tables:
        found["table", table.name] = str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            if exists_on("sqlite", index):
                found["index", str(index.name)] = str(CreateIndex(index).compile(dialect=dialect))
    for view in VIEWS:
        found["view", view.name] = f"CREATE VIEW {view.name} AS\n{view.select('sqlite')}"
    return {key: _normal(sql) for key, sql in found.items()}


def _made_in_memory(make: Make) -> Mapping[Key, tuple[str, ...]]:
    from lineage_store.store.database.db import open_engine, writing

    engine = open_engine("sqlite://")
    try:
        with writing(engine) as session:
            make(session)
            rows = session.rows(_SCHEMA)
    finally:
        engine.dispose()
    return {(row.type, row.name): _normal(row.sql) for row in rows if row.sql is not None}


def _normal(sql: str) -> tuple[str, ...]:
    """Return a statement without the order of its constraints and the kind of its blanks, which mean nothing."""
    body, _, options = " ".join(sql.split()).rpartition(")")
    first, *constraints = body.rstrip().split(", CONSTRAINT ")
    return (first, *sorted(constraints), options.strip())


# --- PostgreSQL -----------------------------------------------------------------------------------------------------

OTHER_WORDS = "a definition of ours (`lineage-store doctor`, as the tables' owner, says which)"
"""Stands for the objects whose definitions have another digest than the one that was stored when they were made."""
_SEEN_ON_POSTGRESQL = """
WITH place AS (SELECT oid AS id, quote_ident(nspname) AS prefix FROM pg_namespace WHERE oid = :schema),
theirs AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e'),
ours AS (
  SELECT c.oid, c.relkind, c.relpersistence = 'u' OR c.relrowsecurity AS unfit, CAST(c.relname AS text) AS said,
    coalesce(parent.relname || '_N', CAST(c.relname AS text)) AS name
  FROM pg_class c
  LEFT JOIN pg_inherits ON inhrelid = c.oid AND c.relispartition
  LEFT JOIN pg_class parent ON parent.oid = inhparent
  WHERE c.relnamespace = :schema AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND CAST(coalesce(parent.relname, c.relname) AS text) = ANY(:names)
),
seen AS (
  SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence'
      WHEN 'f' THEN 'foreign table' ELSE 'table' END AS kind,
    coalesce(ours.name, c.relname) AS name,
    concat_ws(' ', c.relkind, ours.unfit,
      CASE WHEN c.relkind = 'v' AND ours.oid IS NOT NULL THEN pg_get_viewdef(c.oid) END,
      (SELECT concat_ws(' ', seqtypid::regtype, seqincrement, seqmin, seqmax, seqcycle) FROM pg_sequence
       WHERE seqrelid = c.oid)) AS definition, '' AS said, ours.name AS shown, false AS acts
  FROM pg_class c LEFT JOIN ours USING (oid)
  WHERE c.relnamespace = :schema AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    AND NOT EXISTS (SELECT FROM theirs WHERE classid = 'pg_class'::regclass AND objid = c.oid)
  UNION ALL
  SELECT 'column', ours.name || '.' || attname,
    concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
      pg_get_expr(adbin, adrelid), collname), said, ours.name, true
  FROM ours JOIN pg_attribute ON attrelid = ours.oid AND attnum > 0 AND NOT attisdropped
  LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  LEFT JOIN pg_collation collation_of ON collation_of.oid = attcollation
  UNION ALL
  SELECT 'constraint', ours.name || '.' || conname, concat_ws(' ', pg_get_constraintdef(c.oid), convalidated), said,
    ours.name, true
  FROM ours JOIN pg_constraint c ON conrelid = ours.oid AND contype <> 'n'
  UNION ALL
  SELECT 'index', CAST(i.relname AS text), concat_ws(' ', pg_get_indexdef(i.oid), indisvalid), said, ours.name,
    indisunique OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.oid
      AND d.refclassid <> 'pg_class'::regclass AND d.refclassid <> 'pg_constraint'::regclass AND d.refobjid >= 16384
      AND NOT EXISTS (SELECT FROM theirs WHERE theirs.classid = d.refclassid AND theirs.objid = d.refobjid))
  FROM ours JOIN pg_index ON indrelid = ours.oid JOIN pg_class i ON i.oid = indexrelid
  UNION ALL
  SELECT 'trigger', tgname || ' on ' || ours.name, concat_ws(' ', pg_get_triggerdef(t.oid), tgenabled), said,
    ours.name, true
  FROM ours JOIN pg_trigger t ON tgrelid = ours.oid JOIN pg_proc p ON p.oid = tgfoid
  WHERE (NOT tgisinternal OR tgenabled <> 'O' OR p.oid >= 16384)
    AND NOT EXISTS (SELECT FROM theirs WHERE classid = 'pg_proc'::regclass AND objid = p.oid)
  UNION ALL
  SELECT 'rule', rulename || ' on ' || ours.name, '', said, ours.name, true
  FROM ours JOIN pg_rewrite ON ev_class = ours.oid AND NOT (rulename = '_RETURN' AND relkind IN ('v', 'm'))
  UNION ALL
  SELECT 'policy', polname || ' on ' || ours.name, '', said, ours.name, true
  FROM ours JOIN pg_policy ON polrelid = ours.oid
  UNION ALL
  SELECT 'inheritance', ours.name || ' and ' || CAST(inhrelid AS regclass), '', said, ours.name, true
  FROM ours JOIN pg_inherits ON inhparent = ours.oid JOIN pg_class child ON child.oid = inhrelid
  WHERE NOT child.relispartition OR child.relnamespace <> :schema
  UNION ALL
  SELECT 'inheritance', CAST(inhparent AS regclass) || ' and ' || ours.name, '', said, ours.name, true
  FROM ours JOIN pg_inherits ON inhrelid = ours.oid WHERE inhparent NOT IN (SELECT oid FROM ours)
  UNION ALL
  SELECT 'statistics', CAST(stxname AS text), pg_get_statisticsobjdef(oid), '', NULL, false
  FROM pg_statistic_ext WHERE stxnamespace = :schema
  UNION ALL
  SELECT 'function', proname || '(' || oidvectortypes(proargtypes) || ')',
    concat_ws(' ', prosrc, lanname, prosecdef, prokind, array_to_string(proconfig, ' ')), '', NULL, true
  FROM pg_proc p JOIN pg_language l ON l.oid = prolang
  WHERE pronamespace = :schema
    AND NOT EXISTS (SELECT FROM theirs WHERE classid = 'pg_proc'::regclass AND objid = p.oid)
  UNION ALL
  SELECT 'operator', CAST(oprname AS text), '', '', NULL, true
  FROM pg_operator o WHERE oprnamespace = :schema
    AND NOT EXISTS (SELECT FROM theirs WHERE classid = 'pg_operator'::regclass AND objid = o.oid)
  UNION ALL
  SELECT 'conversion', CAST(conname AS text), '', '', NULL, true
  FROM pg_conversion WHERE connamespace = :schema
  UNION ALL
  SELECT 'cast', format_type(castsource, NULL) || ' as ' || format_type(casttarget, NULL), '', '', NULL, true
  FROM pg_cast c WHERE c.oid >= 16384
    AND NOT EXISTS (SELECT FROM theirs WHERE classid = 'pg_cast'::regclass AND objid = c.oid)
  UNION ALL
  SELECT 'event trigger', CAST(evtname AS text), '', '', NULL, true
  FROM pg_event_trigger e
  WHERE NOT EXISTS (SELECT FROM theirs WHERE classid = 'pg_event_trigger'::regclass AND objid = e.oid)
)
SELECT DISTINCT kind,
  CASE WHEN said IN ('', shown) THEN name ELSE replace(name, said, shown) END AS name,
  CASE WHEN said IN ('', shown) THEN said_by_all ELSE replace(said_by_all, said, shown) END AS definition, acts
FROM seen CROSS JOIN place CROSS JOIN LATERAL
  (SELECT replace(replace(replace(definition, prefix || '.', ''), prefix || ',', 'here,'), 'pg_temp.', '')
   AS said_by_all) worded
ORDER BY 1, 2, 3
"""
_SEEN = text(_SEEN_ON_POSTGRESQL)
_HERE = text(
    "SELECT oid FROM pg_catalog.pg_namespace WHERE nspname OPERATOR(pg_catalog.=) pg_catalog.current_schema()"
)
_MADE_TEMPORARY = text("SELECT pg_catalog.pg_my_temp_schema()")
_MAY = text("SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY')")
_SET_PATH = text("SELECT pg_catalog.set_config('search_path', :path, true)")
Seen = Mapping[Key, tuple[str, bool]]
"""The definition of each object, and whether it acts on what is written or read, if it is not ours."""


def mark(session: Session, version_table: str) -> None:
    """Store on PostgreSQL with which words the server defines our objects now: after each change of ours to them."""
    fingerprint = ""
    if session.kind == "postgresql":
        fingerprint = _fingerprint(session, _seen(session, version_table), attested_names(version_table))
    descriptions.mark_up_to_date(session, version_table, fingerprint)


def compared(session: Session, version_table: str, make: Make) -> Attested:
    """As `examine`, on PostgreSQL word by word, without the digest that is stored in the database.

    Runs `make` in a schema of temporary objects, in a transaction inside that of `connection`, and takes it back.
    Raises PermissionDeniedError where the role may not make temporary tables.
    """
    if session.kind == "sqlite":
        return examine_schema(session, version_table, make=make)
    if not session.value(_MAY):
        raise PermissionDeniedError("This role may not make temporary tables.", cause=Cause.DENIED)
    found = _seen(session, version_table)
    jobs = partitions.is_partitioned(session)
    with session.savepoint() as taken_back:
        session.change("SET LOCAL search_path = pg_temp")
        make(session)
        if jobs:
            partitions.cut_empty(session, 1)
        place = session.value(_MADE_TEMPORARY)
        wanted = _seen(session, version_table, place)
        taken_back.rollback()
    expected = {key for key in wanted if key[0] not in ("cast", "event trigger")}  # these are of no schema
    relations = {name for kind, name in wanted if kind in ("table", "view")}
    found = {
        key: value for key, value in found.items() if key[0] != "column" or key[1].split(".")[0] in relations
    }
    changed = {key for key in wanted.keys() & found.keys() if found[key] != wanted[key]}
    return _sorted_out(session, found, expected, changed)


def _examine_postgresql(session: Session, version_table: str) -> Attested:
    found = _seen(session, version_table)
    attested = _sorted_out(session, found, attested_names(version_table))
    stored = descriptions.fingerprint(session, version_table)
    present = _fingerprint(session, found, attested_names(version_table))
    if attested.altered or stored == present or stored.split(":")[0] not in ("", present.split(":")[0]):
        return attested
    return replace(attested, changed=(OTHER_WORDS,))


def _seen(session: Session, version_table: str, place: int | None = None) -> Seen:
    schema = session.value(_HERE) if place is None else place
    names = [*metadata.tables, version_table, *descriptions.NAMES]
    path = session.value("SHOW search_path")
    session.change("SET LOCAL search_path = pg_catalog, pg_temp")  # no function of others is called
    rows = session.rows(_SEEN, {"schema": schema, "names": names})
    session.change(_SET_PATH, {"path": path})
    return {(row.kind, row.name): (row.definition, row.acts) for row in rows}


def _sorted_out(
    session: Session, found: Seen, expected: Set[Key], changed: Set[Key] = frozenset()
) -> Attested:
    """Sort objects by their names: what is missing, what is not ours and acts, and what else there is."""
    ours = _ours(session, found, expected)
    others = {key: acts for key, (_, acts) in found.items() if key not in ours}
    foreign = {key for key, acts in others.items() if acts}
    own = {key for key in others.keys() - foreign if not _is_part(key)}
    needed = partitions.FUNCTIONS if partitions.is_partitioned(session) else ()
    missing = (expected | {("function", name) for name in needed}) - found.keys()
    of_views = {
        key for key in foreign | missing if key[0] == "column" and key[1].split(".")[0] in descriptions.NAMES
    }
    other_views = {("view", key[1].split(".")[0]) for key in of_views} & found.keys()
    return _attested(foreign - of_views, changed | other_views, missing - of_views, own)


def _ours(session: Session, found: Seen, expected: Set[Key]) -> Set[Key]:
    """Return what is there of a store with the declared layout; a function only if it is ours word by word."""
    bodies, some = dict[str, str](), set(expected)
    if partitions.is_partitioned(session):
        bodies |= partitions.BODIES
        parts = tuple(f"{table}_N" for table in partitions.SAMPLE_TABLES)
        some |= {key for key in found if key[0] in _OF_TABLES and key[1].split(".")[0].startswith(parts)}
    if partitions.is_changing(session):
        bodies |= partitions.NOTING_BODIES
        some |= {key for key, (definition, _) in found.items() if _is_noting(key, definition)}
        some |= _NEXT_TABLES
    some |= {
        ("function", name)
        for name, body in bodies.items()
        if found.get(("function", name), ("",))[0] == f"{body} {_OUR_RIGHTS}"
    }
    return some & found.keys()


_OF_TABLES = ("table", "column", "constraint", "index")
_NEXT_TABLES = {
    ("table", f"{table}_{what}") for table in partitions.SAMPLE_TABLES for what in ("next", "changed")
}
"""What there is beside the sample tables while their layout is changed."""
_OUR_RIGHTS = "plpgsql t f search_path=here, pg_temp"
"""How the functions for partitions are made: their language, with the rights of their owner, and for which schema."""


@cache
def attested_names(version_table: str) -> frozenset[Key]:
    keys: set[Key] = {
        ("table", version_table),
        ("column", f"{version_table}.version_num"),
        ("constraint", f"{version_table}.{version_table}_pkc"),
        ("index", f"{version_table}_pkc"),
        ("statistics", STATISTICS),
    }
    for table in metadata.sorted_tables:
        keys.add(("table", table.name))
        keys |= {("column", f"{table.name}.{column.name}") for column in table.columns}
        keys |= {("index", str(index.name)) for index in table.indexes if exists_on("postgresql", index)}
        for constraint in table.constraints:
            keys.add(("constraint", f"{table.name}.{constraint.name}"))
            if isinstance(constraint, PrimaryKeyConstraint | UniqueConstraint):
                keys.add(("index", str(constraint.name)))
        if table.autoincrement_column is not None:
            keys.add(("sequence", f"{table.name}_{table.autoincrement_column.name}_seq"))
    for view in VIEWS:
        keys.add(("view", view.name))
        keys |= {("column", f"{view.name}.{column.name}") for column in view.columns}
    return frozenset(keys)


def _is_part(key: Key) -> bool:
    """Return whether an object has the name of a partition, or of a shard that Citus keeps on this node."""
    table, _, number = key[1].split(".")[0].rpartition("_")
    return number.isdigit() and table in partitions.SAMPLE_TABLES


def _is_noting(key: Key, definition: str) -> bool:
    """Return whether an object is a trigger of ours that notes what is written while the layout is changed."""
    table = key[1].rpartition(" ")[2]
    is_named = key[0] == "trigger" and key[1] in partitions.NOTING_TRIGGERS
    return is_named and f" EXECUTE FUNCTION note_{table}()" in definition


def _fingerprint(session: Session, found: Seen, expected: Set[Key]) -> str:
    """Return the server's major release, whose words these are, and a digest of all definitions of ours."""
    ours = {key for key in _ours(session, found, expected) if key[0] not in ("trigger", "function")}
    rows = sorted((*key, found[key][0]) for key in ours - _NEXT_TABLES)
    major = (session.connection.dialect.server_version_info or (0,))[0]
    return f"{major}:{sha256(repr(rows).encode()).hexdigest()[:32]}"
