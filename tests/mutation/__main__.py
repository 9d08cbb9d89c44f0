"""Break one line after the other, and show which broken lines no test notices: python -m tests.mutation [ROOM...]

The rooms are in rooms.py. A survivor needs a test, or a line in equivalents.txt that says why the change has no effect. Exit code 1: a
room notices less than 95 %, or the list has a line that is out of date.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutation import equivalents
from tests.mutation.forks import PASSED
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.rooms import ROOMS, ROOT, Room
from tests.mutation.runner import outcomes, warm_up

AIM = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("rooms", metavar="ROOM", nargs="*", help=f"of {', '.join(ROOMS)}; all by default")
    parser.add_argument("--file", help="only modules whose path has this text")
    parser.add_argument(
        "--again", metavar="OUTPUT", help="only the survivors that an earlier run has written to this file"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="at most N mutants of each room, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (%(default)s)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.rooms if name not in ROOMS]
    if unknown:
        parser.error(f"no such room: {', '.join(unknown)}; there are {', '.join(ROOMS)}")
    again = None if arguments.again is None else Path(arguments.again).read_text()
    shares = [
        share_of(name, ROOMS[name], chosen(ROOMS[name], arguments.file or "", again, arguments.sample, arguments.seed))
        for name in arguments.rooms or ROOMS
    ]
    return 0 if min(shares) >= AIM else 1


def chosen(room: Room, text: str, again: str | None, sample: int | None, seed: int) -> list[Mutant]:
    paths: Iterator[Path] = (path for path in room.files() if text in str(path.relative_to(ROOT)))
    known_equivalents = equivalents.read()
    mutants_found = [
        mutant for path in paths for mutant in mutants_of(path, ROOT) if mutant.key not in known_equivalents
    ]
    if again is not None:
        mutants_found = [mutant for mutant in mutants_found if f"  {equivalents.line_of(mutant)}   line " in again]
    if sample is not None and sample < len(mutants_found):
        mutants_found = sorted(random.Random(seed).sample(mutants_found, sample))
    return mutants_found


def share_of(name: str, room: Room, mutants: Sequence[Mutant]) -> float:
    """The share of mutants that is noticed."""
    if not mutants:
        return 1.0
    warm_up()
    print(f"{name}: {len(mutants)} mutants", flush=True)
    # The forks have other files as their output.
    screen, begun = os.fdopen(os.dup(1), "w"), time.monotonic()

    def note(mutant: Mutant, outcome: str) -> None:
        if outcome == PASSED:
            print(f"  {equivalents.line_of(mutant)}   line {mutant.line}", file=screen, flush=True)

    survivors = [mutant for mutant, outcome in outcomes(room, mutants, note).items() if outcome == PASSED]
    share = 1 - len(survivors) / len(mutants)
    print(f"{name}: {share:.1%} of {len(mutants)} noticed in {time.monotonic() - begun:.0f} s", flush=True)
    return share


if __name__ == "__main__":
    sys.exit(main())
