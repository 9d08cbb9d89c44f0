"""The order in which a reshape locks: that of all writers, so that no two of them wait for each other."""

from pathlib import Path

from minova.placement.allocations.reshape import reshape
from minova.placement.allocations.writes import ConsumerAllocations
from minova.placement.providers.inventories import Numbers
from minova.placement.providers.queries import find
from tests.functional.placement.cases import claim, claim_of, held, hosts, locks
from tests.functional.scheduler.cloud import fresh, named


def test_all_consumers_and_then_all_inventories_are_locked_at_once(tmp_path: Path) -> None:
    db = fresh(f"sqlite:///{tmp_path}/minova.sqlite")
    hosts(db, "a", "b")
    claim(db, claim_of("one", "a", VCPU=1))
    with db.read() as session:
        providers = {name: find(session, named(f"node {name}")) for name in ("a", "b")}
    numbers = {
        named(f"node {name}"): (provider.generation, {"VCPU": Numbers(total=4)}) for name, provider in providers.items()
    }
    moved = ConsumerAllocations(consumer_uuid=named("one"), allocations={named("node b"): {"VCPU": 2}})
    with locks() as locked:
        db.run(lambda session: reshape(session, numbers, [moved]))
    assert locked[:2] == [
        ("consumers", [named("one")]),
        ("inventories", sorted(provider.id for provider in providers.values())),
    ]
    assert held(db, "one") == {("b", "VCPU"): 2}
