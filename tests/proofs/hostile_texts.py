"""Hostile strings: attacks of many kinds, mixed and mutated at random. Each has a mark by which it is found again."""

from __future__ import annotations

import os
import random
import re

MARK = "zq7x"
"""In every hostile string, and nowhere else."""
CANARY = "c4n4ry"
"""A password that nobody may see."""

ATTACKS = (
    "{}' OR '1'='1",
    '{}" OR ""="',
    "{}'; DROP TABLE train_job; --",
    "{}'); DELETE FROM log_file; --",
    "{}' UNION SELECT content, 1 FROM lineage_event --",
    "{}\\'; ATTACH DATABASE '/tmp/{}' AS other; --",
    "{}$$; SELECT pg_sleep(9); $$",
    "{}' || (SELECT pg_read_file('/etc/passwd')) || '",
    'metric/{}" = ""',
    "metric/{}`; DROP VIEW v_job",
    "user_defined/{}') OR 1=1",
    "{}%s%(name)s%d:name?$1{{0}}",
    "{}:bind :param_1 ?1 @p #p",
    "../../{}",
    "./../../../../etc/passwd#{}",
    "..\\..\\{}",
    "%2e%2e%2f{}",
    "%252e%252e%252f{}",
    "/etc/{}",
    "file:///etc/{}",
    "~root/{}",
    "./{}/../../..",
    "{}\x00.txt",
    "{}\x1b[2J\x1b]0;owned\x07",
    "{}\r\nError: forged line",
    "{}\u202egpj.exe",
    "{}\u2028\u2029\u200b\ufeff",
    "{}\udc80\udcff",
    "{}\ud800",
    "<script>{}</script>",
    "=cmd|'/c calc'!{}",
    "@SUM({})",
    "-{}",
    "--{}",
    "--help{}",
    "${{{}}}$(id)`id`;|&",
    "{{{{{}.__class__.__mro__}}}}",
    "{}" + "A" * 3_000,
    "{}" + "'" * 500,
    "{}" + "(" * 500,
    "{}" + "\U0001f600\u0301" * 50,
    "{}%_\\%\\_\\",
    "{}*?[a-z]",
    '[{{"{}": {{"eq": 1}}}}]',
    '{{"or": "{}"}}',
    "1e999{}",
    "{}=1",
    "{} in a,b",
    "{} is null",
    "{} like %",
    "postgresql://me:pw@127.0.0.1:1/{}",
    "sqlite:////{}?mode=rw",
)
_WORDS = (
    "'",
    '"',
    "`",
    "\\",
    "/",
    "..",
    ";",
    "--",
    "/*",
    "*/",
    "\x00",
    "\n",
    "\x7f",
    "%",
    "\u0000",
    "\udcfe",
    "NaN",
    "é",
)


def hostile_text(chance: random.Random) -> str:
    """One string, different each time."""
    text = (
        chance.choice(ATTACKS)
        .replace("{{", "{")
        .replace("}}", "}")
        .replace("{}", f"{MARK}{chance.getrandbits(24):x}")
    )
    for _ in range(chance.choice([0, 0, 1, 3])):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(_WORDS) + text[place:]
    return text


def as_file_name(text: str) -> str:
    """A text as a name in a directory: without what no name can hold."""
    possible = re.sub("[/\x00\ud800-\udc7f\udd00-\udfff]", "", text)
    return os.fsdecode(os.fsencode(possible)[:150]).strip(".") or MARK


def as_proto_text(text: str) -> str:
    """A text as a protobuf string, which is UTF-8."""
    return re.sub("[\ud800-\udfff]", "", text)
