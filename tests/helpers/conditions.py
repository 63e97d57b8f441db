"""Random jobs and random valid conditions on them: every field and operator, groups, sorting, paging.

In: nothing. Out: `JOBS`, always the same, and the hypothesis strategy `conditions`. The values are difficult ones: NaN,
infinities, text that looks like a pattern or a number, integers that no double can represent.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from helpers.stored_jobs import StoredJob

NAN, INFINITY = float("nan"), float("inf")
TEXTS = [
    "a#b",
    "MLP",
    "mlp",
    "LeNet5",
    "",
    "a_b",
    "a%b",
    "a\\b",
    "ÄÖ",
    "äö",
    "ß",
    "测试",
    "\U0001f600",
    "\uffff",
    "NaN",
    "1",
    "x\x00y",
    "\\x00",
]
NUMBERS = [
    0,
    1,
    2,
    2**31,
    2**53,
    -1,
    0.5,
    1.0,
    0.1,
    -0.0,
    1e300,
    5e-324,
    INFINITY,
    -INFINITY,
    NAN,
    True,
    False,
]
INTEGERS = [0, 1, 2, 16, 2**31, 2**63 - 1]
FLOATS = [0.0, 0.01, 1.5, 2.5, -3.0, 1e38, INFINITY, -INFINITY, NAN]
DOCUMENTS: list[Any] = [[], [1], [1.0, "a"], {"a": 1}, {"b": [True], "a": None}]
TEXT_FIELDS = [
    "network",
    "optimizer",
    "loss_function",
    "train_dataset_path",
    "test_dataset_path",
    "dataset_mark",
]
WORDS = {
    "state": ["reading", "live", "stalled", "finished", "missing"],
    "outcome": ["completed", "failed", "interrupted"],
    "host": ["node-1", "node-2", "NODE-1"],
}
REMARKS = ["ok", "the one in the paper", "OK"]
INTEGER_FIELDS = [
    "epoch",
    "batch_size",
    "device_num",
    "model_size",
    "train_dataset_count",
    "test_dataset_count",
]
FLOAT_FIELDS = ["loss", "learning_rate"]
METRICS = [
    "metric_best/acc",
    "metric_first/acc",
    "metric/acc",
    "metric_acc",
    "metric/odd name",
    "metric/never",
]
USER = ["user_defined/owner", "user_defined/n/m"]


def _jobs(count: int) -> list[StoredJob]:
    pick = random.Random(20260101)
    values = [*TEXTS, *NUMBERS, *DOCUMENTS, None]

    def some(names: list[str], pool: list[Any]) -> dict[str, Any]:
        return {name: pick.choice(pool) for name in names if pick.random() < 0.7}

    return [
        StoredJob(
            f"./run {number}",
            some(TEXT_FIELDS, TEXTS) | some(INTEGER_FIELDS, INTEGERS) | some(FLOAT_FIELDS, FLOATS),
            some(["acc", "odd name"], values),
            some(["owner", "n/m"], values),
            some(["best/acc", "first/acc"], values),
            update_time=pick.randrange(4),
            label=pick.choice([None, 0, 1, 10]),
            remark=pick.choice([None, *REMARKS]),
            state=pick.choice(WORDS["state"]),
            outcome=pick.choice([None, *WORDS["outcome"]]),
            host=pick.choice([None, *WORDS["host"]]),
            first_file_time=pick.choice([None, 0, 1, 86_400]),
        )
        for number in range(count)
    ]


JOBS = _jobs(60)

finite_numbers = st.sampled_from([number for number in NUMBERS if not isinstance(number, bool)])
patterns = st.sampled_from(
    ["%", "_", "m%", "%P", "ML_", "a\\%b", "a\\_b", "a\\\\b", "%Ö", "%ö", "", "x\x00%", "\\M\\lp"]
)
choices = st.lists(
    st.sampled_from([*TEXTS, *NUMBERS, *DOCUMENTS, None, 10**400, 2**70, -(2**63), 2.0**63]), max_size=5
)
lists = {"in": choices, "not_in": choices.map(tuple)}
flags = {"is_null": st.booleans()}


def _ordered(values: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return dict.fromkeys(("eq", "ne", "lt", "gt", "le", "ge"), values)


words = {"in": choices | st.just(["NaN", "-Infinity", 0.01])}
of_text = {**dict.fromkeys(("eq", "ne"), st.sampled_from(TEXTS)), "like": patterns, **flags, **lists}
of_integers = {**_ordered(st.sampled_from(INTEGERS)), **flags, **lists}
of_floats = {**_ordered(st.sampled_from(FLOATS)), **flags, **lists, **words}
of_metrics = {**_ordered(finite_numbers), "like": patterns, **flags, **lists}
moments: st.SearchStrategy[Any] = st.sampled_from([0, 1, 1.5, 2.0, 86_400, -1])
of_times = {
    **_ordered(moments),
    **flags,
    **dict.fromkeys(("in", "not_in"), st.lists(moments | st.none(), max_size=3)),
}


def _words(*known: str) -> dict[str, st.SearchStrategy[Any]]:
    word = st.sampled_from(known)
    listed = st.lists(word | st.none(), max_size=3)
    return {**of_text, **dict.fromkeys(("eq", "ne"), word), **dict.fromkeys(("in", "not_in"), listed)}


of_user_values = {**_ordered(st.sampled_from(TEXTS + NUMBERS)), "like": patterns, **flags, **lists}
OPERATORS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    **dict.fromkeys([*TEXT_FIELDS, "summary_dir"], of_text),
    **dict.fromkeys(INTEGER_FIELDS, of_integers),
    **dict.fromkeys(FLOAT_FIELDS, of_floats),
    **{name: _words(*known) for name, known in (*WORDS.items(), ("remark", REMARKS))},
    **dict.fromkeys(["updated_at", "first_started_at"], of_times),
    "tag": of_integers,
    **dict.fromkeys(METRICS, of_metrics),
    **dict.fromkeys(USER, of_user_values),
}


@st.composite
def plain(draw: st.DrawFn) -> dict[str, Any]:
    condition = {}
    for name in draw(st.lists(st.sampled_from(sorted(OPERATORS)), max_size=3, unique=True)):
        operators = OPERATORS[name]
        chosen = draw(st.lists(st.sampled_from(sorted(operators)), min_size=1, max_size=2, unique=True))
        condition[name] = {operator: draw(operators[operator]) for operator in chosen}
    return condition


def _grouped(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    members = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        members.map(lambda parts: {"or": parts}),
        members.map(lambda parts: {"and": parts}),
        inner.map(lambda part: {"not": part}),
        st.tuples(inner, inner).map(lambda pair: {"not": pair[0], "or": [pair[1]]}),
    )


where = st.recursive(plain(), _grouped, max_leaves=5)
sortable = st.sampled_from(sorted(OPERATORS))
directions = st.sampled_from(["ascending", "descending", None])
control: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"sorted_name": sortable, "sorted_type": directions}),
    st.lists(
        st.tuples(sortable, directions),
        min_size=1,
        max_size=3,
        unique_by=lambda pair: pair[0].replace("metric_", "metric/"),
    ).map(lambda pairs: {"sorted_by": [list(pair) for pair in pairs]}),
)
paging = st.fixed_dictionaries({}, optional={"limit": st.integers(1, 20), "offset": st.integers(0, 4)})
conditions = st.builds(
    lambda *parts: {key: value for part in parts for key, value in part.items()}, where, control, paging
)
