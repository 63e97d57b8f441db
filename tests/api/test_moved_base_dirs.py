"""A base dir is known by its stored path, wherever its directory is by now, and however long the disk takes."""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from helpers.base_dirs import path_meant
from helpers.log_writer import Log
from helpers.program import logging_kept
from helpers.served import serving
from lineage_store import LineageStore, filter_summary_lineage, get_summary_lineage
from lineage_store.api.reports import CleanUp
from lineage_store.cli import main
from lineage_store.config import Settings
from lineage_store.errors import TrainJobNotFoundError
from lineage_store.texts import to_stored, url_key

API = "/api/v1"
CALLS = ("stat", "lstat", "readlink", "open", "scandir", "listdir", "access")


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """A base dir with the jobs ./a and ./b, which have lineage, evaluations, scalars and images."""
    for name in ("a", "b"):
        path = tmp_path / "base" / name
        Log().train(network="LeNet5").evaluation({"accuracy": 0.5}).write_lineage(path).chmod(0o400)
        log = Log().version()
        for step in range(20):
            log.scalar(step, "loss", step / 2)
        log.image(1, "picture", np.zeros((2, 2, 3), np.uint8)).write_summary(path).chmod(0o400)
    return tmp_path / "base"


@pytest.fixture
def url(database_url: str, base_dir: Path) -> str:
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(base_dir)
        store.job((base_dir, "./a")).annotate(label=3)
    return database_url


@contextmanager
def hanging(place: Path) -> Iterator[list[str]]:
    """Let every look at a path below `place` fail where it would hang; give the list of these looks."""
    looks: list[str] = []

    def looked(call: Callable[..., Any], name: str, of: Any = ".", *more: Any, **named: Any) -> Any:
        path = path_meant(of, named.get("dir_fd"))
        if Path(os.path.abspath(path)).is_relative_to(place):
            looks.append(f"{name} {path}")
            raise TimeoutError(f"{path} hangs")
        return call(of, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            call = getattr(os, name)
            patch.setattr(os, name, functools.wraps(call)(functools.partial(looked, call, name)))
        yield looks


def move(base_dir: Path) -> None:
    new = base_dir.with_name("base_new")
    base_dir.rename(new)
    base_dir.symlink_to(new)


def in_sql(url: str, base_dir: Path) -> dict[str, object]:
    """What Python answers from the database, whatever names the job."""
    answers: dict[str, object] = {}
    with LineageStore(url, settings=Settings()) as store:
        for job in (store.job((base_dir, "./a")), store.job(base_dir / "a"), store.job("./a")):
            report = job.report()
            answers[f"job {len(answers)}"] = (
                *(job.base_dir, job.id, job.state, job.label, timeless(repr(job))),
                *(job.lineage(), job.evaluations().rows, job.tags(), report.log_files, report.series),
                *(job.scalars("loss").values.tolist(), [each.step for each in job.images("picture")]),
                *([part.log_file for part in job.recorded("loss")], job.files()),
            )
        pairs = [(base_dir, "./a"), (base_dir, "./b")]
        answers["table"] = store.curves(store.jobs(base_dir=base_dir), "loss").rows
        answers["curves"] = [
            {name: column.tolist() for name, column in curve.columns.items()}
            for curve in store.buckets([(pair, "loss") for pair in pairs], points=4)
        ]
        answers["compare"] = store.compare(pairs, alike=True).rows
        answers["page"] = store.lineage.filter(
            {"summary_dir": {"eq": str(base_dir / "a")}}, base_dir=base_dir
        )
        answers["listing"] = store.lineage.jobs(base_dir)
        answers["contents"] = store.lineage.contents(base_dir, ["./a", "./none"])
        answers["problems"] = store.repair.problems_below(base_dir / "a")
        answers["seed"] = filter_summary_lineage(base_dir, store=store, refresh=False)
    return answers


def on_disk(url: str, base_dir: Path) -> dict[str, object]:
    """What Python answers from log files."""
    with LineageStore(url, settings=Settings()) as store:
        job = store.job(base_dir / "a")
        (image,) = job.images("picture")
        return {
            "image": image.read().png,
            "why": (store.repair.why(base_dir / "a"), job.why(), store.repair.why(base_dir)),
            "verify": [list(store.repair.verify(base_dir)), list(job.verify())],
            "seed": get_summary_lineage(base_dir / "a", store=store),
        }


def by_url(url: str, base_dir: Path) -> dict[str, object]:
    """What the server answers."""
    key = url_key(to_stored(str(base_dir)))
    with serving(url) as client:
        asked = [
            f"jobs/{key}/a",
            *(f"jobs/{key}/a/{part}" for part in ("tags", "lineage", "evaluations", "files")),
            f"jobs?base={key}&where=network=LeNet5",
            f"train-jobs?base={key}",
            f"payloads/{key}/a?plugin=image&tag=picture",
            f"payload/{key}/a?plugin=image&tag=picture&step=1",
        ]
        answers: dict[str, object] = {path: _body(client.get(f"{API}/{path}")) for path in asked}
        series = [{"base": key, "name": name, "tag": "loss"} for name in ("a", "b", "none")]
        answers["series"] = _body(client.post(f"{API}/series", json={"series": series}))
        old = "/v1/mindinsight/datavisual"
        answers["old"] = _body(client.get(f"{old}/plugins?train_id=./a"))
    return answers


def timeless(answer: str) -> str:
    """Leave out how long ago a job was last heard of."""
    return re.sub(r'(quiet_s"?:?)\s+[\d.]+|(?<="quiet_s":)[\d.]+', r"\1", answer)


def _body(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return timeless(answer.content.decode("latin-1"))


def by_cli(url: str, base_dir: Path) -> dict[str, object]:
    """What the command line answers."""
    job = str(base_dir / "a")
    asked: list[list[str]] = [
        ["show", job, "--json"],
        ["show", "./a", "--base-dir", str(base_dir)],
        ["tags", job],
        ["scalars", job, "./b", "loss"],
        ["evaluations", job],
        ["compare", job, "./b"],
        ["jobs", str(base_dir)],
        ["filter", str(base_dir)],
        ["problems", str(base_dir)],
        ["why", job],
        ["verify", job],
        ["verify", str(base_dir)],
    ]
    return {" ".join(words): _printed(url, words) for words in asked}


def _printed(url: str, words: list[str]) -> tuple[int, str]:
    with redirect_stdout(io.StringIO()) as out, logging_kept():
        code = main(["--database", url, *words])
    assert code == 0, (words, out.getvalue())
    return code, timeless(out.getvalue())


@pytest.mark.parametrize("answers", [in_sql, on_disk, by_url, by_cli], ids=lambda ask: ask.__name__)
def test_a_base_dir_that_was_moved_with_a_link_left_behind_answers_as_before(
    url: str, base_dir: Path, answers: Callable[[str, Path], dict[str, object]]
) -> None:
    before = answers(url, base_dir)
    move(base_dir)
    after = answers(url, base_dir)
    assert after == before


def test_a_job_of_a_base_dir_that_was_moved_is_annotated(url: str, base_dir: Path) -> None:
    move(base_dir)
    key = url_key(to_stored(str(base_dir)))
    with serving(url, allow_remarks=True) as client:
        assert client.put(f"{API}/jobs/{key}/a/annotation", json={"tag": 4}).status_code == 204
    _printed(url, ["annotate", str(base_dir / "a"), "--remark", "moved"])
    with LineageStore(url, settings=Settings()) as store:
        job = store.job(base_dir / "a")
        assert (job.label, job.remark) == (4, "moved")
        assert job.reingest().from_start == 2
        assert list(store.base_dirs) == [str(base_dir)]


def test_a_share_that_hangs_keeps_no_answer_that_is_in_sql(url: str, base_dir: Path) -> None:
    before = in_sql(url, base_dir)
    with hanging(base_dir) as looks:
        assert in_sql(url, base_dir) == before
    assert looks == []


def test_the_disk_is_asked_about_what_the_store_does_not_have_by_its_text(url: str, base_dir: Path) -> None:
    alias = base_dir.with_name("alias")
    alias.symlink_to(base_dir)
    with LineageStore(url, settings=Settings()) as store:
        assert store.job(alias / "a").id == "./a"
        assert [job.train_id for job in store.lineage.jobs(alias)] == ["./a", "./b"]
        with hanging(base_dir) as looks, pytest.raises(TrainJobNotFoundError):
            store.job(base_dir / "unknown").tags()
        assert looks


def test_a_job_that_was_removed_and_read_again_is_the_same_job(url: str, base_dir: Path) -> None:
    with LineageStore(url, settings=Settings()) as store:
        job = store.job("./a")
        before, tags = job.ref, job.tags()
        store.removal.remove(CleanUp(condition={"summary_dir": {"eq": "./a"}}))
        job.reingest()
        assert job.tags() == tags
        assert job.ref.base_dir_id == before.base_dir_id
