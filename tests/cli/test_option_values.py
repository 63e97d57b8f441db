"""The meaning of options' values, and the error for values without a meaning."""

from __future__ import annotations

from lineage_store.cli.session import refusal


def test_a_guess_from_the_store_cannot_write_to_the_terminal() -> None:
    said = refusal("metric/acc", ["loss"], also=["metric/ac\x1b[31mc"])
    assert said == r"'metric/acc' is none of loss. Did you mean metric/ac\x1b[31mc?"


def test_what_is_allowed_is_listed_and_the_closest_is_named() -> None:
    assert refusal("finshed", ["live", "finished"]) == (
        "'finshed' is none of live, finished. Did you mean finished?"
    )
    assert refusal("zzz", ["live", "finished"]) == "'zzz' is none of live, finished."
