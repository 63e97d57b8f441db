"""Collect what is needed to reproduce a run: command line, git commit, host, versions, seed.

In: this process. Out: a dict for `log_params` or a collector's custom data. Promises: no environment variable is
recorded; in the command line, what looks like a password, token or key is masked (`***`): by the option's name,
inside a URL, by well-known prefixes, or as a long run of letters and digits. What cannot be found is left out. Needs
no MindSpore.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

MASK = "***"
_GIT_TIMEOUT_S = 10
_HIDDEN_WORD = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|token(?!s)|secret|credentials?|bearer|auth(?:orization)?"
    r"|(?:api|access|private|secret|account|license|encryption|ssh)[-_.]?key)"
)
_NAMED = re.compile(rf"[\w.\-/]*(?<![a-z0-9]){_HIDDEN_WORD}s?(?![a-z0-9])[\w.\-]*", re.IGNORECASE)
_NAMED_VALUE = re.compile(
    rf"(?P<name>(?<![a-z0-9]){_HIDDEN_WORD}s?(?![a-z0-9])[\w.\-]*[\"']?\s*[=:]\s*)(?P<value>.+)",
    re.IGNORECASE | re.DOTALL,
)
_URL_PASSWORD = re.compile(r"(?<=://)[^/@\s]*@")
_KNOWN_TOKEN = re.compile(
    r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|ASIA|AIza|eyJ|pypi-)[\w.\-]{8,}"
)
_LONG_TOKEN = re.compile(
    r"(?<![\w+-])(?:(?=[A-Za-z+]*[0-9])(?=[0-9+]*[A-Za-z])[A-Za-z0-9+]{32,}"
    r"|(?=[\w-]*[0-9])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?=[\w-]{32})[A-Za-z0-9_-]{32,})={0,2}(?![\w+-])"
)


def collect_environment(*, seed: int | None = None) -> dict[str, Any]:
    """Return command line, git commit of the script and whether it was clean, host, Python, packages, seed.

    Args:
        seed: the seed of the run; by default MindSpore's, if MindSpore is imported and has one.
    """
    found: dict[str, Any] = {
        "command": masked(sys.orig_argv),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": dict(sorted(_packages())),
        **_git(_directory_of_script()),
    }
    seed = _seed_of_mindspore() if seed is None else seed
    if seed is not None:
        found["seed"] = seed if abs(seed) < 2**31 else str(seed)  # the format has int32
    return {"environment": found}


def masked(arguments: Sequence[str]) -> str:
    """Return a command line, quoted for a shell, with everything that looks like a secret masked."""
    shown: list[str] = []
    hides_next = False
    for argument in arguments:
        argument = argument.encode(errors="replace").decode()
        hide = hides_next and not argument.startswith("--")
        hides_next = argument.startswith("-") and bool(_NAMED.fullmatch(argument))
        shown.append(MASK if hide else shlex.quote(_without_secrets(argument)).replace(f"'{MASK}'", MASK))
    return " ".join(shown)


def _without_secrets(argument: str) -> str:
    argument = _URL_PASSWORD.sub(f"{MASK}@", argument)
    argument = _NAMED_VALUE.sub(rf"\g<name>{MASK}", argument)
    return _LONG_TOKEN.sub(MASK, _KNOWN_TOKEN.sub(MASK, argument))


def _packages() -> Iterator[tuple[str, str]]:
    """Yield (name, version) of the distributions of imported modules."""
    homes = metadata.packages_distributions()
    for top in {name.partition(".")[0] for name in list(sys.modules)}:
        # Remains of an upgrade on the disk have no name, or no version.
        for distribution in filter(None, homes.get(top, ())):
            with suppress(metadata.PackageNotFoundError):
                if version := metadata.version(distribution):
                    yield distribution.lower(), version


def _directory_of_script() -> Path:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(script).resolve().parent if script else Path.cwd()


def _git(directory: Path) -> dict[str, Any]:
    """Return the commit and whether tracked files are unchanged; an empty dict outside a repository or without git."""
    commit = _ask_git(directory, "rev-parse", "HEAD")
    changes = _ask_git(directory, "status", "--porcelain", "--untracked-files=no") if commit else None
    return {} if changes is None else {"git_commit": commit, "git_clean": not changes}


def _ask_git(directory: Path, *question: str) -> str | None:
    # A repository may configure a program that git runs (fsmonitor), and a query should not lock the repository.
    git = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", os.fspath(directory)]
    nothing = subprocess.DEVNULL
    try:
        answer = subprocess.check_output(  # noqa: S603 - our own words
            [*git, *question], stdin=nothing, stderr=nothing, text=True, timeout=_GIT_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.strip()


def _seed_of_mindspore() -> int | None:
    get_seed = getattr(sys.modules.get("mindspore"), "get_seed", None)
    return None if get_seed is None else get_seed()
