"""`python train_until.py SUMMARY_DIR STOP`: trains until the file STOP exists; prints each step when it is recorded."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import mindspore
from mindspore.train import Callback, RunContext

from lineage_store.collect import SummaryCollector
from with_mindspore.trainings import NO_LANDSCAPE, Net, batches_of, model_of

EPOCHS = 1000


class Until(Callback):
    """Slow enough to be watched."""

    def __init__(self, stop: Path) -> None:
        super().__init__()
        self.stop = stop

    def on_train_step_end(self, run_context: RunContext) -> None:
        time.sleep(0.02)
        if self.stop.exists():
            run_context.request_stop()


class Telling(Callback):
    """Prints a step that the callbacks before it have recorded."""

    def on_train_step_end(self, run_context: RunContext) -> None:
        print(run_context.original_args().cur_step_num, flush=True)


def main() -> None:
    mindspore.set_device("CPU")
    collector = SummaryCollector(sys.argv[1], 1, collect_specified_data=NO_LANDSCAPE)
    model_of(Net()).train(EPOCHS, batches_of(100), [Until(Path(sys.argv[2])), collector, Telling()])


if __name__ == "__main__":
    main()
