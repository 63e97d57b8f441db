"""What `make changed` chooses: what a change can touch, and no more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from changed_rooms import READ_EVERYTHING, TIERS, Selection, commands, left_out, proofs_in, select
from helpers.base_dirs import ROOT
from rooms import ROOMS, above

SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests").rglob("*.py"))
}
FEW = {
    "tests/conftest.py": "from helpers import databases",
    "tests/helpers/databases.py": "",
    "tests/helpers/asked.py": "from helpers.writing import write",
    "tests/helpers/writing.py": "",
    "tests/helpers/cookbook.py": '"docs"',
    "tests/cookbook/test_cookbook.py": "import pytest\nfrom helpers.cookbook import QUERIES",
    "tests/ingest/conftest.py": "",
    "tests/ingest/test_pass.py": "from helpers.writing import write\nmarks = [pytest.mark.slow]",
    "tests/ingest/test_quick.py": "from lineage_store.operations import verify",
    "tests/page/conftest.py": "from helpers.asked import ask",
    "tests/page/test_page.py": "",
    "tests/query/test_asked.py": "from helpers.asked import ask",
    "tests/query/test_shown.py": 'shown = "snapshots/query.sql"',
    "tests/store/test_schema.py": '(ROOT / "docs").glob("*")',
    "tests/proofs/kill.py": 'from helpers.writing import write\nPROOF = Proof("kill", attacks=("store",))',
    "tests/proofs/torn.py": 'PROOF = Proof("torn", attacks=("ingest",))',
}


def chosen(*changed: str, of: Mapping[str, str] = FEW) -> Selection:
    return select(changed, of)


def run_for(*changed: str) -> set[str]:
    return set(chosen(*changed).tests - READ_EVERYTHING)


def folders(*rooms: str) -> set[str]:
    return {f"tests/{room}" for room in rooms}


@pytest.mark.parametrize(
    ("room", "importers"),
    [
        ("query", {"operations", "api", "server", "cli"}),
        ("server", {"cli"}),
        ("collect", set()),
        ("base", set(ROOMS) - {"base"}),
    ],
)
def test_a_room_is_below_those_that_import_it_directly_or_through_others(
    room: str, importers: set[str]
) -> None:
    assert above(room) == importers


def test_a_changed_room_runs_its_tests_and_those_of_the_rooms_that_import_it() -> None:
    selection = chosen("lineage_store/query/search/page.py", of=SOURCES)
    assert selection.rooms == {"query"}
    assert selection.tests >= folders("query", "operations", "api", "server", "cli", "cookbook")
    assert selection.tests.isdisjoint(folders("store", "ingest", "eventlog", "collect", "page"))


def test_rooms_run_on_both_databases_that_are_changed_or_ask_the_changed_one_in_sql() -> None:
    selection = chosen("lineage_store/query/search/page.py", of=SOURCES)
    assert selection.on_each == folders("query", "cookbook", "operations", "api")
    assert commands(selection)[0][0][2].endswith(
        '-k "not postgresql or api or cookbook or operations or query"'
    )
    assert chosen("lineage_store/eventlog/values.py", of=SOURCES).on_each == {"tests/eventlog"}


def test_whatever_is_no_room_runs_on_both_databases() -> None:
    assert "-k" not in str(commands(chosen("tests/query/test_asked.py")))
    assert "-k" not in str(commands(chosen("tests/helpers/databases.py", of=SOURCES)))


def test_tiers_run_beside_the_tests() -> None:
    tests, beside = commands(chosen("lineage_store/collect/record.py"))
    assert ([command[1] for command in tests], beside) == (["test"], [["make", "test-mindspore", "ARGS="]])


def test_tests_that_take_seconds_run_of_changed_files_alone() -> None:
    assert chosen("lineage_store/query/search/page.py", of=SOURCES).slow == set()
    assert chosen("tests/ingest/test_pass.py").slow == {"tests/ingest/test_pass.py"}
    assert chosen("tests/ingest/test_quick.py").slow == set()


def test_a_change_at_the_bottom_runs_all_tests() -> None:
    assert chosen("lineage_store/base/errors.py", of=SOURCES).tests == {"tests"}
    assert chosen("lineage_store/errors.py", of=SOURCES).tests == {"tests"}


def test_tests_elsewhere_that_import_from_the_changed_room_run_too() -> None:
    assert "tests/ingest/test_quick.py" in run_for("lineage_store/operations/verify.py")


def test_proofs_run_that_attack_the_changed_room_or_are_changed_or_use_what_is() -> None:
    assert chosen("lineage_store/store/keys.py").proofs == {"kill"}
    assert chosen("tests/proofs/torn.py").proofs == {"torn"}
    assert chosen("tests/helpers/writing.py").proofs == {"kill"}


def test_migrations_are_the_stores_and_messages_the_event_logs() -> None:
    assert chosen("migrations/versions/0001.py").rooms == {"store"}
    assert chosen("proto/summary.proto").rooms == {"eventlog"}


def test_a_changed_test_runs_itself() -> None:
    assert run_for("tests/query/test_asked.py") == {"tests/query/test_asked.py"}


def test_a_changed_helper_runs_the_tests_that_import_it_also_through_others() -> None:
    assert run_for("tests/helpers/writing.py") == {"tests/ingest/test_pass.py", "tests/query/test_asked.py"}


def test_fixtures_run_the_folder_that_has_them() -> None:
    assert run_for("tests/ingest/conftest.py") == {"tests/ingest"}
    assert run_for("tests/helpers/databases.py") == {"tests"}


def test_a_test_or_module_that_is_gone_runs_nothing_of_its_own() -> None:
    assert run_for("tests/ingest/test_gone.py") == set()
    assert run_for("lineage_store/cli/gone.py") == set()


def test_documents_run_the_tests_that_read_them() -> None:
    assert run_for("docs/cookbook.md") == {"tests/cookbook/test_cookbook.py", "tests/store/test_schema.py"}
    real = chosen("docs/faults.md", of=SOURCES).tests
    assert chosen("docs/faults.md", of=SOURCES).proofs == set()
    assert real >= {"tests/test_readme.py", "tests/test_named_files.py", "tests/cookbook/test_cookbook.py"}


def test_what_tests_compare_with_runs_those_that_name_it() -> None:
    assert run_for("tests/snapshots/query.sql") == {"tests/query/test_shown.py"}
    assert chosen("tests/golden/summary_base/job/log", of=SOURCES).tests == {"tests"}


@pytest.mark.parametrize(
    ("changed", "tiers"),
    [
        ("web/src/app.tsx", {"test-page"}),
        ("lineage_store/server/own/jobs.py", {"test-page"}),
        ("lineage_store/server/guard.py", set()),
        ("lineage_store/collect/record.py", {"test-mindspore"}),
        ("lineage_store/eventlog/mindspore/events.py", {"test-mindspore"}),
        ("lineage_store/eventlog/values.py", set()),
        ("tests/page/test_page.py", {"test-page"}),
        ("tests/helpers/writing.py", set()),
    ],
)
def test_the_page_and_mindspore_run_for_what_they_alone_show(changed: str, tiers: set[str]) -> None:
    selection = chosen(changed)
    assert selection.tiers == tiers
    assert not any(path.startswith("tests/page") for path in selection.tests)


def test_the_places_that_run_a_tier_are_there() -> None:
    assert [place for places in TIERS.values() for place in places if not (ROOT / place).is_dir()] == []


def test_every_proof_names_rooms_that_there_are() -> None:
    proofs = proofs_in(SOURCES)
    assert {path for path, _ in proofs.values()} == {
        path for path, text in SOURCES.items() if "\nPROOF = Proof(" in text
    }
    attacked = {room for _, rooms in proofs.values() for room in rooms}
    assert attacked <= set(ROOMS)
    assert set(ROOMS) - attacked == {"collect", "api"}, "they have no guards of their own"


def test_what_is_left_out_is_said() -> None:
    selection = chosen("lineage_store/query/page.py")
    assert list(left_out(selection, FEW, ["test", "test-page", "test-lowest"])) == [
        "Left out: tests: tests/ingest tests/store",
        "  on PostgreSQL: of rooms that do not speak to the changed one in SQL, what runs on SQLite too",
        "  tests that take seconds: tests/ingest",
        "  proofs: kill torn",
        "  tiers: test-lowest test-page",
    ]
