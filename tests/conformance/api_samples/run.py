"""Runs Nova's tests in several processes, each with a Nova and one cloud at a time."""

import contextlib
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.conformance.api_samples.cloud import Clouds, clouds
from tests.conformance.api_samples.reasons import NOT_SERVED

PROGRAM = Path(__file__).parent.parent / "nova" / "api_samples.py"
Json = dict[str, Any]


def run_all(python: Path, words: Sequence[str], results: Path | None, processes: int) -> tuple[list[str], list[Json]]:
    """In processes, because the clouds of one share its bus, and mostly wait."""
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(run, python, words, results, (number, processes)) for number in range(1, processes + 1)]
        templates, tests = zip(*[part.result() for part in parts], strict=True)
    return templates[0], [test for of_part in tests for test in of_part]


def run(
    python: Path, words: Sequence[str], results: Path | None, part: tuple[int, int]
) -> tuple[list[str], list[Json]]:
    """All templates, and what each test of this part, such as 1 of 3, said of those that it used."""
    templates: list[str] = []
    tests: list[Json] = []
    with clouds() as new_clouds, (results or Path("/dev/null")).open("a") as file:
        for message in conversation(python, words, part, new_clouds):
            templates += message.get("templates", ()) if "test" not in message else ()
            if "test" in message:
                tests.append(message)
                print(json.dumps(message), file=file, flush=True)
                print(f"{message['test'].rpartition('.api_sample_tests.')[2]}: {message['ended']}", flush=True)
    return templates, tests


def conversation(python: Path, words: Sequence[str], part: tuple[int, int], made: Clouds) -> Iterator[Json]:
    """What Nova's process says; where it asks for a cloud, it gets one."""
    program = [str(python), "-W", "ignore", str(PROGRAM)]
    command = [*program, "--leave-out", ",".join(NOT_SERVED), "--part", "{}/{}".format(*part), *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as nova:
        assert nova.stdin is not None
        assert nova.stdout is not None
        ended = False
        for line in nova.stdout:
            message = json.loads(line)
            ended = "end" in message
            if "cloud" in message or "compute" in message:
                url = made.new(message) if "cloud" in message else made.add_compute(message["compute"])
                with contextlib.suppress(BrokenPipeError):
                    print(json.dumps({"url": url}), file=nova.stdin, flush=True)
            else:
                yield message
        if nova.wait() or not ended:
            sys.exit("Nova's tests did not come to an end")
