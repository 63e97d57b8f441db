"""Which names are log files, and what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_store.eventlog import formats
from lineage_store.eventlog.mindspore.filenames import compose, parse_name, why_ignored
from lineage_store.eventlog.values import ParsedName
from lineage_store.plain_values import CALENDAR_END

# Every form that MindSpore and MindInsight have written, and what MindInsight's pattern lets in besides.
FORMS = {
    "events.out.events.summary.1795251969.0.vm_MS": ("summary", 1795251969, 0, "vm"),
    "events.out.events.summary.1795251969.7.vm_lineage": ("lineage", 1795251969, 7, "vm"),
    "run_a.out.events.summary.5.12.gpu-1.site_MS": ("summary", 5, 12, "gpu-1.site"),
    "events.out.events.summary.1600000000.vm_MS": ("summary", 1600000000, None, "vm"),
    "events.out.events.summary.1600000000.vm_MS_lineage": ("lineage", 1600000000, None, "vm"),
    "out.events.summary.1590000000.vm_lineage": ("lineage", 1590000000, None, "vm"),
    "events.out.events.summary.1600000000.10.0.0.5_MS": ("summary", 1600000000, None, "10.0.0.5"),
    "events.out.events.summary.1600000000.3.10.0.0.5_MS": ("summary", 1600000000, 3, "10.0.0.5"),
    "events.out.events.summary.1600000000.0.my_host_MS": ("summary", 1600000000, 0, "my_host"),
    "events.out.events.summary.1600000000.0.vm_custom": ("summary", 1600000000, 0, "vm_custom"),
    "x.summary.1700000000.txt": ("summary", 1700000000, None, "txt"),
    "summary.17": ("summary", 17, None, ""),
    # Endings of companions count only behind a suffix of MindSpore's: these may be what a recorder was told to write.
    "events.out.events.summary.5.0.vm_exp.1": ("summary", 5, 0, "vm_exp.1"),
    "events.out.events.summary.5.0.vm.bak": ("summary", 5, 0, "vm.bak"),
    "events.out.events.summary.5.0.vm_ms.bak": ("summary", 5, 0, "vm_ms.bak"),
    "events.out.events.summary.5.0.vm_MS.copy": ("summary", 5, 0, "vm_MS.copy"),
    "events.out.events.summary.5.0.vm_MS.gz_MS": ("summary", 5, 0, "vm_MS.gz"),
    "events.out.events.summary.5.0.vm_lineage.copy": ("lineage", 5, 0, "vm_lineage.copy"),
    "events.out.events.summary.5.0.vm_lineage_MS": ("summary", 5, 0, "vm_lineage"),
    "events.out.events.summary.5.0.vm_lineages": ("summary", 5, 0, "vm_lineages"),
    "summary.0017_lineage": ("lineage", 17, None, ""),
}

IGNORED = {
    "events.out.events.summary.1795251969.0.vm_explain": "explanation",
    "summary.1.pb": "graph file",
    ".events.out.events.summary.1795251969.0.vm_MS.Ab12cd": "hidden",
    ".nfs000000000summary.12": "hidden",
    "events.out.events.summary.1795251969.0.vm_MS~": "temporary",
    "events.out.events.summary.1795251969.0.vm_MS.swp": "temporary",
    "events.out.events.summary.1795251969.0.vm_MS.TMP": "temporary",
    "#events.out.events.summary.1795251969.0.vm_MS#": "temporary",
    **{
        f"events.out.events.summary.1795251969.0.vm{suffix}{ending}": reason
        for suffix in ("_MS", "_lineage", "_MS_lineage")
        for reason, endings in {
            "a backup": ".bak .BAK .old .orig .backup .sav .prev .bak1 .bak~ .gz.bak",
            "rotated": ".1 .9 .27 .old.1",
            "packed": ".gz .bz2 .xz .zst .zip .tar .tar.gz .tgz .7z .bak.gz .1.gz",
            "checksums": ".md5 .sha1 .sha256 .sha512 .crc .crc32 .gz.md5 .sig .sha256sum",
            "lock": ".lock .LCK",
            "text": ".txt .json .csv .log .html",
            "temporary": ".tmp .part .swp ~ .crdownload .filepart",
        }.items()
        for ending in endings.split()
        if not (reason == "a backup" and ending.endswith("~"))
    },
    **{
        f"events.out.events.summary.1795251969.0.vm_MS{ending}": "numbered copy"
        for ending in (" (1)", "(1)", " (12)", " - Copy", " - Copy (2)", " copy", " copy 2", ".bak (1)")
    },
    "model.ckpt": "no log file",
    "summary_1795251969": "no log file",
    "summary.x1": "no log file",
    f"summary.{CALENDAR_END + 1}.0.vm_MS": "year 9999",
    f"summary.{2**63}.0.vm_MS": "year 9999",
    f"summary.{'9' * 5000}": "year 9999",
}


def parsed(name: str) -> ParsedName:
    found = parse_name(name)
    assert found is not None, name
    return found


@pytest.mark.parametrize(("name", "parts"), FORMS.items())
def test_name_is_taken_apart(name: str, parts: tuple[str, int, int | None, str]) -> None:
    assert parsed(name) == parts
    assert why_ignored(name) is None


@pytest.mark.parametrize(("name", "reason"), IGNORED.items(), ids=range(len(IGNORED)))
def test_other_names_are_ignored_with_a_reason(name: str, reason: str) -> None:
    assert parse_name(name) is None
    assert reason in str(formats.ignored_reason(name))


def test_last_second_of_the_year_9999_still_counts() -> None:
    assert parsed(f"summary.{CALENDAR_END}.0.vm_MS").timestamp == CALENDAR_END


@given(
    prefix=st.from_regex(r"[a-z][0-9a-z_]{0,8}", fullmatch=True),
    timestamp=st.integers(0, CALENDAR_END),
    device=st.none() | st.integers(0, 999_999_999),
    host=st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True),
    suffix=st.sampled_from(["_MS", "_lineage", "_MS_lineage"]),
)
def test_composed_names_are_parsed_to_their_parts(
    prefix: str, timestamp: int, device: int | None, host: str, suffix: str
) -> None:
    kind = "lineage" if suffix.endswith("_lineage") else "summary"
    assert parsed(compose(prefix, timestamp, device, host, suffix)) == (kind, timestamp, device, host)


def test_composed_name_is_the_one_mindspore_gives() -> None:
    assert compose("events", 1795251969, 0, "vm") == "events.out.events.summary.1795251969.0.vm_MS"


@given(st.text())
def test_no_name_crashes(name: str) -> None:
    assert (formats.recognise(name) is None) == (formats.ignored_reason(name) is not None)
