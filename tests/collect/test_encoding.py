"""Histograms, images and tensors are encoded as by MindSpore's writer, also in its corner cases."""

from __future__ import annotations

import sys
import zlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lineage_store.collect import encoding
from lineage_store.collect.encoding import encode_step
from lineage_store.collect.entries import AddedValue, RecordedStep
from lineage_store.eventlog.mindspore import payloads
from lineage_store.eventlog.mindspore.events import decode_summary
from lineage_store.eventlog.mindspore.wire import summary_pb2
from lineage_store.eventlog.tfrecord import Frame, FrameReader
from lineage_store.eventlog.values import Histogram, PayloadValue


def payload_of(plugin: str, value: Any) -> bytes:
    """The event of one value."""
    encoded = encode_step(RecordedStep(step=1, wall_time=2.0, entries=(AddedValue(plugin, "tag", value),)))
    assert encoded.failures == []
    frame = FrameReader(encoded.summary[0]).next()
    assert isinstance(frame, Frame)
    return frame.payload


def histogram_of(values: NDArray[Any]) -> Histogram:
    return payloads.decode_histogram(payload_of("histogram", values), 0)


@pytest.mark.parametrize(
    ("valid", "buckets"), [(1, 2), (5, 2), (6, 3), (10, 3), (11, 2), (880, 89), (881, 90), (10**6, 90)]
)
def test_the_number_of_buckets_is_mindspores(valid: int, buckets: int) -> None:
    assert encoding.bucket_count(valid) == buckets


def test_what_is_not_finite_is_counted_apart() -> None:
    found = histogram_of(np.array([1.0, 3.0, np.nan, np.inf, np.inf, -np.inf], np.float32))
    assert found.statistics.count == 6
    assert (found.statistics.nan_count, found.count.sum()) == (1, 2)
    assert (found.statistics.pos_inf_count, found.statistics.neg_inf_count) == (2, 1)
    assert (found.statistics.min, found.statistics.max, found.statistics.sum) == (1, 3, 4)


def test_without_a_finite_value_there_are_no_buckets() -> None:
    found = histogram_of(np.full(3, np.nan))
    assert found.count.size == 0
    assert (found.statistics.min, found.statistics.max, found.statistics.sum) == (0, 0, 0)


@pytest.mark.parametrize(
    "values", [np.zeros(7, np.uint8), np.array([True, False, True]), np.zeros(3, np.uint64)]
)
def test_what_mindspore_cannot_count_is_counted(values: NDArray[Any]) -> None:
    found = histogram_of(values)
    assert found.count.sum() == values.size
    assert found.statistics.sum == values.sum()


@pytest.mark.parametrize("values", [np.arange(1000) % 3 == 0, np.array([True]), np.zeros(7, np.bool_)])
def test_booleans_have_a_bucket_for_false_and_one_for_true(values: NDArray[Any]) -> None:
    found = histogram_of(values)
    assert (found.left.tolist(), found.width.tolist()) == ([0, 0.5], [0.5, 0.5])
    assert found.count.tolist() == [np.count_nonzero(~values), np.count_nonzero(values)]
    assert (found.statistics.min, found.statistics.max) == (values.min(), values.max())


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint64", "float16", "float32", "float64"])
def test_a_tensor_keeps_shape_and_type_and_has_float32_elements(dtype: str) -> None:
    values = np.arange(6).reshape(2, 1, 3).astype(dtype)
    payload = payload_of("tensor", values)
    (described,) = decode_summary(payload)
    assert isinstance(described, PayloadValue)
    assert described.dtype == dtype
    np.testing.assert_array_equal(payloads.decode_tensor(payload, 0), values.astype(np.float32), strict=True)


def test_large_integers_are_rounded_twice_as_by_protobufs_setters() -> None:
    number = 2**60 + 2**36 + 1  # straight to float32 it rounds up, through a double it is a tie
    found = payloads.decode_tensor(payload_of("tensor", np.array([number])), 0)
    message = summary_pb2.Summary.Value(tag="")
    message.tensor.float_data.append(number)
    assert found.tolist() == list(message.tensor.float_data)


def test_an_image_without_pillow_has_the_same_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    batch = np.arange(2 * 1 * 2 * 3, dtype=np.float32).reshape(2, 1, 2, 3)
    found = payloads.decode_image(payload_of("image", batch), 0)
    assert (found.height, found.width, found.channels) == (2, 6, 3)
    # Black is the least of 0..11, and 255 / 12 the step.
    expected = [0, 21, 42, 127, 148, 170, 63, 85, 106, 191, 212, 233]
    lines = _unfiltered(found.png)
    assert [line[0::3] for line in lines] == [bytes(expected[:6]), bytes(expected[6:])]
    assert all(line[0::3] == line[1::3] == line[2::3] for line in lines)


@pytest.mark.parametrize("shape", [(2, 2, 4, 4), (1, 3, 0, 4), (3, 4, 4)])
def test_other_arrays_are_no_images(shape: tuple[int, ...]) -> None:
    assert not encoding.is_image(np.zeros(shape))


def _unfiltered(png: bytes) -> list[bytes]:
    """The lines of an RGB image whose encoder used no filter."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width = int.from_bytes(png[16:20], "big")
    begin = png.index(b"IDAT")
    length = int.from_bytes(png[begin - 4 : begin], "big")
    body = zlib.decompress(png[begin + 4 : begin + 4 + length])
    assert zlib.crc32(png[begin : begin + 4 + length]) == int.from_bytes(
        png[begin + 4 + length : begin + 8 + length], "big"
    )
    lines = [body[at : at + 3 * width + 1] for at in range(0, len(body), 3 * width + 1)]
    assert all(line[0] == 0 for line in lines)
    return [line[1:] for line in lines]
