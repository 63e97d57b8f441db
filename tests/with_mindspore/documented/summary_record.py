# The examples of mindspore.SummaryRecord, with its import changed.
from mindspore import Tensor

from lineage_store.collect import SummaryRecord

if __name__ == "__main__":
    # use in with statement to auto close
    with SummaryRecord(log_dir="./summary_dir") as summary_record:
        pass

    # use in try .. finally .. to ensure closing
    try:
        summary_record = SummaryRecord(log_dir="./summary_dir")
    finally:
        summary_record.close()

    with SummaryRecord(log_dir="./summary_dir", file_prefix="xx_", file_suffix="_yy") as summary_record:
        summary_record.add_value("scalar", "loss", Tensor(0.1))
        result = summary_record.record(step=2)
        log_dir = summary_record.log_dir
        summary_record.flush()
        summary_record.set_mode("eval")
    assert result is True
    assert log_dir.endswith("_yy")
