"""Numbers at the ends: the greatest integer, and what NaN and the infinities are called. Pure.

In: a number. Out: its kind, as SQL has it in a column beside the number, or its word, as JSON and MindInsight have it.
Promises: everybody who stores, compares or shows such a number uses these kinds, words and bounds.
"""

from __future__ import annotations

import math
from decimal import Decimal

LARGEST_INTEGER = 2**63 - 1
"""The greatest integer of SQL, of numpy and of a log file."""
LEAST_INTEGER = -LARGEST_INTEGER - 1

WORD_BY_KIND = {"nan": "NaN", "+inf": "Infinity", "-inf": "-Infinity"}
"""The word of each kind of number that is not finite."""
NUMBER_BY_KIND = {"nan": math.nan, "+inf": math.inf, "-inf": -math.inf}


def float_kind(value: float | Decimal) -> str:
    """Return `finite`, `nan`, `+inf` or `-inf`."""
    if math.isnan(value):
        return "nan"
    return "finite" if math.isfinite(value) else "+inf" if value > 0 else "-inf"


def spelled(value: float | Decimal) -> str | None:
    """Return the word for NaN or an infinity, which no JSON number can express; None for a finite value."""
    return None if math.isfinite(value) else WORD_BY_KIND[float_kind(value)]
