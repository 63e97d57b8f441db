"""`python ask_mindinsight.py BASE_DIR`: print what MindInsight 2.3.1 reads there; runs in an environment of its own.

Out, as JSON: {"lineage": {id: model_lineage}, "scalars": {id: {tag: [[step, value], …]}}}, tags without the suffix that
MindInsight adds.
"""

from __future__ import annotations

import json
import os
import sys

os.environ.setdefault("MINDINSIGHT_LOG_LEVEL", "4")

from mindinsight.datavisual.data_transform.ms_data_loader import MSDataLoader  # type: ignore[import-not-found]
from mindinsight.lineagemgr.model import filter_summary_lineage  # type: ignore[import-not-found]


def scalars(job_dir: str) -> dict[str, list[list[float]]]:
    """Every scalar of a job; MindInsight refuses a directory without a summary file, and a plugin without tags."""
    if not any(name.endswith("_MS") for name in os.listdir(job_dir)):
        return {}
    loader = MSDataLoader(job_dir)
    loader.load()
    events = loader.get_events_data()
    try:
        tags = events.list_tags_by_plugin("scalar")
    except KeyError:
        return {}
    return {
        tag.rpartition("/")[0]: [[sample.step, sample.value] for sample in events.tensors(tag)]
        for tag in tags
    }


def main() -> None:
    base_dir = sys.argv[1]
    lineage = {
        job["summary_dir"]: job["model_lineage"]
        for job in filter_summary_lineage(summary_base_dir=base_dir)["object"]
    }
    jobs = {f"./{name}": scalars(os.path.join(base_dir, name)) for name in sorted(os.listdir(base_dir))}
    print(json.dumps({"lineage": lineage, "scalars": {job: tags for job, tags in jobs.items() if tags}}))


if __name__ == "__main__":
    main()
