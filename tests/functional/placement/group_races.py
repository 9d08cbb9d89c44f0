"""Many processes claim, move and release members of the same groups. Run as a program by each process: URL, number, steps.

Each looks after every claim of its own whether any group stands where its policy forbids, and fails if so.
"""

import random
import sys
from collections import Counter, defaultdict

from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.db.engine import Database
from minova.placement.allocations import claims as allocations
from tests.functional.placement.cases import claim_of, hosts, release
from tests.functional.placement.group_cases import add_group

HOSTS = ("h0", "h1", "h2")
GROUPS = {
    "spread": ("anti-affinity", {}),
    "pairs": ("anti-affinity", {"max_server_per_host": 2}),
    "near": ("affinity", {}),
}
MEMBERS = 6


def prepare(db: Database) -> None:
    hosts(db, *HOSTS, vcpus=100, memory_mb=1_000_000, local_gb=10_000)
    for name, (policy, rules) in GROUPS.items():
        add_group(db, name, policy, *(f"{name}-{number}" for number in range(MEMBERS)), **rules)


def broken(db: Database) -> list[str]:
    """Groups that stand where their policy forbids."""
    group, member, held = models.InstanceGroup, models.InstanceGroupMember, models.Allocation
    query = (
        select(group.name, held.consumer_uuid, held.provider_id)
        .join(member, member.group_id == group.id)
        .join(held, held.consumer_uuid == member.instance_uuid)
        .distinct()
    )
    there: dict[str, Counter[int]] = defaultdict(Counter)
    with db.read() as session:
        for name, _, provider_id in session.execute(query):
            there[name][provider_id] += 1
    return [
        f"{name}: {dict(counts)}"
        for name, counts in there.items()
        if (len(counts) > 1 if name == "near" else max(counts.values()) > (2 if name == "pairs" else 1))
    ]


def work(url: str, number: int, steps: int) -> int:
    """Claim, move and release by a seed of one's own; answers how many claims were given."""
    rng = random.Random(number)
    db = Database(url)
    given = 0
    for step in range(steps):
        names = sorted({f"{rng.choice([*GROUPS])}-{rng.randrange(MEMBERS)}" for _ in range(rng.randint(1, 4))})
        if rng.random() < 0.3:
            release(db, *names)
        else:
            claims = [claim_of(name, rng.choice(HOSTS), 1000 + step * 10, VCPU=1) for name in names]
            try:
                given += len(claims) - len(db.run(lambda session, c=claims: allocations.claim(session, c)))  # type: ignore[misc]
            except errors.StaleClaim:
                continue
        assert not (violations := broken(db)), violations
    db.close()
    return given


if __name__ == "__main__":
    print(work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
