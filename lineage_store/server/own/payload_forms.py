"""The forms of one payload: an image as PNG, a tensor or a part of it as .npy, all else as JSON.

In: where the payload is. Out: an answer. This runs in a process of `server/decoding.py`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.errors import LineageParamValueError, RequestRefusedError
from lineage_store.plain_values import for_json
from lineage_store.plugins import BY_NAME, GRAPH, IMAGE, LANDSCAPE, TENSOR
from lineage_store.server.decoding import Content, numbers, to_json

if TYPE_CHECKING:
    from lineage_store.api.reports import PayloadSource


MOST_NUMBERS = 200_000
"""Elements of a tensor that is returned as JSON, at most."""
_PART = re.compile(r"\s*(?:(-?\d{1,18})|(-?\d{1,18})?:(-?\d{1,18})?(?::(-?\d{1,18}))?)\s*")
_FORMS = {IMAGE: ("png",), TENSOR: ("json", "npy")}


def checked_form(plugin: str, form: str | None) -> str:
    """Return the form, or that which a plugin has without one. Raises LineageParamValueError."""
    forms = _FORMS.get(plugin, ("json",))
    if form is not None and form not in forms:
        raise LineageParamValueError(f"form = {form!r} of this plugin must be one of {', '.join(forms)}.")
    return form or forms[0]


def made_payload(source: PayloadSource, step: int, form: str, part: str) -> Content:
    """Return a payload in a form; `part`: of a tensor. Raises what reading it does, and for a wrong part."""
    read = source.read()
    if form == "png":
        return Content(read.png, "image/png")
    if source.plugin == TENSOR:
        read = _part_of(read, part)
        if form == "npy":
            return Content(_npy(read), "application/octet-stream")
        if read.size > MOST_NUMBERS:
            raise RequestRefusedError(
                f"The tensor has {read.size:,} numbers, and the limit for JSON is {MOST_NUMBERS:,} at most.",
                hint="Ask for a part, as in part=0:10,:, or for form=npy.",
                reason="answer_too_large",
            )
        read = {"step": step, "dtype": str(read.dtype), "shape": read.shape, "value": read}
    elif source.plugin == GRAPH:
        return Content(_of_graph(read))
    elif BY_NAME[source.plugin].has_statistics:
        read = {"step": step, **asdict(read)}
    elif source.plugin == LANDSCAPE:
        read = asdict(read)
    return Content(to_json(_plain(read)))


def _of_graph(graph: Mapping[str, Any]) -> bytes:
    """Return a graph as JSON. Few have NaN or names that are no Unicode, for which each of its values is checked."""
    try:
        return json.dumps(graph, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return to_json(_plain(graph))


def _part_of(tensor: NDArray[Any], text: str) -> NDArray[Any]:
    """Return the part of a tensor that `text` selects. Raises LineageParamValueError."""
    if not text:
        return tensor
    wanted = [_PART.fullmatch(each) for each in text.split(",")]
    if len(wanted) > tensor.ndim or not all(wanted):
        raise LineageParamValueError(
            f"part = {text!r} is no part of a tensor of {tensor.ndim} dimensions.",
            hint="Write as many of 3, :, 0:10 or 0:10:2 as it has, with commas between them.",
        )
    try:
        found = tensor[tuple(_index(match) for match in wanted if match)]
    except (IndexError, ValueError) as error:
        raise LineageParamValueError(
            f"part = {text!r} does not fit the shape {tensor.shape}: {error}."
        ) from None
    return np.asarray(found)


def _index(match: re.Match[str]) -> int | slice:
    if match[1] is not None:
        return int(match[1])
    return slice(*(None if match[n] is None else int(match[n]) for n in (2, 3, 4)))


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """Convert arrays to lists, NaN and infinities to texts."""
    if isinstance(value, np.ndarray):
        return numbers(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return for_json(value)
