"""All findings have one shape, and one table has their kinds: a new kind takes one row there."""

from __future__ import annotations

import json
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.base_dirs import ROOT
from helpers.log_writer import Log
from helpers.program import Run
from lineage_store import LineageStore
from lineage_store.errors import Cause
from lineage_store.finding_kinds import KINDS, SECTIONS, Kind, Severity
from lineage_store.findings import Finding, exit_code, finding, of_database, severity_of
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import writing
from lineage_store.store.records import relative_path
from lineage_store.store.writes.ingest_log import set_file_problems

FAULTS = ROOT / "docs" / "faults.md"


def undocumented() -> list[str]:
    """The kinds that the documentation does not name where their anchors lead."""
    page = FAULTS.read_text(encoding="utf-8")
    return [kind.name for kind in KINDS.values() if f'id="{kind.anchor.partition("#")[2]}"' not in page]


def test_every_kind_is_in_the_documentation(tmp_path: Path) -> None:
    written = tmp_path / "faults.md"
    subprocess.run([sys.executable, ROOT / "tools" / "finding_docs.py", written], check=True)
    assert FAULTS.read_text("utf-8") == written.read_text("utf-8"), "run `make docs`"
    assert undocumented() == []


def test_no_kind_is_there_twice_and_every_name_is_one_word() -> None:
    names = [kind.name for kinds in SECTIONS.values() for kind in kinds]
    assert len(names) == len(KINDS)
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z_-]*", name)] == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_what_is_wrong_has_a_remedy_and_sentences_end(kind: Kind) -> None:
    assert kind.remedy or kind.severity in (Severity.OK, Severity.NOTE)
    for words in (kind.what, kind.remedy, *kind.remedies.values()):
        fields = [name for _, name, _, _ in string.Formatter().parse(words) if name is not None]
        assert all(name.isidentifier() for name in fields)
        assert not words or words[-1] in ".?}"


@pytest.mark.parametrize(
    ("severities", "code"),
    [([], 0), (["ok", "note"], 0), (["note", "some files"], 3), (["some files", "standstill"], 1)],
)
def test_the_worst_finding_decides_the_exit_code(severities: list[str], code: int) -> None:
    assert exit_code([Finding("in_order", "x", Severity(each), "x") for each in severities]) == code


def test_a_finding_says_what_since_when_and_what_to_do() -> None:
    found = finding("torn_file", "run/x", pending=5)
    assert str(found).startswith("run/x: Its writer has finished in the middle of a frame: the last 5 bytes")
    assert str(found).endswith(KINDS["torn_file"].remedy)
    assert of_database(Cause.LOCKED, what="Locked.", remedy="Wait.").kind == "database_locked"


def test_a_kind_of_a_newer_release_is_noted() -> None:
    assert severity_of("unheard_of") is Severity.NOTE


@pytest.mark.parametrize(
    ("severity", "code"), [(Severity.NOTE, 0), (Severity.SOME_FILES, 3), (Severity.STANDSTILL, 1)]
)
def test_one_row_makes_a_kind_that_is_stored_listed_counted_and_to_be_documented(
    run: Run, tmp_path: Path, on_each: str, monkeypatch: pytest.MonkeyPatch, severity: Severity, code: int
) -> None:
    row = Kind("cursed_file", severity, "It says {word}.", "Do not read it aloud.", heading="Cursed files")
    monkeypatch.setitem(KINDS, row.name, row)

    log = Log().scalar(1, "loss", 0.5).write_summary(tmp_path / "base" / "run")
    with LineageStore(on_each) as store:
        store.ingest(tmp_path / "base")
        with writing(store.engine) as session:
            base_dir_id = registry.stored_base_dirs(session)[0][0]
            (file,) = registry.known_files(session, base_dir_id)
            found = finding(row.name, relative_path(file.train_id, file.name), word="Abracadabra")
            now = session.now()
            set_file_problems(session, base_dir_id, {file: [found]}, now)

    (listed,) = json.loads(run("problems", "--json").out)
    assert (listed["kind"], listed["subject"]) == ("cursed_file", str(log))
    assert (listed["what"], listed["remedy"]) == ("It says Abracadabra.", "Do not read it aloud.")
    checked = run("status", "--check")
    assert checked.code == code
    if code:
        assert f"Cursed files: 1, such as run/{log.name}: It says Abracadabra." in checked.out
    assert undocumented() == ["cursed_file"]
