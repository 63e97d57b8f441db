"""`vectorised = false` changes no row: the fast path and the plain one are compared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings

from helpers.generated_events import CHANCES, SUMMARY_FILES, event, irregular, mutated, real_payloads, regular
from helpers.known_files import unread
from helpers.log_writer import Log, histogram, image, tensor
from lineage_store.config import Settings
from lineage_store.eventlog.mindspore import event_columns, filenames
from lineage_store.eventlog.tfrecord import DEFAULT_MAX_FRAME_BYTES, encode_frame
from lineage_store.ingest.decode.rows import Chunk, Rows, from_chunks
from lineage_store.store.records import Column, FileKey, FileSight, KnownFile, SampleColumns


def known(number: int, byte_offset: int = 0) -> KnownFile:
    """A summary file that has been read up to a bookmark."""
    name = filenames.compose("events", 1_700_000_000 + number, 0, "host", "_MS")
    file = unread(name, train_id="./a", number=10 + number)
    return file._replace(byte_offset=byte_offset, size_bytes=byte_offset)


def exact(column: Column) -> tuple[str, Any]:
    """The type and every bit of a column."""
    array = np.asarray(column)
    return str(array.dtype), array.tolist() if array.dtype == np.object_ else array.tobytes()


def by_series(samples: Sequence[SampleColumns]) -> dict[tuple[str, FileKey, str], Any]:
    """All that is known of each series: (plugin, file, tag) -> steps, columns, statistics."""
    found = {}
    for each in samples:
        assert (np.diff(each.number) >= 0).all()
        for number, name in enumerate(each.series):
            of = each.number == number
            columns = {key: exact(np.asarray(column)[of]) for key, column in each.columns.items()}
            key = each.plugin, name.file.key, name.tag
            assert key not in found
            found[key] = exact(each.steps[of]), columns, repr(each.statistics[number])
    return found


def check(*chunks: Chunk) -> Rows:
    """Hold both paths against each other; the rows of the fast one."""
    plain, taken = (from_chunks(chunks, Settings(vectorised=vectorised)) for vectorised in (False, True))
    assert taken.files == plain.files
    assert taken.outcomes == plain.outcomes
    assert by_series(taken.samples) == by_series(plain.samples)
    return taken


def chunk_of(file: KnownFile, content: bytes, *, give_up_before: int = 0, is_last: bool = False) -> Chunk:
    """All that is behind a file's bookmark."""
    sight = FileSight(file.byte_offset + len(content), 0, closed=is_last, stat_stamp="")
    return Chunk(file, sight, b"", content, give_up_before)


def chunks_of(chance: random.Random, *contents: bytes) -> list[Chunk]:
    """Of files with these contents behind their bookmarks; damage in them waits, or is given up."""
    return [
        chunk_of(
            known(number, chance.choice([0, 5000])),
            content,
            give_up_before=chance.choice([0, 2**40]),
            is_last=chance.random() < 0.5,
        )
        for number, content in enumerate(contents)
    ]


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)] if chance.random() < 0.5 else content


def flipped(content: bytes, chance: random.Random) -> bytes:
    """With up to two bits changed."""
    damaged = bytearray(content)
    for _ in range(chance.randrange(3) if content else 0):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def test_an_empty_tag_stays_empty_on_both_paths_and_a_graph_is_called_by_its_file() -> None:
    values = [histogram("", [0.5, 1.5]), image("", [[[0, 1, 2]]]), tensor("", [1.0, 2.0])]
    frames = [event(step, value, tensor("features", [0.5])) for step in range(40) for value in values]
    log = Log().version().graph("Conv2D").landscape("", [[0.0, 1.0], [2.0, 3.0]])
    found = by_series(check(chunk_of(known(0), log.content + b"".join(frames))).samples)
    assert {(plugin, tag) for plugin, _, tag in found} == {
        *((plugin, "") for plugin in ("histogram", "image", "tensor", "landscape")),
        ("tensor", "features"),
        ("graph", known(0).name),
    }


@given(CHANCES)
@settings(max_examples=50)
def test_regular_frames_of_some_files_give_the_same_rows(chance: random.Random) -> None:
    contents = [b"".join(regular(chance, chance.randrange(64, 100))) for _ in range(chance.randrange(1, 4))]
    decoded = event_columns.decode_columns(
        contents[0], [(0, len(contents[0]))], max_frame_bytes=DEFAULT_MAX_FRAME_BYTES
    )
    assert (
        len(decoded.left) < event_columns.FEWEST_TO_WALK
    )  # else this would compare the plain path with itself
    rows = check(*chunks_of(chance, *contents))
    assert all(each.sample_count >= 64 for each in rows.files)


@given(CHANCES)
def test_frames_of_every_sort_shuffled_and_cut_give_the_same_rows(chance: random.Random) -> None:
    def content() -> bytes:
        frames = regular(chance, chance.choice([0, 20, 100]))
        frames += [irregular(chance) for _ in range(chance.randrange(20))]
        chance.shuffle(frames)
        return flipped(cut(b"".join(frames), chance), chance)

    check(*chunks_of(chance, *(content() for _ in range(chance.randrange(1, 4)))))


@given(CHANCES)
def test_damaged_payloads_in_valid_frames_give_the_same_rows(chance: random.Random) -> None:
    some = chance.sample(real_payloads(), chance.choice([1, 3, 20]))
    frames = [encode_frame(mutated(chance.choice(some), chance)) for _ in range(100)]
    check(*chunks_of(chance, b"".join(frames)))


@given(CHANCES)
def test_damaged_and_cut_files_that_mindspore_wrote_give_the_same_rows(chance: random.Random) -> None:
    some = chance.choices(SUMMARY_FILES, k=chance.randrange(1, 4))
    check(*chunks_of(chance, *(flipped(cut(path.read_bytes(), chance), chance) for path in some)))
