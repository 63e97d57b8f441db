"""Archives of pg_dump: what is in one, and its rows; nothing of one is ever run.

In: an engine, only to find the fitting pg_restore, and an archive that anybody may have made. Out: the objects in it by
kind and name, sorted into those of a store, those that act and an administrator's own; and rows, written into our own
tables by our own COPY. Promises: of pg_restore's script only blocks of rows, and the positions of sequences, of tables
that a store has are taken, word by word as pg_dump writes them; anything else ends it with an error. A definition in
the archive is compared with that of a store at most.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sqlalchemy import Engine, text

from lineage_store.errors import LineageStoreError
from lineage_store.store.admin import client_programs
from lineage_store.store.database.sql import Session, copying
from lineage_store.store.schema import attestation, descriptions, partitions
from lineage_store.store.schema.tables import metadata
from lineage_store.store.schema.upgrade import VERSION_TABLE
from lineage_store.texts import escaped

_LISTED = re.compile(r"(\d+); \d+ \d+ (.+)")
_PARTS = tuple(re.compile(rf"{table}_(\d+)") for table in partitions.SAMPLE_TABLES)
_OF_TABLES = (
    *("SEQUENCE OWNED BY", "CHECK CONSTRAINT", "FK CONSTRAINT", "CONSTRAINT", "DEFAULT", "TABLE ATTACH"),
    *("INDEX ATTACH", "TABLE DATA", "SEQUENCE SET", "SEQUENCE", "TABLE", "INDEX", "STATISTICS"),
)
_VIEWS = ("MATERIALIZED VIEW DATA", "MATERIALIZED VIEW", "VIEW")
_WORDS = (
    *("COMMENT", "ACL", "SCHEMA", "DATABASE PROPERTIES", "DATABASE", "EXTENSION", "SECURITY LABEL"),
    *("DEFAULT ACL", "PUBLICATION TABLE", "PUBLICATION", "SUBSCRIPTION", "SERVER", "FOREIGN TABLE"),
    *("FOREIGN DATA WRAPPER", "USER MAPPING", "TYPE", "DOMAIN", "ACCESS METHOD", "BLOB METADATA", "BLOBS"),
    *("BLOB", "PROCEDURAL LANGUAGE"),
)
"""Kinds that say something, or do nothing to a store."""
_OF_DATABASES = ("EVENT TRIGGER", "CAST", "TRANSFORM")
_ACTING = (
    *_OF_DATABASES,
    *("TRIGGER", "FUNCTION", "PROCEDURE", "AGGREGATE", "RULE", "POLICY", "ROW SECURITY"),
    *("CONVERSION", "OPERATOR CLASS", "OPERATOR FAMILY", "OPERATOR"),
)
_ON_TABLES = (
    *("CONSTRAINT", "CHECK CONSTRAINT", "FK CONSTRAINT", "DEFAULT", "TRIGGER", "RULE", "POLICY"),
    *("ROW SECURITY", "TABLE ATTACH"),
)
"""Kinds whose name begins with that of their table."""
_KINDS = tuple(sorted((*_ACTING, *_OF_TABLES, *_VIEWS, *_WORDS), key=len, reverse=True))
_NAME = r'(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_$]*)'
_COPY = re.compile(rf"COPY {_NAME}\.({_NAME}) \(({_NAME}(?:, {_NAME})*)\) FROM stdin;\n".encode())
_SET_VALUE = re.compile(
    rf"SELECT pg_catalog\.setval\('{_NAME}\.({_NAME})', (\d{{1,19}}), (true|false)\);\n".encode()
)
_NOTHING = re.compile(
    rb"\n|--[^\n]*\n|SET [a-z_.]+ = [a-z0-9']*;\n|\\(?:un)?restrict [A-Za-z0-9]+\n"
    rb"|SELECT pg_catalog\.set_config\('search_path', '', false\);\n"
)
_ENCODING = re.compile(rb"SET client_encoding = '([^']*)';\n")
_GRANT = re.compile(rf"GRANT ([A-Z,]+) ON TABLE {_NAME}\.({_NAME}) TO ({_NAME});")
_END = b"\\.\n"
_LINE_BYTES, _CHUNK_BYTES = 1 << 20, 1 << 18
_USE_ANOTHER = "Nothing of it was restored. Use a backup that `lineage-store backup` wrote of a store."


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of an archive's table of contents."""

    number: int
    kind: str
    schema: str
    name: str
    """Without its schema; of a part of a table with the table's name before it."""
    owner: str

    def __str__(self) -> str:
        return f"the {self.kind.lower()} {escaped(self.name)}"


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in an archive, by whether it is a store's."""

    ours: Sequence[Entry]
    acting: Sequence[Entry]
    """Objects of others that do something when a store is used."""
    own: Sequence[Entry]
    """An administrator's indexes, views and tables."""
    granting: Sequence[Entry]
    """Which rights others have on our tables and views."""

    @property
    def by_jobs(self) -> int | None:
        """How many jobs a partition of samples has; None: the samples are in one piece."""
        names = [entry.name for entry in self.ours if entry.kind == "TABLE"]
        starts = sorted(int(found[1]) for name in names if (found := _PARTS[0].fullmatch(name)))
        return starts[-1] - starts[-2] if len(starts) > 1 else None

    @property
    def owner(self) -> str | None:
        """Who owned the tables."""
        return next((entry.owner for entry in self.ours if entry.kind == "TABLE"), None)


def contents(engine: Engine, archive: Path) -> Contents:
    """Read an archive's table of contents. Raises LineageStoreError if it is no archive of a store."""
    lines = client_programs.run_program(engine, "pg_restore", "--list", str(archive), connects=False).split(
        "\n"
    )
    owner = _owner(lines)
    entries = [_entry(line, owner) for line in lines if line and not line.startswith(";")]
    tables = {entry.name: entry.schema for entry in entries if entry.kind == "TABLE"}
    for table in [VERSION_TABLE, *metadata.tables]:
        if table not in tables:
            raise LineageStoreError(
                f"{archive} is no backup of a store: it has no table {table}.", hint=_USE_ANOTHER
            )
    place = tables[VERSION_TABLE]
    ours = [entry for entry in entries if entry.schema == place and _is_ours(entry)]
    known = set(ours)
    others = [entry for entry in entries if entry not in known and entry.kind not in _WORDS]
    acting = [entry for entry in others if _acts(entry, place)]
    own = [entry for entry in others if entry.kind in _MADE]
    relations = {f"TABLE {entry.name}" for entry in ours if entry.kind in ("TABLE", "VIEW")}
    granting = [entry for entry in entries if entry.kind == "ACL" and entry.name in relations]
    return Contents(ours, acting, own, granting)


_MADE = ("TABLE", "VIEW", "MATERIALIZED VIEW", "INDEX")


def _owner(lines: Sequence[str]) -> str:
    """Return who owns the table of versions: a name in which blanks do not tell the end of the one before it."""
    mark = f" {VERSION_TABLE} "
    return next((line.partition(mark)[2] for line in lines if " TABLE " in line and mark in line), "")


def _entry(line: str, owner: str) -> Entry:
    found = _LISTED.fullmatch(line)
    if found is None:
        raise LineageStoreError(
            f"The archive lists what pg_dump does not: {escaped(line[:200])}.", hint=_USE_ANOTHER
        )
    kind = next((kind for kind in _KINDS if found[2].startswith(f"{kind} ")), "")
    schema, _, rest = found[2].removeprefix(kind).lstrip().partition(" ")
    if owner and rest.endswith(f" {owner}"):
        return Entry(int(found[1]), kind or "OBJECT", schema, rest.removesuffix(f" {owner}"), owner)
    name, _, other = rest.rpartition(" ")
    return Entry(int(found[1]), kind or "OBJECT", schema, name or rest, other)


def _is_ours(entry: Entry) -> bool:
    """Return whether a store has an object of this kind and name, as a partitioned one and while that changes."""
    names, (table, _, part) = attestation.attested_names(VERSION_TABLE), entry.name.partition(" ")
    match entry.kind:
        case "TABLE" | "TABLE DATA" | "TABLE ATTACH":
            return _stored_in(entry.name) is not None
        case "VIEW":
            return ("view", entry.name) in names
        case "SEQUENCE" | "SEQUENCE SET" | "SEQUENCE OWNED BY":
            return ("sequence", entry.name) in names
        case "DEFAULT":
            return ("sequence", f"{table}_{part}_seq") in names
        case "CONSTRAINT" | "FK CONSTRAINT":
            return ("constraint", f"{table}.{part}") in names or (_is_part(table) and part == f"{table}_pkey")
        case "INDEX" | "INDEX ATTACH":
            return ("index", entry.name) in names or _is_part(entry.name.removesuffix("_pkey"))
        case "STATISTICS":
            return ("statistics", entry.name) in names
        case "FUNCTION":
            return entry.name in (*partitions.FUNCTIONS, *partitions.NOTING_BODIES)
        case "TRIGGER":
            return f"{part} on {table}" in partitions.NOTING_TRIGGERS
        case _:
            return False


def _acts(entry: Entry, place: str) -> bool:
    """Return whether an object that is not ours would do something in a store in the schema `place`."""
    if entry.kind in _ON_TABLES:
        return entry.schema == place and _is_of_store(entry.name)
    if entry.kind in _ACTING:
        return entry.schema == place or entry.kind in _OF_DATABASES
    return entry.kind == "OBJECT"


def _is_of_store(name: str) -> bool:
    """Return whether the name of a part of a table, such as a trigger, begins with that of a table or view of ours."""
    table = name.partition(" ")[0]
    return _stored_in(table) is not None or table in descriptions.NAMES


def _is_part(name: str) -> bool:
    return any(part.fullmatch(name) for part in _PARTS)


def _stored_in(name: str) -> str | None:
    """Return the table of ours in which a table's rows belong: itself, or the one of which it is a partition."""
    if name == VERSION_TABLE or name in metadata.tables:
        return name
    return next(
        (table for table, part in zip(partitions.SAMPLE_TABLES, _PARTS, strict=True) if part.fullmatch(name)),
        None,
    )


def version(engine: Engine, archive: Path, found: Contents) -> str:
    """Return the schema version that an archive's rows have. Raises LineageStoreError."""
    versions = list[str]()
    with _script(engine, archive, _data_of(found, [VERSION_TABLE])) as script:
        for line in _lines(script):
            copied = _COPY.fullmatch(line)
            if copied and copied[1].decode() == VERSION_TABLE:
                versions.append(b"".join(_rows(script)).decode(errors="replace").strip())
            elif not _ENCODING.fullmatch(line):
                _refuse_unless_nothing(line)
    if len(versions) != 1:
        raise LineageStoreError(
            f"{archive} is no backup of a store: it does not say its version.", hint=_USE_ANOTHER
        )
    return versions[0]


def archived_grants(engine: Engine, archive: Path, found: Contents) -> set[tuple[str, str, str]]:
    """Return each privilege on a table or view of ours that an archive grants: role, relation, privilege."""
    if not found.granting:
        return set()
    given = set[tuple[str, str, str]]()
    with _script(engine, archive, found.granting, only=()) as script:
        for line in _lines(script):
            if granted := _GRANT.fullmatch(line.decode(errors="replace").rstrip("\n")):
                relation, role = _unquoted(granted[2]), _unquoted(granted[3])
                given |= {(role, relation, privilege) for privilege in granted[1].split(",")}
    return given


def changed(engine: Engine, archive: Path, found: Contents) -> tuple[str, ...]:
    """Return which of our objects an archive defines otherwise than the store behind `engine` does.

    Only servers and programs of one major release use the same words: of others none is returned.
    """
    kinds = (
        "TABLE",
        "VIEW",
        "INDEX",
        "CONSTRAINT",
        "FK CONSTRAINT",
        "DEFAULT",
        "SEQUENCE",
        "STATISTICS",
        "FUNCTION",
    )
    in_parts = found.by_jobs is not None
    wanted = [
        entry for entry in found.ours if entry.kind in kinds and not (in_parts and _is_sampled(entry.name))
    ]
    plain = ("--no-owner", "--no-privileges")
    with _script(engine, archive, wanted, only=plain) as script:
        theirs = b"".join(_lines(script)).decode(errors="replace")
    ours = client_programs.run_program(engine, "pg_dump", "--schema-only", *plain)
    if _MAJORS.findall(theirs) != _MAJORS.findall(ours):
        return ()
    place = {entry.schema for entry in wanted}
    defined = _definitions(ours, {match[1] for match in _SCHEMA.finditer(ours)})
    others = _definitions(theirs, place)
    return tuple(
        f"{entry} was changed"
        for entry in wanted
        if (key := (entry.kind, entry.name)) in defined and others.get(key) != defined[key]
    )


_MAJORS = re.compile(r"^-- Dumped (?:from|by) .* version (\d+)", re.MULTILINE)
_SCHEMA = re.compile(r"; Schema: ([^;\n]+);")


def _is_sampled(name: str) -> bool:
    return name.removeprefix("pk_").startswith(partitions.SAMPLE_TABLES)


def _definitions(script: str, schemas: Set[str]) -> Mapping[tuple[str, str], str]:
    """Return the text of each object in a script, without the names of schemas, by its kind and name."""
    for schema in schemas:
        script = script.replace(f"{schema}.", "")
    parts = re.split(r"\n--\n-- Name: (.*); Type: ([A-Z ]+); Schema: .*\n--\n", script)
    texts = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    return {(kind, name): re.split(r"\n(?:--\n|SET |\\)", words)[0].strip() for name, kind, words in texts}


def load_archive(
    session: Session,
    engine: Engine,
    archive: Path,
    found: Contents,
    progress: Callable[[str], None],
    *,
    before_samples: Callable[[], None],
) -> None:
    """Write all rows of an archive into the tables of a store, which are empty, and set the sequences.

    Raises LineageStoreError for anything in the archive but rows of these tables with these columns.
    """
    small = [table.name for table in metadata.sorted_tables if table.name not in partitions.SAMPLE_TABLES]
    sequences = [entry for entry in found.ours if entry.kind == "SEQUENCE SET"]
    some = [*_data_of(found, small), *sequences]
    _load(session, engine, archive, some, progress)
    before_samples()
    _load(session, engine, archive, _data_of(found, partitions.SAMPLE_TABLES), progress)


def _data_of(found: Contents, tables: Sequence[str]) -> list[Entry]:
    data = [entry for entry in found.ours if entry.kind == "TABLE DATA"]
    return [entry for table in tables for entry in data if _stored_in(entry.name) == table]


def _load(
    session: Session,
    engine: Engine,
    archive: Path,
    wanted: Sequence[Entry],
    progress: Callable[[str], None],
) -> None:
    if not wanted:
        return
    allowed = {_stored_in(entry.name) or entry.name for entry in wanted}
    with _script(engine, archive, wanted) as script:
        for line in _lines(script):
            if encoding := _ENCODING.fullmatch(line):
                if encoding[1] != b"UTF8":
                    raise _not_of_a_store(line)
            elif copied := _COPY.fullmatch(line):
                table = _stored_in(_unquoted(copied[1].decode()))
                names = [_unquoted(each) for each in re.findall(_NAME, copied[2].decode())]
                if table not in allowed or sorted(names) != sorted(metadata.tables[table].columns.keys()):
                    raise _not_of_a_store(line)
                progress(table)
                with copying(session, metadata.tables[table], names) as sink:
                    for some in _rows(script):
                        sink.write(some)
            elif position := _SET_VALUE.fullmatch(line):
                name = _unquoted(position[1].decode())
                if name not in allowed:
                    raise _not_of_a_store(line)
                set_value = text("SELECT setval(CAST(:name AS regclass), :value, :called)")
                given = {"name": name, "value": int(position[2]), "called": position[3] == b"true"}
                session.change(set_value, given)
            else:
                _refuse_unless_nothing(line)


def _lines(script: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: script.readline(_LINE_BYTES), b"")


def _rows(script: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines up to the end of a block, many at once. Raises LineageStoreError if it has no end."""
    some, size, begins = list[bytes](), 0, True
    while line := script.readline(_LINE_BYTES):
        if begins and line == _END:
            yield b"".join(some)
            return
        begins = line.endswith(b"\n")
        some.append(line)
        size += len(line)
        if size >= _CHUNK_BYTES:
            yield b"".join(some)
            some, size = [], 0
    raise LineageStoreError(
        "The archive ends in the middle of a table.", hint="It is damaged: use an older backup."
    )


@contextmanager
def _script(
    engine: Engine, archive: Path, wanted: Sequence[Entry], only: Sequence[str] = ("--data-only",)
) -> Iterator[IO[bytes]]:
    """Yield the script in which pg_restore spells out some entries, in their order."""
    with tempfile.NamedTemporaryFile("w", prefix="lineage-store-", suffix=".list") as listed:
        listed.writelines(f"{entry.number};\n" for entry in wanted)
        listed.flush()
        arguments = (*only, f"--use-list={listed.name}", "--file=-", str(archive))
        with client_programs.reading_from(engine, "pg_restore", *arguments) as script:
            yield script


def _refuse_unless_nothing(line: bytes) -> None:
    if not _NOTHING.fullmatch(line):
        raise _not_of_a_store(line)


def _not_of_a_store(line: bytes) -> LineageStoreError:
    words = escaped(line[:200].decode(errors="replace").strip())
    return LineageStoreError(
        f"The archive holds a statement that is no row of a store: {words}",
        hint=_USE_ANOTHER,
    )


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
