"""Changes: a client that goes on from token to token gets every change once, whatever happens in between."""

from __future__ import annotations

import base64
import json
import random
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select, text

from helpers import faults
from helpers.ingesting import column
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.api.reports import Change, CleanUp
from lineage_store.config import Settings
from lineage_store.errors import (
    DatabaseUnavailableError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageQuerySummaryDataError,
)
from lineage_store.ingest import lease
from lineage_store.operations.base_dirs import forget
from lineage_store.query.changes import ChangeFollower
from lineage_store.store.database.db import writing
from lineage_store.store.schema.tables import train_job
from lineage_store.store.writes import jobs as revisions

OLD = 1_700_000_000


def write(base_dir: Path, *names: str, network: str = "N") -> Path:
    for name in names:
        log = Log().train(network=network, epoch=1).write_lineage(base_dir / name, timestamp=OLD)
        log.chmod(0o400)
    return base_dir


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return write(tmp_path / "one", "a", "b")


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return write(tmp_path / "two", "c")


@pytest.fixture
def store(database_url: str, one: Path, two: Path) -> Iterator[LineageStore]:
    """A store of two base dirs."""
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(one)
        store.ingest(two)
        yield store


class Reader:
    """Goes on from token to token."""

    def __init__(self, store: LineageStore, since: str | None = "now") -> None:
        self.store, self.since = store, since
        self.since = store.changes.since(since).since if since == "now" else since

    def told(self, limit: int = 1000) -> list[str]:
        return [words(change) for change in self.read(limit)]

    def read(self, limit: int = 1000) -> list[Change]:
        found, more = list[Change](), True
        while more:
            answer = self.store.changes.since(self.since, limit=limit)
            assert len(answer.changes) <= limit
            self.since, more = answer.since, answer.more
            found += answer.changes
        return found


def words(change: Change) -> str:
    return f"{change.kind} {Path(change.base_dir).name} {change.train_id}"


_FAILURES = DatabaseUnavailableError, LineageQuerySummaryDataError


def looked_again(follower: ChangeFollower) -> list[str]:
    """What a follower gives whose database has failed: connections of before are found out by failing once."""
    deadline = time.monotonic() + 60
    while True:
        with suppress(*_FAILURES):
            told = [words(change) for answer in follower.look() for change in answer.changes]
            if told:
                return told
        assert time.monotonic() < deadline, "nothing was told"
        time.sleep(0.05)


def stamp(store: LineageStore, base_dir: Path, *train_ids: str) -> None:
    base_dir_id = lease.register(store.engine, base_dir)
    with writing(store.engine) as session:
        jobs = select(train_job.c.id).where(train_job.c.train_id.in_(train_ids))
        revisions.stamp(session, base_dir_id, session.column(jobs))


def test_all_is_told_first_and_then_what_changed(store: LineageStore, one: Path) -> None:
    reader = Reader(store, since=None)
    assert sorted(reader.told()) == ["changed one ./a", "changed one ./b", "changed two ./c"]
    assert reader.told() == []
    store.job((one, "./b")).annotate(label=1)
    store.job((one, "./b")).annotate(remark="again")
    (change,) = reader.read()
    assert (words(change), change.state) == ("changed one ./b", "finished")
    assert change.at is not None
    assert reader.told() == []


def test_from_now_on_nothing_is_told_that_was_there(store: LineageStore, two: Path) -> None:
    reader = Reader(store, since="now")
    assert reader.told() == []
    write(two, "d")
    store.ingest(two)
    assert reader.told() == ["changed two ./d"]


def test_a_job_that_was_removed_and_came_back_is_told(store: LineageStore, one: Path) -> None:
    reader = Reader(store)
    clean_up = CleanUp(condition={"summary_dir": {"eq": "./a"}})
    store.removal.remove(clean_up, one)
    assert reader.told() == ["removed one ./a"]
    store.removal.restore(one, "./a")
    assert reader.told() == ["restored one ./a"]
    store.ingest(one)
    assert reader.told() == ["changed one ./a"]


def test_a_base_dir_that_is_forgotten_is_told_and_anew_when_it_is_back(
    store: LineageStore, one: Path
) -> None:
    reader, later = Reader(store), Reader(store)
    forget(store.engine, one, Settings())
    assert reader.told() == ["forgotten one None"]
    store.ingest(one)
    anew = ["changed one ./a", "changed one ./b"]
    assert reader.told() == anew
    assert later.told() == ["forgotten one None", *anew]


def test_what_a_backup_took_back_is_told_anew(store: LineageStore, two: Path) -> None:
    store.job((two, "./c")).annotate(label=1)
    reader = Reader(store)
    with writing(store.engine) as session:
        for table in ("base_dir", "train_job"):
            session.change(text(f"UPDATE {table} SET revision = revision - 1000"))
    told = reader.told()
    assert [words for words in told if "two" in words] == ["forgotten two None", "changed two ./c"]
    assert reader.told() == []


def test_pages_of_one_tell_each_change_once(store: LineageStore) -> None:
    whole = [words(change) for change in store.changes.since().changes]
    assert sorted(Reader(store, since=None).told(limit=1)) == sorted(whole)


def test_each_change_has_a_token_of_its_own(store: LineageStore) -> None:
    whole = list(map(words, store.changes.since().changes))
    for number, change in enumerate(store.changes.since().changes, 1):
        rest = Reader(store, since=change.since).told()
        assert sorted(whole[:number] + rest) == sorted(whole)


def test_a_base_dir_that_changes_all_the_time_does_not_keep_the_others_waiting(
    store: LineageStore, one: Path, two: Path
) -> None:
    reader = Reader(store)
    stamp(store, two, "./c")
    met = set[str]()
    for _ in range(4):
        stamp(store, one, "./a", "./b")
        answer = store.changes.since(reader.since, limit=1)
        reader.since = answer.since
        met |= set(map(words, answer.changes))
    assert "changed two ./c" in met


def test_of_jobs_those_that_match_now_are_told(store: LineageStore, two: Path) -> None:
    write(two, "d", network="Other")
    store.ingest(two)
    answer = store.changes.since(condition={"network": {"eq": "Other"}})
    assert list(map(words, answer.changes)) == ["changed two ./d"]
    assert store.changes.since(answer.since).changes == []


def test_who_takes_over_from_another_reader_stops_where_that_one_stands(
    store: LineageStore, one: Path, two: Path
) -> None:
    behind = Reader(store)
    store.job((one, "./a")).annotate(label=1)
    store.job((two, "./c")).annotate(label=1)
    ahead = Reader(store)
    store.job((one, "./b")).annotate(label=1)
    forget(store.engine, two, Settings())
    answer = store.changes.since(behind.since, until=ahead.since)
    assert list(map(words, answer.changes)) == ["changed one ./a"]
    assert answer.since == ahead.since
    assert ahead.told() == ["forgotten two None", "changed one ./b"]


def packed(content: object) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(content).encode())).decode()


NO_TOKENS = [
    *("", "Now", "é", "AAAA", base64.urlsafe_b64encode(zlib.compress(b"no JSON")).decode()),
    *map(packed, ([], {"/b": 1}, {"/b": [1, 2]}, {"/b": [1, 2.5, "./a"]}, {"/b": [1, 2, None]})),
]


def test_what_is_no_token_is_refused(store: LineageStore) -> None:
    for token in NO_TOKENS:
        with pytest.raises(LineageParamValueError, match="is no token of changes"):
            store.changes.since(token)


def test_a_token_with_values_that_no_database_holds_is_refused(store: LineageStore) -> None:
    (base_dir,) = list(store.base_dirs)[:1]
    known_since = current_place(store, base_dir)[0]
    forged: list[list[object]] = [
        *([2**63, 0, ""], [0, 2**63, ""], [0, -(2**63) - 1, ""]),
        *([0, True, ""], [0, 0, "\ud800"], [0, 0, "a\0b"]),
    ]
    for name, [since, *rest] in product(("since", "until"), forged):
        place = [known_since if since == 0 else since, *rest]
        given: dict[str, Any] = {"token" if name == "since" else name: packed({base_dir: place})}
        with pytest.raises(LineageParamValueError, match=rf"^{name} = .* is no token of changes"):
            store.changes.since(**given)


def current_place(store: LineageStore, base_dir: str) -> list[object]:
    token = store.changes.since("now").since
    packed_places = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    found: list[object] = json.loads(zlib.decompress(packed_places))[base_dir]
    return found


def test_a_token_does_not_fill_the_memory(store: LineageStore) -> None:
    bomb = base64.urlsafe_b64encode(zlib.compress(b'{"' + b"a" * (1 << 26))).decode()
    with pytest.raises(LineageParamValueError, match="is no token of changes"):
        store.changes.since(bomb)


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_limit_out_of_bounds_is_refused(store: LineageStore, limit: int) -> None:
    with pytest.raises(LineageParamValueError, match="from 1 to 10000"):
        store.changes.since(limit=limit)


@pytest.mark.parametrize("limit", ["5", None, 1.5, True])
def test_a_limit_that_is_no_number_is_refused(store: LineageStore, limit: Any) -> None:
    with pytest.raises(LineageParamTypeError, match=r"limit = .* must be a whole number from 1 to 10000"):
        store.changes.since(limit=limit)


def test_what_commits_late_is_told_though_later_revisions_were_told_before(
    postgres_url: str, one: Path, two: Path
) -> None:
    with LineageStore(postgres_url, settings=Settings()) as store:
        for base_dir in (one, two):
            store.ingest(base_dir)
        first = lease.register(store.engine, one)
        reader = Reader(store)
        with writing(store.engine) as session:
            job = session.value(select(train_job.c.id).where(train_job.c.train_id == "./a"))
            revisions.stamp(session, first, [job])
            store.job((two, "./c")).annotate(label=1)
            (early,) = reader.read()
            assert words(early) == "changed two ./c"
            assert reader.told() == []
        (late,) = reader.read()
        assert words(late) == "changed one ./a"
        assert (late.revision or 0) <= (early.revision or 0)
        assert reader.told() == []


@pytest.mark.slow
def test_writers_that_interleave_lose_and_repeat_nothing(database_url: str, tmp_path: Path) -> None:
    """Each transaction stamps some jobs and waits; the reader is another process' by its tokens at every page."""
    places = [write(tmp_path / f"base{number}", *map(str, range(5))) for number in range(3)]
    with LineageStore(database_url, settings=Settings()) as store:
        for place in places:
            store.ingest(place)
        begun = store.changes.since("now").since
    done = threading.Event()

    def write_often(place: Path, seed: int) -> None:
        chance = random.Random(seed)
        with LineageStore(database_url, settings=Settings()) as own:
            number = lease.register(own.engine, place)
            jobs = column(own.engine, "SELECT id FROM train_job WHERE base_dir_id = :of", of=number)
            for _ in range(15):
                with writing(own.engine) as session:
                    revisions.stamp(session, number, chance.sample(jobs, 2))
                    done.wait(chance.random() / 100)

    writers = [
        threading.Thread(target=write_often, args=(place, seed))
        for seed, place in enumerate([*places, *places])
    ]
    met, since = dict[tuple[str, str | None], int](), begun
    for writer in writers:
        writer.start()
    while True:
        last = not any(writer.is_alive() for writer in writers)
        with LineageStore(database_url, settings=Settings()) as own:
            answer = own.changes.since(since, limit=3)
        for change in answer.changes:
            place_of_job = change.base_dir, change.train_id
            assert (change.revision or 0) > met.get(place_of_job, 0), "told twice, or out of order"
            met[place_of_job] = change.revision or 0
        since = answer.since
        if last and not answer.more:
            break
    with LineageStore(database_url, settings=Settings()) as store:
        changed = {
            (each.base_dir, each.train_id): each.revision for each in store.changes.since(begun).changes
        }
        assert met == changed
        assert store.changes.since(since).changes == []


def test_a_follower_gives_what_changed_since_its_last_look(store: LineageStore, one: Path) -> None:
    with store.changes.follow() as follower:
        assert list(follower.look()) == []
        store.job((one, "./a")).annotate(label=1)
        assert [words(change) for answer in follower.look() for change in answer.changes] == [
            "changed one ./a"
        ]
        assert list(follower.look()) == []


def test_a_follower_asks_sqlite_nothing_while_nobody_commits(sqlite_url: str, one: Path) -> None:
    with LineageStore(sqlite_url, settings=Settings()) as store, store.changes.follow() as follower:
        store.ingest(one)
        assert len(list(follower.look())) == 1
        begun = list[object]()
        event.listen(store.engine, "begin", begun.append)
        assert [list(follower.look()) for _ in range(3)] == [[], [], []]
        assert begun == []


def test_a_follower_goes_on_where_it_failed(store: LineageStore, one: Path) -> None:
    with store.changes.follow() as follower:
        store.job((one, "./a")).annotate(label=1)
        with faults.down(store.engine), pytest.raises(_FAILURES):
            list(follower.look())
        assert looked_again(follower) == ["changed one ./a"]


def test_a_follower_sees_that_the_file_was_replaced(sqlite_url: str, one: Path, two: Path) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    other = path.with_name("other.sqlite3")
    with LineageStore(f"sqlite:///{other}", settings=Settings()) as store:
        store.ingest(two)
    with LineageStore(sqlite_url, settings=Settings()) as store:
        store.ingest(one)
    with LineageStore(sqlite_url, settings=Settings()) as store, store.changes.follow() as follower:
        assert list(follower.look()) == []
        for name in ("-wal", "-shm"):
            Path(f"{path}{name}").unlink()
        other.rename(path)
        told = looked_again(follower)
        assert told == ["forgotten one None", "changed two ./c"]


def test_the_token_of_now_is_that_of_the_last_commit(database_url: str, corpus: Path) -> None:
    with LineageStore(database_url) as store, closing(store.changes.now()) as now:
        assert now.since() == store.changes.since("now").since
        store.ingest(corpus)
        told = now.since()
        assert told == now.since() == store.changes.since("now").since
        with LineageStore(database_url) as other:
            other.job((corpus, "./run_039")).annotate(label=1)
        assert now.since() == store.changes.since("now").since != told
