"""Writing log files, against MindSpore's own SummaryRecord: the same values, in one process of MindSpore's environment.

Both sides have written every value, and closed the file, when the clock stops. MindSpore's takes so much longer that
it writes a part of the values, and its time is multiplied.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate
from benchmarks.peers import ask

_SCALARS_A_RECORD = 10
_THEIR_PART = 20


def _scalars(sizes: Sizes) -> Samples:
    records = sizes.events // _SCALARS_A_RECORD

    def written(whose: str, records: int) -> float:
        with tempfile.TemporaryDirectory() as directory:
            seconds, size = ask("mindspore", "scalars", whose, str(Path(directory) / "job"), records)
        assert size > records * _SCALARS_A_RECORD
        return seconds

    return alternate(
        lambda: written("ours", records),
        lambda: written("mindspore", records // _THEIR_PART) * _THEIR_PART,
        min(3, sizes.repetitions),
        f"{records * _SCALARS_A_RECORD:,} scalars, ten a record; MindSpore's time from a {_THEIR_PART}th of them",
    )


ROWS = [
    Row(
        "record-scalars",
        "scalars through SummaryRecord, from its making to its close, against MindSpore's",
        _scalars,
        Bound(3, at_least=True),
        shown="speedup",
        group="peers",
    ),
]
