"""Frames of summary events for property tests: some that the fast path must read, some that it must leave, and damage.

In: a seeded `random.Random`. Out: frames, values or payloads; the same seed gives the same bytes.
Promises of `regular`: the fast path reads all frames except kinds with too few frames to be worth it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from helpers.base_dirs import GOLDEN
from helpers.frames import read_frames
from helpers.log_writer import histogram, image, scalar, tensor
from lineage_store.eventlog.mindspore.wire import summary_pb2
from lineage_store.eventlog.tfrecord import encode_frame

Value = summary_pb2.Summary.Value

SUMMARY_FILES = sorted((GOLDEN / "summary_base").rglob("*_MS"))
TAGS = ["loss", "lr", "acc/auto", "", "ü", "\0", "x" * 200]
CHANCES = st.integers(0, 2**64 - 1).map(random.Random)
"""Seeds of our own generators: Hypothesis remembers a seed better than thousands of draws."""


def event(step: int | None, *values: Value, wall_time: float = 1.7e9) -> bytes:
    """Return the frame of one event, complete or not."""
    message = summary_pb2.Event(wall_time=wall_time)
    if step is not None:
        message.step = step
    message.summary.value.extend(values)
    return encode_frame(message.SerializePartialToString())


def scalar_of(tag: str, bits: int) -> Value:
    """Return a scalar with exactly these bits, perhaps of a signalling NaN: a Python float would make it quiet."""
    return Value.FromString(scalar(tag, 1.0).SerializeToString()[:-4] + struct.pack("<I", bits))


def without_tag(value: Value) -> Value:
    """Return a value without the field of its tag, which differs from a value with an empty tag."""
    found = Value.FromString(value.SerializeToString())
    found.ClearField("tag")
    return found


def regular(chance: random.Random, count: int) -> list[bytes]:
    """Return frames of several kinds, with steps in any order.

    Frames of one kind have the same plugins and tags, and differ in everything else. A tag may occur twice in an event,
    in the same plugin or in another.
    """
    kinds = [
        [(chance.choice(PLUGINS), chance.choice(TAGS)) for _ in range(chance.randrange(1, 5))]
        for _ in range(chance.randrange(1, 5))
    ]
    return [
        event(
            _step(chance),
            *(make(chance, tag) for make, tag in chance.choice(kinds)),
            wall_time=_double(chance),
        )
        for _ in range(count)
    ]


def irregular(chance: random.Random) -> bytes:
    """Return a frame that the fast path leaves to `events`, unless it is empty; some frames cannot be read at all."""
    value = chance.choice(PLUGINS)(chance, chance.choice(TAGS))
    version = summary_pb2.Event(wall_time=_double(chance), version="MindSpore.Event:1")
    graph = summary_pb2.Event(wall_time=_double(chance), step=chance.randrange(9))
    graph.graph_def.node.add(name="1", op_type="Conv2D")
    return chance.choice(
        [
            event(_step(chance), without_tag(value), wall_time=_double(chance)),
            event(_step(chance), value, without_tag(value)),
            event(_step(chance), value, Value(tag=chance.choice(TAGS))),
            event(_step(chance)),
            encode_frame(b""),
            encode_frame(version.SerializeToString()),
            encode_frame(graph.SerializeToString()),
        ]
    )


def mutated(payload: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a few of them changed, removed, inserted or repeated, or unchanged."""
    content = bytearray(payload)
    for _ in range(chance.choice([0, 0, 1, 2])):
        at = chance.randrange(len(content) + 1)
        match chance.randrange(4):
            case 0:
                content[at : at + 1] = chance.randbytes(1)
            case 1:
                del content[at : at + chance.randrange(1, 9)]
            case 2:
                content[at:at] = chance.randbytes(chance.randrange(1, 6))
            case _:
                content[at:at] = content[at : at + 20]
    return bytes(content)


@cache
def real_payloads(longest: int = 2000) -> list[bytes]:
    """Return payloads that MindSpore wrote, except long ones."""
    return [payload for path in SUMMARY_FILES for payload in _payloads(path) if len(payload) < longest]


def _payloads(path: Path) -> Iterator[bytes]:
    return (frame.payload for frame in read_frames(path.read_bytes())[0])


def _step(chance: random.Random) -> int | None:
    """Return a step: small, beyond 2**28 (where a varint gets its fifth byte), negative, or none."""
    some = [chance.randrange(300), chance.randrange(2**28, 2**36), chance.randrange(-(2**63), 2**63)]
    return chance.choice([*some, -1, 2**63 - 1, None])


def _float_bits(chance: random.Random) -> int:
    """Return the bits of any float: NaN of both kinds with a random payload, infinities, -0.0, subnormal numbers."""
    sign, own = chance.getrandbits(1) << 31, chance.randrange(1, 2**22)
    of_nan = [sign | 0x7F800000 | own, sign | 0x7FC00000 | own]
    return chance.choice([*of_nan, sign | 0x7F800000, sign, sign | own, chance.getrandbits(32)])


def _double(chance: random.Random) -> float:
    sign, own = chance.getrandbits(1) << 63, chance.randrange(1, 2**51)
    of_nan = [sign | 0x7FF << 52 | own, sign | 0xFFF << 51 | own]
    bits = chance.choice([*of_nan, sign | 0x7FF << 52, sign, chance.getrandbits(64)])
    found: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return chance.choice([found, 1.7e9 + chance.random()])


def _scalar(chance: random.Random, tag: str) -> Value:
    return scalar_of(tag, _float_bits(chance))


def _histogram(chance: random.Random, tag: str) -> Value:
    value = histogram(tag, [chance.gauss(0, 1) for _ in range(chance.randrange(4))])
    found = value.histogram
    found.min, found.max, found.sum = _double(chance), _double(chance), _double(chance)
    found.count, found.nan_count = chance.getrandbits(63), chance.getrandbits(chance.choice([1, 40]))
    return value


def _image(chance: random.Random, tag: str) -> Value:
    side = chance.randrange(1, 4)
    return image(tag, np.full((side, side, 3), chance.randrange(256)))


def _tensor(chance: random.Random, tag: str) -> Value:
    shape = [chance.randrange(1, 4) for _ in range(chance.randrange(5))]
    return tensor(tag, np.full(shape, chance.random(), chance.choice([np.float32, np.int64, np.float64])))


PLUGINS: list[Callable[[random.Random, str], Value]] = [_scalar, _histogram, _image, _tensor]
