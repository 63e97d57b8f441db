"""The names and codes of MindInsight's errors, which old code catches and compares."""

from __future__ import annotations

import pytest

import lineage_store
from lineage_store import LineageStoreError, MindInsightException, errors
from lineage_store.errors import Cause
from lineage_store.findings import of_database

CODES = {
    "LineageParamTypeError": "50542080",
    "LineageParamValueError": "50542081",
    "LineageParamMissingError": "50542082",
    "LineageParamSummaryRecordError": "50542083",
    "LineageParamRaiseExceptionError": "50542084",
    "LineageParamRunContextError": "50542180",
    "LineageGetModelFileError": "50542190",
    "LineageLogError": "50542191",
    "LineageQuerySummaryDataError": "50542215",
    "LineageFileNotFoundError": "50542216",
    "LineageParamSummaryPathError": "50542217",
    "LineageSearchConditionParamError": "50542218",
}


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_a_seed_error_can_be_imported_raised_and_told_by_its_code(name: str, code: str) -> None:
    error_type = getattr(lineage_store, name)
    with pytest.raises(MindInsightException, match=r"what was wrong\. What to do") as caught:
        raise error_type("what was wrong.", hint="What to do.")
    assert caught.value.error_code == code
    assert str(error_type()) == error_type.__doc__, "the docstring is the default message"


def test_every_error_of_ours_is_caught_by_one_name() -> None:
    ours = {
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)
    }
    assert len(ours) > len(CODES)
    assert all(issubclass(error, LineageStoreError) for error in ours)
    assert MindInsightException is LineageStoreError


def test_a_database_that_failed_is_a_finding_for_every_cause() -> None:
    assert {of_database(cause).kind for cause in Cause} == {f"database_{cause}" for cause in Cause}
