"""Find what Citus would refuse in a statement, as far as its text shows it: these are rules, not a planner.

In: PostgreSQL's SQL, as SQLAlchemy writes it or as views are defined. Out: the violations, in words.
The rules, for a store that is distributed as a whole: distributed tables are joined by their job. A subquery that
refers to an outer row refers to it by the job, groups by the job what it counts, has no LIMIT, and reads no table of
the coordinator. No distributed table is on the right of a LEFT JOIN without one on its left. A statement that changes
distributed rows names their job and reads no clock. A recursive query reads no distributed table. A statement about one
job goes to one worker, and may do anything. Does not look into the views that a statement reads: they are checked by
themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from lineage_store.store.schema import distribution
from lineage_store.store.schema.distribution import Part
from lineage_store.store.schema.tables import metadata

JOB = {table.name: distribution.job_column(table) for table in distribution.by_job(Part.ALL)}
"""The distributed tables, each with the column that names the job."""
COPIED = {table.name for table in distribution.copied(Part.ALL)}
_OF_COORDINATOR = set(metadata.tables) - set(JOB) - COPIED
_CLAUSES = r"\b(?:WHERE|GROUP BY|HAVING|WINDOW|ORDER BY|LIMIT|OFFSET|FOR|RETURNING|SET|ON CONFLICT)\b"
_RELATION = re.compile(r"(\w+)(?:\s+(?:AS\s+)?(?!ON\b|WHERE\b)(\w+))?")
_COUNTS = re.compile(r"\b(?:count|sum|min|max|avg|string_agg|array_agg)\s*\(")
_EQUAL = re.compile(r"\b(\w+)\.(\w+)\s*=\s*(?:(\w+)\.(\w+)\b|(?=[%:$\d]))")
_CLOCK = re.compile(r"clock_timestamp|now\(\)|random\(\)")


@dataclass(eq=False)
class _Query:
    """A SELECT, or the statement around all of them; its text has a name in place of each nested query."""

    text: str
    outer: _Query | None
    is_value: bool = False
    """Whether it is used as a value, and not in FROM."""
    inner: dict[str, _Query] = field(default_factory=dict)
    named: dict[str, _Query] = field(default_factory=dict)
    """The queries that WITH names."""

    def __post_init__(self) -> None:
        self.flat = _without_parentheses(self.text)
        parts = re.split(r"\bFROM\b|\bUSING\b", self.flat, maxsplit=1)
        source = re.split(_CLAUSES, parts[1])[0] if len(parts) > 1 else ""
        changed = re.match(r"\s*(?:UPDATE|INSERT INTO|DELETE FROM) (\w+)", self.flat)
        self.changes = changed.group(1) if changed else None
        pieces = re.split(r"((?:LEFT OUTER |LEFT |CROSS |FULL |INNER )?\bJOIN\b|,|\bUSING\b)", f",{source}")[
            1:
        ]
        self.relations: dict[str, str] = {}
        self.lefts = list[tuple[str, bool]]()
        """The aliases in order, each with whether it is on the right of a LEFT JOIN."""
        for how, piece in zip(pieces[::2], pieces[1::2], strict=True):
            if found := _RELATION.match(piece.strip()):
                alias = found.group(2) or found.group(1)
                self.relations[alias] = found.group(1)
                self.lefts.append((alias, how.startswith(("LEFT", "FULL"))))
        if self.changes:
            self.relations[self.changes] = self.changes

    @property
    def counts(self) -> bool:
        return bool(_COUNTS.search(re.sub(r"\([^()]*\)\s*OVER", "OVER", self.text)))

    @property
    def groups_by_job(self) -> bool:
        grouped = self.flat.partition("GROUP BY")[2]
        return any(re.search(rf"\b{alias}\.{self.job_of(alias)}\b", grouped) for alias in self.spread())

    def within(self, name: str) -> _Query | None:
        query = self.inner.get(name)
        here: _Query | None = self
        while query is None and here is not None:
            query, here = here.named.get(name), here.outer
        return query

    def job_of(self, alias: str) -> str:
        return JOB.get(self.relations.get(alias, ""), r"(?:job_id|id)")

    def spread(self) -> list[str]:
        """Return the aliases of the relations that are distributed by job."""
        return [alias for alias, name in self.relations.items() if self._is_spread(name)]

    def _is_spread(self, name: str) -> bool:
        if (query := self.within(name)) is None or query is self:
            return name in JOB
        gathered = "LIMIT" in query.flat or (query.counts and not query.groups_by_job)
        return bool(query.spread()) and not gathered and name in self.inner


def violations(sql: str) -> list[str]:
    """Return the violations of the rules."""
    if "WITH RECURSIVE" in sql and any(re.search(rf"\b{name}\b", sql) for name in JOB):
        return [f"recursive: {sql}"]
    return [
        f"{rule}: {' '.join(query.text.split())[:200]}" for query in _queries(sql) for rule in _broken(query)
    ]


def _queries(sql: str) -> list[_Query]:
    """Return all queries of a statement, outermost first."""
    plain = re.sub(r"'(?:[^']|'')*'", "''", sql).replace('"', "")
    found = list[_Query]()

    def cut(text: str, outer: _Query | None, *, is_value: bool) -> _Query:
        names, kept, place = dict[str, tuple[str, bool, str]](), "", 0
        for begin in re.finditer(r"\(\s*(?=(?:SELECT|WITH)\b)", text):
            if begin.start() < place:
                continue
            end = _end(text, begin.start())
            name, before = f"inner_{len(names)}", text[: begin.start()].rstrip()
            in_from = re.search(r"(?:\bFROM|\bJOIN|\bUSING|,|\bLATERAL)$", before) and _is_in_from(before)
            with_name = re.search(r"(\w+)(?:\s*\([^()]*\))? AS(?: MATERIALIZED)?$", before)
            names[name] = text[begin.end() : end], not in_from, with_name.group(1) if with_name else ""
            kept, place = f"{kept}{text[place : begin.start()]} {name} ", end + 1
        here = _Query(kept + text[place:], outer, is_value)
        found.append(here)
        for name, (inner, value, by_with) in names.items():
            for part in re.split(r"\bUNION(?: ALL)?\b", inner):
                query = cut(part, here, is_value=value and not by_with)
                (here.named if by_with else here.inner)[by_with or name] = query
        return here

    for part in re.split(r"\bUNION(?: ALL)?\b(?![^()]*\))", plain):
        cut(part, None, is_value=False)
    return found


def _broken(query: _Query) -> Iterator[str]:
    if query.changes in {*JOB, *COPIED}:
        yield from _broken_by_change(query, str(query.changes))
    if _is_about_one_job(query):
        return
    if "FOR UPDATE" in query.flat and set(query.relations.values()) & set(JOB):
        yield "locks rows of several workers"
    for number, (alias, is_left) in enumerate(query.lefts):
        before = {each for each, _ in query.lefts[:number]}
        if is_left and alias in query.spread() and not before & set(query.spread()):
            yield f"LEFT JOIN of {alias} without a distributed table on its left"
    if query.is_value and query.outer and _is_tied(query, query.outer):
        yield from _broken_by_row(query, query.outer)
    elif not _is_joined(query, dict.fromkeys(query.spread(), query)):
        yield "not joined by job"


def _broken_by_row(query: _Query, outer: _Query) -> Iterator[str]:
    """Yield the violations in a subquery that refers to an outer row."""
    if not (query.spread() or outer.spread()):
        return
    if set(query.relations.values()) & _OF_COORDINATOR:
        yield "asks the coordinator for each row"
    if "LIMIT" in query.flat:
        yield "LIMIT for each row"
    if query.counts and "GROUP BY" not in query.flat:
        yield "counts without GROUP BY for each row"
    both = dict.fromkeys(outer.spread(), outer) | dict.fromkeys(query.spread(), query)
    if query.spread() and (not outer.spread() or not _is_joined(query, both)):
        yield "tied to an outer row by something else than its job"


def _broken_by_change(query: _Query, table: str) -> Iterator[str]:
    if _CLOCK.search(query.text):
        yield "a change that asks the clock"
    if table in JOB:
        job = JOB[table]
        where = query.text.partition("WHERE")[2]
        if "INSERT" not in query.flat and not re.search(rf"\b{table}\.{job}\b", where):
            yield "a change that names no job"
        conflict = re.search(r"ON CONFLICT \(([^)]*)\)", query.text)
        if conflict and job not in re.split(r",\s*", conflict.group(1)):
            yield "ON CONFLICT without the job"


def _is_about_one_job(query: _Query) -> bool:
    here: _Query | None = query
    while here is not None:
        constant = {each[0] for each in _EQUAL.findall(here.text) if not each[2]}
        of_job = {a for a, column, *_ in _EQUAL.findall(here.text) if re.fullmatch(here.job_of(a), column)}
        if not set(here.spread()) <= constant & of_job:
            return False
        here = here.outer
    return bool(query.spread())


def _is_tied(query: _Query, outer: _Query) -> bool:
    """Return whether a query refers to a row of the outer query."""
    return any(
        re.search(rf"\b{alias}\.\w", _all_of(query))
        for alias in outer.relations
        if alias not in query.relations
    )


def _all_of(query: _Query) -> str:
    return " ".join([query.text, *(_all_of(each) for each in query.inner.values())])


def _is_joined(query: _Query, aliases: Mapping[str, _Query]) -> bool:
    """Return whether the relations are all joined by their job."""
    groups = {alias: {alias} for alias in aliases}
    texts = {each.text for each in (query, *aliases.values())}
    for text in texts:
        for left, left_column, right, right_column in _EQUAL.findall(text):
            pair = [(left, left_column), (right, right_column)]
            if all(a in aliases and re.fullmatch(aliases[a].job_of(a), column) for a, column in pair):
                groups[left] |= groups[right]
                for each in groups[left]:
                    groups[each] = groups[left]
    return all(groups[a] is groups[b] for a, b in combinations(aliases, 2))


def _end(text: str, begin: int) -> int:
    depth = 0
    for place in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(text)


def _is_in_from(before: str) -> bool:
    """Return whether the text ends within a FROM clause, outside parentheses."""
    flat = _without_parentheses(before).replace("(", "(\n")
    clauses = re.findall(r"\b(?:SELECT|FROM|USING|WHERE|ON|SET)\b|\($", flat, re.MULTILINE)
    return bool(clauses) and clauses[-1] in ("FROM", "USING", "ON")


def _without_parentheses(text: str) -> str:
    previous = ""
    while previous != text:
        previous, text = text, re.sub(r"\([^()]*\)", "", text)
    return text
