"""A broker that was away longer than `service_down_time` ended the builds of a small cloud in ERROR: the conductor went
on counting itself as heard, so every host seemed to fall silent.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.cmd.conductor import make_manager
from minova.conductor.manager import ConductorManager
from tests.functional.conductor.desk import CTX, Desk
from tests.tables import make_tables


class BusToOneself:
    """A client of topic `conductor`, over a bus that can be cut."""

    def __init__(self) -> None:
        self.cut = False
        self.manager: ConductorManager | None = None

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
def desk(tmp_path: Path, bus: BusToOneself, down_time: int) -> Iterator[Desk]:
    """Its only conductor hears itself over `bus`."""
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    desk = Desk(url)
    desk.options["service_down_time"] = down_time
    client: Any = bus
    bus.manager = make_manager(
        desk.conf(),
        desk.db,
        desk.scheduler,
        lambda host: desk.hosts[host],
        host="one",
        clock=lambda: desk.now,
        spawn=lambda work: desk.waiting.append(("one", work)),
        own_topic=client,
    )
    bus.manager.init_host()
    desk.conductor = bus.manager
    desk.beat()
    yield desk
    desk.close()


def pass_time(desk: Desk, seconds: int) -> None:
    """Second by second, with every periodic task, as it is when nobody can be heard."""
    for _ in range(seconds):
        desk.now += 1
        for task in desk.conductor.periodic_tasks():
            try:
                task.work()
            except errors.ServiceUnavailable:
                assert task.name == "ping_broker"
        desk.settle()


def test_nobody_falls_silent_while_the_bus_is_away(desk: Desk, bus: BusToOneself) -> None:
    (uuid,) = desk.create()
    bus.cut = True
    pass_time(desk, 300)
    assert desk.state(uuid) == "building/scheduling on None"
    bus.cut = False
    desk.conductor.heartbeat(CTX, host="b", binary="minova-compute")
    pass_time(desk, 30)
    assert desk.state(uuid) == "building/scheduling on None"
    desk.build("a", uuid)
    assert desk.state(uuid) == "active/None on a"


def test_a_host_that_stays_silent_when_the_bus_is_back_is_dead(desk: Desk, bus: BusToOneself) -> None:
    (uuid,) = desk.create()
    bus.cut = True
    pass_time(desk, 100)
    assert desk.allocated() == {uuid: "a"}
    bus.cut = False
    for _ in range(12):
        for host in ("b", "c"):
            desk.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        pass_time(desk, 10)
    assert desk.allocated() == {uuid: "b"}


@pytest.mark.parametrize("down_time", [8, 20])
def test_a_short_down_time_finds_nobody_dead_whom_nobody_could_hear(desk: Desk, bus: BusToOneself) -> None:
    (uuid,) = desk.create()
    pass_time(desk, 2)
    assert desk.allocated() == {uuid: "a"}
    bus.cut = True
    pass_time(desk, 30)
    assert desk.allocated() == {uuid: "a"}
    bus.cut = False
    desk.now += 14  # no conductor runs
    pass_time(desk, 2)
    assert desk.allocated() == {uuid: "a"}
    for _ in range(20):
        for host in ("b", "c"):
            desk.conductor.heartbeat(CTX, host=host, binary="minova-compute")
        pass_time(desk, 3)
    assert desk.allocated() == {uuid: "b"}
