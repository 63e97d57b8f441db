"""MindSpore's side of the rows about writing, and ours beside it: both in MindSpore's environment, on its tensors.

In: a request a line, as JSON: ["scalars", whose, directory, records]; whose is "ours" or "mindspore". Out: a line of
JSON each: the seconds from making a SummaryRecord to its close, and the bytes of the summary file. A record is a step
with ten scalars.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

import mindspore
import numpy as np

_HOMES = {"ours": "lineage_store.collect", "mindspore": "mindspore.train.summary"}
_TAGS = [f"metric_{number}" for number in range(10)]


def scalars(whose: str, directory: str, records: int) -> tuple[float, int]:
    """Seconds and bytes."""
    recorder = importlib.import_module(_HOMES[whose]).SummaryRecord
    values = [mindspore.Tensor(np.float32(number)) for number in range(len(_TAGS))]
    began = time.perf_counter()
    with recorder(directory) as record:
        for step in range(records):
            for tag, value in zip(_TAGS, values, strict=True):
                record.add_value("scalar", tag, value)
            record.record(step)
    seconds = time.perf_counter() - began
    return seconds, sum(path.stat().st_size for path in Path(directory).iterdir())


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print must not mix with the answers
    for line in sys.stdin:
        _, whose, directory, records = json.loads(line)
        print(json.dumps(scalars(whose, directory, records)), file=answers, flush=True)


if __name__ == "__main__":
    main()
