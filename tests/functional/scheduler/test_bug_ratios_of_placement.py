"""An allocation ratio that is raised through Placement counts for filters as for claims, at once. `capacity` said that more fit, and
the filters refused them until the next audit of the host.
"""

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.engine import Database
from minova.placement.providers import inventories
from minova.placement.providers.inventories import Numbers
from minova.placement.providers.queries import find
from tests.functional.scheduler.cloud import CTX, flavor, put_host, spec_of
from tests.functional.scheduler.schedulers import ask, manager_of

NODE = {"vcpus": 4, "memory_mb": 4096, "local_gb": 40, "cpu_allocation_ratio": 1.0}
OF_CLASS = {
    "VCPU": flavor(vcpus=4, memory_mb=64, root_gb=0),
    "MEMORY_MB": flavor(vcpus=1, memory_mb=4096, root_gb=0),
    "DISK_GB": flavor(vcpus=1, memory_mb=64, root_gb=40),
}


FILTERS = ["CoreFilter", "RamFilter", "DiskFilter"]


@pytest.mark.parametrize("resource_class", OF_CLASS)
def test_bug_raised_ratio_is_seen_by_filters_after_the_next_audit(db: Database, resource_class: str) -> None:
    put_host(db, "a", **NODE)
    spec = spec_of(OF_CLASS[resource_class])
    manager = manager_of(db, filter_scheduler__enabled_filters=FILTERS)
    assert ask(manager, prefix="first", spec=spec).selections
    assert not ask(manager, prefix="second", spec=spec).selections
    assert manager.capacity(CTX, spec, 100).total == 0
    raise_ratio(db, resource_class, 3.0)
    assert manager.capacity(CTX, spec, 100).total == 2
    answer = ask(manager, 2, "second", spec=spec)
    assert answer.selections, answer.diagnosis.summary()


def test_limits_for_the_host_have_the_ratio(db: Database) -> None:
    """The host tests its claim against them: it would refuse what the scheduler has chosen."""
    put_host(db, "a", **NODE)
    for resource_class in OF_CLASS:
        raise_ratio(db, resource_class, 3.0)
    manager = manager_of(db, filter_scheduler__enabled_filters=FILTERS)
    ((chosen, *_),) = ask(manager, spec=spec_of(OF_CLASS["VCPU"])).selections
    assert (chosen.limits.vcpu, chosen.limits.memory_mb, chosen.limits.disk_gb) == (12, 12288, 120)


def raise_ratio(db: Database, resource_class: str, ratio: float) -> None:
    """As over HTTP."""

    def work(session: Session) -> None:
        uuid = session.scalars(select(models.ComputeNode.uuid)).one()
        provider = find(session, uuid)
        numbers = inventories.of_provider(session, provider.id)[resource_class].numbers
        changed = Numbers(total=numbers.total, max_unit=numbers.max_unit, allocation_ratio=ratio)
        inventories.change(session, provider, resource_class, changed)

    db.run(work)
