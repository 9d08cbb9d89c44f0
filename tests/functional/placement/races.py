"""Many processes claim, move and release on nearly full providers. Run as a program by each process: URL, number."""

import random
import sys

from minova import errors
from minova.db.engine import Database
from minova.placement.allocations import claims as allocations
from tests.functional.placement.cases import claim_of, hosts, release

HOSTS = tuple(f"h{number}" for number in range(4))


def prepare(db: Database) -> None:
    hosts(db, *HOSTS, vcpus=8)


def work(url: str, number: int, steps: int) -> int:
    """Claim, move and release by a seed of one's own; answers how many claims were given."""
    rng = random.Random(number)
    db = Database(url)
    given = 0
    for step in range(steps):
        # Half of the consumers are this process's own, half are fought over by all: whose claim is late is told so.
        owner = number if rng.random() < 0.5 else "all"
        names = sorted({f"{owner}-{rng.randrange(12)}" for _ in range(rng.randint(1, 4))})
        rng.shuffle(names)
        if rng.random() < 0.3:
            release(db, *names)
        else:
            wants = [
                claim_of(name, rng.choice(HOSTS), 1000 + step * 10, VCPU=rng.randint(1, 3), MEMORY_MB=300)
                for name in names
            ]
            given += _claimed(db, wants)
    db.close()
    return given


def _claimed(db: Database, claims: list[allocations.AllocationClaim]) -> int:
    try:
        return len(claims) - len(db.run(lambda session: allocations.claim(session, claims)))
    except errors.StaleClaim:
        return 0


if __name__ == "__main__":
    print(work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
