"""Runs Tempest's tests in several processes. Each takes the next class when it has ended one."""

import json
import os
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

PROGRAM = Path(__file__).with_name("program.py")
Json = dict[str, Any]


def classes(python: Path, folder: Path) -> dict[str, int]:
    """How many tests each class has."""
    done = subprocess.run(
        [str(python), str(PROGRAM), "--list"],
        env=_environment(folder),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    counted: dict[str, int] = json.loads(done.stdout)
    return counted


def run_all(python: Path, folder: Path, chosen: Sequence[str], processes: int, results: TextIO) -> list[Json]:
    """What each test said, also in lines of `results`. `folder` has tempest.conf."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in chosen:
        waiting.put(name)
    with ThreadPoolExecutor(processes) as pool:
        parts = [pool.submit(_run, python, folder, waiting, results) for _ in range(processes)]
        return [test for part in parts for test in part.result()]


def _run(python: Path, folder: Path, waiting: queue.SimpleQueue[str], results: TextIO) -> list[Json]:
    tests: list[Json] = []
    with subprocess.Popen(
        [str(python), "-W", "ignore", str(PROGRAM)],
        env=_environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                return tests
            print(name, file=program.stdin, flush=True)
            for line in program.stdout:
                message = json.loads(line)
                if "class" in message:
                    break
                tests.append(message)
                print(line, end="", file=results, flush=True)
                print(f"{message['test'].removeprefix('tempest.')}: {message['ended']}", flush=True)
            else:
                sys.exit(f"{name} did not come to an end")


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}
    return kept | {"TEMPEST_CONFIG_DIR": str(folder), "TEMPEST_CONFIG": "tempest.conf"}
