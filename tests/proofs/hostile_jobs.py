"""Hostile jobs: one of each kind that somebody can put into a base dir to harm the jobs beside it.

In: a base dir, a number, a random generator. Out: a job directory, or something that pretends to be one. `outside` is
what our processes must not read, `mark` the file that hostile code makes if it is run.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from helpers.log_writer import Log
from lineage_store.eventlog.mindspore.wire import summary_pb2
from lineage_store.eventlog.tfrecord import OVERHEAD_BYTES, encode_frame, encode_header

CANARY = "c4n4ry"
NAME = "events.out.events.summary.1700000000.0.host_MS"
PLANTED = ("numpy", "psycopg", "sqlalchemy", "lineage_store", "sitecustomize", "encodings")
"""Modules that a process might look for where it stands."""
_SOME_BYTES = 200_000
_VAST_BYTES = 1 << 42
_MANY = 20_000
_TAGS = 2_000
"""Of which each is a question of its own to `verify`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where hostile jobs are made, and what they aim at."""

    base_dir: Path
    outside: Path
    mark: Path

    def prepare(self) -> None:
        """Make what is aimed at, and plant modules and settings where processes may stand."""
        Log().scalar(1, CANARY, 0.5).write(self.outside / NAME)
        private = Log().train(network=CANARY).user_info(api_key=CANARY)
        private.write(self.outside / NAME.replace("_MS", "_lineage"))
        (self.base_dir / "growing").mkdir(parents=True)
        for module in PLANTED:
            leave = f"open({str(self.mark)!r}, 'a').write({module!r})"
            (self.base_dir / f"{module}.py").write_text(f"{leave}\nraise ImportError({module!r})\n")

    def disturb(self, step: int) -> None:
        """What hostile jobs do meanwhile: lineage grows, a file is written anew, a job comes and another goes."""
        growing = Log()
        for number in range(200):
            growing.user_info(wall_time=None, **{f"k{step}_{number}": "v" * 50})
        with (self.base_dir / "growing" / NAME.replace("_MS", "_lineage")).open("ab") as file:
            file.write(growing.content)
        Log().scalar(step, f"anew {step}", 0.5).write(self.base_dir / "rewritten" / NAME)
        Log().scalar(step, "loss", 0.5).write(self.base_dir / f"passing_{step}" / NAME)
        shutil.rmtree(self.base_dir / f"passing_{step - 4}", ignore_errors=True)


def make(place: Place, number: int, chance: random.Random) -> str:
    """Make one; its kind. All kinds in turn."""
    kind = list(KINDS)[number % len(KINDS)]
    KINDS[kind](place, place.base_dir / f"hostile_{number}", chance)
    return kind


# --- what is no log file ---


def _linked_job(place: Place, job: Path, _: random.Random) -> None:
    job.symlink_to(place.outside)


def _linked_file(place: Place, job: Path, _: random.Random) -> None:
    job.mkdir()
    for path in place.outside.iterdir():
        (job / path.name).symlink_to(path)


def _fifo(_place: Place, job: Path, _: random.Random) -> None:
    job.mkdir()
    os.mkfifo(job / NAME)


def _socket(_place: Place, job: Path, _: random.Random) -> None:
    job.mkdir()
    here = os.open(job, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{here}/{NAME}")
    os.close(here)


def _directory(_place: Place, job: Path, _: random.Random) -> None:
    (job / NAME).mkdir(parents=True)
    (job / "loop").symlink_to(job)


def _modules(place: Place, job: Path, _: random.Random) -> None:
    job.mkdir()
    for module in PLANTED:
        os.link(place.base_dir / f"{module}.py", job / f"{module}.py")
    Log().scalar(1, "loss", 0.5).write_summary(job)


def _odd_names(_place: Place, job: Path, chance: random.Random) -> None:
    odd = os.fsencode(job) + chance.choice(
        [b"\xff\xfe", b"\n\x1b[2J", b"=1+1", b" ' ; -- ", "\u202e".encode(), b"%s{}"]
    )
    os.mkdir(odd)
    Log().scalar(1, "loss", 0.5).write(Path(os.fsdecode(odd), NAME))
    Log().scalar(1, "loss", 0.5).write(
        Path(os.fsdecode(odd), "n" * 200 + ".out.events.summary.1700000000.h_MS")
    )


# --- sizes ---


def _sparse(_place: Place, job: Path, _: random.Random) -> None:
    path = Log().scalar(1, "loss", 0.5).write(job / NAME)
    os.truncate(path, _VAST_BYTES)


def _many_metrics(_place: Place, job: Path, _: random.Random) -> None:
    Log().evaluation({f"m{number}": 0.5 for number in range(_MANY)}).write_lineage(job)


def _many_values(_place: Place, job: Path, _: random.Random) -> None:
    log = Log()
    for number in range(_MANY // 100):
        log.user_info(wall_time=None, **{f"k{number}_{each}": "v" * 50 for each in range(50)})
    log.write_lineage(job)


def _many_tags(_place: Place, job: Path, _: random.Random) -> None:
    Log().scalars(1, {f"tag {number}": 0.5 for number in range(_TAGS)}).write_summary(job)


def _deep_dataset(_place: Place, job: Path, _: random.Random) -> None:
    graph: dict[str, object] = {"op_type": "MnistDataset"}
    for _depth in range(40):
        graph = {"op_type": "BatchDataset", "children": [graph, {"op_type": "x"}]}
    Log().dataset_graph({"children": [{"op_type": "x"}] * 5_000}).dataset_graph(graph).write_lineage(job)


# --- frames ---


def _of_frames(content: Callable[[], bytes]) -> Callable[[Place, Path, random.Random], None]:
    def write(_place: Place, job: Path, _: random.Random) -> None:
        Log().raw(content()).write(job / NAME)

    return write


def _repeated(part: bytes) -> bytes:
    return part * (_SOME_BYTES // len(part))


def _up_to_the_end() -> bytes:
    begins = range(0, _SOME_BYTES - 100, 12)
    return b"".join(encode_header(_SOME_BYTES - begin - OVERHEAD_BYTES) for begin in begins) + bytes(100)


def _noise(_place: Place, job: Path, chance: random.Random) -> None:
    log = Log().version()
    for step in range(50):
        log.scalar(step, "loss", 0.5)
    content = bytearray(log.content)
    for _ in range(20):
        content[chance.randrange(len(content))] = chance.randrange(256)
    Log().raw(bytes(content)).write(job / NAME)


def _extreme(_place: Place, job: Path, chance: random.Random) -> None:
    log = Log()
    for step in (0, -(2**63), 2**63 - 1, -1, 1):
        wall_time = chance.choice([float("nan"), 1e308, -1.0, 1e18, 5e-324])
        log.scalar(
            step, "loss", chance.choice([float("nan"), float("inf"), 3e38, 1e-45]), wall_time=wall_time
        )
    log.scalar(1, "t" * 100_000, 0.5).write_summary(job)
    lineage = Log().train(network="n" * 100_000, loss=float("inf"), epoch=2**31 - 1)
    lineage.evaluation('{"a": 1e400, "b": NaN, "\\ud800": 1}').write_lineage(job)
    for path in job.iterdir():
        os.utime(path, (chance.choice([-1, 0, 2**33]),) * 2)


_GOOD = encode_frame(summary_pb2.Event(wall_time=1.0, step=1).SerializeToString())
KINDS: Mapping[str, Callable[[Place, Path, random.Random], None]] = {
    "linked job": _linked_job,
    "linked file": _linked_file,
    "fifo": _fifo,
    "socket": _socket,
    "directory": _directory,
    "modules": _modules,
    "odd names": _odd_names,
    "sparse": _sparse,
    "many metrics": _many_metrics,
    "many values": _many_values,
    "many tags": _many_tags,
    "deep dataset": _deep_dataset,
    "undecodable": _of_frames(lambda: _repeated(encode_frame(b"\xff"))),
    "empty frames": _of_frames(lambda: _repeated(encode_frame(b""))),
    "every other damaged": _of_frames(lambda: _repeated(encode_frame(b"x")[:-1] + b"?" + _GOOD)),
    "claims up to the end": _of_frames(_up_to_the_end),
    "claims beyond the end": _of_frames(lambda: _repeated(encode_header(2**25))),
    "noise": _noise,
    "extreme": _extreme,
}
