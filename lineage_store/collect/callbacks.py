"""What the callbacks share, and SummaryStep, the callback of MindSpore's first releases.

In: MindSpore's calls around a training; a record, ours or MindSpore's: both have the same methods, but MindSpore's
takes only MindSpore's message classes. Out: lineage messages in the lineage file of a record. `Model.fit` enters and
exits callbacks again for each evaluation inside a training; only the outermost entry and exit count.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from mindspore.train import Callback, RunContext, lineage_pb2
from mindspore.train.summary import SummaryRecord as MindSporeRecord

from lineage_store.collect.arguments import require_positive
from lineage_store.collect.facts import EVAL, TRAIN, RunArguments, reproduction_of
from lineage_store.collect.info_messages import ending
from lineage_store.collect.lineage_messages import evaluation_lineage
from lineage_store.collect.lost_values import Failures
from lineage_store.collect.record import SummaryRecord
from lineage_store.collect.user_values import UserValues
from lineage_store.errors import LineageParamSummaryRecordError, RecorderInUseError

LineagePlugin = Literal["train_lineage", "eval_lineage", "dataset_graph", "custom_lineage_data"]
Record: TypeAlias = SummaryRecord
"""Ours or MindSpore's, which has the same methods and no types."""
RECORDS = (SummaryRecord, MindSporeRecord)


class RecordingCallback(Callback):
    """A callback that owns a record from its first use to the end of the outermost training or evaluation.

    If a training raises, the callback writes how it ended, and the error propagates.
    """

    def __init__(self, *, raising: bool = False) -> None:
        super().__init__()
        self._failures = Failures(type(self).__name__, raising=raising)
        self._depth = 0
        self._opened: SummaryRecord | None = None
        self._network: object = None
        self._last_step = 0
        self._last_epoch: int | None = None

    def __enter__(self) -> Self:
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth > 0:
            return
        # A failed evaluation is no end of a training. If `begin` was not called, only the name of the method tells it.
        evaluates = trace is not None and trace.tb_frame.f_code.co_name == "eval"
        if error is not None and not evaluates and not isinstance(error, RecorderInUseError):
            told = ending(error, self._last_step)
            Failures(self._failures.owner).guard("how the training ended", self._write_end, told)
        self._last_step, self._last_epoch = 0, None
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Called by MindSpore after each step of a training, or each group of steps that sink to the device."""
        super().on_train_step_end(run_context)
        run = run_context.original_args()
        self._last_step, self._last_epoch = run["cur_step_num"], run.get("cur_epoch_num")

    def _evaluation(self, run: RunArguments) -> Any:
        """Create an evaluation's message; inside a training, as in `Model.fit`, with the training's epoch and step."""
        message = evaluation_lineage(run, self._failures)
        if self._last_epoch is not None:
            message.epoch, message.step = self._last_epoch, self._last_step
        return message

    def _with_environment(self, info: UserValues, run: RunArguments) -> UserValues:
        """Return user-defined values together with what is needed to reproduce the training."""
        return (self._failures.guard("the environment", reproduction_of, run, self._failures) or {}) | info

    def _write_end(self, told: UserValues) -> None:
        """Write how a training that raised ended; by default, write nothing."""

    def _turns_to(self, run: RunArguments) -> bool:
        """Return whether the network differs from the last call's; if so, let all that failed be tried again."""
        network = run.get("train_network" if run["mode"] == TRAIN else "eval_network")
        if network is self._network:
            return False
        self._network = network
        self._failures.forget()
        return True

    @property
    def _is_outermost(self) -> bool:
        return self._depth <= 1

    def _open(self) -> SummaryRecord:
        raise NotImplementedError

    @property
    def _record(self) -> SummaryRecord:
        if self._opened is None:
            self._opened = self._open()
        return self._opened


def write_lineage(record: Record, plugin: LineagePlugin, message: Any, step: int) -> None:
    """Write a lineage message now, together with the values that are pending in the record.

    What the network's summary operators emitted is not taken, so that the caller who records the steps gets it.
    """
    add_lineage(record, plugin, message)
    mode: Any = getattr(record, "_mode", TRAIN)
    record.set_mode(EVAL)
    try:
        record.record(step)
    finally:
        record.set_mode(mode)


def add_lineage(record: Record, plugin: LineagePlugin, message: Any) -> None:
    """Queue a lineage message, converted to the message class that the record takes."""
    if isinstance(record, MindSporeRecord):
        theirs = getattr(lineage_pb2, type(message).__name__)
        message = theirs.FromString(message.SerializeToString())
    record.add_value(plugin, plugin, message)


class SummaryStep(Callback):
    """Records one step in every `flush_step`, in a record that the caller closes, as MindInsight's examples do.

    The record writes its pending values and those that the network's summary operators emitted.

    Raises LineageParamSummaryRecordError if `summary` is no SummaryRecord, LineageParamTypeError or
    LineageParamValueError if `flush_step` is no int above 0.
    """

    def __init__(self, summary: Record, flush_step: int = 10) -> None:
        super().__init__()
        if not isinstance(summary, RECORDS):
            raise LineageParamSummaryRecordError(
                f"summary must be a SummaryRecord, not {type(summary).__name__}."
            )
        require_positive("flush_step", flush_step)
        self._summary = summary
        self._flush_step = flush_step

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Called by MindSpore after each step."""
        run = run_context.original_args()
        if run["cur_step_num"] % self._flush_step == 0:
            self._summary.record(run["cur_step_num"], run["train_network"])

    def on_train_end(self, run_context: RunContext) -> None:
        """Called by MindSpore after the training."""
        self._summary.flush()

    @property
    def summary_file(self) -> str:
        """The full name of the record's summary file."""
        return self._summary.log_dir
