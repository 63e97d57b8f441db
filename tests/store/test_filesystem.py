"""The filesystem type of a path, whatever bytes are in the names of the host's mounts."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.program import PROGRAM
from lineage_store.errors import UnsafeStoreLocationError
from lineage_store.paths import filesystem_type, refuse_network_filesystem

ROOT = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
HOSTILE = b"\xff\xfe\x85\x1c\x0b\x0c\r\xe2\x80\xa8"
"""Not UTF-8, and what Python, but not the kernel, takes for the end of a field or a line."""
MOUNTS = [
    (b"plain", b"plain"),
    (b"with space", rb"with\040space"),
    (b"tab\tand\nline", rb"tab\011and\012line"),
    (rb"back\slash", rb"back\134slash"),
    (rb"no\040escape", rb"no\134040escape"),
    ("données-损".encode(), "données-损".encode()),
    (HOSTILE, HOSTILE),
    (b"hash#", rb"hash\043"),
]


def told(directory: Path, *mounts: tuple[bytes, bytes]) -> Path:
    """A text of the kernel that tells of a root and of mounts of some types, by their names as it spells them."""
    lines = [
        b"%d 22 0:4%d / %s rw,nosuid shared:2 master:1 - %s host:/export rw,vers=4.2\n"
        % (number, number, name, kind)
        for number, (name, kind) in enumerate(mounts, 40)
    ]
    (directory / "mountinfo").write_bytes(ROOT + b"".join(lines))
    return directory / "mountinfo"


@pytest.mark.parametrize(("name", "spelt"), MOUNTS)
def test_a_network_filesystem_is_known_by_whatever_name_it_is_mounted(
    name: bytes, spelt: bytes, tmp_path: Path
) -> None:
    here = os.fsencode(tmp_path)
    mount = Path(os.fsdecode(here + b"/" + name))
    mount.mkdir()
    mountinfo = told(tmp_path, (here + b"/" + spelt, b"nfs4"), (here + b"/" + spelt + b"/deeper", b"xfs"))
    assert filesystem_type(mount / "below" / "store.db", mountinfo) == "nfs4"
    assert filesystem_type(mount / "deeper", mountinfo) == "nfs4"  # it is not there: its mount is gone
    (mount / "deeper").mkdir()
    assert filesystem_type(mount / "deeper", mountinfo) == "xfs"
    assert filesystem_type(tmp_path, mountinfo) == "ext4"
    assert filesystem_type(Path(f"{mount}-2"), mountinfo) == "ext4"
    with pytest.raises(UnsafeStoreLocationError, match=r"network filesystem \(nfs4\)"):
        refuse_network_filesystem(mount / "store.db", mountinfo)


def test_what_was_mounted_last_on_a_place_is_what_is_there(tmp_path: Path) -> None:
    here = os.fsencode(tmp_path)
    assert filesystem_type(tmp_path, told(tmp_path, (here, b"autofs"), (here, b"fuse.\xff"))) == r"fuse.\xff"
    assert filesystem_type(tmp_path, told(tmp_path, (here, b"nfs"), (here, b"xfs"))) == "xfs"


def test_where_nothing_tells_nothing_is_refused(tmp_path: Path) -> None:
    assert filesystem_type(tmp_path, tmp_path / "none") is None
    refuse_network_filesystem(tmp_path, tmp_path / "none")


def test_a_mount_whose_name_is_not_utf8_breaks_no_command(tmp_path: Path) -> None:
    """With a mount of a real kernel, seen by the program alone."""
    mount = os.fsencode(tmp_path) + b"/m " + HOSTILE
    os.mkdir(mount)
    script = 'mount -t tmpfs none "$1" && shift && exec "$@"'
    command: list[str | bytes | Path] = ["unshare", "--mount", "sh", "-c", script, "sh", mount]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    url = f"sqlite:///{tmp_path}/store.db"
    environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url, "HOME": str(tmp_path)}
    for verb in (["init"], ["doctor", os.fsdecode(mount)]):
        ran = subprocess.run([*command, PROGRAM, *verb], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
