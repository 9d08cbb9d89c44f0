"""Break one line after the other, and show which broken lines no test notices: python -m tests.mutation [ROOM...]

The rooms are in rooms.py. A survivor needs a test, or a line in equivalents.txt that says why the change has no effect. Exit code 1: a
room notices less than 95 %, or the list has a line that is out of date.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

from tests.mutation import equivalents
from tests.mutation.forks import PASSED
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.results import Results
from tests.mutation.rooms import ROOMS, ROOT, Room
from tests.mutation.runner import outcomes, warm_up

AIM = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("rooms", metavar="ROOM", nargs="*", help=f"of {', '.join(ROOMS)}; all by default")
    parser.add_argument("--file", help="only modules whose path has this text")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N mutants of each room, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (%(default)s)")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep outcomes here, and take those that it has")
    parser.add_argument(
        "--minutes", type=float, default=inf, help="after these, leave the rest to a run with --results"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.rooms if name not in ROOMS]
    if unknown:
        parser.error(f"no such room: {', '.join(unknown)}; there are {', '.join(ROOMS)}")
    deadline = time.monotonic() + 60 * arguments.minutes
    aims_reached = [
        reaches_aim(
            name,
            chosen(ROOMS[name], arguments.file or "", arguments.sample, arguments.seed),
            Results(arguments.results, ROOMS[name]),
            deadline,
        )
        for name in arguments.rooms or ROOMS
    ]
    return 0 if all(aims_reached) else 1


def chosen(room: Room, text: str, sample: int | None, seed: int) -> list[Mutant]:
    """A change that has no effect is left out after the sample was drawn: a new line in the list changes no other part of it."""
    paths: Iterator[Path] = (path for path in room.files() if text in str(path.relative_to(ROOT)))
    mutants = [mutant for path in paths for mutant in mutants_of(path, ROOT)]
    if sample is not None and sample < len(mutants):
        mutants = sorted(random.Random(seed).sample(mutants, sample))
    known_equivalents = equivalents.read()
    return [
        mutant for mutant in mutants if mutant.key not in known_equivalents and not equivalents.is_check_of_zip(mutant)
    ]


def reaches_aim(name: str, mutants: Sequence[Mutant], results: Results, deadline: float) -> bool:
    """Prints the survivors and the share that is noticed. A run that was cut has reached no aim."""
    warm_up()
    print(f"{name}: {len(mutants)} mutants", flush=True)
    begun = time.monotonic()
    found = outcomes(ROOMS[name], mutants, results, deadline)
    survivors = [mutant for mutant, outcome in found.items() if outcome == PASSED]
    for mutant in sorted(survivors):
        print(f"  {equivalents.line_of(mutant)}   line {mutant.line}")
    share, left = 1 - len(survivors) / max(len(found), 1), len(mutants) - len(found)
    rest = f", {left} not tried" if left else ""
    print(f"{name}: {share:.1%} of {len(found)} noticed in {time.monotonic() - begun:.0f} s{rest}", flush=True)
    return share >= AIM and not left


if __name__ == "__main__":
    sys.exit(main())
