"""Every query of docs/cookbook.md, on both databases, with its complete answer."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from helpers.cookbook import ANSWERS, QUERIES, approximately, plain
from lineage_store.store.database.db import reading


def test_every_query_has_an_answer() -> None:
    assert list(QUERIES) == list(ANSWERS)


@pytest.mark.parametrize("question", ANSWERS)
def test_query_gives_the_known_answer(question: str, filled: Engine) -> None:
    with reading(filled) as session:
        rows = [tuple(map(plain, row)) for row in session.rows(QUERIES[question])]
    assert rows == approximately(ANSWERS[question])
