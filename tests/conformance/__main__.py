"""Compares minova with Nova itself: first that Nova gives the answers that are kept here, then on scenarios made at random.

    python -m tests.conformance [--seeds 0:200] [--nova PYTHON] [--folder FOLDER]

An extra: the first run installs Nova in an environment of its own. `tox -e conformance` runs it.
"""

import argparse
import gzip
import json
import logging
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from minova.cmd.simulate import answer
from tests.conformance.compare import differences
from tests.conformance.environment import Environment, environment
from tests.conformance.scenarios import scenario

HERE = Path(__file__).parent
DATA = HERE / "data"
DEFAULT = HERE.parent.parent / ".tox" / "nova"
# Scenarios that one process of Nova answers: enough that its start does not count.
BATCH = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="FIRST:LAST, the last not among them")
    parser.add_argument("--hosts", type=int, default=12, help="most hosts of a scenario")
    parser.add_argument("--requests", type=int, default=20, help="requests of each scenario")
    parser.add_argument("--nova", type=Path, help="an interpreter that has Nova 34 already")
    parser.add_argument("--folder", type=Path, default=DEFAULT, help="where Nova is put")
    parser.add_argument("--keep", type=Path, help="keep scenarios and answers here")
    args = parser.parse_args()
    # Nova and minova warn of every value that is none, on every host.
    logging.disable()
    nova = environment(args.folder, args.nova)
    kept = args.keep or Path(tempfile.mkdtemp(prefix="conformance"))
    kept.mkdir(parents=True, exist_ok=True)
    try:
        bad = _given(nova, kept / "given")
        first, last = (int(number) for number in args.seeds.split(":"))
        for start in range(first, last, BATCH):
            seeds = range(start, min(start + BATCH, last))
            bad += _made(nova, kept / "made", seeds, hosts=args.hosts, asked=args.requests)
    finally:
        if not args.keep:
            shutil.rmtree(kept)
    return 1 if bad else 0


def _given(nova: Environment, folder: Path) -> int:
    """Does our way to ask Nova give the answers that were given?"""
    paths = sorted(DATA.glob("scenario-*.json.gz"))
    answered = ask(nova, paths, folder)
    return _report("Nova's given answers, by Nova", zip(paths, map(given_answer, paths), answered, strict=True))


def _made(nova: Environment, folder: Path, seeds: Sequence[int], *, hosts: int, asked: int) -> int:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"scenario-{seed}.json.gz" for seed in seeds]
    for path, seed in zip(paths, seeds, strict=True):
        path.write_bytes(gzip.compress(json.dumps(scenario(seed, size=hosts, asked=asked)).encode()))
    right = ask(nova, paths, folder, "--repaired")
    ours = [json.loads(answer(path.read_bytes())) for path in paths]
    return _report(f"Seeds {seeds[0]} to {seeds[-1]}", zip(paths, right, ours, strict=True))


def given_answer(path: Path) -> Any:
    return load(path.with_name(path.name.replace("scenario", "answer")))


def load(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def ask(nova: Environment, paths: Sequence[Path], folder: Path, *options: str) -> list[Any]:
    """Nova's answers."""
    folder.mkdir(exist_ok=True)
    into = [folder / path.name.replace("scenario", "answer") for path in paths]
    pairs = [str(path) for pair in zip(paths, into, strict=True) for path in pair]
    command = [nova.python, HERE / "nova" / "answer.py", *options, "--old", nova.old, *pairs]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"Nova could not answer:\n{done.stderr[-5000:]}")
    return [load(path) for path in into]


def _report(what: str, compared: Iterable[tuple[Path, Any, Any]]) -> int:
    count: Counter[str] = Counter()
    for path, right, ours in compared:
        count["scenarios"] += 1
        count["requests"] += len(right["requests"])
        for text in differences(load(path), right, ours):
            count["differences"] += 1
            print(f"{path.name}: {text[:500]}")
    message = ", ".join(f"{count[kind]} {kind}" for kind in ("scenarios", "requests", "differences"))
    print(f"{what}: {message}", flush=True)
    return count["differences"]


if __name__ == "__main__":
    sys.exit(main())
