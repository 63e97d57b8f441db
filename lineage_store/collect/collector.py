"""SummaryCollector: a replacement of MindSpore's callback of that name, with the same arguments and the same files.

In: MindSpore's calls around the steps of a training. Out: log files in `summary_dir`, and checkpoints for loss
landscapes below it. Promises: wrong arguments are refused at once; later, a value that cannot be collected is logged
once and left out, and the training goes on. docs/moving.md lists where the files differ from MindSpore's.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from mindspore._c_expression import security
from mindspore.train import RunContext

from lineage_store.collect import custom_values
from lineage_store.collect.arguments import exports_tensors, made_directory, require_positive
from lineage_store.collect.collecting_steps import EVERYTHING, NOTHING, CollectingSteps, Due, plan
from lineage_store.collect.collector_options import parse
from lineage_store.collect.custom_values import UserValues
from lineage_store.collect.facts.dataset_graph import graph_of
from lineage_store.collect.facts.lineage_messages import train_lineage
from lineage_store.collect.facts.run import EVAL, TRAIN, RunArguments
from lineage_store.collect.info_messages import user_defined_info
from lineage_store.collect.landscape import LandscapeCheckpoints
from lineage_store.collect.record import SummaryRecord
from lineage_store.collect.recording import RecordingCallback, add_lineage, write_lineage
from lineage_store.collect.step_values import StepValues, add_graph
from lineage_store.errors import LineageParamValueError, RecorderInUseError

log = logging.getLogger(__name__)


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
        self._collected = parse(collect_specified_data, keep_default_action)
        self._user_values = custom_values.from_environment() | custom_values.checked(
            "custom_lineage_data", custom_lineage_data
        )
        self._summary_dir = str(made_directory("summary_dir", summary_dir))
        self._collect_freq = collect_freq
        self._collect_tensor_freq = collect_tensor_freq
        self._max_file_size, self._export_options = max_file_size, export_options
        landscape = self._collected.landscape
        self._landscape = LandscapeCheckpoints(landscape, self._summary_dir) if landscape else None
        self._values = StepValues(self._collected, self._attempts)
        self._described = False
        self._training: RunArguments | None = None
        self._steps: CollectingSteps | None = None
        self._evaluated: object = None

    # --- MindSpore's calls ----------------------------------------------------------------------------------------

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
            self._attempts.ask("the training's lineage", self._record_training, run)
        self._training = None
        if self._landscape is not None:
            self._attempts.ask("the landscape's metadata", self._landscape.describe, run)

    # --- what is collected ----------------------------------------------------------------------------------------

    def _describe(self, run: RunArguments) -> None:
        """Record what is the same for the whole training: its graphs, user-defined values and environment."""
        if self._collected.graph:
            self._attempts.ask("the graph", add_graph, self._record, run)
        if self._collected.dataset_graph:
            graph = self._attempts.ask("the dataset graph", graph_of, run["train_dataset"])
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
            self._steps = plan(total, self._collect_freq, self._collect_tensor_freq)
            self._collect(run, EVERYTHING)
            self._record.flush()
        elif any(due := self._steps.at(number)):
            self._collect(run, due)

    def _collect(self, run: RunArguments, due: Due) -> None:
        if due.others:
            self._values.add(self._record, run)
        self._record.record(run["cur_step_num"], plugin_filter=due.takes)

    def _record_training(self, run: RunArguments) -> None:
        write_lineage(self._record, "train_lineage", train_lineage(run, self._attempts), step=0)

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
        self._attempts.ask("the evaluation's lineage", self._write_evaluation, run)

    def _write_evaluation(self, run: RunArguments) -> None:
        write_lineage(self._record, "eval_lineage", self._evaluation(run), step=0)

    def _keep_state(self, run: RunArguments, unit: str) -> None:
        if self._landscape is not None:
            self._attempts.ask("states for landscapes", self._landscape.keep, run, unit)

    def _open(self) -> SummaryRecord:
        limit, options = self._max_file_size, self._export_options
        return SummaryRecord(self._summary_dir, max_file_size=limit, export_options=options)
