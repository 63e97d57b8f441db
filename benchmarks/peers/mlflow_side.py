"""MLflow's side of `make bench-peers`; runs in an environment of its own, so it imports nothing of ours.

In: one request per line, as JSON: ["log", database_path, runs]. Out: a line of JSON each: the seconds of logging
`runs` runs with 200 scalars, two results and four parameters each into a new SQLite store, one batch per run, and the
number of metric rows. Creating the store is not timed.
"""

from __future__ import annotations

import json
import os
import sys
import time

from mlflow import MlflowClient  # type: ignore[import-not-found]
from mlflow.entities import Metric, Param  # type: ignore[import-not-found]

_TAGS = ("loss", "accuracy", "learning_rate", "grad_norm")
_PARAMETERS = [Param(name, "1") for name in ("optimizer", "epoch", "network", "batch_size")]


def log(database_path: str, runs: int) -> tuple[float, int]:
    """Log the runs; return seconds and rows."""
    client = MlflowClient(tracking_uri=f"sqlite:///{database_path}")
    experiment = client.create_experiment("bench")
    metrics = [Metric(tag, 0.5, step, step) for step in range(1, 51) for tag in _TAGS]
    metrics += [Metric("eval/Accuracy", 0.9, 51, 51), Metric("eval/Loss", 0.1, 51, 51)]
    began = time.perf_counter()
    for _ in range(runs):
        run_id = client.create_run(experiment).info.run_id
        client.log_batch(run_id, metrics=metrics, params=_PARAMETERS)
        client.set_terminated(run_id)
    return time.perf_counter() - began, runs * len(metrics)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the libraries' output out of the answers
    for line in sys.stdin:
        _, database_path, runs = json.loads(line)
        print(json.dumps(log(database_path, runs)), file=answers, flush=True)


if __name__ == "__main__":
    main()
