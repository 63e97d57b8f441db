"""Save checkpoints of a network in training, from which MindSpore's SummaryLandscape later computes loss landscapes.

In: the wanted steps or epochs, and MindSpore's run arguments at each. Out: `ckpt_dir/{Network}_{n}_{unit}.ckpt` and, at
the end, `ckpt_dir/train_metadata.json`, in MindSpore's form. Promises: a file appears complete or not at all, and an
existing file is kept, so that the ranks of a distributed training can share the directory.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from mindspore import save_checkpoint

from lineage_store.collect.arguments import made_directory
from lineage_store.collect.collector_options import Landscape
from lineage_store.collect.facts.run import RunArguments, backbone_of

DIRECTORY = "ckpt_dir"
METADATA = "train_metadata.json"


class LandscapeCheckpoints:
    """Saves the states of one training in a subdirectory of its summary directory, which is made at once."""

    def __init__(self, options: Landscape, summary_dir: str) -> None:
        self.options = options
        self.directory = Path(summary_dir, DIRECTORY)
        made_directory("ckpt_dir", self.directory)
        self._files: dict[str, str] = {}

    def announcement(self, run: RunArguments) -> str:
        """Say how many checkpoints this training will write, and how to turn that off."""
        epochs = run["epoch_num"]
        count = self.options.states(epochs if self.options.unit == "epoch" else epochs * run["batch_num"])
        return (
            f"For loss landscapes, {count} checkpoints of the network will be written to {self.directory}; "
            "collect_specified_data={'collect_landscape': None} turns this off."
        )

    def keep(self, run: RunArguments, unit: str) -> None:
        """Write the network's state if the step or epoch that has ended is wanted."""
        number = run["cur_epoch_num" if unit == "epoch" else "cur_step_num"]
        if not self.options.wants(unit, number):
            return
        network = backbone_of(run)
        path = self.directory / f"{type(network).__name__}_{number}_{unit}.ckpt"
        self._files[str(number)] = str(path)
        if path.exists():
            return
        for parameter in network.get_parameters():
            parameter.init_data()
        state = [{"name": each.name, "data": each.data} for each in network.get_parameters()]
        # save_checkpoint requires the suffix .ckpt.
        growing = self.directory / f"growing_{os.getpid()}_{path.name}"
        save_checkpoint(state, str(growing))
        growing.replace(path)

    def describe(self, run: RunArguments) -> None:
        """Write the metadata of all states, at the end of the training."""
        path = self.directory / METADATA
        if path.exists():
            return
        content = {
            "epoch_group": {str(number): group for number, group in enumerate(self.options.intervals)},
            "model_params_file_map": self._files,
            "step_per_epoch": run["batch_num"],
            "unit": self.options.unit,
            "num_samples": self.options.num_samples,
            "landscape_size": self.options.size,
            "create_landscape": self.options.create,
        }
        growing = self.directory / f"growing_{os.getpid()}_{METADATA}"
        growing.write_text(json.dumps(content), encoding="utf-8")
        growing.chmod(stat.S_IRUSR)
        growing.replace(path)
