"""Encode a batch of images as one PNG: tiled, scaled to bytes and encoded as MindSpore's writer does.

In: an array of shape (batch, 1 or 3 channels, height, width). Out: a serialised Image message. Promises: the same
pixels as MindSpore 2.10 on every numpy from 1.26, and the same bytes if Pillow is installed, as it always is with
MindSpore.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.eventlog.mindspore.wire import summary_pb2

CHANNELS = 3
_COLUMNS = 8
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BIT_RGB = bytes([8, 2, 0, 0, 0])
"""The rest of a PNG header behind width and height: depth, colour type, compression, filter, interlace."""


def is_image(values: NDArray[Any]) -> bool:
    """Return whether the array is a batch of grey or RGB images with at least one pixel."""
    return values.ndim == 4 and values.shape[1] in (1, CHANNELS) and values.size > 0


def encode(values: NDArray[Any]) -> bytes:
    """Encode a batch, for which `is_image` must be true, as one serialised Image."""
    pixels = _as_bytes(_tiled(values).transpose(1, 2, 0))
    height, width, channels = pixels.shape
    image = summary_pb2.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image=_png(pixels)
    )
    return image.SerializeToString()


def _tiled(values: NDArray[Any]) -> NDArray[np.float64]:
    """Place the images side by side, eight per row, on black; grey becomes RGB."""
    count, _, height, width = values.shape
    columns = min(count, _COLUMNS)
    canvas = np.zeros((CHANNELS, height * math.ceil(count / columns), width * columns))
    for index, image in enumerate(values):
        top, left = height * (index // columns), width * (index % columns)
        canvas[:, top : top + height, left : left + width] = image
    return canvas


def _as_bytes(pixels: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Scale to bytes: values that are all within 0..1 by 255, others linearly from their range."""
    least, greatest = float(pixels.min()), float(pixels.max())
    with np.errstate(all="ignore"):
        if greatest <= 1 and least >= 0:
            scale, shift = 255.0, 0.0
        else:
            scale, shift = 255 / (greatest - least + 1), least
        scaled: NDArray[np.uint8] = ((pixels.astype(np.float32) - shift) * scale).astype(np.uint8)
    return scaled


def _png(pixels: NDArray[np.uint8]) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        return _plain_png(pixels)
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, format="PNG")
    return encoded.getvalue()


def _plain_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode a PNG of unfiltered lines, for which the standard library is enough."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    header = struct.pack(">II", width, height) + _EIGHT_BIT_RGB
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return _PNG_SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
