"""The results: printed as a table, stored in RESULTS.md.

In: a row and its samples. Out: lines of text. Promises: RESULTS.md has the newest full-size run of each row with its
date; results are stored nowhere else, so that rows can be run one by one, also in a fresh clone. It describes the
machine without its name or paths.
"""

from __future__ import annotations

import math
import os
import platform
import sqlite3
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.measuring import Bound, Row, Samples, meets

RESULTS = Path(__file__).parent / "RESULTS.md"
_LIBRARIES = ("lineage-store", "sqlalchemy", "protobuf", "numpy", "psycopg", "google-crc32c")
_HEADER = ("row", "what", "must", "aim", "median", "min", "max", "n", "ours", "baseline", "floor", "", "date")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table, all text."""

    name: str
    what: str
    must: str
    aim: str
    median: str
    least: str
    greatest: str
    n: str
    ours: str
    baseline: str
    floor: str
    verdict: str
    date: str

    def cells(self) -> list[str]:
        return list(asdict(self).values())


def line(row: Row, samples: Samples) -> Line:
    """Return the line of a row."""
    figures = samples.figures(row.shown)
    timings = samples.baseline is not None
    return Line(
        name=row.name,
        what=f"{row.what} ({samples.note})" if samples.note else row.what,
        must=" ".join(filter(None, [_bound(row.must, row.unit), row.was and f"(was {row.was})"])),
        aim=_bound(row.aim, row.unit),
        median=_number(statistics.median(figures)) + f" {row.unit}",
        least=_number(min(figures)),
        greatest=_number(max(figures)),
        n=str(len(figures)),
        ours=_seconds(samples.ours) if timings else "",
        baseline=_seconds(samples.baseline) if samples.baseline else "",
        floor=_floor(row, samples),
        verdict=_verdict(row, samples),
        date=datetime.now(UTC).date().isoformat(),
    )


def text(lines: Sequence[Line]) -> str:
    """Return the lines for the terminal, with the most important columns only."""
    shown = [
        (each.name, each.must, each.aim, each.median, f"{each.least}..{each.greatest}", each.n)
        for each in lines
    ]
    more = [(each.ours, each.baseline, each.floor, each.verdict) for each in lines]
    table = [("row", "must", "aim", "median", "min..max", "n", "ours", "baseline", "floor", "")]
    table += [(*first, *rest) for first, rest in zip(shown, more, strict=True)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table)


def keep(lines: Sequence[Line], order: Sequence[str], facts: dict[str, str]) -> None:
    """Write these lines into RESULTS.md, replacing older lines of the same rows."""
    told = "\n".join(f"- {name}: {value}" for name, value in (machine() | facts).items())
    RESULTS.write_text(_TEXT.format(facts=told, table=table(RESULTS.read_text(), lines, order)))


def table(page: str, lines: Sequence[Line], order: Sequence[str]) -> str:
    """Return a page's table with these lines added, sorted by `order`; rows that are not in `order` are dropped."""
    kept = {cells[0]: cells for cells in map(_cells, page.splitlines()) if len(cells) == len(_HEADER)}
    kept |= {each.name: each.cells() for each in lines}
    shown = [_HEADER, ["---"] * len(_HEADER), *(kept[name] for name in order if name in kept)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown)


def _cells(text: str) -> list[str]:
    return text.removeprefix("| ").removesuffix(" |").split(" | ") if text.startswith("| ") else []


def machine() -> dict[str, str]:
    """Return the facts about the machine that results depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} CPUs ({_cpu_model()}), {memory:.0f} GiB, Linux {platform.release()}",
        "Python": f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}, {libraries}",
        "load average at the end": f"{os.getloadavg()[0]:.1f}",
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(
        (each.partition(": ")[2] for each in lines if each.startswith("model name")), platform.machine()
    )


def _bound(bound: Bound | None, unit: str) -> str:
    if bound is None:
        return ""
    limits = (
        [f"{'≥' if bound.at_least else '≤'} {bound.limit:g} {unit}"] if math.isfinite(bound.limit) else []
    )
    return ", ".join(limits + ([f"≤ {bound.most_s * 1000:g} ms"] if bound.most_s else []))


def _verdict(row: Row, samples: Samples) -> str:
    if row.aim is not None and meets(row.aim, samples, row.shown):
        return "aim"
    if row.must is None:
        return ""
    return "met" if meets(row.must, samples, row.shown) else "NOT MET"


def _floor(row: Row, samples: Samples) -> str:
    """Return the median of the floor, as text."""
    if samples.floor is None:
        return ""
    figures = replace(samples, ours=samples.floor).figures(row.shown)
    return f"{_number(statistics.median(figures))} {row.unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _seconds(values: Sequence[float]) -> str:
    median = statistics.median(values)
    return f"{median:.2f} s" if median >= 1 else f"{median * 1000:.3g} ms"


_TEXT = """# Results

Written by `make bench`; each line is the newest full-size run of its row. A ratio is ours / baseline
(where more is better: baseline / ours) of neighbouring runs; median, min and max are over n such pairs, after one pair
that does not count.
What each row and each baseline does is said in `benchmarks/rows/`. A floor is what the same rows take alone: in memory
already, put into the same schema by hand, in turn with the row's own runs (`benchmarks/floor.py`).

{facts}

{table}
"""
