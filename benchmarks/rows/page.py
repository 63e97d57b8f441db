"""The page in a browser, from its navigation until everything is drawn; against ECharts and TensorBoard, on the same
data.

Jobs: those of `stored.py`, with eight fields as axes. ECharts draws the same numbers in a canvas of the same size, in
the same browser; both are timed while they redraw all lines in other colours. Curves: 20 runs of 50,000 steps, one of
them with a spike; TensorBoard has them in its own event files, already loaded. No page has anything cached.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from benchmarks import corpora, events
from benchmarks.browser import View, browser, view
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes
from benchmarks.peers import ask
from benchmarks.rows.serving import served
from benchmarks.stored import store_of
from lineage_store import LineageStore

_ECHARTS = "echarts@6.1.0"
_STATIC = corpora.ROOT / "lineage_store" / "server" / "static"
_AXES = (
    "network",
    "optimizer",
    "learning_rate",
    "epoch",
    "loss",
    "model_size",
    "metric/Accuracy",
    "metric/eval_loss",
)
_RUNS, _SPIKE = 20, 1000.0
_PARALLEL_IN_ECHARTS = """([names, rows]) => new Promise((resolve) => {
  const box = document.body.appendChild(document.createElement("div"));
  box.style.cssText = "width: 1256px; height: 388px";
  const chart = echarts.init(box, null, { renderer: "canvas" });
  const drawn = (colour, then) => {
    const began = performance.now();
    chart.off("finished");
    chart.on("finished", () => {
      chart.off("finished");
      requestAnimationFrame(() => requestAnimationFrame(() => then(performance.now() - began)));
    });
    chart.setOption({
      animation: false,
      parallelAxis: names.map((name, dim) => ({ dim, name, scale: true })),
      series: [{ type: "parallel", data: rows, lineStyle: { width: 1, opacity: 0.35, color: colour } }],
    });
  };
  drawn("#0b5cad", () => drawn("#a4161a", resolve));
})"""


@dataclass(frozen=True, slots=True)
class _Visit:
    """The measurements of one view of the jobs."""

    painted_s: float
    ready_s: float
    drawing_s: float
    frame_ms: float
    """The 95th percentile of frame times while brushing."""
    rows: float
    heap_mib: float


def _javascript(_sizes: Sizes) -> Samples:
    """Measure the size of all JavaScript of the page, compressed as the server sends it, in kB."""
    weight = sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in _STATIC.glob("assets/*.js"))
    return Samples((weight / 1000,))


def _of_jobs(figure: Callable[[_Visit], float], many: bool, sizes: Sizes) -> Samples:
    jobs = sizes.many_jobs if many else sizes.jobs
    return Samples(tuple(map(figure, _visits(jobs, sizes.repetitions))), note=f"{jobs:,} jobs")


@cache
def _visits(jobs: int, repetitions: int) -> list[_Visit]:
    with _jobs_served(jobs) as address, browser() as chromium:
        return [_visit(chromium, address) for _ in range(repetitions + 1)][1:]


@contextmanager
def _jobs_served(jobs: int) -> Iterator[str]:
    store = store_of("sqlite", jobs)
    with served(store.engine.url.render_as_string(hide_password=False)) as (_, address):
        yield f"http://{address}/"


def _visit(chromium: object, address: str) -> _Visit:
    with view(chromium, f"{address}jobs?{urlencode({'axes': ','.join(_AXES)})}") as seen:  # type: ignore[arg-type]
        ready = seen.drawn()
        painted = seen.number("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        rows, heap = seen.number("document.querySelectorAll('[role=row]').length"), seen.heap_bytes()
        axis = seen.page.locator(".axes .grip").nth(4).bounding_box()
        assert axis is not None
        began = seen.number("document.querySelectorAll('.titles button')[2].click() || performance.now()")
        drawing = seen.drawn(began) - began
        x, top, bottom = axis["x"] + axis["width"] / 2, axis["y"] + 10, axis["y"] + axis["height"] - 10
        frames = seen.frames_while_dragging((x, top), (x, bottom))
    return _Visit(
        painted / 1000, ready / 1000, drawing / 1000, float(np.percentile(frames, 95)), rows, heap / 2**20
    )


def _against_echarts(sizes: Sizes) -> Samples:
    ours = [visit.drawing_s for visit in _visits(sizes.jobs, sizes.repetitions)]
    with _jobs_served(sizes.jobs) as address, browser() as chromium:
        rows = _rows(address)
        theirs = []
        for _ in range(len(ours) + 1):
            with view(chromium, "about:blank") as seen:
                seen.page.add_script_tag(path=_echarts())
                theirs.append(float(seen.page.evaluate(_PARALLEL_IN_ECHARTS, [_AXES, rows])) / 1000)
    return Samples(tuple(ours), tuple(theirs[1:]), note=f"{sizes.jobs:,} jobs x {len(_AXES)}")


def _rows(address: str) -> list[list[float | None]]:
    """Return the numbers of the axes for each job; words are replaced by their index."""
    query = urlencode({"form": "columns", "fields": _AXES}, doseq=True)
    with urllib.request.urlopen(f"{address}api/v1/jobs?{query}") as answer:
        columns = {column["name"]: column for column in json.load(answer)["columns"]}
    of_axes = [columns[name].get("numbers") or columns[name]["codes"] for name in _AXES]
    return [list(row) for row in zip(*of_axes, strict=True)]


@cache
def _echarts() -> Path:
    """Return the path of ECharts' script, which is installed in the corpora's directory."""
    place = corpora.CACHE / _ECHARTS.replace("@", "-")
    script = place / "node_modules" / "echarts" / "dist" / "echarts.min.js"
    if not script.exists():
        place.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm")
        assert npm is not None, "npm is not here: it installs ECharts"
        subprocess.run([npm, "install", "--no-save", "--prefix", str(place), _ECHARTS], check=True)
    return script


def _steps(sizes: Sizes) -> int:
    return sizes.events // _RUNS


def _values(sizes: Sizes) -> np.ndarray:
    """Return the values of each run and step; one run has a spike."""
    steps = np.arange(_steps(sizes))
    noise = np.random.default_rng(10).normal(0, 0.02, (_RUNS, len(steps)))
    values = np.exp(-steps / len(steps))[None, :] * (1 + np.arange(_RUNS)[:, None] / _RUNS) + noise
    values[7, len(steps) // 3] = _SPIKE
    return values


@contextmanager
def _curves_served(sizes: Sizes) -> Iterator[tuple[str, str]]:
    """Start a server; yield its address, and the address of the page that compares all runs."""
    values = _values(sizes)
    base_dir = corpora.runs(values)
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        with served(url) as (_, place):
            address = f"http://{place}/"
            with urllib.request.urlopen(f"{address}api/v1/base-dirs") as answer:
                ((base),) = json.load(answer)["base_dirs"]
            jobs = ",".join(f"{base['key']}/run_{run:02d}" for run in range(_RUNS))
            yield address, f"{address}compare?{urlencode({'jobs': jobs})}"


def _zoom(sizes: Sizes) -> Samples:
    times = []
    with _curves_served(sizes) as (_, compare), browser() as chromium:
        for _ in range(sizes.repetitions + 1):
            with view(chromium, compare) as seen:
                seen.drawn()
                box = seen.page.locator(".u-over").first.bounding_box()
                assert box is not None
                middle = box["y"] + box["height"] / 2
                mouse = seen.page.mouse
                mouse.move(box["x"] + box["width"] * 0.2, middle)
                mouse.down()
                mouse.move(box["x"] + box["width"] * 0.6, middle, steps=5)
                began = seen.now()
                mouse.up()
                seen.page.wait_for_url("**range=**")
                times.append((seen.drawn(began + 1) - began) / 1000)
    return Samples(tuple(times[1:]), note=f"{_RUNS} runs x {_steps(sizes):,}")


def _bytes_a_bucket(sizes: Sizes) -> Samples:
    """Measure the bytes per bucket of the answer that the page requests."""
    with _curves_served(sizes) as (_, compare), browser() as chromium, view(chromium, compare) as seen:
        with seen.page.expect_response("**/api/v1/series") as answered:
            pass
        body = answered.value.body()
    header = json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])
    buckets = sum(curve["rows"] for curve in header["curves"])
    return Samples((len(body) / buckets,), note=f"{buckets:,} buckets")


@dataclass(frozen=True, slots=True)
class _Compared:
    """The measurements of 20 runs in the browser."""

    received_mib: float
    heap_mib: float
    spike: bool


@cache
def _ours(sizes: Sizes) -> list[_Compared]:
    with _curves_served(sizes) as (_, compare), browser() as chromium:
        found = []
        for _ in range(sizes.repetitions):
            with view(chromium, compare) as seen:
                seen.drawn()
                told = seen.page.get_by_text("beyond the axis, the farthest near").count() == 1
                found.append(_compared(seen, spike=told))
        return found


@cache
def _tensorboard(sizes: Sizes) -> list[_Compared]:
    values = corpora.CACHE / f"curves-{_steps(sizes)}.npy"
    np.save(values, _values(sizes))
    place = corpora.CACHE / f"tensorboard-{_steps(sizes)}"
    _, address = ask("tensorboard", "serve", str(place), str(values))
    found = []
    with browser() as chromium:
        for _ in range(sizes.repetitions):
            with view(chromium, f"{address}?runSelectionState=all#timeseries") as seen:
                seen.page.wait_for_selector("card-view line-chart, card-view svg", timeout=120_000)
                seen.page.wait_for_load_state("networkidle")
                time.sleep(3)  # there is no sign when it has drawn
                shown = str(_SPIKE) in seen.page.content()
                found.append(_compared(seen, spike=shown))
    return found


def _compared(seen: View, *, spike: bool) -> _Compared:
    return _Compared(seen.received_bytes() / 2**20, seen.heap_bytes() / 2**20, spike)


def _against_tensorboard(figure: Callable[[_Compared], float], sizes: Sizes) -> Samples:
    ours, theirs = _ours(sizes), _tensorboard(sizes)
    medians = [np.median(list(map(figure, each))) for each in (ours, theirs)]
    assert all(each.spike for each in ours), "the spike is not told"
    note = f"{_RUNS} runs x {_steps(sizes):,}: {medians[0]:.2f} against {medians[1]:.2f} MiB"
    ratios = (figure(mine) / figure(other) for mine, other in zip(ours, theirs, strict=True))
    return Samples(tuple(ratios), note=note)


def _live(sizes: Sizes) -> Samples:
    """Time from the append of a NaN until the page counts it, through the daemon that the server starts."""
    base_dir = corpora.CACHE / "drawn"
    shutil.rmtree(base_dir, ignore_errors=True)
    path = corpora.write_log(base_dir / "run", "_MS", [events.version()])
    path.chmod(0o600)
    os.utime(path)
    latencies: list[float] = []
    with fresh("sqlite") as url, served(url, base_dir) as (_, address), browser() as chromium:
        _append(path, 0)
        base = _known_base(address)
        with view(chromium, f"http://{address}/job/{base}/run/curves") as seen:
            seen.page.get_by_text("1 NaN", exact=True).wait_for(timeout=60_000)
            for step in range(1, sizes.live_seconds + 1):
                time.sleep(0.37)  # so that appends fall at all times between two polls
                began = time.monotonic()
                _append(path, step)
                seen.page.get_by_text(f"{step + 1} NaN", exact=True).wait_for(timeout=60_000)
                latencies.append(time.monotonic() - began)
    shutil.rmtree(base_dir)
    return Samples(
        (float(np.percentile(latencies, 99)),),
        note=f"{len(latencies)} appends; median {np.median(latencies):.2f} s",
    )


def _append(path: Path, step: int) -> None:
    with path.open("ab") as stream:
        stream.write(events.summary(step + 1, [events.scalar("loss", float("nan"))]))


def _known_base(address: str) -> str:
    """Wait until the daemon has found the base dir and its job; return the key of the base dir."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with urllib.request.urlopen(f"http://{address}/api/v1/train-jobs") as answer:
            if jobs := json.load(answer)["jobs"]:
                return str(jobs[0]["base"])
        time.sleep(0.2)
    raise TimeoutError("the daemon finds no job")


def _figure(name: str, what: str, measure: Callable[[Sizes], Samples], most: float, unit: str) -> Row:
    return Row(name, what, measure, Bound(most), shown="figure", unit=unit, group="page")


def _visited(
    name: str, what: str, figure: Callable[[_Visit], float], most: float, unit: str, many: bool = False
) -> Row:
    return _figure(name, what, partial(_of_jobs, figure, many), most, unit)


ROWS = [
    _figure("browser-javascript", "all JavaScript of the page, zipped", _javascript, 70, "kB"),
    _visited("browser-painted", "the jobs' first paint", lambda visit: visit.painted_s, 0.5, "s"),
    _visited("browser-ready", "the jobs' table and lines drawn", lambda visit: visit.ready_s, 1.5, "s"),
    Row(
        "browser-parallel",
        "all lines drawn anew, against ECharts",
        _against_echarts,
        Bound(0.2),
        Bound(0.15),
        group="page",
    ),
    _visited("browser-brush", "a frame while brushing, 95th of 100", lambda visit: visit.frame_ms, 50, "ms"),
    _visited("browser-rows", "rows in the document", lambda visit: visit.rows, 80, "rows"),
    _visited("browser-rows-many", "rows in the document", lambda visit: visit.rows, 80, "rows", many=True),
    _visited(
        "browser-ready-many",
        "the jobs' table and lines drawn",
        lambda visit: visit.ready_s,
        15,
        "s",
        many=True,
    ),
    _visited("browser-heap", "JavaScript's heap", lambda visit: visit.heap_mib, 30, "MiB"),
    _figure("browser-zoom", "from a zoom's end to the curves drawn", _zoom, 0.5, "s"),
    _figure("browser-bucket", "bytes a bucket on the wire", _bytes_a_bucket, 56, "B"),
    _figure("browser-live", "append → drawn, p99", _live, 2.5, "s"),
    *(
        Row(
            f"browser-{name}-tensorboard",
            f"{what} of curves, against TensorBoard",
            partial(_against_tensorboard, figure),
            Bound(1.0),
            shown="figure",
            group="page",
        )
        for name, what, figure in (
            ("wire", "bytes on the wire", lambda each: each.received_mib),
            ("heap", "JavaScript's heap", lambda each: each.heap_mib),
        )
    ),
]
