"""The fast path returns, frame by frame and bit by bit, what framing and events return, for any buffer."""

from __future__ import annotations

import math
import random
import struct
from collections import defaultdict
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.frames import read_frames
from helpers.generated_events import (
    CHANCES,
    SUMMARY_FILES,
    Value,
    event,
    irregular,
    mutated,
    real_payloads,
    regular,
    scalar_of,
    without_tag,
)
from helpers.log_writer import Log, histogram, image, scalar, tensor
from lineage_store.eventlog.mindspore import event_columns
from lineage_store.eventlog.mindspore.events import decode_summary
from lineage_store.eventlog.protobuf_columns import Decoded
from lineage_store.eventlog.tfrecord import DEFAULT_MAX_FRAME_BYTES, encode_frame
from lineage_store.eventlog.values import PayloadValue, ScalarValue

Description = tuple[Any, ...]


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


def expected(payload: bytes) -> list[Description]:
    """What `events` says of one payload."""
    found: list[Description] = []
    for value in decode_summary(payload):
        if isinstance(value, ScalarValue):
            found.append(("scalar", value.tag, value.step, bits(value.wall_time), bits(value.value)))
        elif isinstance(value, PayloadValue):
            sizes = (value.size_bytes, value.shape, value.dtype)
            statistics: tuple[Any, ...] = ()
            if s := value.statistics:
                counts = (s.count, s.nan_count, s.pos_inf_count, s.neg_inf_count)
                statistics = (*counts, bits(s.min), bits(s.max), bits(s.sum))
            at = (value.tag, value.step, bits(value.wall_time))
            found.append((value.plugin, *at, *sizes, *statistics))
    return found


def by_frame(decoded: Decoded) -> dict[int, list[Description]]:
    """What the fast path says, frame by frame, values in their places."""
    rows: dict[int, list[tuple[int, Description]]] = defaultdict(list)
    for piece in decoded.scalars:
        for i, frame in enumerate(piece.frame.tolist()):
            at = (piece.tag, int(piece.step[i]), bits(piece.wall_time[i]))
            rows[frame].append((int(piece.value_index[i]), ("scalar", *at, bits(piece.value[i]))))
    for block in decoded.payloads:
        for i, frame in enumerate(block.frame.tolist()):
            at = (block.tag, int(block.step[i]), bits(block.wall_time[i]))
            sizes = (
                int(block.size_bytes[i]),
                tuple(block.shape[i, : block.rank[i]].tolist()),
                block.dtype[i],
            )
            names = ("count", "nan_count", "pos_inf_count", "neg_inf_count") if block.floats else ()
            counts = tuple(int(block.integers[name][i]) for name in names)
            numbers = tuple(bits(block.floats[name][i]) for name in ("min", "max", "sum") if block.floats)
            rows[frame].append((int(block.value_index[i]), (block.plugin, *at, *sizes, *counts, *numbers)))
    return {frame: [value for _, value in sorted(values)] for frame, values in rows.items()}


def check(buffer: bytes, *borders: int) -> tuple[int, int]:
    """Hold both paths against each other, for segments between these borders; (frames, of which the fast path read)."""
    segments = list(pairwise([*(borders or [0]), len(buffer)]))
    frames, numbers, read_to = [], [], []
    for number, (start, end) in enumerate(segments):
        found, outcome = read_frames(buffer[:end], start)
        frames += found
        numbers += [number] * len(found)
        read_to.append(outcome.position)
    decoded = event_columns.decode_columns(buffer, segments, max_frame_bytes=DEFAULT_MAX_FRAME_BYTES)
    assert decoded.frames.segment.tolist() == numbers
    assert decoded.frames.read_to.tolist() == read_to
    assert decoded.frames.start.tolist() == [frame.position for frame in frames]
    assert decoded.frames.length.tolist() == [frame.length for frame in frames]
    assert decoded.frames.checksum.tolist() == [frame.checksum for frame in frames]
    left, values = set(decoded.left.tolist()), by_frame(decoded)
    assert not left & set(values)
    for index, frame in enumerate(frames):
        if index not in left:
            assert values.get(index, []) == expected(frame.payload)
    return len(frames), len(frames) - len(left)


@pytest.mark.parametrize("path", SUMMARY_FILES, ids=lambda path: path.parent.name)
def test_a_file_that_mindspore_wrote_gives_the_same_values_on_both_paths(path: Path) -> None:
    frames, read = check(path.read_bytes())
    assert frames < 64 or read > 0.9 * frames


STEPS = st.none() | st.integers(0, 300) | st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 1e-45])
TAGS = st.sampled_from(["loss", "lr", "acc/auto", "", "ü", "\0", "x" * 200])
SCALARS = st.builds(scalar, TAGS, FLOATS)
COUNTED = st.integers(-100, 100) | st.sampled_from([math.nan, math.inf, -math.inf])
HISTOGRAMS = st.builds(histogram, TAGS, st.lists(COUNTED, max_size=8))
IMAGES = st.builds(lambda tag, side: image(tag, [[[0] * side] * side]), TAGS, st.integers(1, 3))
SHAPES = st.lists(st.integers(0, 3), max_size=9)
TENSORS = st.builds(lambda tag, shape: tensor(tag, np.zeros(shape, np.float32)), TAGS, SHAPES)
EVENTS = st.builds(
    lambda step, wall_time, values: event(step, *values, wall_time=wall_time),
    STEPS,
    st.floats(),
    st.lists(SCALARS | HISTOGRAMS | IMAGES | TENSORS, max_size=4),
)


@given(st.lists(EVENTS, max_size=4), st.integers(1, 60), st.randoms(use_true_random=False))
def test_generated_events_in_any_order_give_the_same_values(
    kinds: list[bytes], copies: int, chance: random.Random
) -> None:
    events = kinds * copies
    if chance.random() < 0.5:
        chance.shuffle(events)
    check(b"".join(events))


@given(CHANCES)
def test_regular_frames_are_read_by_the_fast_path_up_to_where_the_buffer_is_cut(
    chance: random.Random,
) -> None:
    content = b"".join(regular(chance, chance.randrange(64, 120)))
    frames, read = check(content)
    assert frames - read < event_columns.FEWEST_TO_WALK < frames
    frames, read = check(content[: chance.randrange(len(content))])
    assert frames - read < event_columns.FEWEST_TO_WALK


@given(CHANCES)
def test_frames_without_a_tag_are_left_and_the_others_read(chance: random.Random) -> None:
    values = [scalar("loss", 0.5), histogram("w", [0.5]), image("i", [[[0, 1, 2]]]), tensor("t", [1.0])]
    tagless = set(chance.sample(range(100), chance.randrange(50)))
    frames = []
    for step in range(100):
        of_event = chance.sample(values, 4)
        if step in tagless:
            place = chance.randrange(4)
            of_event[place] = without_tag(of_event[place])
        frames.append(event(step, *of_event))
    assert check(b"".join(frames)) == (100, 100 - len(tagless))


@given(CHANCES)
def test_irregular_frames_cost_no_other_frame_the_fast_path(chance: random.Random) -> None:
    good = [event(step, histogram(chance.choice(["a", "b"]), [0.5, step])) for step in range(100)]
    odd = [irregular(chance) for _ in range(chance.randrange(20))]
    frames = chance.sample(good + odd, len(good) + len(odd))
    assert check(b"".join(frames))[1] >= len(good)


@given(st.randoms(use_true_random=False))
def test_damaged_payloads_with_valid_frames_give_the_same_values_or_are_left(chance: random.Random) -> None:
    events = chance.choices(chance.sample(real_payloads(), chance.choice([1, 3, 20])), k=80)
    check(b"".join(encode_frame(mutated(payload, chance)) for payload in events))


@given(st.randoms(use_true_random=False))
def test_damaged_and_cut_buffers_end_at_the_same_frame(chance: random.Random) -> None:
    buffer = bytearray(chance.choice(SUMMARY_FILES).read_bytes()[:60_000])
    for _ in range(chance.randrange(3)):
        buffer[chance.randrange(len(buffer))] ^= 1 << chance.randrange(8)
    check(bytes(buffer[: chance.randrange(len(buffer))]))


def test_every_value_of_one_tag_in_one_event_is_kept_in_its_place() -> None:
    frames = [event(step, scalar("a", step), scalar("a", -step), scalar("b", 0.5)) for step in range(40)]
    assert check(b"".join(frames)) == (40, 40)


@pytest.mark.parametrize("others", [[], [histogram("w", [0.5])]], ids=["by a template", "by the walker"])
def test_signalling_nans_of_any_bits_are_widened_as_protobuf_widens_them(others: list[Value]) -> None:
    signalling = [scalar_of("loss", 0x7F800001 + 41_943 * n | n % 2 << 31) for n in range(100)]
    assert check(b"".join(event(7, nan, *others) for nan in signalling)) == (100, 100)


def test_nans_of_histograms_keep_their_bits() -> None:
    def of(bits: int) -> Value:
        value, nan = histogram("w", [0.5]), struct.unpack("<d", struct.pack("<Q", bits))[0]
        value.histogram.min, value.histogram.max, value.histogram.sum = nan, -nan, nan
        return value

    nans = [of(0x7FF0000000000001 + (n << 40)) for n in range(100)]
    assert len({value.histogram.SerializeToString() for value in nans}) == 100
    assert check(b"".join(event(7, nan) for nan in nans)) == (100, 100)


def test_steps_of_every_length_are_read_by_the_fast_path() -> None:
    steps = [2**power + offset for power in range(63) for offset in (-1, 0)] + [-1, -(2**63)]
    assert check(b"".join(event(step, scalar("loss", 0.25)) for step in steps * 20))[1] == len(steps) * 20


def test_a_very_long_frame_is_read_by_the_fast_path_though_it_is_alone() -> None:
    long = event(1, tensor("weights", np.zeros((1100, 1000), np.float32)), scalar("loss", 0.5))
    assert check(long) == (1, 1)


def test_few_frames_are_left_even_if_they_are_large() -> None:
    large = tensor("features", np.zeros((125, 1000), np.float32))
    assert check(b"".join(event(step, large, histogram("w", [0.5])) for step in range(8))) == (8, 0)
    assert check(b"".join(event(step, large, histogram("w", [0.5])) for step in range(70))) == (70, 70)


def test_reading_begins_at_the_given_index() -> None:
    log = Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25)
    check(log.content, log.spans[1][0])


@given(st.lists(EVENTS, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_segments_of_several_files_are_read_apart(kinds: list[bytes], chance: random.Random) -> None:
    files = [bytearray(b"".join(kinds * chance.choice([0, 1, 20]))) for _ in range(chance.choice([1, 2, 9]))]
    for file in files:
        if file and chance.random() < 0.5:
            file[chance.randrange(len(file))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.3:
            del file[chance.randrange(len(file) + 1) :]
    borders = [0, *accumulate(len(file) for file in files)]
    check(b"".join(files), *borders[:-1])


@pytest.mark.parametrize(
    "tags", [["a"], ["a", "bb"], ["a", "b", "cc", "dd", "cc"], [str(10**n) for n in range(14)]]
)
@given(st.integers(100, 400), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_lengths_that_repeat_in_a_cycle_end_where_the_cycle_is_broken(
    tags: list[str], count: int, chance: random.Random
) -> None:
    frames = [event(n // len(tags), scalar(tags[n % len(tags)], n)) for n in range(count)]
    if chance.random() < 0.8:
        place = chance.randrange(count)
        frames[place] = chance.choice([b"", event(1, scalar("other", 1)), frames[place][:-1] + b"!"])
    content = b"".join(frames)
    found, read = check(content[: len(content) - chance.choice([0, 1, 13, 40])])
    assert found - read < event_columns.FEWEST_TO_WALK


def test_very_many_tags_are_read_and_where_each_has_few_values_they_are_left() -> None:
    frames = [event(step, *(scalar(f"layer_{n}/weight", step) for n in range(100))) for step in range(70)]
    assert check(b"".join(frames)) == (70, 70)
    frames = [event(step, scalar(f"{step:099}", 0.5), scalar("x" * step, 0.25)) for step in range(200)]
    assert check(b"".join(frames)) == (200, 0)


def test_frames_of_very_many_values_are_left_and_the_others_read() -> None:
    frames = [event(step, scalar("loss", step), histogram("w", [0.5, step])) for step in range(100)]
    frames[10:10] = [event(step, *[scalar("loss", step)] * 1000) for step in range(5)]
    frames[20:20] = [event(step, histogram("w", [0.5, step], bucket_count=1000)) for step in range(5)]
    assert check(b"".join(frames)) == (110, 100)


def test_a_lone_frame_of_very_many_values_or_buckets_is_left() -> None:
    assert check(event(1, *[scalar("loss", 0.5)] * 400_000)) == (1, 0)
    assert check(event(1, histogram("w", [0.5, 1.5], bucket_count=200_000))) == (1, 0)


def test_an_empty_buffer_holds_nothing() -> None:
    assert check(b"") == (0, 0)
