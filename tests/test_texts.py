"""Text in its stored form: everything in it can be restored, and plain text stays unchanged."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lineage_store.texts import LONGEST_KEPT, from_stored, key, to_stored

ANY_TEXT = st.text(st.characters() | st.sampled_from("\0\\x5cu\ud800\udc80\udcff"))


@given(ANY_TEXT)
@example("\\x5c")
@example("\\\\x00")
@example("\udc80\\")
def test_every_text_comes_back(text: str) -> None:
    stored = to_stored(text)
    assert from_stored(stored) == text
    assert "\0" not in stored
    stored.encode()  # no lone surrogate


@pytest.mark.parametrize("text", ["", "Loss/train", "naïve ☃", "C:\\logs", "100 %"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert to_stored(text) == text


@given(st.binary())
def test_bytes_that_are_no_text_come_back_as_they_are_in_file_names(raw: bytes) -> None:
    assert from_stored(to_stored(raw)).encode(errors="surrogateescape") == raw


@pytest.mark.parametrize("text", ["", "accuracy", "ü", "x" * LONGEST_KEPT, "x" * (LONGEST_KEPT + 1)])
def test_a_key_is_the_beginning_of_the_texts_digest(text: str) -> None:
    digest = hashlib.sha256(text.encode()).digest()
    assert key(text) == key(text) == int.from_bytes(digest[:8], "big", signed=True)
