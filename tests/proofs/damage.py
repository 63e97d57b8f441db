"""Damage affects only what it touched, gives no wrong sample, and the file is read on.

Pieces of real log files are damaged: bits flipped, ranges zeroed, cut out, inserted, overwritten with others of the
same file, among them whole headers with plausible lengths. A good frame follows. Then no undamaged frame may be given
up, the bookmark must be at the end, every scalar must be one that was written, and the last write of each step must be
among them: on both decoding paths, in chunks of any size. After that, payloads are damaged and framed again with valid
checksums; the decoder must not fail, and both paths must agree. The control believes every checksum.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers import oracle
from helpers.base_dirs import GOLDEN
from helpers.engines import opened
from helpers.ingesting import ingest
from helpers.log_writer import Log
from lineage_store.config import Settings
from proofs import ledger
from proofs.following import Followed, Taken, believing
from proofs.proof import KINDS, Control, Outcome, Proof, Run

LONGEST_PIECE = 6_000
LONG_PIECE, LONG_ONES = 100_000, 10
"""One of so many pieces is so long that there are frames enough for the fast path to walk."""
STORED = 50
"""One of so many damaged files goes into a store, for its ledger."""
FUZZED_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class _Edit:
    """The bytes from `start` to `end` became others; where `start` is `end` they were put in."""

    start: int
    end: int
    instead: bytes

    def touches(self, start: int, end: int) -> bool:
        """Whether a frame is not whole any more."""
        return start < self.end and self.start < end if self.start < self.end else start < self.start < end


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A log file after damage."""

    content: bytes
    sound: tuple[tuple[int, bytes], ...]
    """Position and payload of every frame that is still whole."""
    written: frozenset[Taken]
    """The scalars that its writer wrote."""
    touched: int
    """How many frames are not."""


def _prove(run: Run) -> Outcome:
    sources = _sources()
    touched = lost = 0
    stored = run.directory("stored")
    for number in range(run.size):
        chance = run.chance(number)
        source = chance.choice(sources)
        damaged = _damage(source, chance)
        path = run.scratch / "files" / f"job_{number}" / source.name
        lost += _follow_both_ways(path, damaged, chance)
        touched += damaged.touched
        if number % STORED == 0:
            path.parent.rename(stored / path.parent.name)
        else:
            shutil.rmtree(path.parent)
    fuzzed = max(1, run.size // FUZZED_AT_ONCE)
    for number in range(fuzzed):
        _fuzz(run.scratch / "files" / f"fuzz_{number}", sources, run.chance("fuzz", number))
    believed = sum(_is_fooled(run, sources, number) for number in range(50))
    accounted = ledger.Ledger()
    for kind in KINDS:
        with run.store(kind) as url, opened(url) as engine:
            ingest(engine, stored, chunk_bytes=4096)
            accounted += ledger.check(engine)
    counts = [
        f"{run.size:,} damaged files",
        f"{lost:,} frames lost of {touched:,} touched",
        "0 wrong samples",
    ]
    counts += [f"{fuzzed * FUZZED_AT_ONCE:,} fuzzed payloads, 0 findings", str(accounted)]
    return Outcome(tuple(counts), (Control("checksums", believed),))


# --- damage ---


@dataclass(frozen=True, slots=True)
class _Source:
    """The frames of a real log file."""

    name: str
    frames: tuple[bytes, ...]
    """Their bytes, headers included."""


def _sources() -> list[_Source]:
    paths = sorted(GOLDEN.glob("summary_base/*/*summary.*"))
    return [_Source(path.name, tuple(_frames(path))) for path in paths if path.stat().st_size]


def _frames(path: Path) -> Iterator[bytes]:
    content, position = path.read_bytes(), 0
    for payload in oracle.payloads(path):
        yield content[position : position + len(payload) + 16]
        position += len(payload) + 16


def _piece(source: _Source, chance: random.Random) -> list[bytes]:
    """Some frames in a row."""
    first, size, frames = chance.randrange(len(source.frames)), 0, list[bytes]()
    longest = LONGEST_PIECE if chance.randrange(LONG_ONES) else LONG_PIECE
    for frame in source.frames[first:]:
        frames.append(frame)
        size += len(frame)
        if size > longest:
            break
    return frames


def _damage(source: _Source, chance: random.Random) -> _Damaged:
    """Damage a piece of a file in one to three places, and write a good frame behind it."""
    frames = _piece(source, chance)
    content, spans, position = b"".join(frames), [], 0
    for frame in frames:
        spans.append((position, position + len(frame)))
        position += len(frame)
    edits = _edits(content, spans, chance)
    whole = [(start, end) for start, end in spans if not any(edit.touches(start, end) for edit in edits)]
    last = (Log().train(loss=1.0) if "lineage" in source.name else Log().scalar(7, "last", 1.0)).content
    damaged, taken_to, moved = b"", 0, []
    for edit in edits:
        moved.append((taken_to, len(damaged) - taken_to))
        damaged += content[taken_to : edit.start] + edit.instead
        taken_to = edit.end
    moved.append((taken_to, len(damaged) - taken_to))
    damaged += content[taken_to:]
    sound = [(start + _shift(moved, start), content[start + 12 : end - 4]) for start, end in whole]
    sound.append((len(damaged), last[12:-4]))
    written = {each for frame in (*frames, last) for each in _scalars_of(source.name, frame[12:-4])}
    return _Damaged(damaged + last, tuple(sound), frozenset(written), len(spans) - len(whole))


def _shift(moved: Sequence[tuple[int, int]], position: int) -> int:
    """By how much a byte moved; `moved` has the beginnings of the parts that moved alike."""
    return next(shift for start, shift in reversed(moved) if start <= position)


def _edits(content: bytes, spans: Sequence[tuple[int, int]], chance: random.Random) -> list[_Edit]:
    found: list[_Edit] = []
    for _ in range(chance.randint(1, 3)):
        edit = _edit(content, spans, chance)
        if all(edit.end < other.start or other.end < edit.start for other in found):
            found.append(edit)
    return sorted(found, key=lambda edit: edit.start)


def _edit(content: bytes, spans: Sequence[tuple[int, int]], chance: random.Random) -> _Edit:
    start = chance.randrange(len(content))
    length = min(chance.choice((1, 4, 12, 40, 300)), len(content) - start)
    end, elsewhere = start + length, chance.randrange(len(content))
    match chance.randrange(7):
        case 0:
            flipped = content[start] ^ (1 << chance.randrange(8))
            return _Edit(start, start + 1, bytes([flipped]))
        case 1:
            return _Edit(start, end, bytes(length))
        case 2:
            return _Edit(start, end, b"")
        case 3:
            return _Edit(start, start, chance.randbytes(length))
        case 4:
            return _Edit(start, start, bytes(length))
        case 5:
            return _Edit(start, end, content[elsewhere : elsewhere + length].ljust(length, b"?"))
        case _:  # the header of another frame: its checksum is right, its length is not
            (here, _), (there, _) = chance.choice(spans), chance.choice(spans)
            return _Edit(here, here + 12, content[there : there + 12])


# --- what is taken of it ---


def _follow_both_ways(path: Path, damaged: _Damaged, chance: random.Random) -> int:
    """Read the file on both paths, in chunks of some size; how many frames were lost."""
    path.parent.mkdir(parents=True)
    path.write_bytes(damaged.content)
    mode = chance.choice((0o400, 0o600))
    chunk_bytes = chance.choice((4096, 1 << 20))
    plain, fast = (
        _follow(path, mode, damaged, Settings(vectorised=vectorised, chunk_bytes=chunk_bytes))
        for vectorised in (False, True)
    )
    assert plain == fast, "the decoding paths differ"
    return damaged.touched - (plain[1] - len(damaged.sound))


def _follow(path: Path, mode: int, damaged: _Damaged, settings: Settings) -> tuple[list[Taken], int]:
    """Read the file to its end, past what is given up; what was taken, and of how many frames.

    A file that the writer has not closed (mode 0600) is closed when no more can be read of it.
    """
    path.chmod(mode)
    followed, before, taken = Followed(path, settings), -1, list[Taken]()
    while before < followed.known.byte_offset:  # each further suspect place is waited for anew
        before = followed.known.byte_offset
        taken += followed.read()
        taken += followed.read(grace_is_over=True)
    path.chmod(0o400)
    taken += followed.read()
    end = followed.known.byte_offset
    assert end == len(damaged.content), f"the file does not live on: {end} of {len(damaged.content)} bytes"
    for start, payload in damaged.sound:
        for gap_start, gap_end in followed.given_up:
            assert gap_end <= start or start + len(payload) + 16 <= gap_start, (
                f"the frame at {start} was lost"
            )
    scalars = {each for each in taken if each[0] == "scalar"}
    assert scalars <= damaged.written, f"a wrong sample: {next(iter(scalars - damaged.written))}"
    frames = _walk(damaged.content, followed)
    assert frames.items() >= set(damaged.sound), "a sound frame was passed over"
    writes = (each for payload in frames.values() for each in _scalars_of(path.name, payload))
    expected = set({each[:3]: each for each in writes}.values())  # the last of each tag and step
    assert expected <= scalars, f"a lost sample: {next(iter(expected - scalars))}"
    return sorted(taken), followed.event_count


def _walk(content: bytes, followed: Followed) -> dict[int, bytes]:
    """The ledger: sound frames and given-up ranges follow each other without a gap. The frames, by position."""
    position, frames, gaps = 0, dict[int, bytes](), dict(followed.given_up)
    while position < len(content):
        if position in gaps:
            position = gaps.pop(position)
            continue
        payload = oracle.sound_frame(content, position)
        assert payload is not None, f"no frame at {position}, which counts as read"
        frames[position] = payload
        position += len(payload) + 16
    assert not gaps, f"given up inside frames: {gaps}"
    assert len(frames) == followed.event_count, f"{followed.event_count} events of {len(frames)} frames"
    return frames


def _scalars_of(name: str, payload: bytes) -> Iterator[Taken]:
    if "lineage" not in name:
        for each in oracle.scalars_in(payload):
            yield "scalar", each.tag, each.step, each.wall_time.hex(), each.value.hex()


# --- damage that only the decoder can tell, and the control ---


def _fuzz(directory: Path, sources: Sequence[_Source], chance: random.Random) -> None:
    """Damage payloads, frame them anew: nothing fails, and both paths say the same."""
    source, log = chance.choice(sources), Log()
    for _ in range(FUZZED_AT_ONCE):
        payload = bytearray(chance.choice(source.frames)[12:-4][:LONGEST_PIECE])
        for _ in range(chance.randint(1, 4)):
            payload[chance.randrange(len(payload))] = chance.randrange(256)
        log.frame(bytes(payload[: chance.choice((None, chance.randrange(1, len(payload) + 1)))]))
    path = log.write(directory / source.name)
    plain, fast = (Followed(path, Settings(vectorised=vectorised)) for vectorised in (False, True))
    assert sorted(plain.read()) == sorted(fast.read()), "the decoding paths differ"
    assert (plain.given_up, plain.event_count) == (fast.given_up, fast.event_count), (
        "the decoding paths differ"
    )
    assert plain.known.byte_offset == len(log.content), "the decoder stopped"


def _is_fooled(run: Run, sources: Sequence[_Source], number: int) -> bool:
    """Whether a reader that believes every checksum takes something for what it is not, or fails."""
    chance = run.chance("control", number)
    source = chance.choice(sources)
    damaged = _damage(source, chance)
    path = run.scratch / "files" / f"control_{number}" / source.name
    try:
        with believing():
            _follow_both_ways(path, damaged, chance)
    except Exception:  # noqa: BLE001 - it may fail in any way
        return True
    return False


PROOF = Proof(
    "damage",
    "damage costs what it touched and no more, and the file lives on",
    unit="damaged files",
    ci_size=3_000,
    full_size=100_000,
    attacks=("eventlog",),
    prove=_prove,
)
