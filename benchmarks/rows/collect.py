"""Writing log files, and its cost per training step, against MindSpore's recorders, in MindSpore's environment.

SummaryRecord: both sides have written every value and closed the file when the clock stops. MindSpore's takes so much
longer that it writes only a part of the values, and its time is multiplied. SummaryCollector: a small convolutional
network on 28x28 images, with everything collected by default except checkpoints for landscapes; only the training
loop is timed, not what either side still writes afterwards.
"""

from __future__ import annotations

import tempfile
from functools import partial
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


def _step(collect_freq: int, sizes: Sizes) -> Samples:
    def seconds(whose: str) -> float:
        with tempfile.TemporaryDirectory() as directory:
            taken, size = ask(
                "mindspore",
                "training",
                whose,
                str(Path(directory) / "job"),
                collect_freq,
                sizes.training_steps,
            )
        assert size > sizes.training_steps // collect_freq
        return taken

    note = f"{sizes.training_steps:,} steps"
    return alternate(partial(seconds, "ours"), partial(seconds, "mindspore"), sizes.repetitions, note)


ROWS = [
    Row(
        "record-scalars",
        "scalars through SummaryRecord, from its making to its close, against MindSpore's",
        _scalars,
        Bound(3, at_least=True),
        shown="speedup",
        group="peers",
    ),
    *(
        Row(
            f"training-freq-{collect_freq}",
            f"a training step with SummaryCollector(collect_freq={collect_freq}), against MindSpore's collector",
            partial(_step, collect_freq),
            Bound(1.05),
            group="peers",
        )
        for collect_freq in (1, 10)
    ),
]
