"""A broker that was away longer than `service_down_time` ended the builds of a small cloud in ERROR: the conductor went
on counting itself as heard, so every host seemed to fall silent.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.cmd.conductor import make_manager
from tests.fakes.running_conductor import RunningConductor, running
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.tables import make_tables


class BusToOneself:
    """A client of topic `conductor`, over a bus that can be cut."""

    def __init__(self) -> None:
        self.cut = False
        self.manager: RunningConductor | None = None

    def heartbeat(self, ctx: Any, **said: Any) -> Any:
        if self.cut or self.manager is None:
            raise errors.ServiceUnavailable("the broker is away")
        return self.manager.heartbeat(ctx, **said)


@pytest.fixture
def bus() -> BusToOneself:
    return BusToOneself()


@pytest.fixture
def down_time() -> int:
    return 60


@pytest.fixture
def harness(tmp_path: Path, bus: BusToOneself, down_time: int) -> Iterator[ConductorHarness]:
    """Its only conductor hears itself over `bus`."""
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    harness = ConductorHarness(url)
    harness.options["service_down_time"] = down_time
    client: Any = bus
    bus.manager = running(
        make_manager(
            harness.conf(),
            harness.db,
            harness.scheduler,
            lambda host: harness.hosts[host],
            host="one",
            clock=lambda: harness.now,
            spawn=lambda work: harness.waiting.append(("one", work)),
            own_topic=client,
        )
    )
    bus.manager.init_host()
    harness.conductor = bus.manager
    harness.beat()
    yield harness
    harness.close()


def pass_time(harness: ConductorHarness, seconds: int) -> None:
    """Second by second, with the periodic tasks that are due, while no service can be heard."""
    due = {task.name: 0.0 for task in harness.conductor.periodic_tasks()}
    for _ in range(seconds):
        harness.now += 1
        for task in harness.conductor.periodic_tasks():
            if due[task.name] > harness.now:
                continue
            due[task.name] = harness.now + task.interval
            try:
                task.work()
            except errors.ServiceUnavailable:
                assert task.name == "ping_broker"
        harness.settle()


def test_no_service_falls_silent_while_the_bus_is_away(harness: ConductorHarness, bus: BusToOneself) -> None:
    (uuid,) = harness.create()
    bus.cut = True
    pass_time(harness, 300)
    assert harness.state(uuid) == "building/scheduling on None"
    bus.cut = False
    harness.conductor.heartbeat(CTX, host="b", binary="minova-compute")
    pass_time(harness, 30)
    assert harness.state(uuid) == "building/scheduling on None"
    harness.build("a", uuid)
    assert harness.state(uuid) == "active/None on a"


def test_a_host_that_stays_silent_when_the_bus_is_back_is_dead(harness: ConductorHarness, bus: BusToOneself) -> None:
    (uuid,) = harness.create()
    bus.cut = True
    pass_time(harness, 100)
    assert harness.allocated() == {uuid: "a"}
    bus.cut = False
    for _ in range(12):
        for host in ("b", "c"):
            harness.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        pass_time(harness, 10)
    assert harness.allocated() == {uuid: "b"}


@pytest.mark.parametrize("down_time", [8, 20])
def test_a_short_down_time_finds_no_service_dead_that_could_not_be_heard(
    harness: ConductorHarness, bus: BusToOneself
) -> None:
    (uuid,) = harness.create()
    pass_time(harness, 2)
    assert harness.allocated() == {uuid: "a"}
    bus.cut = True
    pass_time(harness, 30)
    assert harness.allocated() == {uuid: "a"}
    bus.cut = False
    harness.now += 14  # no conductor runs
    pass_time(harness, 2)
    assert harness.allocated() == {uuid: "a"}
    for _ in range(20):
        for host in ("b", "c"):
            harness.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        pass_time(harness, 3)
    assert harness.allocated() == {uuid: "b"}
