"""Live migrations of a server on a network of Neutron: which bindings its port has while it moves, and afterwards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from minova import errors
from minova.cmd import conductor
from minova.conductor.network.neutron.ports import NeutronPorts
from minova.db.networks import neutron_ports
from minova.neutron_client import NeutronClient
from minova.objects.network.vif import NEUTRON
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.servers.states import PowerState
from tests.fakes.neutron import FakeNeutron
from tests.faults.mover import Mover
from tests.functional.conductor.conductor_harness import CTX

pytestmark = pytest.mark.timeout(300)


class Moving:
    """A cloud with one server that has a port, which agents of both hosts take."""

    def __init__(self, folder: Path, neutron: FakeNeutron) -> None:
        self.neutron = neutron
        self.mover = Mover(folder)
        neutron.hosts = tuple(self.mover.cloud.hosts)
        mover, nic = self.mover, RequestedNic(network_id="net-1", service=NEUTRON)
        mover.cloud.db.run(lambda session: neutron_ports.add(session, mover.uuid, "p", "compute:nova", {0: nic}))
        mover.cloud.conductor.bind_interfaces(
            CTX, instance_uuid=mover.uuid, attempt=mover.row.attempt, host=mover.source
        )
        for driver in mover.cloud.drivers.values():
            driver.between_rounds = self.look
        self.seen: set[tuple[str, frozenset[str]]] = set()

    def look(self) -> None:
        self.seen.add(self.bindings)
        self.mover.world.run(1.0)

    @property
    def bindings(self) -> tuple[str, frozenset[str]]:
        """The host of the active binding, and those of the inactive ones."""
        (port,) = self.neutron.books.values()
        return port["binding:host_id"], frozenset(self.neutron.prepared(port["id"]))


@pytest.fixture
def moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moving]:
    neutron = FakeNeutron()

    def ports(conf: Any, worker: Any) -> NeutronPorts:
        return NeutronPorts(worker, cast(NeutronClient, neutron), "br-int")

    monkeypatch.setattr(conductor, "_neutron", ports)
    new_moving = Moving(tmp_path, neutron)
    yield new_moving
    new_moving.mover.cloud.world.close()


def test_the_destination_has_an_inactive_binding_until_the_guest_is_there(moving: Moving) -> None:
    mover = moving.mover
    source, there = mover.source, mover.other
    mover.do("live_migrate")
    assert mover.state == ("active", None, there)
    assert moving.seen == {(source, frozenset({there}))}
    assert moving.bindings == (there, frozenset())
    assert mover.domains() == {there: PowerState.RUNNING}
    assert set(mover.holders()) == {"instance"}


def test_a_guest_that_stays_leaves_no_binding_at_the_destination(moving: Moving) -> None:
    mover = moving.mover
    source, there = mover.source, mover.other
    mover.cloud.drivers[source].fail("live_migrate", [errors.HypervisorError("no")])
    mover.do("live_migrate")
    assert mover.state == ("active", None, source)
    assert moving.bindings == (source, frozenset())
    mover.do("live_migrate")
    assert (mover.row.host, moving.bindings) == (there, (there, frozenset()))


def test_bug_failed_live_migration_waited_for_a_neutron_that_was_away(moving: Moving) -> None:
    """Its port was never bound elsewhere, and the server stayed `migrating` for ten minutes."""
    mover = moving.mover
    source = mover.cloud.drivers[mover.source]

    def away(*_: object) -> None:
        raise errors.ServiceUnavailable("away")

    def fail() -> None:
        moving.neutron._begin = away  # type: ignore[method-assign,assignment]
        raise errors.HypervisorError("no")

    source.live_rounds, source.between_rounds = 2, fail
    mover.do("live_migrate")
    assert mover.state == ("active", None, mover.source)
    assert mover.domains() == {mover.source: PowerState.RUNNING}


def test_a_host_without_an_agent_is_refused_before_the_guest_leaves(moving: Moving) -> None:
    mover = moving.mover
    moving.neutron.hosts = (mover.source,)
    mover.do("live_migrate")
    assert mover.state == ("active", None, mover.source)
    assert mover.migration().status == "error"
    assert (moving.seen, moving.bindings) == (set(), (mover.source, frozenset()))
    assert set(mover.holders()) == {"instance"}


def test_without_the_extension_the_port_is_bound_once_the_guest_is_there(moving: Moving) -> None:
    mover = moving.mover
    moving.neutron.extended = False
    there = mover.other
    mover.do("live_migrate")
    assert (mover.row.host, moving.bindings) == (there, (there, frozenset()))


def test_a_migration_waits_for_a_neutron_that_is_away(moving: Moving) -> None:
    mover = moving.mover
    there = mover.other
    ended: list[int] = []

    def away() -> None:
        if len(ended) < 2:
            ended.append(1)
            raise errors.ServiceUnavailable("away")

    (port_id,) = moving.neutron.books
    moving.neutron.during["GET", port_id] = away
    mover.do("live_migrate")
    assert (len(ended), mover.row.host, moving.bindings) == (2, there, (there, frozenset()))
