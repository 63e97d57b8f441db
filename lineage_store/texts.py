"""Helpers for text: the escape for what SQL text cannot hold, hiding passwords, keys, and how values are shown.

In: any `str` (file names with surrogate escapes included) or `bytes` (a protobuf string that is not UTF-8).
Out: text without NUL and without lone surrogates. Ordinary text is stored unchanged; a NUL becomes `\\x00`, a byte
that is not UTF-8 `\\xNN`, any other lone surrogate `\\uNNNN`, a backslash that would read as an escape `\\x5c`.
Promises: `from_stored(to_stored(text)) == text` for every `str`.
"""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

from lineage_store.errors import LineageParamTypeError

NOT_IN_SQL = re.compile(r"[\x00\ud800-\udfff]")
"""The characters that SQL text cannot hold, nor CSV in UTF-8: NUL and lone surrogates."""
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]|\\(?=x[0-9a-f]{2}|u[0-9a-f]{4})")
_USER_PASSWORD = re.compile(r"(//[^\s:/@\"']*):[^\s\"']*@")
_OF_A_SERVER = re.compile(r"(postgres[a-z0-9+]*://[^\s:/@]*):(?!\*\*\*@)(?:(?!://)[^\"\n])*@")
_PARAMETER = re.compile(r"(?i)(password\s*=\s*)(?:'(?:\\.|[^'\\])*'|[^\s&\"']+)")
_SHOWN_OPTIONS = frozenset({"host", "port", "user", "dbname", "service", "sslmode", "application_name"})
_UNPRINTABLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
LONGEST_KEPT = 256
"""Characters of a text whose `key` is cached; the keys of longer texts are computed each time."""
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})")


def to_stored(text: str | bytes) -> str:
    """Escape what SQL text cannot hold; return ordinary text unchanged."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if text.isascii() and "\\" not in text and "\0" not in text:
        return text  # the usual case, faster than a regular expression
    return _UNSTORABLE.sub(lambda found: _spelled_out(found.group()), text)


def from_stored(text: str) -> str:
    """Undo `to_stored`; bytes that were not UTF-8 become surrogate escapes, as `os.fsencode` takes them."""
    return _ESCAPE.sub(_unescape, text) if "\\" in text else text


def is_storable(text: str) -> bool:
    """Whether SQL text can hold a text as it is: it has no NUL and no lone surrogate."""
    return NOT_IN_SQL.search(text) is None


def without_passwords(text: str) -> str:
    """Return the text with the passwords of URLs and connection strings in it replaced by stars."""
    text = _USER_PASSWORD.sub(r"\1:***@", _OF_A_SERVER.sub(r"\1:***@", text))
    return _PARAMETER.sub(r"\1***", text)


def shown_url(url: str) -> str:
    """Return a database URL, or whatever was given as one, with all that may be a password replaced by stars."""
    begin, end = url.find("://") + 3 if "://" in url else 0, url.rfind("@")
    colon = url.find(":", begin)
    if begin <= colon < end:
        url = f"{url[:colon]}:***{url[end:]}"
    place, mark, options = url.partition("?")
    shown = "&".join(_shown_option(option) for option in options.split("&"))
    return without_passwords(f"{place}{mark}{shown}")


def escaped(text: str, *, keep_lines: bool = False) -> str:
    """Return the text with control, direction and other invisible characters spelled out (`\\x1b`)."""
    if text.isprintable():
        return text
    return "".join(_spelled_out(char) if _is_invisible(char, keep_lines) else char for char in text)


def key(text: str) -> int:
    """Return the first 64 bits of the text's SHA-256 as a signed integer.

    Database indexes use this key in place of tags and names, which may be longer than an index entry can be.
    """
    return _kept_key(text) if len(text) <= LONGEST_KEPT else _kept_key.__wrapped__(text)


def summary_key(name: str) -> int:
    """Return the `name_key` of `best/NAME` or `first/NAME` in the table `metric_summary`.

    SQL makes it of the metric's own key, by `& -2` or `| 1`, and so finds the row in the primary key: a name that it
    would have to calculate is in no index.
    """
    which, _, metric_name = name.partition("/")
    return key(metric_name) | 1 if which == "first" else key(metric_name) & -2


URL_KEY_DIGITS = 12


@lru_cache(maxsize=1024)
def url_key(stored_path: str) -> str:
    """Return the key that stands for a base dir in URLs: hexadecimal digits that depend on its path alone."""
    return hashlib.sha256(stored_path.encode()).hexdigest()[:URL_KEY_DIGITS]


def meant(word: str, names: Iterable[str], before: str = "") -> str:
    """Return `Did you mean …?` with `before` in front of the closest name, ignoring case; empty if none is similar."""
    from difflib import get_close_matches  # imported only once a word is misspelt

    folded = {name.casefold(): name for name in names}
    close = get_close_matches(word.casefold(), folded, n=1, cutoff=0.5)
    return f"Did you mean {before}{folded[close[0]]}?" if close else ""


def shown(value: object) -> str:
    """Return the beginning of a value's `repr`; for a value whose `repr` fails, its type. Never raises."""
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001 - an int with more digits than Python writes, or a class that fails in any way
        name = type(value).__name__
        return f"a very large {name}" if isinstance(value, int) else f"({name} that cannot be shown)"


def canonical_json(value: object) -> str:
    """Return JSON such that equal values have equal text: ASCII only, NaN and infinities as bare words."""
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def either(words: Iterable[str]) -> str:
    """List words as in a sentence: `a, b or c`."""
    *some, last = words
    return f"{', '.join(some)} or {last}" if some else last


def check_text(name: str, value: object) -> None:
    """Raise LineageParamTypeError when a parameter is no text."""
    if not isinstance(value, str):
        raise LineageParamTypeError(f"{name} = {shown(value)} must be a text.")


def _shown_option(option: str) -> str:
    name, equals, _ = option.partition("=")
    return option if not equals or unquote(name) in _SHOWN_OPTIONS else f"{name}=***"


@lru_cache(maxsize=4096)  # jobs share most of their tags and names
def _kept_key(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big", signed=True)


def _canonical(value: object) -> object:
    """Replace values that are equal in Python, such as 1, 1.0 and True, by the same value."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


def _unescape(match: re.Match[str]) -> str:
    if match.group(2):
        return chr(int(match.group(2), 16))
    byte = int(match.group(1), 16)
    return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)


def _is_invisible(char: str, keep_lines: bool) -> bool:
    return unicodedata.category(char) in _UNPRINTABLE and not (keep_lines and char == "\n")


def _spelled_out(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
