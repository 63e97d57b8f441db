"""The public names of the Python API: a name that comes or goes is seen here, and in the table of docs/python.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lineage_store
from lineage_store import LineageStore, api
from lineage_store.config import Settings

ROOT = Path(__file__).parent.parent
OF_ONE_JOB = (
    *("annotate", "base_dir", "count_payloads", "evaluation_rows", "evaluations", "files", "graphs"),
    *("histograms", "id", "images", "label", "landscapes", "lineage", "name", "outcome", "path", "payloads"),
    *("recorded", "recorded_payloads", "ref", "reingest", "remark", "report", "resolve", "scalars", "state"),
    *("tags", "tensors", "verify", "why"),
)
STORE = (
    *(
        "backup",
        "base_dirs",
        "buckets",
        "changes",
        "close",
        "compare",
        "curves",
        "engine",
        "explain",
        "export",
    ),
    *(
        "health",
        "ingest",
        "job",
        "jobs",
        "lineage",
        "names",
        "opened",
        "plan",
        "removal",
        "repair",
    ),
    *("run_daemon", "sql", "values"),
)
NOUNS = {
    "lineage": "ask_page columns contents count filter iterate jobs page require_names",
    "base_dirs": "forget holdings move plan_move",
    "changes": "follow now since",
    "health": "cycles findings measures metrics standby status write_ahead_log",
    "repair": "choose_best problems problems_below retry some_problems verify why",
    "removal": "expired find history long_series plan remove remove_expired removed restore thin undo",
}
PACKAGE = (
    *("EvalLineage", "LineageStore", "SummaryCollector", "SummaryRecord", "TrainLineage", "__version__"),
    *("filter_summary_lineage", "get_summary_lineage"),
)
API = (
    *("Cancellation", "Job", "JobUrl", "LineageStore", "PathLike", "answer_of", "asked_again", "combined"),
    *("counts_from_now", "filter_summary_lineage", "get_summary_lineage", "known_base_dirs", "no_such_key"),
    *("read_removal", "refreshed_page"),
)


def public(thing: object) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


def test_a_store_and_its_nouns_have_these_names_and_no_others(tmp_path: Path) -> None:
    with LineageStore(f"sqlite:///{tmp_path}/s.db", settings=Settings()) as store:
        assert public(store) == sorted(STORE)
        assert {noun: " ".join(public(getattr(store, noun))) for noun in NOUNS} == NOUNS
    assert public(api.Job) == sorted(OF_ONE_JOB)


def test_the_packages_export_these_names() -> None:
    errors = [name for name, value in vars(lineage_store.errors).items() if _is_ours(value)]
    assert sorted(lineage_store.__all__) == sorted((*PACKAGE, *errors))
    assert sorted(api.__all__) == sorted(API)
    assert all(hasattr(api, name) for name in API)


def test_the_documentation_has_a_row_for_every_name(tmp_path: Path) -> None:
    written = tmp_path / "python.md"
    subprocess.run([sys.executable, ROOT / "tools" / "api_docs.py", written], check=True)
    assert written.read_text() == (ROOT / "docs" / "python.md").read_text(), "Run `make docs`."


def _is_ours(value: object) -> bool:
    return isinstance(value, type) and value.__module__ == "lineage_store.errors"
