"""`python -m proofs [name …] [--full] [--quick] [-n SIZE] [--seed SEED] [--list]`: attack promises, a line each.

    kill       held     1,000 kills on SQLite, 0 lost, 0 duplicated, … · without bookmark check: 37 failures · seed 1

Several proofs run two at a time, each in a process of its own, the long ones first.
Exit code 1 when a promise broke or a control did not; skipped proofs are named, and are no failure.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from proofs import (
    backups,
    bounds,
    copying,
    cost,
    damage,
    fence,
    hostile,
    identity,
    kill,
    ledger,
    moving,
    neighbours,
    nfs_like,
    partitioning,
    powercut,
    removal,
    same,
    shards,
    stream,
    stuck,
    takeover,
    torn,
)
from proofs.proof import Outcome, Proof, Run, SkippedError, Stores

PROOFS: Sequence[Proof] = [
    identity.PROOF,
    kill.PROOF,
    same.PROOF,
    bounds.PROOF,
    cost.PROOF,
    stuck.PROOF,
    stream.PROOF,
    hostile.PROOF,
    neighbours.PROOF,
    fence.PROOF,
    shards.PROOF,
    powercut.PROOF,
    takeover.PROOF,
    damage.PROOF,
    torn.PROOF,
    removal.PROOF,
    partitioning.PROOF,
    copying.PROOF,
    backups.PROOF,
    moving.PROOF,
    nfs_like.PROOF,
    ledger.PROOF,
]
LANES = 2
SMALLEST = 20
"""The smallest size at which every attack makes sense."""


def main() -> None:
    arguments = _arguments()
    if arguments.list:
        print("\n".join(f"{proof.name:10} {proof.promise}" for proof in PROOFS))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and files of ours go then, too
    logging.disable(logging.CRITICAL)  # what is attacked has a lot to say
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    chosen = _chosen(arguments)
    if len(chosen) == 1:
        sys.exit(0 if _here(chosen[0], _size(chosen[0], arguments), seed) else 1)
    with ThreadPoolExecutor(LANES) as lanes:
        held = list(lanes.map(lambda proof: _beside(proof, _size(proof, arguments), seed), chosen))
    sys.exit(0 if all(held) else 1)


def _beside(proof: Proof, size: int, seed: int) -> bool:
    """Try one proof in a process of its own."""
    command = [sys.executable, "-m", "proofs", proof.name, "-n", str(size), "--seed", str(seed)]
    return subprocess.run(command, check=False).returncode == 0


def _here(proof: Proof, size: int, seed: int) -> bool:
    with ExitStack() as lifetime:
        scratch = Path(lifetime.enter_context(tempfile.TemporaryDirectory(prefix="proofs-")))
        return _line(proof, Run(size, seed, _new(scratch / proof.name), Stores(scratch, lifetime)))


def _line(proof: Proof, run: Run) -> bool:
    """Try one proof and say how it went; whether it may count as held."""
    started = time.monotonic()
    try:
        verdict, words = _verdict(proof.prove(run))
    except SkippedError as error:
        verdict, words = "skipped", [str(error)]
    except Exception as error:  # noqa: BLE001 - the other proofs go on
        traceback.print_exc()
        replay = f"make prove P={proof.name} N={run.size} SEED={run.seed}"
        first_line = (str(error) or repr(error)).splitlines()[0]
        verdict, words = "BROKEN", [f"{proof.promise}: {first_line}", f"again with: {replay}"]
    words += [f"seed {run.seed}", f"{time.monotonic() - started:.0f} s"]
    print(f"{proof.name:10} {verdict:8}", " · ".join(words), flush=True)
    return verdict in ("held", "skipped")


def _verdict(outcome: Outcome) -> tuple[str, list[str]]:
    words = [", ".join(outcome.counts)]
    words += [f"without {each.without}: {each.failures:,} failures" for each in outcome.controls]
    words += [f"skipped: {each}" for each in outcome.skipped]
    toothless = [each.without for each in outcome.controls if not each.failures]
    return ("NO PROOF" if toothless else "held"), words


def _new(path: Path) -> Path:
    path.mkdir()
    return path


def _size(proof: Proof, arguments: argparse.Namespace) -> int:
    given: int | None = arguments.size
    if arguments.quick:
        return given or min(proof.ci_size, max(SMALLEST, proof.ci_size // 10))
    return given or (proof.full_size if arguments.full else proof.ci_size)


def _chosen(arguments: argparse.Namespace) -> list[Proof]:
    by_name = {proof.name: proof for proof in PROOFS}
    unknown = [name for name in arguments.names if name not in by_name]
    if unknown:
        sys.exit(f"No proof is called {', '.join(unknown)}; there are {', '.join(by_name)}.")
    return [by_name[name] for name in arguments.names] or list(PROOFS)


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: 1 or more")
    return int(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make prove", description="Attack what lineage_store promises.")
    parser.add_argument("names", nargs="*", help="proofs to try (none: all)")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_true", help="the size of a night instead of that of a change")
    sizes.add_argument("--quick", action="store_true", help="a tenth of the size of a change")
    parser.add_argument("-n", type=_at_least_one, dest="size", help="the size of each, in its own unit")
    parser.add_argument("--seed", type=int, help="repeat the random choices of another run")
    parser.add_argument("--list", action="store_true", help="name the proofs and stop")
    return parser.parse_args()


if __name__ == "__main__":
    main()
