"""What a SummaryCollector costs a training step, against MindSpore's own, in one process of MindSpore's environment.

A small convolutional network on 28x28 pictures, everything collected by default but checkpoints for landscapes. Timed
is the training loop alone, not what either side still writes after it.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate
from benchmarks.peers import ask


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
        f"training-freq-{collect_freq}",
        f"a training step with SummaryCollector(collect_freq={collect_freq}), against MindSpore's collector",
        partial(_step, collect_freq),
        Bound(1.05),
        group="peers",
    )
    for collect_freq in (1, 10)
]
