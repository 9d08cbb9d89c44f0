"""Previews and capacity: what the scheduler would do, with nothing written and nothing left behind."""

from typing import Any

import pytest
from sqlalchemy import func, select

from minova import errors
from minova.db import models
from minova.db.engine import Database
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.scheduler.drivers.base import Driver
from minova.scheduler.manager import SchedulerManager
from tests.functional.scheduler.cloud import CTX, flavor, inventory_rows, named, spec_of, uuids
from tests.functional.scheduler.schedulers import ask, hosts, manager_of


def preview(manager: SchedulerManager, count: int = 1, **more: Any) -> Any:
    return manager.preview_destinations(CTX, spec_of(**more), uuids(count, "nobody"))


@pytest.mark.parametrize("driver", ["filter_scheduler", "caching_scheduler"])
def test_a_preview_is_the_answer_that_follows_it(db: Database, driver: str) -> None:
    hosts(db, 5)
    manager = manager_of(db, scheduler__driver=driver)
    ask(manager, prefix="before")
    would = preview(manager, 3)
    assert preview(manager, 3) == would
    is_so = ask(manager, 3)
    assert [selection[0] for selection in would.selections] == [selection[0] for selection in is_so.selections]
    assert would.diagnosis.steps == is_so.diagnosis.steps
    assert would.diagnosis.weighed == is_so.diagnosis.weighed


def test_a_preview_writes_nothing(db: Database) -> None:
    hosts(db, 2, memory_mb=4096)
    manager = manager_of(db)
    assert preview(manager, 4).selections
    assert not preview(manager, 5).selections
    assert manager.capacity(CTX, spec_of(), 100).total == 4
    assert {row[3] for row in inventory_rows(db)} == {0}
    with db.read() as session:
        assert session.scalar(select(func.count()).select_from(models.Consumer)) == 0
    assert len(ask(manager, 4).selections) == 4


def test_a_preview_says_why_not(db: Database) -> None:
    hosts(db, 2)
    diagnosis = preview(manager_of(db), wanted=flavor(memory_mb=99999)).diagnosis
    assert diagnosis.summary() == ("No valid host was found. 2 hosts: placement removed 2 (not enough free MEMORY_MB).")
    assert diagnosis.steps[0].lost[0].reason.startswith("free MEMORY_MB 32768 < requested 99999")


def test_a_preview_of_a_server_group_counts_its_own(db: Database) -> None:
    hosts(db, 3)
    group = InstanceGroup(uuid=named("g"), policy="anti-affinity")
    manager = manager_of(db)
    assert len({selection[0].host for selection in preview(manager, 3, instance_group=group).selections}) == 3
    assert not preview(manager, 4, instance_group=group).selections


@pytest.mark.parametrize("driver", ["filter_scheduler", "chance_scheduler", "caching_scheduler"])
def test_capacity_is_what_can_be_had(db: Database, driver: str) -> None:
    hosts(db, 3, memory_mb=8192)
    manager = manager_of(db, scheduler__driver=driver)
    ask(manager, 2)
    capacity = manager.capacity(CTX, spec_of(), 100)
    assert capacity.total == 10
    assert sorted(host.count for host in capacity.hosts) in ([2, 4, 4], [3, 3, 4])
    assert len(ask(manager, 10, prefix="rest").selections) == 10
    assert manager.capacity(CTX, spec_of(), 100).total == 0


def test_a_project_that_may_use_no_host_is_told(db: Database) -> None:
    hosts(db, 1)
    options = {"limit_tenants_to_placement_aggregate": True, "placement_aggregate_required_for_tenants": True}
    manager = manager_of(db, **{f"scheduler__{name}": value for name, value in options.items()})
    capacity = manager.capacity(CTX, spec_of(), 100)
    assert (capacity.total, capacity.error) == (0, "No hosts available for tenant p: no aggregate names it.")
    assert preview(manager).diagnosis.error == capacity.error


def test_a_driver_that_does_not_say_whom_it_would_choose_from(db: Database) -> None:
    claim_loop: Any = None
    with pytest.raises(errors.BadRequest, match="The scheduler driver Driver cannot report capacity"):
        Driver(claim_loop).capacity(spec_of(), 1)
