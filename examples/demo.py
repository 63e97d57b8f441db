"""The main job in one minute: log files in, answers out.

Ingests `examples/summary_base`, seven jobs of real MindSpore trainings, into a SQLite store in `build/demo`, and asks
a few questions, each by the command that you would type yourself.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE_DIR = Path("examples/summary_base")
STORE = Path("build/demo/store.db")
PROGRAM = Path(sys.executable).parent / "lineage-store"

COLUMNS = "summary_dir,network,optimizer,learning_rate,loss,metric/accuracy"


def main() -> None:
    """Run the demo; stop at the first command that fails."""
    os.chdir(ROOT)
    for file in STORE.parent.glob(f"{STORE.name}*"):
        file.unlink()
    STORE.parent.mkdir(parents=True, exist_ok=True)
    os.environ["LINEAGE_STORE_DATABASE_URL"] = f"sqlite:///{STORE}"

    run("Read the log files of a few real jobs", "ingest", str(BASE_DIR))
    run(
        "What was trained, best accuracy first",
        "filter",
        "--sort",
        "metric/accuracy:desc",
        "--columns",
        COLUMNS,
    )
    run("The loss of one job, every step of it", "scalars", "./run_015", "loss/auto", "--plot")
    show_next_steps()


def run(purpose: str, *arguments: str) -> None:
    """Print a command, then run it."""
    print(f"\n# {purpose}\n$ lineage-store {shlex.join(arguments)}", flush=True)
    subprocess.run([PROGRAM, *arguments], check=True)


def show_next_steps() -> None:
    """Print where the store is, and what to try next."""
    print(f"""
The store is {STORE} (SQLite: open it with any client). Things to try with your own log files:

  export PATH="$PWD/.venv/bin:$PATH"
  lineage-store ingest /path/to/your/summaries                            # the directory with your job directories
  lineage-store filter --where 'loss is not null' --sort loss --limit 10  # the jobs with the lowest loss
  lineage-store sql "SELECT train_id, state, duration_s, loss FROM v_job WHERE loss IS NOT NULL ORDER BY loss"

This store of your own will be in your state directory. `lineage-store --help` lists all verbs, and docs/cookbook.md
answers eighteen questions in SQL.""")


if __name__ == "__main__":
    main()
