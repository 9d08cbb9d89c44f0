"""Claims, moves and releases of many processes on providers that are nearly full, some processes killed in the middle.

    python -m tests.functional.placement.killed_writers URL [--processes 8] [--steps 5000] [--killed 3] [--providers 20]

URL is of a new database, whose tables are made. Exit code 0: the books are right, and every process left alone ended well.
`--worker N` is one of these processes.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minova import errors
from minova.db.engine import Database
from minova.placement.allocations import claims, writes
from minova.placement.audit import gather
from tests.functional.placement.cases import claim_of, hosts, release
from tests.functional.scheduler.cloud import fresh, inventory_rows, named, unbalanced

ROOT = Path(__file__).parents[3]
VCPUS = 8
# Fought over by all processes; together they want more than there is.
CONSUMERS_OF_A_PROVIDER = 5


class Outcome(NamedTuple):
    """`given`: claims, moves and writes that were; `killed`: processes that were killed at their work."""

    given: int
    killed: int
    seconds: float


def race(url: str, *, processes: int, steps: int, killed: int, providers: int = 20) -> Outcome:
    """AssertionError: a process failed, or the books are wrong."""
    db = fresh(url)
    names = [f"h{number}" for number in range(providers)]
    hosts(db, *names, vcpus=VCPUS, memory_mb=65536, local_gb=1000)
    for number, name in enumerate(names):
        first = [claim_of(f"c{number * CONSUMERS_OF_A_PROVIDER + i}", name, VCPU=2) for i in range(3)]
        assert db.run(lambda session, first=first: claims.claim(session, first)) == {}  # type: ignore[misc]
    begun = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "tests.functional.placement.killed_writers",
        url,
        "--steps",
        str(steps // processes),
    ]
    command += ["--providers", str(providers), "--worker"]
    running = [
        subprocess.Popen([*command, str(number)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(processes)
    ]
    for process in running[:killed]:
        _kill_at_work(process, steps // processes // 3)
    ended = [process.communicate(timeout=600) for process in running[killed:]]
    seconds = time.monotonic() - begun
    complaints = "\n".join(error for _, error in ended)
    assert [process.returncode for process in running[killed:]] == [0] * (processes - killed), complaints
    assert not unbalanced(inventory_rows(db))
    with db.read() as session:
        assert gather.wrong_used(session) == []
    db.close()
    return Outcome(sum(int(output.split()[-1]) for output, _ in ended), killed, seconds)


def _kill_at_work(process: "subprocess.Popen[str]", after: int) -> None:
    """When it has done so many steps."""
    assert process.stdout is not None
    for _ in range(after):
        assert process.stdout.readline(), process.communicate()[1]
    process.kill()
    process.communicate()


def work(url: str, number: int, steps: int, providers: int) -> int:
    rng = random.Random(number)
    db = Database(url)
    given = 0
    for step in range(steps):
        given += rng.choices((_claim, _write, _release), (6, 2, 2))[0](db, rng, step, providers)
        print(step, flush=True)
    db.close()
    return given


def _names(rng: random.Random, providers: int) -> list[str]:
    names = {f"c{rng.randrange(providers * CONSUMERS_OF_A_PROVIDER)}" for _ in range(rng.randint(1, 4))}
    return rng.sample(sorted(names), len(names))


def _claim(db: Database, rng: random.Random, step: int, providers: int) -> int:
    """As a scheduler: of those that hold something elsewhere it is a move."""
    wants = [
        claim_of(name, f"h{rng.randrange(providers)}", 10 + step * 5, VCPU=rng.randint(1, 3), MEMORY_MB=300)
        for name in _names(rng, providers)
    ]
    try:
        return len(wants) - len(db.run(lambda session: claims.claim(session, wants)))
    except errors.StaleClaim:
        return 0


def _write(db: Database, rng: random.Random, step: int, providers: int) -> int:
    """As a client over HTTP: over several providers, all or none."""
    uuids = [named(f"node h{number}") for number in rng.sample(range(providers), 2)]
    replacements = [
        writes.ConsumerAllocations(consumer_uuid=named(name), allocations={uuid: {"VCPU": 1} for uuid in uuids})
        for name in _names(rng, providers)
    ]
    try:
        db.run(lambda session: writes.replace(session, replacements))
    except errors.Conflict:
        return 0
    return len(replacements)


def _release(db: Database, rng: random.Random, step: int, providers: int) -> int:
    release(db, *_names(rng, providers))
    return 0


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    for name, default in (("processes", 8), ("steps", 5000), ("killed", 3), ("providers", 20), ("worker", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options: Any = parser.parse_args(arguments)
    if options.worker is not None:
        print(work(options.url, options.worker, options.steps, options.providers))
        return
    print(
        race(
            options.url,
            processes=options.processes,
            steps=options.steps,
            killed=options.killed,
            providers=options.providers,
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
