"""`kill -9` of servers and ingesters: clients of the stream get each change exactly once; no remark is lost.

Log files grow and are ingested; one client puts remarks on jobs, another one asks for the curve of a growing job, by
both APIs, a third one follows the stream of changes and goes on with the last id it has seen; servers and ingesters are
killed at random moments, and started again. While no server runs, a job changes that changes at no other time. In the
end each job must have been reported with its revision, none twice with the same one, and the last confirmed remark, or
a later one, must be there; each curve must have been the beginning of what was written, none shorter than the one
before. The control's server ignores where a client left off.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TextIO

import httpx
import numpy as np

from helpers.engines import opened
from helpers.event_stream import event_stream
from helpers.log_writer import GrowingFile, Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.server import create_app
from lineage_store.server.connections import server_of
from lineage_store.server.own.changes import Watcher
from lineage_store.server.own.names import key_of
from proofs.children import KILLED, at_once, forked
from proofs.killed_ingest import finish, ingest_as_one_of_many
from proofs.proof import KINDS, Control, Outcome, Proof, Run

JOBS, LATE, REMARKED, DRAWN = 4, "./late", "job_0", "job_1"
STEPS = 2_000
WRITTEN = [[step, float(np.float32(1 / (step + 1)))] for step in range(STEPS)]
LONGEST_S = 1.5
"""A server or ingester is killed after so long at most."""
WITHIN_S = 60.0
CONTROL_KILLS = 4


@dataclass(frozen=True, slots=True)
class _Attacked:
    """What came of one attack."""

    kills: int
    told: int
    confirmed: int
    drawn: int
    missed: int


def _prove(run: Run) -> Outcome:
    run.stores.start()
    attacked = at_once([partial(_attack, run, kind, run.size, lambda: None) for kind in KINDS])
    controls = at_once([partial(_attack, run, kind, CONTROL_KILLS, _without_tokens) for kind in KINDS])
    for kind, each in zip(KINDS, attacked, strict=True):
        assert not each.missed, f"{kind}: {each.missed} jobs changed without a word"
    counts = [f"{each.kills:,} kills on {kind}" for kind, each in zip(KINDS, attacked, strict=True)]
    counts += [f"{sum(each.told for each in attacked):,} changes, each told once, none missed"]
    counts += [f"{sum(each.confirmed for each in attacked):,} remarks confirmed, none lost"]
    counts += [f"{sum(each.drawn for each in attacked):,} curves asked for, none wrong"]
    missed = sum(each.missed for each in controls)
    return Outcome(tuple(counts), (Control("a client's token", missed),))


def _attack(run: Run, kind: str, kills: int, fault: Callable[[], None]) -> _Attacked:
    part = f"{kind}_{kills}"
    base_dir = run.directory(part)
    seen, taken, drawn = (run.scratch / f"{part}_{what}" for what in ("seen", "taken", "drawn"))
    files = _files(base_dir)
    with run.store(kind) as url, socket.create_server(("127.0.0.1", 0)) as listener:
        with opened(url) as engine:
            finish(engine, base_dir)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            forked(partial(_follow, address, _now(url), seen)) as reader,
            forked(partial(_draw, address, base_dir, drawn)) as drawer,
        ):
            with forked(partial(_put_remarks, address, base_dir, taken)) as writer:
                killed = _kill(run, part, kills, url, base_dir, listener, files, fault)
                assert not writer.ended(), "a remark that was confirmed is not there"
            with opened(url) as engine:
                finish(engine, base_dir)
            with forked(partial(_serve, url, listener, fault)):
                wait_until(lambda: _last(seen).get("since") == _now(url) or reader.ended(), within_s=WITHIN_S)
                wait_until(lambda: bool(drawn.read_text()) or drawer.ended(), within_s=WITHIN_S)
            assert not reader.ended(), "the client failed"
            assert not drawer.ended(), "a curve is not what was written"
        return _compared(url, base_dir, seen, taken, drawn, killed)


def _kill(
    run: Run,
    part: str,
    kills: int,
    url: str,
    base_dir: Path,
    listener: socket.socket,
    files: list[GrowingFile],
    fault: Callable[[], None],
) -> int:
    """Kill and start again those who serve and ingest; how many were still at work."""
    chance, killed = run.chance(part), 0
    works = [partial(_serve, url, listener, fault), partial(_ingest, url, base_dir)]
    with ExitStack() as lifetime:
        at_work = [lifetime.enter_context(forked(work)) for work in works]
        for number in range(kills):
            for file in files:
                file.reveal(chance.randint(0, 60))
            time.sleep(chance.uniform(0, LONGEST_S))
            which = chance.randrange(len(works))
            killed += at_work[which].kill() == KILLED
            if which == 0:
                with LineageStore(url, settings=Settings()) as store:
                    store.job((base_dir, LATE)).annotate(remark=f"{number}")
            at_work[which] = lifetime.enter_context(forked(works[which]))
    return killed


def _compared(url: str, base_dir: Path, seen: Path, taken: Path, drawn: Path, kills: int) -> _Attacked:
    told = [json.loads(line) for line in seen.read_text().splitlines()]
    changes = [(each["train_id"], each["revision"]) for line in told for each in line["changes"]]
    assert len(changes) == len(set(changes)), "a change was told twice"
    latest = dict(sorted(changes, key=lambda change: change[1]))
    confirmed = [int(line) for line in taken.read_text().splitlines()]
    with LineageStore(url, settings=Settings()) as store:
        stored = {change.train_id: change.revision for change in store.changes.since().changes}
        remark = int(store.job((base_dir, f"./{REMARKED}")).report().job["remark"] or 0)
    assert remark >= max(confirmed, default=0), f"remark {max(confirmed)} was confirmed, {remark} is there"
    missed = sum(latest.get(job) != revision for job, revision in stored.items())
    return _Attacked(kills, len(changes), len(confirmed), len(drawn.read_text().splitlines()), missed)


def _files(base_dir: Path) -> list[GrowingFile]:
    name = "events.out.events.summary.1700000000.0.host_MS"
    log = Log().version()
    for step in range(STEPS):
        log.scalar(step, "loss", 1 / (step + 1))
    Log().version().scalar(1, "loss", 0.5).write_summary(base_dir / LATE)
    files = [GrowingFile(base_dir / f"job_{number}" / name, log.content) for number in range(JOBS)]
    for file in files:
        file.reveal(200)
    return files


def _now(url: str) -> str:
    with LineageStore(url, settings=Settings()) as store:
        return store.changes.since("now").since


def _last(seen: Path) -> dict[str, Any]:
    lines = seen.read_text().splitlines() if seen.exists() else []
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return found


# --- what runs in the children ---


def _serve(url: str, listener: socket.socket, fault: Callable[[], None]) -> None:
    fault()
    app = create_app(replace(Settings(), database_url=url, serve_allow_remarks=True, mindinsight_limits=2))
    server_of(app).run([listener])


def _ingest(url: str, base_dir: Path) -> None:
    while True:
        with opened(url) as engine:
            ingest_as_one_of_many(engine, base_dir)


def _follow(address: str, since: str, seen: Path) -> None:
    """Write down each event before the next is asked for, as who keeps what it was told."""
    with seen.open("w") as notes, httpx.Client(base_url=address, timeout=WITHIN_S) as client:
        while True:
            with suppress(httpx.HTTPError), event_stream(client, since) as events:
                for event in events:
                    if event.token:
                        since, changes = event.token, event.data.get("changes", [])
                        notes.write(json.dumps({"since": since, "changes": changes}) + "\n")
                        notes.flush()


def _put_remarks(address: str, base_dir: Path, taken: Path) -> None:
    """Put remark after remark, note each that was confirmed, and see that it is there."""
    job = f"/api/v1/jobs/{key_of(str(base_dir))}/{REMARKED}"
    with taken.open("w") as notes, httpx.Client(base_url=address, timeout=WITHIN_S) as client:
        for number in count(1):
            with suppress(httpx.TransportError):
                if client.put(f"{job}/annotation", json={"remark": f"{number}"}).status_code == 204:
                    notes.write(f"{number}\n")
                    notes.flush()
                    answer = client.get(job)
                    assert answer.status_code != 200 or answer.json()["job"]["remark"] == f"{number}"
            time.sleep(0.02)


def _draw(address: str, base_dir: Path, drawn: Path) -> None:
    """Ask for a curve again and again, and see that it is what was written, as far as it was before and further."""
    series = {"base": key_of(str(base_dir)), "name": DRAWN, "tag": "loss"}
    question = {"series": [series], "points": STEPS, "columns": ["step", "value"]}
    tag = {"train_id": f"./{DRAWN}", "tag": "loss/scalar"}
    length = 0
    with drawn.open("w") as notes, httpx.Client(base_url=address, timeout=WITHIN_S) as client:
        while True:
            with suppress(httpx.TransportError):
                answer = client.post("/api/v1/series", json=question)
                if answer.status_code == 200:
                    columns = answer.json()["curves"][0]["columns"]
                    curve = list(map(list, zip(columns["step"], columns["value"], strict=True)))
                    length = _longer(curve, length, notes)
                answer = client.get("/v1/mindinsight/datavisual/scalar/metadata", params=tag)
                if answer.status_code == 200:
                    curve = [[row["step"], row["value"]] for row in answer.json()["metadatas"]]
                    length = _longer(curve, length, notes)
            time.sleep(0.02)


def _longer(curve: list[list[float]], before: int, notes: TextIO) -> int:
    assert curve == WRITTEN[: len(curve)], "it is not what was written"
    assert len(curve) >= before, f"it was {before} samples long, and is {len(curve)}"
    notes.write(f"{len(curve)}\n")
    notes.flush()
    return len(curve)


def _without_tokens() -> None:
    stream = Watcher.stream

    async def from_now(watcher: Watcher, ask: Any, _since: str | None) -> Any:
        return await stream(watcher, ask, None)

    Watcher.stream = from_now  # type: ignore[assignment, method-assign]


PROOF = Proof(
    "stream",
    "kill -9 of servers and ingesters: clients miss nothing, are told nothing twice or wrong, and lose no remark",
    unit="kills on each database",
    ci_size=20,
    full_size=500,
    attacks=("server",),
    prove=_prove,
)
