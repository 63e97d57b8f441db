"""TrainLineage and EvalLineage: MindInsight's former callbacks, for today's MindSpore.

In: a SummaryRecord (ours or MindSpore's) or a directory, and MindSpore's calls at the begin and end of a training or an
evaluation. Out: lineage events. Promises: with `raise_exception=False` no failure here reaches the training loop; it is
logged once, with what is lost. In `Model.fit`, EvalLineage records every evaluation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from mindspore.train import RunContext

from lineage_store.collect.arguments import made_directory
from lineage_store.collect.callbacks import RECORDS, LineagePlugin, Record, RecordingCallback, write_lineage
from lineage_store.collect.facts import EVAL, TRAIN, RunArguments, optimizer_of
from lineage_store.collect.info_messages import ending, user_defined_info
from lineage_store.collect.lineage_messages import graph_of, initial_rate, train_lineage
from lineage_store.collect.record import SummaryRecord
from lineage_store.collect.user_values import USER_INFO, UserValues, checked_user_info, entries
from lineage_store.errors import (
    LineageParamRaiseExceptionError,
    LineageParamRunContextError,
    LineageParamSummaryRecordError,
    LineageParamTypeError,
    MindInsightException,
)


class LineageCallback(RecordingCallback):
    """Base class of TrainLineage and EvalLineage.

    Args:
        summary_record: where to write: an open SummaryRecord, or a directory, which is made if it does not exist.
        raise_exception: whether a failure is raised; otherwise it is logged and the training continues.
        user_defined_info: a dict by name, stored with the lineage. Values: str, bool, int (32 bits), float or list,
        also of numpy; a nested dict, whose keys become `a/b`. A value that cannot be stored is left out.
        collect_environment: whether to store what is needed to reproduce the run, as user-defined lineage.

    Raises:
        LineageParamRaiseExceptionError: `raise_exception` is no bool.

    Raises if `raise_exception` is True:
        LineageParamSummaryRecordError: `summary_record` is of another type.
        LineageParamTypeError: a blank directory, or a user-defined key or value of another type.
        LineageParamValueError: a user-defined key that is the name of a lineage field, or a value out of range.
    """

    phase: ClassVar[str]

    def __init__(
        self,
        summary_record: Record | str | os.PathLike[str],
        raise_exception: bool = False,
        user_defined_info: dict[str, Any] | None = None,
        *,
        collect_environment: bool = False,
    ) -> None:
        if not isinstance(raise_exception, bool):
            raise LineageParamRaiseExceptionError(
                f"raise_exception must be True or False, not {raise_exception!r}."
            )
        super().__init__(raising=raise_exception)
        self._collects_environment = collect_environment
        self._given: Record | None = None
        self._directory = ""
        self._usable = False
        try:
            self._take(summary_record)
            self._usable = True
        except MindInsightException as error:
            if raise_exception:
                raise
            self._failures.give_up("anything", error)
        self._user_info = self._failures.guard(USER_INFO, self._recordable, user_defined_info) or {}

    def begin(self, run_context: RunContext) -> None:
        """Called by MindSpore before a training or an evaluation."""
        self._at(self._begin, "what is known at the begin", run_context)

    def end(self, run_context: RunContext) -> None:
        """Called by MindSpore after a training or an evaluation."""
        self._at(self._end, "what is known at the end", run_context)

    def _begin(self, run: RunArguments) -> None:
        """Write what is known before the training or evaluation; by default nothing."""

    def _end(self, run: RunArguments) -> None:
        raise NotImplementedError

    def _at(self, work: Callable[[RunArguments], None], what: str, run_context: RunContext) -> None:
        if not self._usable:
            return
        run = self._failures.guard("the run context", _arguments, run_context)
        # In Model.fit, both callbacks are called for both phases.
        if run is not None and run["mode"] == self.phase:
            self._turns_to(run)
            self._failures.guard(what, work, run)

    def _recordable(self, info: object) -> UserValues:
        """Return the user's values that can be recorded; each of the others is logged and left out."""
        asked = [
            self._failures.guard(f"the entry {key!r} of {USER_INFO}", checked_user_info, key, value)
            for key, value in entries(USER_INFO, info)
        ]
        return dict(entry for entry in asked if entry is not None)

    def _take(self, place: object) -> None:
        if isinstance(place, RECORDS):
            self._given = place
        elif isinstance(place, str | os.PathLike):
            directory = os.fspath(place)
            if not isinstance(directory, str) or not directory.strip():
                raise LineageParamTypeError("summary_record names no directory: it is blank.")
            self._directory = str(made_directory("summary_record", directory))
        else:
            raise LineageParamSummaryRecordError(
                f"summary_record must be a SummaryRecord or a directory, not {type(place).__name__}."
            )

    def _open(self) -> SummaryRecord:
        return _LineageRecord(self._directory, raise_exception=self._failures.raising)

    def _write(self, plugin: LineagePlugin, message: Any, run: RunArguments) -> None:
        record = self._record if self._given is None else self._given
        write_lineage(record, plugin, message, int(run.get("cur_step_num") or 0))

    def _write_user_info(self, run: RunArguments) -> None:
        info = self._user_info
        self._write_info(self._with_environment(info, run) if self._collects_environment else info, run)

    def _write_info(self, info: UserValues, run: RunArguments) -> None:
        if info:
            self._write("custom_lineage_data", user_defined_info(info), run)


class TrainLineage(LineageCallback):
    """Records a training's data pipeline and user-defined values at its begin, its lineage and outcome at its end."""

    phase = TRAIN
    _learning_rate: float | None = None
    _begun = False
    _said_failed = False

    def _begin(self, run: RunArguments) -> None:
        self._begun = True
        self._write_user_info(run)
        optimizer = self._failures.guard("the optimizer", optimizer_of, run)
        self._learning_rate = None
        if optimizer is not None:
            self._learning_rate = self._failures.guard("the learning rate", initial_rate, optimizer)
        graph = self._failures.guard("the dataset graph", graph_of, run["train_dataset"])
        if graph is not None:
            self._write("dataset_graph", graph, run)

    def _end(self, run: RunArguments) -> None:
        message = train_lineage(run, self._failures, learning_rate=self._learning_rate)
        self._write("train_lineage", message, run)
        if self._said_failed:  # in the same record, where this outcome must replace the earlier one
            self._write_info(ending(None, int(run["cur_step_num"])), run)
            self._said_failed = False
        self._begun = False

    def _write_end(self, told: UserValues) -> None:
        if self._usable:
            self._said_failed = self._given is not None
            self._write_info(told if self._begun else self._user_info | told, {})
        self._begun = False


class EvalLineage(LineageCallback):
    """Records the metrics of an evaluation and the dataset it used."""

    phase = EVAL

    def _end(self, run: RunArguments) -> None:
        self._write_user_info(run)
        self._write("eval_lineage", self._evaluation(run), run)


class _LineageRecord(SummaryRecord):
    """A record of lineage only, open beside the training's own record, which takes what summary operators emit."""

    exclusive = False


def _arguments(run_context: RunContext) -> RunArguments:
    if not isinstance(run_context, RunContext):
        raise LineageParamRunContextError(
            f"A callback gets MindSpore's RunContext, not {type(run_context).__name__}."
        )
    arguments: RunArguments = run_context.original_args()
    return arguments
