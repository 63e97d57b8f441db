"""SummaryCollector: a replacement of MindSpore's callback of that name, with the same arguments and the same files.

In: MindSpore's calls around the steps of a training. Out: log files in `summary_dir`, and checkpoints for loss
landscapes below it. Promises: wrong arguments are refused at once; later, a value that cannot be collected is logged
once and left out, and the training continues; a checkpoint appears complete or not at all, and an existing one is kept,
so that the ranks of a distributed training can share the directory. docs/moving.md lists where the files differ from
MindSpore's.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

from mindspore import Tensor, get_context, save_checkpoint
from mindspore._c_expression import security
from mindspore.train import RunContext

from lineage_store.collect import user_values
from lineage_store.collect.arguments import exports_tensors, made_directory, require_positive
from lineage_store.collect.callbacks import RecordingCallback, add_lineage, write_lineage
from lineage_store.collect.collector_options import (
    EVERYTHING,
    NOTHING,
    CollectingSteps,
    Due,
    LandscapeStates,
    Selection,
    parse_selection,
    plan_steps,
)
from lineage_store.collect.facts import EVAL, TRAIN, RunArguments, backbone_of, loss_of, optimizer_of
from lineage_store.collect.info_messages import user_defined_info
from lineage_store.collect.learning_rates import LearningRates
from lineage_store.collect.lineage_messages import graph_of, train_lineage
from lineage_store.collect.lost_values import Failures
from lineage_store.collect.record import SummaryRecord
from lineage_store.collect.user_values import UserValues
from lineage_store.errors import LineageLogError, LineageParamValueError, RecorderInUseError
from lineage_store.plugins import GRAPH, HISTOGRAM, IMAGE, SCALAR

log = logging.getLogger(__name__)

DEFAULT_HISTOGRAMS = 5
"""Number of parameters whose histograms are collected if none are named: the optimizer's first ones."""
DIRECTORY = "ckpt_dir"
METADATA = "train_metadata.json"


class SummaryCollector(RecordingCallback):
    """Collects the same as MindSpore's SummaryCollector; see MindSpore's documentation.

    Args:
        summary_dir: directory of the log files, which is made if it does not exist.
        collect_freq: collect every so many steps (epochs, if data sink to the device), and always the first one.
        num_process: ignored; see SummaryRecord.
        collect_specified_data: what to collect, by name: MindSpore's names, and two that are False by default:
            `collect_learning_rate`, the learning rate of each collected step as the scalar `learning_rate/auto`, and
            `collect_environment`, what is needed to reproduce the training, as user-defined lineage.
        keep_default_action: whether names missing from collect_specified_data have their default, or are not collected.
        custom_lineage_data: a dict by name, stored with the lineage. Values: str, bool, int (32 bits), float or list,
            also of numpy; a nested dict, whose keys become `a/b`.
        collect_tensor_freq: collect_freq for TensorSummary; None keeps at most 20 tensors of each tag.
        max_file_size: maximum bytes of a file; a full file is closed and a new one begun.
        export_options: {"tensor_format": "npy"} also writes tensors as npy files.

    Raises:
        LineageParamTypeError, LineageParamValueError: an argument of a wrong type or value; a TypeError, a ValueError.
        LogDirectoryError: files cannot be written into `summary_dir`; an OSError.
    """

    def __init__(
        self,
        summary_dir: str | os.PathLike[str],
        collect_freq: int = 10,
        num_process: int = 32,
        collect_specified_data: dict[str, Any] | None = None,
        keep_default_action: bool = True,
        custom_lineage_data: dict[str, Any] | None = None,
        collect_tensor_freq: int | None = None,
        max_file_size: int | None = None,
        export_options: dict[str, str | None] | None = None,
    ) -> None:
        super().__init__()
        if security.enable_security():
            raise LineageParamValueError("MindSpore was built with `-s on`, which leaves out summaries.")
        require_positive("collect_freq", collect_freq)
        require_positive("num_process", num_process)
        require_positive("collect_tensor_freq", collect_tensor_freq, optional=True)
        require_positive("max_file_size", max_file_size, optional=True)
        exports_tensors(export_options)
        self._collected = parse_selection(collect_specified_data, keep_default_action)
        self._user_values = user_values.from_environment() | user_values.checked_values(
            "custom_lineage_data", custom_lineage_data
        )
        self._summary_dir = str(made_directory("summary_dir", summary_dir))
        self._collect_freq = collect_freq
        self._collect_tensor_freq = collect_tensor_freq
        self._max_file_size, self._export_options = max_file_size, export_options
        landscape = self._collected.landscape
        self._landscape = LandscapeCheckpoints(landscape, self._summary_dir) if landscape else None
        self._values = StepValues(self._collected, self._failures)
        self._described = False
        self._training: RunArguments | None = None
        self._steps: CollectingSteps | None = None
        self._evaluated: object = None

    def begin(self, run_context: RunContext) -> None:
        """Called before a training or an evaluation; raises if it cannot be collected at all."""
        run = run_context.original_args()
        if run["mode"] not in (TRAIN, EVAL):
            raise LineageParamValueError(f"The mode must be 'train' or 'eval', not {run['mode']!r}.")
        if sum(isinstance(each, SummaryCollector) for each in run["list_callback"]) > 1:
            raise RecorderInUseError("There is more than one SummaryCollector among the callbacks.")
        if self._is_outermost:
            self._steps = None
            self._values.forget()
            if run["mode"] == TRAIN and self._turns_to(run):
                self._described = False
            self._training = run if run["mode"] == TRAIN else None
            self._record.set_mode(run["mode"])
        if self._landscape is not None and run["mode"] == TRAIN:
            log.warning("%s", self._landscape.announcement(run))

    def step_end(self, run_context: RunContext) -> None:
        """Called after each step; if data sink to the device, after each group of steps that sink together."""
        run = run_context.original_args()
        if run["mode"] != TRAIN:
            return
        if not self._described:
            self._described = True
            self._describe(run)
        if not run["dataset_sink_mode"]:
            self._collect_when_due(run, run["cur_step_num"])
        self._keep_state(run, "step")

    def epoch_end(self, run_context: RunContext) -> None:
        """Called after each epoch."""
        run = run_context.original_args()
        if run["mode"] != TRAIN:
            return
        if run["dataset_sink_mode"]:
            self._collect_when_due(run, run["cur_epoch_num"])
        elif self._steps is not None and any(self._steps.at(run["cur_step_num"])):
            # Drop what summary operators emitted in an evaluation meanwhile, which belongs to no step. MindSpore
            # records it as values of this step.
            self._record.record(run["cur_step_num"], plugin_filter=NOTHING.takes)
        # Model.fit has evaluated this epoch already, and does not call callbacks of this name for its evaluations.
        self._record_evaluation(run)
        self._keep_state(run, "epoch")
        self._record.flush()

    def end(self, run_context: RunContext) -> None:
        """Called after a training or an evaluation."""
        run = run_context.original_args()
        if run["mode"] == EVAL:
            self._record_evaluation(run)
            return
        if self._collected.train_lineage:
            self._failures.guard("the training's lineage", self._record_training, run)
        self._training = None
        if self._landscape is not None:
            self._failures.guard("the landscape's metadata", self._landscape.describe, run)

    def _describe(self, run: RunArguments) -> None:
        """Record what is the same for the whole training: its graphs, user-defined values and environment."""
        if self._collected.graph:
            self._failures.guard("the graph", add_graph, self._record, run)
        if self._collected.dataset_graph:
            graph = self._failures.guard("the dataset graph", graph_of, run["train_dataset"])
            if graph is not None:
                add_lineage(self._record, "dataset_graph", graph)
        self._record.record(run["cur_step_num"])
        info = self._user_values
        if self._collected.environment:
            info = self._with_environment(info, run)
        if info:
            add_lineage(self._record, "custom_lineage_data", user_defined_info(info))
            self._record.record(run["cur_step_num"])

    def _collect_when_due(self, run: RunArguments, number: int) -> None:
        if self._steps is None:
            total = run["epoch_num"] * (1 if run["dataset_sink_mode"] else run["batch_num"])
            self._steps = plan_steps(total, self._collect_freq, self._collect_tensor_freq)
            self._collect(run, EVERYTHING)
            self._record.flush()
        elif any(due := self._steps.at(number)):
            self._collect(run, due)

    def _collect(self, run: RunArguments, due: Due) -> None:
        if due.others:
            self._values.add(self._record, run)
        self._record.record(run["cur_step_num"], plugin_filter=due.takes)

    def _record_training(self, run: RunArguments) -> None:
        write_lineage(self._record, "train_lineage", train_lineage(run, self._failures), step=0)

    def _write_end(self, told: UserValues) -> None:
        if self._collected.train_lineage:
            info = self._user_values | told
            write_lineage(self._record, "custom_lineage_data", user_defined_info(info), step=0)
            if self._training is not None and not self._described:
                self._describe(self._training)
        self._training = None

    def _record_evaluation(self, run: RunArguments) -> None:
        metrics = run.get("metrics")
        if not self._collected.eval_lineage or metrics is None or metrics is self._evaluated:
            return
        self._evaluated = metrics
        self._failures.guard("the evaluation's lineage", self._write_evaluation, run)

    def _write_evaluation(self, run: RunArguments) -> None:
        write_lineage(self._record, "eval_lineage", self._evaluation(run), step=0)

    def _keep_state(self, run: RunArguments, unit: str) -> None:
        if self._landscape is not None:
            self._failures.guard("states for landscapes", self._landscape.keep, run, unit)

    def _open(self) -> SummaryRecord:
        limit, options = self._max_file_size, self._export_options
        return SummaryRecord(self._summary_dir, max_file_size=limit, export_options=options)


class StepValues:
    """Adds a step's values to a record: input image, loss, learning rate, histograms, each tried on its own.

    Caches the optimizer, because finding it takes a walk through the network.
    """

    def __init__(self, collected: Selection, failures: Failures) -> None:
        self._collected = collected
        self._failures = failures
        self._optimizer: Any = None
        self._rates: LearningRates | None = None

    def forget(self) -> None:
        """Forget the optimizer, because a new training may have another one."""
        self._optimizer = self._rates = None

    def add(self, record: SummaryRecord, run: RunArguments) -> None:
        """Queue the values of the step that has ended."""
        guard, collected = self._failures.guard, self._collected
        if collected.input_data:
            guard("the input data", _add_input, record, run)
        if collected.metric:
            guard("the loss", _add_loss, record, run)
        if collected.learning_rate:
            guard("the learning rate", self._add_learning_rates, record, run)
        if collected.histograms:
            guard("histograms of parameters", self._add_histograms, record, run)

    def _add_learning_rates(self, record: SummaryRecord, run: RunArguments) -> None:
        if self._rates is None:
            self._rates = LearningRates(self._optimizer_of(run))
        for group, rate in enumerate(self._rates.last()):
            name = f"learning_rate_group_{group}" if group else "learning_rate"
            record.add_value(SCALAR, f"{name}/auto", rate)

    def _add_histograms(self, record: SummaryRecord, run: RunArguments) -> None:
        parameters = self._optimizer_of(run).parameters
        names = self._collected.histogram_names
        chosen = parameters[:DEFAULT_HISTOGRAMS]
        if names is not None:
            chosen = [each for each in parameters if names.match(each.name)]
        for each in chosen:
            tag = f"{each.name}/auto"
            self._failures.guard(f"the histogram {tag}", record.add_value, HISTOGRAM, tag, each.data)

    def _optimizer_of(self, run: RunArguments) -> Any:
        if self._optimizer is None:
            self._optimizer = optimizer_of(run)
        if self._optimizer is None:
            raise LineageLogError("The training has no optimizer of MindSpore's.")
        return self._optimizer


def add_graph(record: SummaryRecord, run: RunArguments) -> None:
    """Queue the computational graph of the network in training; there is none in PyNative mode."""
    graph = run["train_network"].get_func_graph_proto()
    if graph is None:
        raise LineageLogError("MindSpore has none, as in PyNative mode.")
    record.add_value(GRAPH, "train_network/auto", graph)


def _add_input(record: SummaryRecord, run: RunArguments) -> None:
    if run["dataset_sink_mode"] and get_context("device_target") in ("Ascend", "GPU"):
        raise LineageLogError("The data sink to the device, and the host does not see them.")
    element = run["train_dataset_element"]
    image = element[0] if isinstance(element, list | tuple) and element else element
    if not isinstance(image, Tensor):
        raise TypeError(f"the first column is no Tensor but {type(image).__name__}")
    record.add_value(IMAGE, "input_data/auto", image)


def _add_loss(record: SummaryRecord, run: RunArguments) -> None:
    loss = loss_of(run)
    if loss is None:
        raise LineageLogError("The network has no output.")
    record.add_value(SCALAR, "loss/auto", loss)


class LandscapeCheckpoints:
    """Saves the states of one training, from which MindSpore's SummaryLandscape later computes loss landscapes.

    They are `ckpt_dir/{Network}_{n}_{unit}.ckpt` and, at the end, `ckpt_dir/train_metadata.json`, in MindSpore's form,
    in the summary directory; `ckpt_dir` is made at once.
    """

    def __init__(self, options: LandscapeStates, summary_dir: str) -> None:
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
