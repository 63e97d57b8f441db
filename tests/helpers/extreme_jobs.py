"""Jobs with extreme but valid values: nobody trains them, but anybody can write them.

In: a base dir. Out: one job per kind of extreme below it, in MindSpore's format. Every file is complete and undamaged,
and no value gives a reason to leave it out.
"""

from __future__ import annotations

import base64
import json
import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers.log_writer import Log, histogram, image, tensor
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2

LEAST, GREATEST = -(2**63), 2**63 - 1
STEPS = (0, LEAST, GREATEST, -1, 1, LEAST + 1, GREATEST - 1)
TIMES = (math.nan, math.inf, -math.inf, -1.0, 0.0, 5e-324, 1.7e308, -1.7e308, 253_402_300_800.0, 1e18)
VALUES = (math.nan, math.inf, -math.inf, 3.4028234663852886e38, -3.4028234663852886e38, 1e-45, -0.0)
TEXTS = {
    "empty": "",
    "nul": "a\0b",
    "control": "\x01\x1b[2J\x7f\x85\r\n\t",
    "emoji": "🙂\U0010ffff",
    "turned": "\u202egpj\u2028\ufeff",
    "formula": "=1+cmd|'/c calc'!A1",
    "quotes": "'\";--\\x00%s{}$1",
}
NOT_UTF8 = b"X\xed\xa0\x80\xff"
"""An encoded lone surrogate, and a byte that never occurs in UTF-8."""
LONG = "".join(random.Random(7).choices("".join(map(chr, range(33, 0x2000))), k=30_000))
MEGABYTE = base64.b64encode(random.Random(8).randbytes(750_000)).decode()
"""Like LONG too long for every index, and incompressible."""
_PLACEHOLDER = "Q9zq9"


def write(base_dir: Path) -> list[Path]:
    """Write all of them; return their directories."""
    for name, make in _KINDS.items():
        make(base_dir / name)
    for name, text in TEXTS.items():
        _texts(base_dir / f"text_{name}", text)
    _texts(base_dir / "text_long", LONG)
    _not_utf8(base_dir / "text_not_utf8")
    _modified(base_dir)
    return sorted(path for path in base_dir.iterdir() if path.is_dir())


def _steps(job: Path) -> None:
    log = Log().version()
    for step in STEPS:
        log.scalar(step, "loss", 1.0).histogram(step, "w", [1.0]).tensor(step, "t", [1.0])
    log.write_summary(job)
    Log().scalar(LEAST, "loss", 2.0).scalar(GREATEST, "loss", 2.0).write_summary(job, 1_700_000_100)


def _times(job: Path) -> None:
    for number, time in enumerate(TIMES):
        log = Log().version(wall_time=time)
        for step in range(3):
            log.scalar(step, "loss", 1.0, wall_time=time if step else -time)
        log.image(1, "i", [[[0, 1, 2]]], wall_time=time).graph("Add", wall_time=time)
        log.write_summary(job, 1_700_000_000 + number)
        about = Log().train(network="N", wall_time=time).evaluation({"accuracy": 0.5}, wall_time=-time)
        about.write_lineage(job, 1_700_000_000 + number)


def _values(job: Path) -> None:
    log = Log().version()
    for step, value in enumerate(VALUES * 10):
        log.scalar(step, "loss", value).tensor(step, "t", [value])
    for step, value in enumerate((math.nan, math.inf, -math.inf, 1.7e308, 5e-324)):
        for count in (GREATEST, LEAST, 0, 7):
            odd = histogram("w", [1.0])
            for name in ("count", "nan_count", "pos_inf_count", "neg_inf_count"):
                setattr(odd.histogram, name, count)
            odd.histogram.min = odd.histogram.max = odd.histogram.sum = value
            log.summary(4 * step + count % 5, odd)
    picture = image("p", [[[0, 1, 2]]])
    picture.image.height, picture.image.width = 2**31 - 1, -(2**31)
    log.summary(1, picture).write_summary(job)


def _lineage(job: Path) -> None:
    log = Log().train(
        epoch=-(2**31), batch_size=2**31 - 1, loss=math.inf, learning_rate=math.nan, size=GREATEST
    )
    log.train(epoch=2**31 - 1, device_num=-(2**31), loss=-math.inf, learning_rate=1e-45, size=LEAST)
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    metrics = f'{{"accuracy": 1e400, "less": -1e400, "nan": NaN, "int": {10**400}, "tiny": 1e-400, "": null, '
    metrics += f'"deep": {json.dumps(deep)}, "lone": "\\ud800", "\\udfff": true, "twice": 1, "twice": 2}}'
    log.evaluation(metrics, path="", size=-(2**31))
    for value in (-(2**31), 2**31 - 1, math.nan, math.inf, -math.inf, 1.7e308, 5e-324, ""):
        log.user_info(**_named(f"k{value}", value)).user_info(**_named("", value))
    log.dataset_graph(
        {
            "op_type": "",
            "": "",
            "nan": math.nan,
            "inf": math.inf,
            "operations": [{"tensor_op_name": "", "size": [2**31 - 1], "weights": [math.nan, math.inf]}],
            "sampler": {"weights": [-math.inf]},
            "children": [{"op_type": None, "children": []}] * 50,
        }
    )
    log.write_lineage(job)


def _nothing(job: Path) -> None:
    empty = lineage_pb2.LineageEvent()
    empty.train_lineage.SetInParent()
    none = lineage_pb2.LineageEvent()
    none.dataset_graph.SetInParent()
    Log().lineage(empty).lineage(none).evaluation().write_lineage(job)
    Log().event(summary_pb2.Event()).summary(1).summary(2, summary_pb2.Summary.Value(tag="")).write_summary(
        job
    )


def _names(job: Path) -> None:
    for number, time in enumerate(("0", "00000000000000000001", "253402300800", "9" * 18)):
        for kind in ("_MS", "_lineage"):
            path = job / f"events.out.events.summary.{time}.{'9' * (number * 6 + 1)}.h\x1b\n{kind}"
            log = Log().scalar(1, "loss", 1.0) if kind == "_MS" else Log().train(network=f"N{number}")
            log.write(path)


def _megabyte(job: Path) -> None:
    log = Log().train(network=MEGABYTE, train_dataset_path=MEGABYTE)
    log.evaluation({MEGABYTE: 1.0}).user_info(**{MEGABYTE: 1}).write_lineage(job)
    Log().scalar(1, MEGABYTE, 1.0).write_summary(job)


_KINDS: Mapping[str, Callable[[Path], None]] = {
    "steps": _steps,
    "times": _times,
    "values": _values,
    "lineage": _lineage,
    "nothing": _nothing,
    "megabyte": _megabyte,
    "=names\x1b[2J\n\u202e": _names,
}


def _texts(job: Path, text: str) -> None:
    """Put the same text wherever there can be one."""
    _everywhere(text).write_lineage(job)
    log = Log().version(text)
    for step in range(3):
        log.summary(step, *_tagged(text))
    log.event(summary_pb2.Event(graph_def=_graph(text))).write_summary(job)


def _not_utf8(job: Path) -> None:
    """Do the same with bytes that are not UTF-8, which protobuf itself would not write."""
    for kind, log in (
        ("_lineage", _everywhere(_PLACEHOLDER)),
        ("_MS", Log().summary(1, *_tagged(_PLACEHOLDER))),
    ):
        odd = Log()
        for start, length in log.spans:
            odd.frame(log.content[start + 12 : start + length - 4].replace(_PLACEHOLDER.encode(), NOT_UTF8))
        odd.write(job / f"events.out.events.summary.1700000000.0.host{kind}")


def _everywhere(text: str) -> Log:
    names = ("network", "optimizer", "loss_function", "train_dataset_path", "parallel_mode", "path")
    log = Log().train(**_named(names, text))
    log.evaluation({f"m{text}": text, "list": [text], "accuracy": text}, path=text)
    event = lineage_pb2.LineageEvent()
    event.user_defined_info.user_info.add().map_str[f"u{text}" if text != _PLACEHOLDER else "u"] = text
    node = {
        "op_type": text,
        "p": text,
        "operations": [{"tensor_op_name": text, "q": [text, None]}],
        "children": [],
    }
    return log.lineage(event).dataset_graph(node)


def _tagged(text: str) -> list[summary_pb2.Summary.Value]:
    return [
        summary_pb2.Summary.Value(tag=text, scalar_value=1.0),
        histogram(text, [0.0, 1.0]),
        image(text, [[[0, 1, 2]]]),
        tensor(text, [1.0, 2.0]),
    ]


def _graph(text: str) -> anf_ir_pb2.GraphProto:
    graph = anf_ir_pb2.GraphProto(name=text)
    graph.node.add(name=text, op_type=text, full_name=text).input.add(name=text)
    return graph


def _named(names: str | Sequence[str], value: Any) -> dict[str, Any]:
    return dict.fromkeys([names] if isinstance(names, str) else names, value)


def _modified(base_dir: Path) -> None:
    """Give log files modification times that no calendar or clock can show."""
    for number, seconds in enumerate((-(2**40), -1, 0, 2**32 + 1, 2**34, 253_402_300_800, 2**62)):
        path = Log().scalar(1, "loss", 1.0).write_summary(base_dir / f"modified_{number}")
        try:
            os.utime(path, (seconds, seconds))
        except (OverflowError, OSError):
            continue  # this system does not have such times
