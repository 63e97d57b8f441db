"""Patterns and functions that take SQLite long: a question ends within a second of CPU behind its limit."""

from __future__ import annotations

import random
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from helpers.engines import opened
from helpers.stored_jobs import StoredJob, add_base_dir, add_job
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import (
    DatabaseUnavailableError,
    LineageParamValueError,
    LineageQuerySummaryDataError,
    LineageSearchConditionParamError,
)
from lineage_store.query.condition import MAX_PATTERN_CHARACTERS, MAX_PATTERN_LENGTH
from lineage_store.store.database import sql
from lineage_store.store.database.db import writing

LIMIT_S = 0.5
LONGEST = Settings().most_lineage_bytes
WORST = {
    "literal": ("a", "a" * (MAX_PATTERN_LENGTH - 3) + "b"),
    "any character": ("a", "a_" * ((MAX_PATTERN_LENGTH - 3) // 2) + "b"),
    "umlauts": ("ä", "ä" * (MAX_PATTERN_LENGTH - 3) + "b"),
    "escaped": ("%", r"\%" * ((MAX_PATTERN_LENGTH - 3) // 2) + "b"),
}


@contextmanager
def within_limit(who: int = resource.RUSAGE_SELF) -> Iterator[None]:
    """Whoever asks in the block takes no more CPU than the limit and a second; only the limit ends it."""
    before, ended = resource.getrusage(who), ""
    try:
        yield
    except (DatabaseUnavailableError, LineageQuerySummaryDataError) as error:
        ended = error.message
    after = resource.getrusage(who)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert took <= LIMIT_S + 1, f"{took:.1f} s of CPU"
    ways = (f"longer than {LIMIT_S:g} s", "too big", "interrupted", "statement timeout")
    assert any(way in ended for way in ways) or not ended, ended


@pytest.mark.slow
@pytest.mark.parametrize("worst", WORST)
def test_the_worst_pattern_over_the_longest_text_ends_in_time(database_url: str, worst: str) -> None:
    character, pattern = WORST[worst]
    fill(database_url, [character * (LONGEST // len(character.encode()))])
    with LineageStore(database_url, settings=Settings(statement_timeout_s=LIMIT_S)) as store:
        store.filter_lineage({"user_defined/text": {"is_null": False}})
        for condition in (f"%{pattern}%", f"{pattern}%", f"%{pattern}"):
            with within_limit():
                assert store.filter_lineage({"user_defined/text": {"like": condition}})["count"] == 0
        with within_limit():
            store.known_values("user_defined/text", pattern[: MAX_PATTERN_LENGTH // 2])


@pytest.mark.slow
def test_many_patterns_over_many_short_texts_end_in_time(database_url: str) -> None:
    fill(database_url, ["ä" * sql.LONGEST_FOR_LIKE] * 500)
    pattern = f"%{'ä' * (MAX_PATTERN_LENGTH - 5)}b%"
    every = [
        {"user_defined/text": {"like": pattern}} for _ in range(MAX_PATTERN_CHARACTERS // MAX_PATTERN_LENGTH)
    ]
    with LineageStore(database_url, settings=Settings(statement_timeout_s=LIMIT_S)) as store, within_limit():
        store.filter_lineage({"or": every})


def test_a_long_text_is_found_as_a_short_one_is(database_url: str) -> None:
    long = "x" * sql.PIECE
    fill(database_url, [f"{long}Ab%c{long}End", "short Ab%c End", f"{long}{long}"])
    with LineageStore(database_url) as store:

        def found(pattern: str) -> set[str]:
            matching = store.iter_lineage({"user_defined/text": {"like": pattern}})
            return {each["summary_dir"] for each in matching}

        assert found(r"%ab\%c%END") == {"./job_0", "./job_1"}
        assert found("%b_c%") == {"./job_0", "./job_1"}
        assert found(r"x%ab\%c%") == {"./job_0"}
        assert found(f"{long[:900]}%") == {"./job_0", "./job_2"}
        assert found("%en") == set()
        assert [value for value, _ in store.known_values("user_defined/text", "B%C", most=9)] != []


def test_too_long_patterns_are_refused_with_their_bound(database_url: str) -> None:
    many = [{"network": {"like": "a" * MAX_PATTERN_LENGTH}} for _ in range(11)]
    with LineageStore(database_url) as store:
        with pytest.raises(
            LineageSearchConditionParamError, match=f"{MAX_PATTERN_CHARACTERS:,} characters together"
        ):
            store.filter_lineage({"or": many})
        with pytest.raises(
            LineageSearchConditionParamError, match=f"at most {MAX_PATTERN_LENGTH} characters"
        ):
            store.filter_lineage({"network": {"like": "a" * (MAX_PATTERN_LENGTH + 1)}})
        with pytest.raises(LineageParamValueError, match=f"at most {MAX_PATTERN_LENGTH} characters"):
            store.known_values("network", "a" * (MAX_PATTERN_LENGTH + 1))


def test_pieces_match_as_sqlite_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "PIECE", 3)
    chance, database = random.Random(26), sqlite3.connect(":memory:")
    for _ in range(20_000):
        text = "".join(chance.choices("ab%#ä\n", k=chance.randrange(9)))
        pattern = "".join(
            chance.choices(("a", "b", "%", "%", "_", "#%", "##", "ä", "\n"), k=chance.randrange(7))
        )
        (theirs,) = database.execute("SELECT ? LIKE ? ESCAPE '#'", (text, pattern)).fetchone()
        assert sql.matches(text, pattern) == theirs, (text, pattern)
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "slow",
    [
        "SELECT replace(printf('%.*c', 8000000, 'a'), printf('%.*cb', 4000000, 'a'), 'x')",
        "SELECT instr(printf('%.*c', 8000000, 'a'), printf('%.*cb', 4000000, 'a'))",
        "SELECT printf('%.*c', 8000000, 'a') LIKE '%' || printf('%.*cb', 40000, 'a')",
        "SELECT printf('%.*c', 8000000, 'a') GLOB '*' || printf('%.*cb', 40000, 'a')",
        "SELECT trim(printf('%.*c', 8000000, 'a'), printf('%.*ca', 4000000, 'b'))",
        "SELECT hex(zeroblob(900000000))",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 99999999) SELECT i FROM n ORDER BY i % 9",
    ],
)
def test_own_sql_ends_in_time_whatever_it_calls(sqlite_url: str, slow: str) -> None:
    with LineageStore(sqlite_url) as store, within_limit(resource.RUSAGE_CHILDREN):
        with store.sql(slow, timeout_s=LIMIT_S) as answer:
            list(answer.rows)
        pytest.fail(f"answered: {slow}")


def test_own_sql_is_answered_row_by_row(sqlite_url: str) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, x'00ff', NULL, 0.5, 'ä' FROM n"
    with LineageStore(sqlite_url) as store:
        with store.sql(many) as answer:
            assert answer.columns[0] == "i"
            for number in range(1, 5000):
                assert next(answer.rows) == (number, b"\x00\xff", None, 0.5, "ä")
        with store.sql("SELECT 1 WHERE 0") as answer:
            assert (answer.columns, list(answer.rows)) == (("1",), [])
        with (
            pytest.raises(LineageQuerySummaryDataError, match="too big"),
            store.sql("SELECT zeroblob(900000000)"),
        ):
            pass
        with store.sql("SELECT printf('%.*c', 2000000, 'a') FROM (VALUES (1), (2), (3), (4))") as answer:
            assert [len(text) for (text,) in answer.rows] == [2_000_000] * 4


def fill(url: str, texts: list[str]) -> None:
    """Store a job for each text, its user-defined value `text`."""
    with opened(url) as engine, writing(engine) as session:
        base_dir = add_base_dir(session)
        for number, text in enumerate(texts):
            add_job(session, StoredJob(f"./job_{number}", {"network": "N"}, user={"text": text}), base_dir)
