"""Slices and statistics of tensors."""

from __future__ import annotations

import numpy as np
import pytest

from lineage_store.server.mindinsight import tensors
from lineage_store.server.mindinsight.protocol import RefusedError

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[:,:]", [[0, 1, 2], [3, 4, 5]]),
        ("[ -1 , : ]", [3, 4, 5]),
        ("[0,0]", 0),
        ("[::-1,::2]", [[3, 5], [0, 2]]),
        ("[:,5:9]", [[], []]),
    ],
)
def test_a_slice_is_read_as_in_python(text: str, expected: object) -> None:
    assert tensors.as_lists(tensors.sliced(MATRIX, tensors.read_slice(text))) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,0", "The type of shape should be str and start with `[` and end with `]`."),
        ("[:,:,:]", "At most 2 dimensions are specified. Received: :,:,:"),
        ("[a,:]", "Convert int from str failed. input_str: a"),
        ("[1:2:3:4,0]", "Convert int from str failed. input_str: 1:2:3:4"),
        ("[0]", "The length of param dims and tensor shape should be the same."),
        ("[2,0]", "Shape unmatched. Received: (2, 0), tensor shape: (2, 3)"),
        ("[::0,0]", "Shape unmatched."),
    ],
)
def test_a_slice_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(RefusedError) as refused:
        tensors.sliced(MATRIX, tensors.read_slice(text))
    assert refused.value.code == "50540002"
    assert message in refused.value.message


def test_what_is_not_finite_comes_as_text_and_is_left_out_of_statistics() -> None:
    odd = np.array([[1, np.nan], [np.inf, -np.inf]], np.float32)
    assert tensors.as_lists(odd) == [[1.0, "NAN"], ["INF", "-INF"]]
    assert tensors.as_lists(odd[0, 1]) == "NAN"
    told = tensors.tensor_statistics(odd, odd)
    assert (told["max"], told["avg"], told["count"], told["nan_count"]) == (1.0, 1.0, 4, 1)
    assert (told["overall_pos_zero_count"], told["overall_neg_inf_count"]) == (1.0, 1)


def test_statistics_tell_of_the_part_and_of_the_whole() -> None:
    told = tensors.tensor_statistics(MATRIX[1], MATRIX)
    assert (told["min"], told["overall_min"], told["overall_zero_count"]) == (3.0, 0.0, 1.0)


def test_nothing_finite_counts_as_zero() -> None:
    nothing = np.array([np.nan], np.float32)
    assert tensors.tensor_statistics(nothing, nothing)["max"] == 0.0
    assert tensors.histogram_of(nothing).count == 0
