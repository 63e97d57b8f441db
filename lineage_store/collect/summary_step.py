"""SummaryStep: the callback of MindSpore's first releases that records every few steps. MindInsight's examples use it.

In: a SummaryRecord, ours or MindSpore's, which the caller closes. Out: every `flush_step` steps, the record writes its
pending values and the values that the network's summary operators emitted.
"""

from __future__ import annotations

from mindspore.train import Callback, RunContext

from lineage_store.collect.arguments import require_positive
from lineage_store.collect.recording import RECORDS, Record
from lineage_store.errors import LineageParamSummaryRecordError


class SummaryStep(Callback):
    """Records one step in every `flush_step`.

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
