"""Every violated constraint of a port was told as a taken MAC address."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy.exc import IntegrityError

from minova import errors
from minova.db.networks import ports
from minova.objects.network.network import NewPort, Port
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import PROJECT, network, port, subnet
from tests.tables import make_tables

MAC = "fa:16:3e:00:00:07"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConductorHarness]:
    make_tables(url := f"sqlite:///{tmp_path}/minova.sqlite")
    harness = ConductorHarness(url)
    yield harness
    harness.close()


def test_bug_another_constraint_is_not_told_as_a_taken_mac_address(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    blue = network(harness)
    subnet(harness, blue, "10.1.0.0/24")
    new_port = port(harness, blue)

    def lose(*_: Any) -> None:
        raise IntegrityError("INSERT INTO ip_allocations", {}, ValueError("FOREIGN KEY constraint failed"))

    monkeypatch.setattr(ports, "allocate_several", lose)
    with pytest.raises(IntegrityError, match="FOREIGN KEY"):
        port(harness, blue, mac_address=MAC)
    monkeypatch.setattr(ports, "replace", lose)
    with pytest.raises(IntegrityError, match="FOREIGN KEY"):
        harness.conductor.update_port(CTX, port=msgspec.structs.replace(new_port, mac_address=MAC), fixed_ips=None)


def test_a_mac_address_that_another_port_has_or_takes_meanwhile(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    blue = network(harness)
    subnet(harness, blue, "10.1.0.0/24")
    new_port, _ = port(harness, blue), port(harness, blue, mac_address=MAC)
    changed = msgspec.structs.replace(new_port, mac_address=MAC)
    with pytest.raises(errors.MacAddressInUse, match=f"{MAC} is in use by another port"):
        harness.conductor.update_port(CTX, port=changed, fixed_ips=None)
    among, looks = ports.macs_among, []

    def look(*arguments: Any) -> set[str]:
        looks.append(arguments)
        return set() if len(looks) == 1 else among(*arguments)  # the other port is not there yet

    monkeypatch.setattr(ports, "macs_among", look)
    with pytest.raises(errors.MacAddressInUse):
        harness.conductor.update_port(CTX, port=changed, fixed_ips=None)
    assert len(looks) == 2


def test_two_ports_of_one_request_cannot_have_one_mac_address(harness: ConductorHarness) -> None:
    blue = network(harness)
    new_ports = tuple(
        NewPort(port=Port(id=str(uuid.uuid4()), network_id=blue.id, project_id=PROJECT, mac_address=MAC))
        for _ in range(2)
    )
    with pytest.raises(errors.MacAddressInUse):
        harness.conductor.create_ports(CTX, ports=new_ports)
