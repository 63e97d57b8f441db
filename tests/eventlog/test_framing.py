"""Frames: every case at once, byte by byte and with trailing bytes; every kind of damage; resynchronisation."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.frames import read_frames
from helpers.log_writer import Log
from lineage_store.eventlog.tfrecord import (
    DEFAULT_MAX_FRAME_BYTES,
    OVERHEAD_BYTES,
    Frame,
    FrameReader,
    NeedData,
    Suspect,
    SuspectReason,
    encode_frame,
    encode_header,
    length_checksum,
    length_checksums,
    masked_crc32c,
)

PAYLOADS = [b"first", b"", b"\x00" * 40, bytes(range(256))]
LOG = b"".join(encode_frame(payload) for payload in PAYLOADS)
GOOD = encode_frame(b"good")

CLAIMS = [DEFAULT_MAX_FRAME_BYTES - OVERHEAD_BYTES + 1, 2**31 - 1, 2**40, 2**63, 2**64 - 1]


def found_at(buffer: bytes, start: int = 0) -> int | None:
    """Where resynchronisation finds a whole frame."""
    found = FrameReader(buffer).find(start)
    return found.position if isinstance(found, Frame) else None


# name: (bytes, reason, length of the bad frame where its header tells)
BAD = {
    "hole": (bytes(12), SuspectReason.ZERO_HEADER, None),
    "damaged length": (
        Log().frame(b"payload").damaged(place=0).content,
        SuspectReason.BAD_LENGTH_CHECKSUM,
        None,
    ),
    "damaged header": (
        Log().frame(b"payload").damaged(place=9).content,
        SuspectReason.BAD_LENGTH_CHECKSUM,
        None,
    ),
    "damaged payload": (
        Log().frame(b"payload").damaged(place=14).content,
        SuspectReason.BAD_PAYLOAD_CHECKSUM,
        23,
    ),
    "damaged checksum": (
        Log().frame(b"payload").damaged(place=-1).content,
        SuspectReason.BAD_PAYLOAD_CHECKSUM,
        23,
    ),
    "hole in payload": (encode_header(20) + bytes(24), SuspectReason.BAD_PAYLOAD_CHECKSUM, 36),
    **{
        f"claims {claim} bytes": (encode_header(claim), SuspectReason.FRAME_TOO_LONG, None)
        for claim in CLAIMS
    },
}
bad_frames = pytest.mark.parametrize(("bad", "reason", "length"), BAD.values(), ids=BAD.keys())


def test_checksum_is_the_masked_castagnoli_crc() -> None:
    published = 0xE3069283  # CRC-32C of "123456789"
    rotated = (published >> 15 | published << 17) & 0xFFFFFFFF
    assert masked_crc32c(b"123456789") == (rotated + 0xA282EAD8) % 2**32
    assert masked_crc32c(bytes(8)) == 0x07980329


def test_vectorised_length_checksums_equal_the_single_ones() -> None:
    lengths = [0, 1, 255, 256, 65_535, 2**26, 2**40 + 17, 2**64 - 1]
    assert length_checksums(np.array(lengths, np.uint64)).tolist() == [length_checksum(n) for n in lengths]


def test_frame_has_the_layout_that_tfrecord_readers_know() -> None:
    length, length_check = struct.unpack_from("<QI", GOOD)
    (payload_check,) = struct.unpack_from("<I", GOOD, 16)
    assert (length, GOOD[12:16], len(GOOD)) == (4, b"good", 20)
    assert (length_check, payload_check) == (masked_crc32c(GOOD[:8]), masked_crc32c(b"good"))


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_whole_log_is_read_from_any_buffer(buffer_type: type[bytes | bytearray | memoryview]) -> None:
    frames, outcome = read_frames(buffer_type(LOG))
    assert [frame.payload for frame in frames] == PAYLOADS
    assert [frame.checksum for frame in frames] == [masked_crc32c(payload) for payload in PAYLOADS]
    assert outcome == NeedData(len(LOG), OVERHEAD_BYTES)


def test_positions_count_from_the_base() -> None:
    frames, outcome = read_frames(LOG, base=1000)
    ends = np.cumsum([len(payload) + OVERHEAD_BYTES for payload in PAYLOADS]) + 1000
    assert [frame.end for frame in frames] == ends.tolist()
    assert [frame.position for frame in frames] == [1000, *ends[:-1].tolist()]
    assert outcome.position == ends[-1]


def test_start_skips_into_the_buffer() -> None:
    first = len(encode_frame(PAYLOADS[0]))
    assert read_frames(LOG, first, base=1000)[0] == read_frames(LOG, base=1000)[0][1:]


def test_every_prefix_of_a_frame_needs_data() -> None:
    whole = encode_frame(b"some payload")
    for size in range(len(whole)):
        known = len(whole) if size >= 12 else OVERHEAD_BYTES
        assert FrameReader(whole[:size], base=7).next() == NeedData(7, known)


def test_frame_is_read_as_soon_as_its_last_byte_is_there() -> None:
    assert FrameReader(GOOD).next() == Frame(0, len(GOOD), b"good", masked_crc32c(b"good"))


def test_bytes_behind_a_frame_do_not_change_it() -> None:
    for trailing in (b"\x00", b"\xff" * 30, GOOD, bytes(12)):
        assert FrameReader(GOOD + trailing).next() == FrameReader(GOOD).next()


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_any_cutting_of_a_log_gives_the_same_frames(payloads: list[bytes], data: st.DataObject) -> None:
    log = b"".join(encode_frame(payload) for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=10)))
    bookmark, frames = 0, []
    for cut in [*cuts, len(log)]:
        found, outcome = read_frames(log[bookmark:cut], base=bookmark)
        frames += found
        assert isinstance(outcome, NeedData)
        bookmark = outcome.position
    assert frames == read_frames(log)[0]
    assert [frame.payload for frame in frames] == payloads
    assert bookmark == len(log)


@bad_frames
def test_bad_frame_is_suspect_with_its_reason(bad: bytes, reason: SuspectReason, length: int | None) -> None:
    expected = Suspect(500, reason, None if length is None else 500 + length)
    assert FrameReader(bad, base=500).next() == expected
    assert FrameReader(bad + GOOD, base=500).next() == expected


@bad_frames
def test_bad_frame_is_not_suspect_before_it_can_be_judged(
    bad: bytes, reason: SuspectReason, length: int | None
) -> None:
    for size in range(length or 12):
        assert isinstance(FrameReader(bad[:size]).next(), NeedData)


@bad_frames
def test_good_frames_before_a_bad_one_are_read(bad: bytes, reason: SuspectReason, length: int | None) -> None:
    frames, outcome = read_frames(GOOD + GOOD + bad)
    assert [frame.payload for frame in frames] == [b"good", b"good"]
    assert outcome.position == 2 * len(GOOD)
    assert isinstance(outcome, Suspect)
    assert outcome.reason is reason


@bad_frames
def test_resynchronisation_finds_the_frame_behind_a_bad_one(
    bad: bytes, reason: SuspectReason, length: int | None
) -> None:
    log = GOOD + bad + GOOD
    found = FrameReader(log, base=100).find(len(GOOD))
    assert found == Frame(100 + len(GOOD) + len(bad), len(GOOD), b"good", masked_crc32c(b"good"))


def test_length_limit_is_of_the_whole_frame() -> None:
    assert isinstance(FrameReader(GOOD, max_frame_bytes=len(GOOD)).next(), Frame)
    assert FrameReader(GOOD, max_frame_bytes=len(GOOD) - 1).next() == Suspect(0, SuspectReason.FRAME_TOO_LONG)


@pytest.mark.parametrize("junk_length", range(25))
def test_resynchronisation_finds_a_frame_at_any_alignment(junk_length: int) -> None:
    junk = random.Random(junk_length).randbytes(junk_length)
    assert found_at(junk + GOOD) == junk_length


def test_resynchronisation_begins_at_start_and_not_before() -> None:
    assert found_at(GOOD + GOOD, 0) == 0
    assert found_at(GOOD + GOOD, 1) == len(GOOD)


def test_resynchronisation_names_an_incomplete_candidate() -> None:
    torn = encode_frame(b"a longer payload")[:-3]
    assert FrameReader(b"junk" + torn, base=50).find() == NeedData(54, len(torn) + 3)


def test_resynchronisation_prefers_a_complete_frame_to_an_earlier_candidate() -> None:
    torn = encode_frame(b"x" * 1000)[:30]
    assert found_at(torn + GOOD) == len(torn)


def test_resynchronisation_passes_over_a_candidate_whose_payload_is_bad() -> None:
    bad = Log().frame(b"x" * 50).damaged(place=20).content
    assert found_at(bad + GOOD) == len(bad)


@pytest.mark.parametrize("buffer", [b"", GOOD[:11], bytes(5000), b"\xff" * 5000])
def test_resynchronisation_finds_nothing_where_nothing_is(buffer: bytes) -> None:
    assert FrameReader(buffer).find() is None


def test_resynchronisation_crosses_its_search_windows() -> None:
    for gap in (2**20 - 5, 2**20, 2**20 + 5):
        assert found_at(bytes(gap) + GOOD) == gap


@given(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=6), st.data())
def test_damage_costs_only_the_frames_it_touches(payloads: list[bytes], data: st.DataObject) -> None:
    frames = [encode_frame(payload) for payload in payloads]
    log = bytearray(b"".join(frames))
    victim = data.draw(st.integers(0, len(log) - 1))
    log[victim] ^= data.draw(st.integers(1, 255))

    survivors, position = [], 0
    while position < len(log):
        found = FrameReader(log).find(position)
        if not isinstance(found, Frame):
            break
        survivors.append(found.payload)
        position = found.end
    ends = np.cumsum([len(frame) for frame in frames])
    touched = int(np.searchsorted(ends, victim, side="right"))
    assert survivors == payloads[:touched] + payloads[touched + 1 :]


def test_a_frame_is_read_whole_and_one_that_does_not_tell_its_length_by_doubling() -> None:
    assert NeedData(0, 5_000).wanted(100) == 5_000
    assert NeedData(0, OVERHEAD_BYTES).wanted(0) == OVERHEAD_BYTES
    assert [NeedData(0, available + 1).wanted(available) for available in (0, 1, 100)] == [1, 3, 201]
